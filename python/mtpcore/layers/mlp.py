"""Gated feed-forward layer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class MLP:
    """down(silu(gate x) * up x); gate_up [2 I, H] holds the gate rows, then the up rows."""

    gate_up: Tensor
    down: Tensor

    @staticmethod
    def fuse(gate: Tensor, up: Tensor, down: Tensor) -> MLP:
        return MLP(torch.cat((gate, up)), down)

    def __call__(self, x: Tensor) -> Tensor:
        gate, up = F.linear(x, self.gate_up).chunk(2, -1)
        return F.linear(F.silu(gate) * up, self.down)
