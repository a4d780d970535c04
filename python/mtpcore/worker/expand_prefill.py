"""Prefill rows of a plan, in integers that the host knows, as spans of the two forwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..state.forward import AttnSpan, PrefillSpan

if TYPE_CHECKING:
    from torch import Tensor

    from .fields import HostFields

ROW_DECODE = 0
PREFILL_FINAL = 2


@dataclass(frozen=True)
class PrefillRow:
    """One prefill row in integers that the host knows."""

    row: int
    req_idx: int
    state_idx: int
    start: int
    length: int
    offset: int
    num_pages: int
    final: bool


def prefill_rows(host: HostFields, num_rows: int, num_decode: int) -> tuple[PrefillRow, ...]:
    """The prefill rows of a plan."""
    columns = (
        "row_req_idx",
        "row_state_idx",
        "row_start",
        "row_query_len",
        "row_token_offset",
        "row_num_pages",
        "row_kind",
    )
    values = [host[name][num_decode:num_rows].tolist() for name in columns]
    return tuple(
        PrefillRow(num_decode + i, req, state, start, length, offset, pages, kind == PREFILL_FINAL)
        for i, (req, state, start, length, offset, pages, kind) in enumerate(
            zip(*values, strict=True)
        )
    )


def armed_by_row(host: HostFields, num_decode: int) -> dict[int, list[tuple[int, int]]]:
    """(boundary, checkpoint) of each prefill row's armed boundaries, ascending."""
    count = host.scalar("num_armed")
    armed: dict[int, list[tuple[int, int]]] = {}
    rows = host["armed_row"][:count]
    if count == 0 or int(rows.max()) < num_decode:
        return armed
    entries = zip(
        rows.tolist(),
        host["armed_boundary"][:count].tolist(),
        host["armed_checkpoint"][:count].tolist(),
        strict=True,
    )
    for row, boundary, checkpoint in entries:
        if row >= num_decode:
            armed.setdefault(row, []).append((boundary, checkpoint))
    for boundaries in armed.values():
        boundaries.sort()
    return armed


def ssm_spans(host: HostFields, rows: tuple[PrefillRow, ...], base: int) -> tuple[PrefillSpan, ...]:
    """Prefill spans with their exports, cut at armed boundaries; ``base`` = rectangle tokens."""
    if not rows:
        return ()
    armed = armed_by_row(host, rows[0].row)
    spans = []
    for row in rows:
        exports = tuple(
            (boundary - row.start, checkpoint)
            for boundary, checkpoint in armed.get(row.row, ())
            if row.start < boundary <= row.start + row.length
        )
        spans.append(
            PrefillSpan(
                row=row.row,
                req_idx=row.req_idx,
                state_idx=row.state_idx,
                start=row.start,
                length=row.length,
                offset=base + row.offset,
                exports=exports,
            )
        )
    return tuple(spans)


def attn_span(
    page_table: Tensor, row: PrefillRow, start: int, length: int, offset: int, page_size: int
) -> AttnSpan:
    """Attention span of ``length`` tokens at ``start``; ``page_table`` is the whole table."""
    num_pages = min(-(-(start + length) // page_size), row.num_pages)
    return AttnSpan(
        page_table=page_table[row.req_idx, :num_pages], start=start, length=length, offset=offset
    )
