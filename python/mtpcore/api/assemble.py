"""Results from the engine's records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..engine.detokenize import OutputText, output_text
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


def kept_bytes(record: RequestRecord, params: SamplingParams) -> int | None:
    """Bytes of text to keep when a stop string ended the output; None keeps all."""
    if record.finish != STOP_STRING:
        return None
    if not params.include_stop_str_in_output:
        return record.stop_bytes
    return record.stop_bytes + len(matched_stop(record, params).encode("utf-8", "surrogatepass"))


def matched_stop(record: RequestRecord, params: SamplingParams) -> str:
    """The stop string that ended the output: the longest one, as the core looks for it, whose
    end is the first."""
    tail = record.stop_text or b""
    stops = params.stop_strings()
    ends = [(len(s.encode("utf-8", "surrogatepass")), s) for s in stops]
    found = [(size, s) for size, s in ends if tail.startswith(s.encode("utf-8", "surrogatepass"))]
    # Of the stops that begin at the cut, the core stopped at the one that was complete first.
    return min(found)[1] if found else stops[0]


def text_tokens(record: RequestRecord, params: SamplingParams, token_ids: list[int]) -> list[int]:
    """Tokens that make the text: a stop token adds none unless it is asked for."""
    if record.finish == STOP_TOKEN and not params.include_stop_str_in_output:
        return token_ids[:-1]
    return token_ids
