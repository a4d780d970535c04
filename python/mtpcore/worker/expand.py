"""Expanding a plan on the device: tokens, positions, slots and the two forward descriptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..state.forward import AttnForward, SSMForward
from .buffers import ACCEPTED, DONE, LAST_TOKEN, SEQ_LEN, TOKENS_LEFT, RequestBuffers
from .expand_prefill import PREFILL_FINAL, PrefillRow, attn_span, prefill_rows, ssm_spans

if TYPE_CHECKING:
    from .fields import DeviceFields, HostFields


@dataclass(frozen=True)
class StepRows:
    """One step's rows on the device: decode rows first, then prefill rows.

    Attributes:
        num_rows, num_decode, width: host counts; the rectangle is num_decode x width.
        prefill: host description of the prefill rows.
        req_idx, state_idx: int64 [n].
        cursors: int64 [n, 7], the requests' cursors before this step.
        old_len: int64 [n], tokens consumed before this step.
        query_len: int64 [n], tokens that run: a decode row's share of the rectangle (0 = HOLD),
            a prefill row's chunk.
        num_sampled: int64 [n], rows that may emit: ``query_len`` of a decode row, 1 for a final
            prefill row, 0 for any other.
        drafts: int64 [D, width - 1].
        hidden_base: int64 [n], index of the row's first token among the flattened tokens.
        num_pages: int64 [n], valid page-table entries.
        ids: int64 [M]; attn, ssm: the target's forward.
    """

    num_rows: int
    num_decode: int
    width: int
    prefill: tuple[PrefillRow, ...]
    req_idx: Tensor
    state_idx: Tensor
    cursors: Tensor
    old_len: Tensor
    query_len: Tensor
    num_sampled: Tensor
    drafts: Tensor
    hidden_base: Tensor
    num_pages: Tensor
    ids: Tensor
    attn: AttnForward
    ssm: SSMForward


def slots_of(
    positions: Tensor, page_table: Tensor, num_pages: Tensor, valid: Tensor, page_size: int
) -> Tensor:
    """Slot of each position, 0 (the null page) where it must not be stored.

    Args:
        positions: int64 [n, W].
        page_table: int64 [n, B] of the same rows.
        num_pages: int64 [n], valid entries; positions beyond them go to slot 0.
        valid: bool [n, W].
    """
    page_index = torch.div(positions, page_size, rounding_mode="floor")
    page = page_table.gather(1, page_index.clamp(max=page_table.shape[1] - 1))
    inside = valid & (page_index < num_pages[:, None])
    return torch.where(inside, page * page_size + positions % page_size, 0)


@dataclass(frozen=True)
class _Part:
    """Tokens, positions and slots of the rectangle or of the prefill chunks, flattened."""

    ids: Tensor
    positions: Tensor
    slots: Tensor


def _decode_part(
    cursors: Tensor,
    query_len: Tensor,
    drafts: Tensor,
    page_table: Tensor,
    num_pages: Tensor,
    width: int,
    page_size: int,
) -> _Part:
    column = torch.arange(width, device=cursors.device)
    valid = column < query_len[:, None]
    # A row that does not run looks from the last token that does, so it reads written keys only.
    offset = torch.minimum(column, query_len[:, None] - 1)
    positions = (cursors[:, SEQ_LEN, None] + offset).clamp_(min=0)
    ids = torch.cat((cursors[:, LAST_TOKEN, None], drafts), dim=1).clamp_(min=0)
    slots = slots_of(positions, page_table, num_pages, valid, page_size)
    return _Part(ids.view(-1), positions.view(-1), slots.view(-1))


def _prefill_part(
    plan: DeviceFields,
    rows: slice,
    req_idx: Tensor,
    old_len: Tensor,
    length: Tensor,
    num_tokens: int,
    buffers: RequestBuffers,
    page_size: int,
) -> _Part:
    first = plan["row_token_offset"][rows].to(torch.int64)
    shift = torch.repeat_interleave(old_len - first, length, output_size=num_tokens)
    req = torch.repeat_interleave(req_idx, length, output_size=num_tokens)
    positions = torch.arange(num_tokens, device=req.device) + shift
    page = buffers.dev_page_table[req, torch.div(positions, page_size, rounding_mode="floor")]
    slots = page * page_size + positions % page_size
    return _Part(plan.ints("prefill_tokens", num_tokens), positions, slots)


def expand(
    host: HostFields, plan: DeviceFields, buffers: RequestBuffers, page_size: int
) -> StepRows:
    """Expand a plan into rows and forwards, reading only host counts and device tensors."""
    num_rows, num_decode = host.scalar("num_rows"), host.scalar("num_decode_rows")
    num_tokens = host.scalar("num_prefill_tokens")
    width = host.scalar("verify_width") if num_decode else 1
    prefill = prefill_rows(host, num_rows, num_decode)
    req_idx = plan.ints("row_req_idx", num_rows)
    state_idx = plan.ints("row_state_idx", num_rows)
    num_pages = plan.ints("row_num_pages", num_rows)
    planned = plan.ints("row_query_len", num_rows)
    cursors = buffers.cursors[req_idx]
    parts: list[_Part] = []

    live = torch.minimum(planned[:num_decode], cursors[:num_decode, TOKENS_LEFT])
    dec_len = live.masked_fill(cursors[:num_decode, DONE] != 0, 0)
    bound = max(host.scalar("max_pages_bound"), 1)
    dec_pages = buffers.dev_page_table[:, :bound].index_select(0, req_idx[:num_decode])
    drafts = buffers.dev_drafts[req_idx[:num_decode], : width - 1]
    if num_decode:
        parts.append(
            _decode_part(
                cursors[:num_decode],
                dec_len,
                drafts,
                dec_pages,
                num_pages[:num_decode],
                width,
                page_size,
            )
        )
    rectangle = num_decode * width
    old_len, query_len, num_sampled = cursors[:, SEQ_LEN], dec_len, dec_len
    hidden_base = torch.arange(0, rectangle, width, device=req_idx.device)
    if prefill:
        rows = slice(num_decode, num_rows)
        starts = plan["row_start"][rows].to(torch.int64)
        old_len = torch.cat((cursors[:num_decode, SEQ_LEN], starts))
        query_len = torch.cat((dec_len, planned[rows]))
        final = (plan["row_kind"][rows] == PREFILL_FINAL).to(torch.int64)
        num_sampled = torch.cat((dec_len, final))
        first = plan["row_token_offset"][rows].to(torch.int64) + rectangle
        hidden_base = torch.cat((hidden_base, first))
        if num_tokens:
            parts.append(
                _prefill_part(
                    plan, rows, req_idx[rows], starts, planned[rows], num_tokens, buffers, page_size
                )
            )
    ids = torch.cat([part.ids for part in parts]) if parts else req_idx[:0]
    attn = AttnForward(
        positions=torch.cat([part.positions for part in parts]) if parts else ids,
        slot_mapping=torch.cat([part.slots for part in parts]) if parts else ids,
        num_decode=num_decode,
        width=width,
        dec_page_table=dec_pages,
        spans=tuple(
            attn_span(
                buffers.dev_page_table,
                row,
                row.start,
                row.length,
                rectangle + row.offset,
                page_size,
            )
            for row in prefill
            if row.length
        ),
        first_key=0,
    )
    ssm = SSMForward(
        num_decode=num_decode,
        width=width,
        dec_state_idx=state_idx[:num_decode],
        dec_query_len=dec_len,
        dec_accepted=cursors[:num_decode, ACCEPTED],
        prefill=ssm_spans(host, prefill, rectangle),
    )
    return StepRows(
        num_rows=num_rows,
        num_decode=num_decode,
        width=width,
        prefill=prefill,
        req_idx=req_idx,
        state_idx=state_idx,
        cursors=cursors,
        old_len=old_len,
        query_len=query_len,
        num_sampled=num_sampled,
        drafts=drafts,
        hidden_base=hidden_base,
        num_pages=num_pages,
        ids=ids,
        attn=attn,
        ssm=ssm,
    )
