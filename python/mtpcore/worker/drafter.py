"""The MTP head in a step: commit true rows, then draft recurrently.

The head's entry for (hidden of p - 1, token p) lies in slot p of the target's pages. A commit
writes one entry for every token that this step made known, from the target's hidden rows; the
output of the last one gives draft 1. The further drafts feed the head its own output and write
scratch entries past it, which later commits overwrite.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..acceptance.sample import SamplingRows, sample_rows
from ..state.forward import AttnForward, AttnSpan
from .expand import slots_of
from .expand_prefill import attn_span

if TYPE_CHECKING:
    from ..draft.mtp import MtpHead
    from ..layers.paged_kv import PagedKV
    from ..models.causal_lm import CausalLM
    from .buffers import RequestBuffers
    from .expand import StepRows
    from .expand_prefill import PrefillRow


@dataclass(frozen=True)
class DraftInput:
    """What the drafter needs of one step.

    Attributes:
        rows: the step's rows.
        hidden: [M, H] target hidden rows of the step.
        sampled: int64 [n, W], tokens sampled in each row's columns.
        num_accepted: int64 [n].
        new_len: int64 [n], tokens consumed after the step.
        page_bound: host bound on the valid page-table entries of any row.
        sampling: parameters of the n rows at the next output position, None when all are greedy
            or drafts are to be argmax.
    """

    rows: StepRows
    hidden: Tensor
    sampled: Tensor
    num_accepted: Tensor
    new_len: Tensor
    page_bound: int
    sampling: SamplingRows | None


@dataclass(frozen=True)
class _Commit:
    ids: Tensor
    hidden: Tensor
    attn: AttnForward
    ends: tuple[int | None, ...]


class MtpDrafter:
    """Runs one model's MTP head over the engine's pages."""

    def __init__(
        self,
        target: CausalLM,
        head: MtpHead,
        kv: PagedKV,
        buffers: RequestBuffers,
        mtp_step: int,
        page_size: int,
    ) -> None:
        self._target = target
        self._head = head
        self._kv = kv
        self._buffers = buffers
        self._mtp_step = mtp_step
        self._page_size = page_size

    def run(self, step: DraftInput) -> None:
        """Commit this step's entries and store the next drafts by ``req_idx``.

        Reads ``dev_last_hidden`` as it was before the step.
        """
        commit = self._commit_input(step)
        rows = step.rows
        if commit.ids.shape[0] == 0:
            return
        out = self._head.forward(commit.ids, commit.hidden, commit.attn, self._kv)
        if rows.num_decode == 0 and not any(row.final for row in rows.prefill):
            return
        hidden = self._last_outputs(step, out, commit.ends)
        drafts = self._draft(step, hidden)
        drafted = (step.num_accepted > 0)[:, None]
        kept = self._buffers.dev_drafts[rows.req_idx]
        self._buffers.dev_drafts[rows.req_idx] = torch.where(drafted, drafts, kept)

    def _commit_input(self, step: DraftInput) -> _Commit:
        rows, buffers, page_size = step.rows, self._buffers, self._page_size
        num_decode, width = rows.num_decode, rows.width
        rectangle = num_decode * width
        ids, hidden, positions, slots = [], [], [], []
        pages = rows.attn.dec_page_table
        if num_decode:
            accepted = step.num_accepted[:num_decode, None]
            column = torch.arange(width, device=accepted.device)
            valid = column < accepted
            at = (rows.old_len[:num_decode, None] + 1) + torch.minimum(column, accepted - 1)
            at = at.clamp_(min=1)
            ids.append(step.sampled[:num_decode].reshape(-1))
            hidden.append(step.hidden[:rectangle])
            positions.append(at.view(-1))
            num_pages = rows.num_pages[:num_decode]
            slots.append(slots_of(at, pages, num_pages, valid, page_size).view(-1))
        spans: list[AttnSpan] = []
        ends: list[int | None] = []
        offset = rectangle
        for row in rows.prefill:
            begin = max(row.start, 1)
            end = row.start + row.length + int(row.final)
            length = end - begin
            if length <= 0:
                ends.append(None)
                continue
            span_ids, span_hidden = self._span_input(step, row, begin)
            at = torch.arange(begin, end, device=span_ids.device)
            span = attn_span(buffers.dev_page_table, row, begin, length, offset, page_size)
            inside = torch.ones_like(at, dtype=torch.bool)[None]
            num_pages = rows.num_pages[row.row : row.row + 1]
            table = buffers.dev_page_table[row.req_idx, : max(row.num_pages, 1)][None]
            ids.append(span_ids)
            hidden.append(span_hidden)
            positions.append(at)
            slots.append(slots_of(at[None], table, num_pages, inside, page_size)[0])
            spans.append(span)
            ends.append(offset + length - 1)
            offset += length
        if not ids:
            empty = rows.req_idx[:0]
            ids, positions, slots, hidden = [empty], [empty], [empty], [step.hidden[:0]]
        attn = AttnForward(
            positions=torch.cat(positions),
            slot_mapping=torch.cat(slots),
            num_decode=num_decode,
            width=width,
            dec_page_table=pages,
            spans=tuple(spans),
            first_key=1,
        )
        return _Commit(torch.cat(ids), torch.cat(hidden), attn, tuple(ends))

    def _span_input(self, step: DraftInput, row: PrefillRow, begin: int) -> tuple[Tensor, Tensor]:
        """Tokens ``begin..`` of a prefill row, each with the hidden row of the token before it."""
        rows = step.rows
        first = rows.num_decode * rows.width + row.offset
        skipped = begin - row.start
        ids = rows.ids[first + skipped : first + row.length]
        hidden = step.hidden[first : first + row.length - 1 + int(row.final)]
        if skipped == 0:
            before = self._buffers.dev_last_hidden[row.req_idx : row.req_idx + 1]
            hidden = torch.cat((before, hidden)) if row.length else before
        if row.final:
            ids = torch.cat((ids, step.sampled[row.row, :1]))
        return ids, hidden

    def _last_outputs(self, step: DraftInput, out: Tensor, ends: tuple[int | None, ...]) -> Tensor:
        """The head's output at each row's last known token: [n, H]."""
        rows = step.rows
        parts = []
        if rows.num_decode:
            last = (step.num_accepted[: rows.num_decode] - 1).clamp(min=0)
            parts.append(out[rows.hidden_base[: rows.num_decode] + last])
        for end in ends:
            at = 0 if end is None else end
            parts.append(out[at : at + 1])
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _draft(self, step: DraftInput, hidden: Tensor) -> Tensor:
        """mtp_step drafts of every row: int64 [n, mtp_step]; ``hidden`` [n, H] is the head's."""
        rows, sampling = step.rows, step.sampling
        drafts = [sample_rows(self._target.logits(hidden), sampling)]
        if self._mtp_step == 1:
            return drafts[0][:, None]
        table = self._buffers.dev_page_table[:, : step.page_bound].index_select(0, rows.req_idx)
        ahead = torch.arange(self._mtp_step, device=hidden.device)
        positions = (step.new_len[:, None] + ahead).clamp_(min=1)
        valid = (step.num_accepted > 0)[:, None].expand_as(positions)
        slots = slots_of(positions, table, rows.num_pages, valid, self._page_size)
        for k in range(1, self._mtp_step):
            attn = AttnForward(
                positions=positions[:, k],
                slot_mapping=slots[:, k],
                num_decode=rows.num_rows,
                width=1,
                dec_page_table=table,
                spans=(),
                first_key=1,
            )
            hidden = self._head.forward(drafts[-1], hidden, attn, self._kv)
            at = None if sampling is None else replace(sampling, position=sampling.position + k)
            drafts.append(sample_rows(self._target.logits(hidden), at))
        return torch.stack(drafts, dim=1)
