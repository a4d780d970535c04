"""Reference of paged grouped-query attention.

A row at position p sees the keys first_key .. p of its request. Slots that no token has been
written to may hold anything, NaN included: such keys are masked after the product and such values
are cleared before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

# Scores of one block of queries stay below this many elements per head.
BLOCK_SCORES = 1 << 22


@dataclass(frozen=True)
class RectangleIndex:
    """What all layers of a step share.

    `pages` int64 [D * n]; `hidden` [D, 1, W, S] marks the keys that a row must not see;
    `unwritten` [D, S, 1, 1] the slots whose values are not to be trusted; `dead` [D, W, 1] the
    rows without any key, whose output is 0.
    """

    pages: Tensor
    hidden: Tensor
    unwritten: Tensor
    dead: Tensor

    @staticmethod
    def build(
        positions: Tensor, slots: Tensor, page_table: Tensor, page_size: int, first_key: int
    ) -> RectangleIndex:
        """positions, slots: int64 [D, W], slot 0 is a row that does not run; page_table: [D, n]."""
        key = torch.arange(page_table.shape[1] * page_size, device=positions.device)
        last = torch.where(slots > 0, positions, -1)
        hidden = (key > last[..., None]) | (key < first_key)
        unwritten = (key > last.amax(1, keepdim=True)) | (key < first_key)
        return RectangleIndex(
            page_table.reshape(-1),
            hidden[:, None],
            unwritten[..., None, None],
            (last < first_key)[..., None],
        )


def rectangle(q: Tensor, kv: Tensor, index: RectangleIndex, scale: float) -> Tensor:
    """q: [D, W, Hq, d]; kv: [pages, P, 2, Hkv, d]. Returns [D, W, Hq * d] in the dtype of q."""
    num_rows, width, num_q, dim = q.shape
    num_kv = kv.shape[3]
    ratio = num_q // num_kv
    both = kv.index_select(0, index.pages).view(num_rows, -1, 2, num_kv, dim)
    key, value = both[:, :, 0].float(), both[:, :, 1].masked_fill(index.unwritten, 0).float()
    grouped = q.view(num_rows, width, num_kv, ratio, dim).permute(0, 2, 3, 1, 4)
    grouped = grouped.reshape(num_rows, num_kv, ratio * width, dim).float() * scale
    scores = torch.matmul(grouped, key.permute(0, 2, 3, 1))
    scores = scores.view(num_rows, num_q, width, -1).masked_fill_(
        index.hidden, torch.finfo(torch.float32).min
    )
    weights = F.softmax(scores, -1).view(num_rows, num_kv, ratio * width, -1)
    out = torch.matmul(weights, value.transpose(1, 2))
    out = out.view(num_rows, num_q, width, dim).transpose(1, 2).reshape(num_rows, width, -1)
    return out.masked_fill_(index.dead, 0).to(q.dtype)


def span(
    q: Tensor, kv: Tensor, page_table: Tensor, start: int, first_key: int, scale: float
) -> Tensor:
    """Queries at positions start .. start + L - 1 of one request.

    q: [L, Hq, d]; page_table: int64 [n], covering at least start + L slots. Returns [L, Hq * d].
    """
    length, num_q, dim = q.shape
    end = start + length
    num_kv = kv.shape[3]
    if end <= first_key:
        return q.new_zeros(length, num_q * dim)
    num_pages = -(-end // kv.shape[1])
    both = kv.index_select(0, page_table[:num_pages]).flatten(0, 1)[first_key:end]
    key, value = both.permute(1, 2, 0, 3)[:, None].unbind(0)
    if num_q != num_kv:
        key, value = (x.repeat_interleave(num_q // num_kv, 1) for x in (key, value))
    block = max(1, BLOCK_SCORES // (end - first_key))
    outs = []
    for begin in range(0, length, block):
        query = q[begin : begin + block].transpose(0, 1)[None]
        last = torch.arange(begin, begin + query.shape[2], device=q.device) + (start - first_key)
        # A row before the first key has none of its own; it takes the first one, to stay finite.
        seen = torch.arange(end - first_key, device=q.device) <= last.clamp(min=0)[:, None]
        outs.append(F.scaled_dot_product_attention(query, key, value, seen, scale=scale))
    out = outs[0] if len(outs) == 1 else torch.cat(outs, 2)
    return out[0].transpose(0, 1).reshape(length, -1)
