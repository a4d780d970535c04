"""Gated full attention of the Qwen3.5 family over paged keys and values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..kernels import attention
from .linear import linear, pack
from .norm import RMSNorm

if TYPE_CHECKING:
    from ..state.forward import AttnForward
    from .paged_kv import PagedKV
    from .rope import Rope, Rotation


@dataclass(frozen=True)
class AttnRun:
    """What the attention layers of one forward share."""

    forward: AttnForward
    kv: PagedKV
    rotation: Rotation
    index: attention.RectangleIndex | None

    @staticmethod
    def begin(forward: AttnForward, kv: PagedKV, rope: Rope) -> AttnRun:
        index = None
        if forward.num_decode:
            index = attention.RectangleIndex.build(
                forward.dec_positions,
                forward.dec_slots,
                forward.dec_page_table,
                kv.page_size,
                forward.first_key,
            )
        return AttnRun(forward, kv, rope(forward.positions), index)

    def attend(self, kv_slot: int, q: Tensor, scale: float) -> Tensor:
        """q: [M, Hq, d]. Returns [M, Hq * d]."""
        forward, layer, outs = self.forward, self.kv[kv_slot], []
        if self.index is not None:
            rows = q[: forward.num_decode * forward.width].unflatten(
                0, (forward.num_decode, forward.width)
            )
            outs.append(attention.rectangle(rows, layer, self.index, scale).flatten(0, 1))
        for span in forward.spans:
            if span.length:
                part = q[span.offset : span.offset + span.length]
                outs.append(
                    attention.span(
                        part, layer, span.page_table, span.start, forward.first_key, scale
                    )
                )
        return outs[0] if len(outs) == 1 else torch.cat(outs)


@dataclass(frozen=True)
class GatedAttention:
    """out(attend(rope(norm q), rope(norm k), v) * sigmoid(gate)).

    `inputs` [H, (2 Hq + 2 Hkv) d] holds the columns q | k | v | gate; `qk_norm` a scale per head.
    """

    inputs: Tensor
    out: Tensor
    qk_norm: RMSNorm
    num_heads: int
    num_kv_heads: int
    head_dim: int

    @staticmethod
    def fuse(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        out: Tensor,
        q_norm: Tensor,
        k_norm: Tensor,
        head_dim: int,
        eps: float,
    ) -> GatedAttention:
        """`q` [2 Hq d, H] is per head: d query rows, then d gate rows. Norms stand for 1 + w."""
        query, gate = q.view(-1, 2, head_dim, q.shape[-1]).unbind(1)
        heads, kv_heads = query.shape[0], k.shape[0] // head_dim
        inputs = pack(query.flatten(0, 1), k, v, gate.flatten(0, 1))
        scale = torch.cat((q_norm.expand(heads, -1), k_norm.expand(kv_heads, -1)))
        return GatedAttention(
            inputs, pack(out), RMSNorm.zero_centred(scale, eps), heads, kv_heads, head_dim
        )

    def __call__(self, x: Tensor, run: AttnRun, kv_slot: int) -> Tensor:
        """x: [M, H]. Returns [M, H]; stores this layer's keys and values first."""
        wide, dim = self.num_heads * self.head_dim, self.head_dim
        narrow = self.num_kv_heads * dim
        qk, v, gate = linear(x, self.inputs).split((wide + narrow, narrow, wide), -1)
        qk = run.rotation(self.qk_norm(qk.unflatten(-1, (-1, dim))))
        run.kv.store(
            kv_slot, run.forward.slot_mapping, qk[:, self.num_heads :], v.unflatten(-1, (-1, dim))
        )
        mixed = run.attend(kv_slot, qk[:, : self.num_heads], dim**-0.5)
        return linear(mixed * gate.sigmoid(), self.out)
