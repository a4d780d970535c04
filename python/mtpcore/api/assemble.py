"""Results from the engine's records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..engine.detokenize import output_text
from ..engine.requests import STOP_STRING, STOP_TOKEN, RequestRecord
from .results import (
    CompletionOutput,
    Logprob,
    RequestMetrics,
    RequestOutput,
    SpeculationStats,
)

if TYPE_CHECKING:
    from ..engine.engine import Engine
    from ..engine.tokenizer import TextTokenizer
    from .inputs import CheckedPrompt
    from .params import SamplingParams


@dataclass(frozen=True)
class Ending:
    """How an output's text ends: bytes kept (None: all), whether its last token adds text, and
    what stopped it."""

    kept_bytes: int | None
    drops_last: bool
    stop_reason: int | str | None


def ending(
    record: RequestRecord, params: SamplingParams, token_ids: list[int], engine: Engine
) -> Ending:
    """Where the text of a finished output ends."""
    if record.finish == STOP_TOKEN:
        last = token_ids[-1]
        named = last in (params.stop_token_ids or ())
        return Ending(None, not params.include_stop_str_in_output, last if named else None)
    if record.finish != STOP_STRING or engine.tokenizer is None:
        return Ending(None, False, None)
    stop = matched_stop(engine.tokenizer, token_ids, record.stop_bytes, params.stop_strings())
    size = len(stop.encode("utf-8")) if params.include_stop_str_in_output else 0
    return Ending(record.stop_bytes + size, False, stop)


def matched_stop(
    tokenizer: TextTokenizer, token_ids: list[int], start: int, stops: list[str]
) -> str:
    """The stop string that begins at byte ``start`` and was completed by the last token."""
    plain = [b"" if t in tokenizer.special else tokenizer.token_bytes[t] for t in token_ids]
    text = b"".join(plain)
    before_last = len(text) - len(plain[-1])
    found = [
        stop
        for stop in stops
        if text.startswith(stop.encode("utf-8"), start)
        and start + len(stop.encode("utf-8")) > before_last
    ]
    return min(found, key=len)


def speculation_stats(record: RequestRecord) -> SpeculationStats:
    """Counts of a request's decode steps."""
    emitted, rows = record.decode_emitted, record.decode_rows
    positions = max(rows, default=1) - 1
    drafts = [sum(r - 1 > position for r in rows) for position in range(positions)]
    accepted = [sum(e - 1 > position for e in emitted) for position in range(positions)]
    return SpeculationStats(
        num_steps=len(emitted),
        num_drafts=sum(drafts),
        num_accepted=sum(accepted),
        num_drafts_per_position=tuple(drafts),
        num_accepted_per_position=tuple(accepted),
    )


def _decoded(tokenizer: TextTokenizer | None, token: int) -> str | None:
    return None if tokenizer is None else tokenizer.decode_token(token)


def token_logprobs(
    record: RequestRecord, token_ids: list[int], tokenizer: TextTokenizer | None
) -> list[dict[int, Logprob]]:
    """Log-probabilities of every output token: the token itself first, then the top ones."""
    found = []
    for token, entry in zip(token_ids, record.logprobs, strict=True):
        row = {token: Logprob(entry.sampled, entry.rank, _decoded(tokenizer, token))}
        tops = zip(entry.top_ids.tolist(), entry.top_values.tolist(), strict=True)
        for rank, (top, value) in enumerate(tops, start=1):
            if top != token:
                row[top] = Logprob(value, rank, _decoded(tokenizer, top))
        found.append(row)
    return found


def request_output(
    record: RequestRecord, prompt: CheckedPrompt, params: SamplingParams, engine: Engine
) -> RequestOutput:
    """The result of a finished request."""
    token_ids = record.token_ids()
    end = ending(record, params, token_ids, engine)
    text = ""
    if engine.tokenizer is not None and params.detokenize:
        shown = token_ids[:-1] if end.drops_last else token_ids
        text = output_text(engine.tokenizer, shown, params.skip_special_tokens, end.kept_bytes)
    logprobs = None
    cumulative = None
    if params.logprobs is not None:
        logprobs = token_logprobs(record, token_ids, engine.tokenizer)
        cumulative = sum(entry.sampled for entry in record.logprobs)
    completion = CompletionOutput(
        index=0,
        text=text,
        token_ids=token_ids,
        cumulative_logprob=cumulative,
        logprobs=logprobs,
        finish_reason=record.finish_reason,
        stop_reason=end.stop_reason,
    )
    return RequestOutput(
        request_id=str(record.request_id),
        prompt=prompt.text,
        prompt_token_ids=prompt.token_ids.tolist(),
        outputs=[completion],
        finished=record.is_finished,
        metrics=RequestMetrics(
            arrival_time=record.arrival,
            first_token_time=record.first_token,
            finished_time=record.finished,
            speculation=speculation_stats(record),
        ),
        num_cached_tokens=record.num_cached,
    )
