"""Gated DeltaNet layer: projections, short convolution, gates, recurrence, gated norm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch.nn.functional as F
from torch import Tensor

from ..kernels.gated_delta import qk_l2norm
from .linear import linear, pack
from .norm import GatedRMSNorm

if TYPE_CHECKING:
    from ..state.executor import SSMRun


@dataclass(frozen=True)
class GatedDeltaNet:
    """`inputs` [H, 2 Hk dk + 2 Hv dv + 2 Hv] holds the columns q | k | v | z | b | a.

    conv [K, C], decay = -exp(A_log) [Hv] and dt_bias [Hv] are float32 whatever the file holds.
    """

    inputs: Tensor
    conv: Tensor
    decay: Tensor
    dt_bias: Tensor
    norm: GatedRMSNorm
    out: Tensor
    num_k_heads: int
    num_v_heads: int
    k_dim: int
    v_dim: int

    def __call__(self, x: Tensor, run: SSMRun, state_slot: int) -> Tensor:
        """x: [M, H]. Returns [M, H]."""
        keys, values = self.num_k_heads * self.k_dim, self.num_v_heads * self.v_dim
        heads = self.num_v_heads
        raw, z, b, a = linear(x, self.inputs).split((2 * keys + values, values, heads, heads), -1)
        qk, v = run.conv(state_slot, raw, self.conv).split((2 * keys, values), -1)
        qk = qk_l2norm(qk.float().unflatten(-1, (2, self.num_k_heads, self.k_dim)))
        g = self.decay * F.softplus(a.float() + self.dt_bias)
        v = v.float().unflatten(-1, (heads, self.v_dim))
        o = run.core(state_slot, qk, v, g, b.sigmoid().float())
        y = self.norm(o, z.unflatten(-1, (heads, self.v_dim)))
        return linear(y.flatten(-2), self.out)

    @staticmethod
    def fuse(
        qkv: Tensor,
        z: Tensor,
        b: Tensor,
        a: Tensor,
        conv: Tensor,
        a_log: Tensor,
        dt_bias: Tensor,
        norm: Tensor,
        out: Tensor,
        *,
        num_k_heads: int,
        num_v_heads: int,
        k_dim: int,
        v_dim: int,
        eps: float,
    ) -> GatedDeltaNet:
        """Weights as a checkpoint has them; conv [C, 1, K]."""
        return GatedDeltaNet(
            pack(qkv, z, b, a),
            conv[:, 0].t().float().contiguous(),
            -a_log.float().exp(),
            dt_bias.float(),
            GatedRMSNorm(norm, eps),
            pack(out),
            num_k_heads,
            num_v_heads,
            k_dim,
            v_dim,
        )
