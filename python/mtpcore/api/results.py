"""Results in the shapes of vLLM's offline interface."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Logprob:
    """Log-probability of one token: value, rank (1 = most likely), and its text."""

    logprob: float
    rank: int | None
    decoded_token: str | None


@dataclass(frozen=True)
class SpeculationStats:
    """How a request's decode steps went.

    Attributes:
        num_steps: decode steps that emitted tokens.
        num_drafts: draft tokens verified.
        num_accepted: draft tokens accepted.
        num_drafts_per_position, num_accepted_per_position: the same by draft position, from 0.
    """

    num_steps: int = 0
    num_drafts: int = 0
    num_accepted: int = 0
    num_drafts_per_position: tuple[int, ...] = ()
    num_accepted_per_position: tuple[int, ...] = ()

    @property
    def mean_acceptance_length(self) -> float:
        """Tokens a decode step, the base token included; 0 without decode steps."""
        return 1 + self.num_accepted / self.num_steps if self.num_steps else 0.0

    @property
    def acceptance_per_position(self) -> tuple[float, ...]:
        """Share of accepted drafts by position."""
        pairs = zip(self.num_accepted_per_position, self.num_drafts_per_position, strict=True)
        return tuple(accepted / drafts if drafts else 0.0 for accepted, drafts in pairs)


@dataclass(frozen=True)
class RequestMetrics:
    """Times in seconds on the monotonic clock, and speculation counts."""

    arrival_time: float
    first_token_time: float | None
    finished_time: float | None
    speculation: SpeculationStats = field(default_factory=SpeculationStats)


@dataclass
class CompletionOutput:
    """One output of a request.

    Attributes:
        token_ids: output tokens, a stop token included.
        logprobs: for each token, token id -> :class:`Logprob` of the top tokens and the token
            itself; None unless asked for.
        finish_reason: stop | length | abort | error (a logit of the request was not finite).
        stop_reason: the stop string or stop token id that ended it; None for an end-of-sequence
            token and for any other end.
    """

    index: int
    text: str
    token_ids: list[int]
    cumulative_logprob: float | None
    logprobs: list[dict[int, Logprob]] | None
    finish_reason: str | None
    stop_reason: int | str | None


@dataclass
class RequestOutput:
    """The result of one prompt."""

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    finished: bool
    metrics: RequestMetrics
    num_cached_tokens: int
    prompt_logprobs: None = None


@dataclass(frozen=True)
class StreamDelta:
    """What became known of one request since its last delta.

    Attributes:
        index: the prompt's index in the call.
        text, token_ids: new text and tokens; a text may lag behind its tokens by an incomplete
            character or by what a stop string might still claim.
        finished: no delta of this request follows; ``result`` is its whole result then.
    """

    index: int
    text: str
    token_ids: list[int]
    finished: bool
    result: RequestOutput | None = None
