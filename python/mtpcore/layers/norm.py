"""Root-mean-square norms."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor


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
        if self.scale.dim() == 1:
            return F.rms_norm(x.float(), self.scale.shape, self.scale, self.eps).to(x.dtype)
        return (F.rms_norm(x.float(), self.scale.shape[-1:], None, self.eps) * self.scale).to(x.dtype)


@dataclass(frozen=True)
class GatedRMSNorm:
    """Output norm of a GDN layer: the plain weight w, a cast in the middle, then silu(gate)."""

    weight: Tensor
    eps: float

    def __call__(self, x: Tensor, gate: Tensor) -> Tensor:
        """x: [..., d] float32 or model dtype; gate: [..., d] in the model dtype, which is returned."""
        dtype = gate.dtype
        if dtype == x.dtype == self.weight.dtype:
            return F.rms_norm(x, self.weight.shape, self.weight, self.eps) * F.silu(gate)
        normed = F.rms_norm(x.to(dtype).float(), self.weight.shape, None, self.eps)
        return ((self.weight * normed.to(dtype)).float() * F.silu(gate.float())).to(dtype)
