"""Gated feed-forward layer."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from .linear import linear, pack


@dataclass(frozen=True)
class MLP:
    """down(silu(gate x) * up x); gate_up [H, 2 I] holds the gate columns, then the up columns."""

    gate_up: Tensor
    down: Tensor

    @staticmethod
    def fuse(gate: Tensor, up: Tensor, down: Tensor) -> MLP:
        return MLP(pack(gate, up), pack(down))

    def __call__(self, x: Tensor) -> Tensor:
        gate, up = linear(x, self.gate_up).chunk(2, -1)
        return linear(F.silu(gate) * up, self.down)
