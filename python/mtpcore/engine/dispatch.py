"""Flat outputs of a commit, handed to the requests that they belong to."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .requests import RequestRecord, TokenLogprobs

if TYPE_CHECKING:
    from ..acceptance.logprobs import LogprobRegion
    from .loop import Committed, InFlight


def dispatch(committed: Committed, records: dict[int, RequestRecord]) -> list[RequestRecord]:
    """Append new tokens to their records.

    One pass over the entries, a slice each; no Python object is made for a token.

    Returns:
        The records that got tokens or ended. Ended ones are removed from ``records``.
    """
    out = committed.outputs
    if len(out) == 0:
        return []
    now = time.monotonic()
    touched = []
    columns = zip(
        out.request_id.tolist(),
        out.step_id.tolist(),
        out.row.tolist(),
        out.num_tokens.tolist(),
        out.finish.tolist(),
        out.num_cached.tolist(),
        out.stop_bytes.tolist(),
        out.tokens_offset.tolist(),
        strict=True,
    )
    for request_id, step_id, row, num_tokens, finish, num_cached, stop_bytes, offset in columns:
        record = records.get(request_id)
        if record is None:
            continue
        touched.append(record)
        record.num_cached = num_cached
        if num_tokens:
            if record.first_token is None:
                record.first_token = now
            record.chunks.append(out.tokens[offset : offset + num_tokens])
            _take_step(record, committed.steps[step_id], row, num_tokens)
        if finish:
            record.finish = finish
            record.stop_bytes = stop_bytes
            record.finished = now
            del records[request_id]
    return touched


def _take_step(record: RequestRecord, step: InFlight, row: int, num_tokens: int) -> None:
    if row < step.num_decode_rows:
        record.decode_emitted.append(num_tokens)
        record.decode_rows.append(int(step.result.fields["rows_run"][row]))
    if record.logprobs_wanted >= 0 and step.result.logprobs is not None:
        region = step.result.logprobs
        record.logprobs.extend(
            _token_logprobs(region, region.index(row, column), record.logprobs_wanted)
            for column in range(num_tokens)
        )


def _token_logprobs(region: LogprobRegion, index: int, wanted: int) -> TokenLogprobs:
    return TokenLogprobs(
        sampled=float(region.sampled[index]),
        rank=int(region.rank[index]),
        top_ids=region.top_ids[index, :wanted].numpy(),
        top_values=region.top_values[index, :wanted].numpy(),
    )
