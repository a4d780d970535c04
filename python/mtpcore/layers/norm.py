"""Root-mean-square norms."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor


def normalise(x: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean x^2 + eps) over the last axis; float32 in and out."""
    # Fewer passes over small rows than the library's composite op.
    return x * x.square().mean(-1, keepdim=True).add_(eps).rsqrt_()


@dataclass(frozen=True)
class RMSNorm:
    """y = cast(x / sqrt(mean x^2 + eps) * scale) over the last axis, in float32 inside.

    `scale` is float32 [..., d]; `zero_centred` builds it from a weight that stands for 1 + w.
    """

    scale: Tensor
    eps: float

    @staticmethod
    def zero_centred(weight: Tensor, eps: float) -> RMSNorm:
        return RMSNorm(weight.float() + 1.0, eps)

    def __call__(self, x: Tensor) -> Tensor:
        return (normalise(x.float(), self.eps) * self.scale).to(x.dtype)


@dataclass(frozen=True)
class GatedRMSNorm:
    """Output norm of a GDN layer: the plain weight w, a cast in the middle, then silu(gate)."""

    weight: Tensor
    eps: float

    def __call__(self, x: Tensor, gate: Tensor) -> Tensor:
        """x: [..., d], any float dtype; gate: [..., d] in the model dtype, which is returned."""
        dtype = gate.dtype
        normed = normalise(x.to(dtype).float(), self.eps)
        return ((self.weight * normed.to(dtype)).float() * F.silu(gate.float())).to(dtype)
