"""What the engine keeps of a request on the host: its tokens as they arrive, and how it ended."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

FINISH_REASONS = {1: "stop", 2: "length", 3: "abort", 4: "error", 5: "stop"}
STOP_TOKEN, ERROR, STOP_STRING = 1, 4, 5


@dataclass(frozen=True)
class RequestInput:
    """A request as the core takes it, checked for types only; the core judges the values.

    Attributes:
        prompt_token_ids: int32 [n].
        logprobs: -1 for none.
        stop: stop strings as bytes.
    """

    prompt_token_ids: np.ndarray
    max_tokens: int
    min_tokens: int
    temperature: float
    top_k: int
    top_p: float
    seed: int
    stop_token_ids: list[int]
    stop: list[bytes]
    logprobs: int = -1
    priority: int = 0
    salt: bytes = b""
    sample_index: int = 0


@dataclass(frozen=True)
class TokenLogprobs:
    """Log-probabilities of one output token: its own, its rank, and the top ids and values."""

    sampled: float
    rank: int
    top_ids: np.ndarray
    top_values: np.ndarray


@dataclass
class RequestRecord:
    """A submitted request.

    Attributes:
        chunks: new tokens of each step, int32 views of the core's flat outputs.
        decode_emitted, decode_rows: tokens emitted and rows run of each decode step.
        stop_bytes: bytes of text before a stop string, -1 without one.
        finish: 0 while it runs, else the core's code.
    """

    request_id: int
    prompt_token_ids: np.ndarray
    logprobs_wanted: int
    arrival: float = field(default_factory=time.monotonic)
    first_token: float | None = None
    finished: float | None = None
    num_cached: int = 0
    finish: int = 0
    stop_bytes: int = -1
    chunks: list[np.ndarray] = field(default_factory=list)
    decode_emitted: list[int] = field(default_factory=list)
    decode_rows: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)

    @property
    def is_finished(self) -> bool:
        """Whether the core has ended it."""
        return self.finish != 0

    @property
    def finish_reason(self) -> str | None:
        """stop, length, abort or error; None while it runs."""
        return FINISH_REASONS.get(self.finish)

    def token_ids(self) -> list[int]:
        """All output tokens so far."""
        if not self.chunks:
            return []
        return np.concatenate(self.chunks).tolist()
