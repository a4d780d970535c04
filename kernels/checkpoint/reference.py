"""Reference of the export of live states to checkpoint rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def export_rows(source: Tensor, slots: Tensor, target: Tensor, rows: Tensor) -> None:
    """target[:, rows] = source[:, slots], straight to the destination, for rows other than 0.

    source: [L, S, ...]; target: [L, C + 1, ...] of the same trailing shape; slots, rows: int64 [n].
    Row 0 marks a masked entry; what lands there is never read.
    """
    if source.device.type == "cpu":
        # Most entries of a step are masked; values in host memory can be looked at for free.
        for slot, row in zip(slots.tolist(), rows.tolist(), strict=True):
            if row:
                target[:, row].copy_(source[:, slot])
        return
    for layer in range(source.shape[0]):
        target[layer].index_copy_(0, rows, source[layer].index_select(0, slots))
