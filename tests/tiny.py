"""Random tiny Qwen3.5 checkpoints in hub layout, for tests."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file
from torch import Tensor

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class TinySpec:
    """Shapes of a random model; `prefix` is the text prefix of its tensor names."""

    hidden: int = 48
    vocab: int = 97
    layers: tuple[str, ...] = ("linear", "linear", "linear", "full")
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    k_heads: int = 2
    v_heads: int = 4
    k_dim: int = 8
    v_dim: int = 12
    kernel: int = 4
    inner: int = 64
    rotary: float = 0.25
    rope: dict[str, Any] = field(default_factory=dict)
    tied: bool = True
    prefix: str = "model."
    mtp: bool = True
    seed: int = 0
    dtype: torch.dtype = torch.float32

    @property
    def wrapper(self) -> bool:
        return self.prefix == "model.language_model."


def tiny_config(spec: TinySpec) -> dict[str, Any]:
    """The content of config.json."""
    names = {"linear": "linear_attention", "full": "full_attention"}
    text: dict[str, Any] = {
        "model_type": "qwen3_5_text",
        "architectures": ["Qwen3_5ForCausalLM"],
        "vocab_size": spec.vocab,
        "hidden_size": spec.hidden,
        "intermediate_size": spec.inner,
        "num_hidden_layers": len(spec.layers),
        "layer_types": [names[kind] for kind in spec.layers],
        "num_attention_heads": spec.heads,
        "num_key_value_heads": spec.kv_heads,
        "head_dim": spec.head_dim,
        "linear_num_key_heads": spec.k_heads,
        "linear_num_value_heads": spec.v_heads,
        "linear_key_head_dim": spec.k_dim,
        "linear_value_head_dim": spec.v_dim,
        "linear_conv_kernel_dim": spec.kernel,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "attention_bias": False,
        "attn_output_gate": True,
        "mamba_ssm_dtype": "float32",
        "max_position_embeddings": 4096,
        "mtp_num_hidden_layers": int(spec.mtp),
        "mtp_use_dedicated_embeddings": False,
        "tie_word_embeddings": spec.tied,
        "dtype": str(spec.dtype).removeprefix("torch."),
        "eos_token_id": 5,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": spec.rotary,
            **spec.rope,
        },
    }
    if not spec.wrapper:
        return text
    text.pop("architectures")
    return {
        "model_type": "qwen3_5",
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "text_config": text,
        "tie_word_embeddings": spec.tied,
        "eos_token_id": 7,
    }


def tiny_tensors(spec: TinySpec) -> dict[str, Tensor]:
    """Named tensors of the whole checkpoint; no norm, bias or gate has its neutral value."""
    generator = torch.Generator().manual_seed(spec.seed)

    def matrix(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator) * (0.8 / shape[-1] ** 0.5)

    def vector(size: int, centre: float = 0.0, spread: float = 0.2) -> Tensor:
        return centre + spread * torch.randn(size, generator=generator)

    wide, values = spec.heads * spec.head_dim, spec.v_heads * spec.v_dim
    narrow = spec.kv_heads * spec.head_dim
    channels = 2 * spec.k_heads * spec.k_dim + values

    def layer(kind: str) -> dict[str, Tensor]:
        out = {
            "input_layernorm.weight": vector(spec.hidden),
            "post_attention_layernorm.weight": vector(spec.hidden),
            "mlp.gate_proj.weight": matrix(spec.inner, spec.hidden),
            "mlp.up_proj.weight": matrix(spec.inner, spec.hidden),
            "mlp.down_proj.weight": matrix(spec.hidden, spec.inner),
        }
        if kind == "full":
            return out | {
                "self_attn.q_proj.weight": matrix(2 * wide, spec.hidden) * 2,
                "self_attn.k_proj.weight": matrix(narrow, spec.hidden) * 2,
                "self_attn.v_proj.weight": matrix(narrow, spec.hidden),
                "self_attn.o_proj.weight": matrix(spec.hidden, wide),
                "self_attn.q_norm.weight": vector(spec.head_dim, 0.3),
                "self_attn.k_norm.weight": vector(spec.head_dim, 0.3),
            }
        return out | {
            "linear_attn.in_proj_qkv.weight": matrix(channels, spec.hidden),
            "linear_attn.in_proj_z.weight": matrix(values, spec.hidden),
            "linear_attn.in_proj_b.weight": matrix(spec.v_heads, spec.hidden),
            "linear_attn.in_proj_a.weight": matrix(spec.v_heads, spec.hidden),
            "linear_attn.conv1d.weight": matrix(channels, 1, spec.kernel),
            "linear_attn.A_log": vector(spec.v_heads, -0.5, 0.5),
            "linear_attn.dt_bias": vector(spec.v_heads, -0.5, 0.5),
            "linear_attn.norm.weight": vector(spec.v_dim, 0.9),
            "linear_attn.out_proj.weight": matrix(spec.hidden, values),
        }

    tensors = {
        f"{spec.prefix}embed_tokens.weight": torch.randn(
            spec.vocab, spec.hidden, generator=generator
        )
        * 0.3,
        f"{spec.prefix}norm.weight": vector(spec.hidden, -0.7, 0.1),
    }
    for i, kind in enumerate(spec.layers):
        tensors |= {f"{spec.prefix}layers.{i}.{name}": value for name, value in layer(kind).items()}
    if not spec.tied:
        outer = "language_model." if spec.prefix == "language_model.model." else ""
        tensors[f"{outer}lm_head.weight"] = matrix(spec.vocab, spec.hidden)
    if spec.mtp:
        tensors |= {
            "mtp.fc.weight": matrix(spec.hidden, 2 * spec.hidden),
            "mtp.pre_fc_norm_embedding.weight": vector(spec.hidden),
            "mtp.pre_fc_norm_hidden.weight": vector(spec.hidden),
            "mtp.norm.weight": vector(spec.hidden),
            **{f"mtp.layers.0.{name}": value for name, value in layer("full").items()},
        }
    if spec.wrapper:
        tensors["model.visual.patch_embed.proj.weight"] = torch.zeros(8, 3, 2, 4, 4)
    return {name: value.to(spec.dtype).contiguous() for name, value in tensors.items()}


def write_tiny(directory: Path, spec: TinySpec | None = None, shards: int = 1) -> Path:
    """Write config.json and the weights, in one file or in shards with an index."""
    spec = spec or TinySpec()
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(tiny_config(spec)))
    tensors = tiny_tensors(spec)
    if shards == 1:
        save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
        return directory
    names = sorted(tensors)
    weight_map = {}
    for i in range(shards):
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        part = names[i::shards]
        save_file(
            {name: tensors[name] for name in part}, directory / file, metadata={"format": "pt"}
        )
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    return directory
