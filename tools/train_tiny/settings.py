"""Shape of the bundled model and the numbers of its training, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """A `qwen3_5_text` model; the fields carry the hub's names."""

    vocab_size: int = 4096
    hidden_size: int = 256
    intermediate_size: int = 768
    num_hidden_layers: int = 8
    full_attention_interval: int = 4
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64
    linear_num_key_heads: int = 4
    linear_num_value_heads: int = 8
    linear_key_head_dim: int = 64
    linear_value_head_dim: int = 64
    linear_conv_kernel_dim: int = 4
    rms_norm_eps: float = 1e-6
    rope_theta: float = 1e6
    partial_rotary_factor: float = 0.5
    max_position_embeddings: int = 65536

    @property
    def layer_types(self) -> list[str]:
        return [
            "linear_attention" if (i + 1) % self.full_attention_interval else "full_attention"
            for i in range(self.num_hidden_layers)
        ]

    @property
    def rotary_dim(self) -> int:
        return int(self.head_dim * self.partial_rotary_factor)


def hub_config(shape: Shape, ids: dict[str, int]) -> dict[str, object]:
    """config.json; `ids` maps the control tokens to their ids."""
    section = shape.rotary_dim // 6
    return {
        "architectures": ["Qwen3_5ForCausalLM"],
        "model_type": "qwen3_5_text",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_output_gate": True,
        "bos_token_id": None,
        "dtype": "bfloat16",
        "eos_token_id": ids["<|endoftext|>"],
        "full_attention_interval": shape.full_attention_interval,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "hidden_size": shape.hidden_size,
        "initializer_range": 0.02,
        "intermediate_size": shape.intermediate_size,
        "layer_types": shape.layer_types,
        "linear_conv_kernel_dim": shape.linear_conv_kernel_dim,
        "linear_key_head_dim": shape.linear_key_head_dim,
        "linear_num_key_heads": shape.linear_num_key_heads,
        "linear_num_value_heads": shape.linear_num_value_heads,
        "linear_value_head_dim": shape.linear_value_head_dim,
        "mamba_ssm_dtype": "float32",
        "max_position_embeddings": shape.max_position_embeddings,
        "mlp_only_layers": [],
        "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False,
        "num_attention_heads": shape.num_attention_heads,
        "num_hidden_layers": shape.num_hidden_layers,
        "num_key_value_heads": shape.num_key_value_heads,
        "pad_token_id": ids["<|endoftext|>"],
        "rms_norm_eps": shape.rms_norm_eps,
        "rope_parameters": {
            "mrope_interleaved": True,
            "mrope_section": [shape.rotary_dim // 2 - 2 * section, section, section],
            "partial_rotary_factor": shape.partial_rotary_factor,
            "rope_theta": shape.rope_theta,
            "rope_type": "default",
        },
        "tie_word_embeddings": True,
        "use_cache": True,
        "vocab_size": shape.vocab_size,
    }
