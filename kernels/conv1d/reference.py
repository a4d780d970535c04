"""Reference of the short causal convolution of a GDN layer, and of its rolling window.

y_t = silu(sum_{j < K} w_j x_{t-K+1+j}) per channel. The state is the last K - 1 raw inputs, never
the activated outputs. A pool row holds K - 1 + mtp_step columns, so that after a verify step of W
tokens the window for any accepted index a is columns a .. a + K - 2: rolling back is reading
further left.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class ConvRows:
    """int64 indices into the pool flattened to [rows * columns, C].

    `read` [D, K-1] is the accepted window of each row, `write` [D, K-2+W] where the inputs of a
    step go; masked columns go to index 0, in the null row.
    """

    read: Tensor
    write: Tensor

    @staticmethod
    def build(
        state_idx: Tensor,
        accepted: Tensor,
        query_len: Tensor,
        width: int,
        kernel: int,
        columns: int,
    ) -> ConvRows:
        """state_idx, accepted, query_len: int64 [D]; `columns` is K - 1 + mtp_step."""
        base = (state_idx * columns)[:, None]
        offset = torch.arange(kernel - 2 + width, device=state_idx.device)
        read = base + accepted[:, None] + torch.arange(kernel - 1, device=state_idx.device)
        kept = torch.where(query_len > 0, query_len + kernel - 2, 0)
        return ConvRows(read, torch.where(offset < kept[:, None], base + offset, 0))


def step(x: Tensor, weight: Tensor, pool: Tensor, rows: ConvRows) -> Tensor:
    """x: [D, W, C] raw inputs; weight: [K, C] float32; pool: [rows, columns, C].

    Returns [D, W, C] and stores the inputs of the columns that are not masked.
    """
    flat = pool.view(-1, pool.shape[-1])
    window = flat[rows.read]
    padded = torch.cat((window, x), 1)
    flat[rows.write] = padded[:, 1:]
    return _convolve(padded, weight, x.shape[1])


def prefill(x: Tensor, weight: Tensor, window: Tensor) -> tuple[Tensor, Tensor]:
    """x: [L, C], window: [K-1, C], the raw inputs before x.

    Returns [L, C] and the padded inputs [K-1+L, C]; the window after n tokens is rows n .. n+K-2.
    """
    padded = torch.cat((window, x))
    return _convolve(padded[None], weight, x.shape[0])[0], padded


def _convolve(padded: Tensor, weight: Tensor, length: int) -> Tensor:
    wide = padded.float()
    if length <= 16:
        # Fewer, larger operations for the few columns of a step.
        out = (wide.unfold(1, weight.shape[0], 1).transpose(2, 3) * weight).sum(2)
    else:
        out = wide[:, :length] * weight[0]
        for j in range(1, weight.shape[0]):
            out.addcmul_(wide[:, j : j + length], weight[j])
    # The sum is rounded to the model dtype before the activation, as a convolution in it would be.
    return F.silu(out.to(padded.dtype))
