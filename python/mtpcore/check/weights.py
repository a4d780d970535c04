"""Reads a hub-layout Qwen3.5 text checkpoint for the slow path, with no help from the engine."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from safetensors import safe_open

if TYPE_CHECKING:
    from pathlib import Path

    import torch
    from torch import Tensor

TRUNK_PREFIXES = ("model.language_model.", "language_model.model.", "model.")


@dataclass(frozen=True)
class TextConfig:
    """The fields of config.json that the naive forward reads; sizes in elements."""

    hidden: int
    vocab: int
    layer_types: tuple[str, ...]
    num_heads: int
    num_kv_heads: int
    head_dim: int
    num_k_heads: int
    num_v_heads: int
    k_dim: int
    v_dim: int
    conv_kernel: int
    eps: float
    rope: dict[str, Any]
    max_position: int
    eos: tuple[int, ...]


def read_json(path: Path) -> dict[str, Any]:
    """The object in `path`, or an empty one where the file does not exist."""
    if not path.exists():
        return {}
    return json.loads(path.read_text(encoding="utf-8"))


def read_config(directory: Path) -> TextConfig:
    """The text part of config.json, its end ids united with those of the generation config."""
    outer = read_json(directory / "config.json")
    if not outer:
        raise ValueError(f"{directory}: no config.json; give a hub-layout model directory")
    text = outer.get("text_config", outer)
    if text.get("model_type") not in ("qwen3_5_text", "qwen3_5"):
        raise ValueError(
            f"{directory}/config.json: model_type {text.get('model_type')!r} has no slow path; "
            "check covers qwen3_5_text"
        )
    layers = text.get("layer_types") or [
        "full_attention" if (i + 1) % text["full_attention_interval"] == 0 else "linear_attention"
        for i in range(text["num_hidden_layers"])
    ]
    rope = dict(text.get("rope_scaling") or {}) | dict(text.get("rope_parameters") or {})
    for name in ("rope_theta", "partial_rotary_factor"):
        if name in text:
            rope.setdefault(name, text[name])
    return TextConfig(
        hidden=text["hidden_size"],
        vocab=text["vocab_size"],
        layer_types=tuple(layers),
        num_heads=text["num_attention_heads"],
        num_kv_heads=text["num_key_value_heads"],
        head_dim=text["head_dim"],
        num_k_heads=text["linear_num_key_heads"],
        num_v_heads=text["linear_num_value_heads"],
        k_dim=text["linear_key_head_dim"],
        v_dim=text["linear_value_head_dim"],
        conv_kernel=text["linear_conv_kernel_dim"],
        eps=text["rms_norm_eps"],
        rope=rope,
        max_position=text["max_position_embeddings"],
        eos=_end_ids(outer, text, read_json(directory / "generation_config.json")),
    )


def _end_ids(*sources: dict[str, Any]) -> tuple[int, ...]:
    found: set[int] = set()
    for source in sources:
        value = source.get("eos_token_id")
        if value is not None:
            found.update([value] if isinstance(value, int) else value)
    return tuple(sorted(found))


def read_weights(directory: Path, dtype: torch.dtype) -> dict[str, Tensor]:
    """Every text tensor in `dtype`; trunk names lose their prefix, `lm_head.weight` is set."""
    index = read_json(directory / "model.safetensors.index.json")
    names = set(index["weight_map"].values()) if index else {"model.safetensors"}
    weights: dict[str, Tensor] = {}
    for name in sorted(names):
        if not (directory / name).exists():
            raise ValueError(f"{directory}: {name} is missing; check needs the weights")
        with safe_open(directory / name, framework="pt") as shard:
            for key in shard.keys():  # noqa: SIM118 -- the handle is no mapping
                if ".visual." not in key and not key.startswith("visual."):
                    weights[_short_name(key)] = shard.get_tensor(key).to(dtype)
    weights.setdefault("lm_head.weight", weights["embed_tokens.weight"])
    return weights


def _short_name(key: str) -> str:
    for prefix in TRUNK_PREFIXES:
        if key.startswith(prefix):
            return key.removeprefix(prefix)
    return key
