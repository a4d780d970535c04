"""Rotary position embedding over the first dimensions of a head, plain or YaRN."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class RopeConfig:
    """`rotary_dim` of `head_dim` dimensions rotate; YaRN (arXiv 2309.00071) if `factor` is set."""

    head_dim: int
    rotary_dim: int
    theta: float
    factor: float | None = None
    original_max_positions: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None

    def inverse_frequencies(self) -> Tensor:
        """float32 [rotary_dim / 2]."""
        dim = self.rotary_dim
        inv = 1.0 / self.theta ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim)
        if self.factor is None:
            return inv

        def boundary(rotations: float) -> float:
            turns = self.original_max_positions / (rotations * 2 * math.pi)
            return dim * math.log(turns) / (2 * math.log(self.theta))

        low, high = boundary(self.beta_fast), boundary(self.beta_slow)
        if self.truncate:
            low, high = float(math.floor(low)), float(math.ceil(high))
        low, high = max(low, 0.0), min(high, dim - 1.0)
        # A ramp without width would divide by zero.
        width = high - low if high != low else 0.001
        ramp = ((torch.arange(dim // 2, dtype=torch.float32) - low) / width).clamp(0, 1)
        return inv / self.factor * ramp + inv * (1 - ramp)

    def magnitude(self) -> float:
        """Factor on cos and sin."""
        if self.factor is None:
            return 1.0
        if self.attention_factor is not None:
            return self.attention_factor

        def scale(weight: float) -> float:
            assert self.factor is not None
            return 1.0 if self.factor <= 1 else 0.1 * weight * math.log(self.factor) + 1.0

        if self.mscale and self.mscale_all_dim:
            return scale(self.mscale) / scale(self.mscale_all_dim)
        return scale(1.0)


@dataclass(frozen=True)
class Rotation:
    """cos and sin of one forward's positions, [M, 1, rotary_dim] in the model dtype.

    The sign of the rotated half is folded into `sin`.
    """

    cos: Tensor
    sin: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """x: [M, heads, head_dim]; pairs are (j, j + rotary_dim / 2)."""
        dim = self.cos.shape[-1]
        part = x[..., :dim]
        # roll by half the width swaps the halves, which is the rotation up to the sign.
        turned = torch.cat((part[..., dim // 2 :], part[..., : dim // 2]), -1)
        turned = part * self.cos + turned * self.sin
        return turned if dim == x.shape[-1] else torch.cat((turned, x[..., dim:]), -1)


class Rope:
    """Angles in float32; cos and sin are cast to the model dtype before they multiply."""

    def __init__(self, config: RopeConfig, dtype: torch.dtype, device: torch.device | str) -> None:
        self.inverse = config.inverse_frequencies().to(device)
        self.magnitude = config.magnitude()
        self.dtype = dtype

    def __call__(self, positions: Tensor) -> Rotation:
        """positions: int64 [M]."""
        angles = positions[:, None, None].float() * self.inverse
        cos, sin = angles.cos() * self.magnitude, angles.sin() * self.magnitude
        return Rotation(
            torch.cat((cos, cos), -1).to(self.dtype), torch.cat((-sin, sin), -1).to(self.dtype)
        )
