"""The supported model families, one row each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .families import qwen3_5

if TYPE_CHECKING:
    from ..draft.mtp import MtpHead
    from .causal_lm import CausalLM
    from .config import ModelConfig
    from .fields import Fields

Shapes = dict[str, tuple[int, ...]]
Take = Callable[[str], Tensor]


@dataclass(frozen=True)
class Family:
    """How a family's tensors are named, checked and built."""

    model_types: tuple[str, ...]
    target_shapes: Callable[[ModelConfig, bool], Shapes]
    mtp_shapes: Callable[[ModelConfig], Shapes]
    build_target: Callable[[ModelConfig, Take, bool, torch.dtype, torch.device], CausalLM]
    build_mtp: Callable[[ModelConfig, Take, CausalLM], MtpHead]
    weight_bytes: Callable[[ModelConfig, torch.dtype, bool, bool], int]


FAMILIES = (
    Family(
        model_types=("qwen3_5_text", "qwen3_5"),
        target_shapes=qwen3_5.target_shapes,
        mtp_shapes=qwen3_5.mtp_shapes,
        build_target=qwen3_5.build_target,
        build_mtp=qwen3_5.build_mtp,
        weight_bytes=qwen3_5.weight_bytes,
    ),
)
BY_TYPE = {name: family for family in FAMILIES for name in family.model_types}


def family_of(model_type: str) -> Family:
    """The row of a type that `check_model_type` let pass."""
    return BY_TYPE[model_type]


def check_model_type(fields: Fields) -> str:
    """The model type of a config, refused by name if no family takes it."""
    inner = fields.child("text_config")
    for level in (fields, inner):
        model_type = level.get("model_type") if level else None
        if level is not None and model_type not in BY_TYPE:
            supported = ", ".join(sorted(BY_TYPE))
            raise level.error(
                "model_type",
                f"is {model_type!r}, which is not supported; supported are {supported}",
            )
    return (inner or fields).get("model_type")
