"""From the logits of a step to accepted, clamped tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..acceptance.clamp import StopRows, clamp_accepted, is_stop
from ..acceptance.logprobs import LogprobRegion, gather_logprobs
from ..acceptance.match import num_accepted_by_match
from ..acceptance.sample import SamplingRows, sample_rows
from .buffers import (
    MIN_TOKENS,
    OUTPUT_LEN,
    SAMPLE_INDEX,
    SEED_HI,
    SEED_LO,
    TEMPERATURE,
    TOKENS_LEFT,
    TOP_K,
    TOP_P,
    RequestBuffers,
)

if TYPE_CHECKING:
    from .expand import StepRows


@dataclass(frozen=True)
class SampleFlags:
    """Host flags that decide which ops a step needs; ``max_logprobs`` is -1 for none."""

    any_sampled: bool
    max_top_k: int | None
    any_bitmap: bool
    max_logprobs: int


@dataclass(frozen=True)
class Accepted:
    """Accepted tokens of a step's n rows.

    Attributes:
        sampled: int64 [n, W], tokens sampled in each column (prefill rows: column 0).
        num_accepted: int64 [n], emitted tokens.
        finish: int64 [n], FINISH_* codes.
        finite: bool [n].
        logprobs: None unless a row asks for them.
    """

    sampled: Tensor
    num_accepted: Tensor
    finish: Tensor
    finite: Tensor
    logprobs: LogprobRegion | None


def sampling_of(
    buffers: RequestBuffers, req_idx: Tensor, position: Tensor, max_top_k: int | None
) -> SamplingRows:
    """Sampling parameters of requests [m] at output positions int64 [m]."""
    ints, floats = buffers.sampling[req_idx], buffers.sampling_floats[req_idx]
    return SamplingRows(
        temperature=floats[:, TEMPERATURE],
        top_k=ints[:, TOP_K],
        top_p=floats[:, TOP_P],
        seed_lo=ints[:, SEED_LO],
        seed_hi=ints[:, SEED_HI],
        sample_index=ints[:, SAMPLE_INDEX],
        position=position,
        max_top_k=max_top_k,
    )


def _by_rows(rows: StepRows, flat: Tensor) -> Tensor:
    """[D * W + P] values as [n, W]; a prefill row repeats its value."""
    num_decode, width = rows.num_decode, rows.width
    rectangle = flat[: num_decode * width].view(num_decode, width)
    if not rows.prefill:
        return rectangle
    tail = flat[num_decode * width :, None].expand(-1, width)
    return torch.cat((rectangle, tail))


def accept(rows: StepRows, logits: Tensor, buffers: RequestBuffers, flags: SampleFlags) -> Accepted:
    """Sample every row, match the drafts and clamp at stops and limits.

    Args:
        logits: float32 [D * W + P, V], see ``sampling_hidden``.
    """
    num_decode, width = rows.num_decode, rows.width
    output_len = rows.cursors[:, OUTPUT_LEN]
    column = torch.arange(width, device=logits.device)
    output_index = output_len[:, None] + column
    sampling = None
    if flags.any_sampled:
        rectangle = output_index[:num_decode].reshape(-1)
        position = torch.cat((rectangle, output_len[num_decode:]))
        req = rows.req_idx[:num_decode, None].expand(-1, width).reshape(-1)
        req = torch.cat((req, rows.req_idx[num_decode:]))
        sampling = sampling_of(buffers, req, position, flags.max_top_k)
    flat = sample_rows(logits, sampling)
    sampled = _by_rows(rows, flat)
    matched = num_accepted_by_match(
        rows.drafts, sampled[:num_decode], rows.num_sampled[:num_decode]
    )
    if rows.prefill:
        matched = torch.cat((matched, rows.num_sampled[num_decode:]))
    bitmap = buffers.stop_bitmap[rows.req_idx] if flags.any_bitmap else None
    stops = StopRows(buffers.stop_ids[rows.req_idx], bitmap, rows.cursors[:, MIN_TOKENS])
    num_accepted, finish = clamp_accepted(
        matched, is_stop(sampled, output_index, stops), rows.cursors[:, TOKENS_LEFT]
    )
    # One reduction finds NaN and both infinities; columns that did not run do not count.
    bad = ~torch.isfinite(_by_rows(rows, logits.sum(1)))
    ran = column < rows.query_len.clamp(max=width)[:, None]
    if rows.prefill:
        is_prefill = torch.arange(rows.num_rows, device=bad.device) >= num_decode
        ran = ran | is_prefill[:, None]
    finite = ~(bad & ran).any(1)
    num_accepted = torch.where(finite, num_accepted, 0)
    finish = torch.where(finite, finish, 0)
    logprobs = None
    if flags.max_logprobs >= 0:
        logprobs = gather_logprobs(logits, flat, flags.max_logprobs, num_decode, width)
    return Accepted(sampled, num_accepted, finish, finite, logprobs)
