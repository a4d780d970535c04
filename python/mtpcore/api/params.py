"""Sampling parameters of a request."""

from __future__ import annotations

import numbers
from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..config.errors import OptionError

if TYPE_CHECKING:
    from ..models.generation import GenerationDefaults

# Parameters that no code reads yet, with the one value that asks for nothing.
_LATER: dict[str, tuple[Any, str]] = {
    "n": (1, "submit the prompt n times with different seeds"),
    "min_p": (0.0, "leave it at 0 and use top_p or top_k"),
    "prompt_logprobs": (None, "leave it out"),
    "presence_penalty": (0.0, "leave it at 0"),
    "frequency_penalty": (0.0, "leave it at 0"),
    "repetition_penalty": (1.0, "leave it at 1"),
    "logit_bias": (None, "leave it out"),
    "bad_words": (None, "leave it out"),
    "allowed_token_ids": (None, "leave it out"),
}
_MAX_SEED = 2**64


@dataclass(frozen=True)
class SamplingParams:
    """How a request samples and where it stops. Names and defaults are vLLM's.

    Attributes:
        temperature: 0 is greedy.
        top_p: in (0, 1]; the smallest set of tokens with that mass is kept.
        top_k: the k most likely tokens are kept; 0 or -1 keeps all.
        seed: 0..2**64-1; the same seed gives the same tokens alone and in a batch, with and
            without speculation. None takes one from the engine's seed.
        max_tokens: most output tokens; None is up to the context limit.
        min_tokens: stops are ignored for that many output tokens.
        stop: strings that end the output; they are cut from the text unless
            ``include_stop_str_in_output``. They are looked for in the text without special tokens.
        stop_token_ids: tokens that end the output; they stay in ``token_ids``.
        ignore_eos: the model's own end-of-sequence tokens do not stop.
        logprobs: number of most likely tokens to report per output token, 0 for the sampled one
            alone; log-probabilities of the model before temperature and filters.
        skip_special_tokens: leave special tokens out of the text.
        detokenize: make text; False leaves ``text`` empty.

    The other names exist to be refused by name while they would do nothing.

    Raises:
        OptionError: a parameter of the wrong type, or one that this version does not support.
    """

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    max_tokens: int | None = 16
    min_tokens: int = 0
    stop: str | Sequence[str] | None = None
    stop_token_ids: Sequence[int] | None = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: dict[int, float] | None = None
    bad_words: Sequence[str] | None = None
    allowed_token_ids: Sequence[int] | None = None
    skip_special_tokens: bool = True
    detokenize: bool = True

    def __post_init__(self) -> None:
        for name in ("temperature", "top_p", "min_p"):
            _check(name, getattr(self, name), numbers.Real, "a number")
            try:
                float(getattr(self, name))
            except OverflowError as error:
                raise OptionError(name, "it is beyond what a float holds") from error
        for name in ("n", "top_k", "min_tokens"):
            _check(name, getattr(self, name), numbers.Integral, "an int")
        for name in ("seed", "max_tokens", "logprobs"):
            if getattr(self, name) is not None:
                _check(name, getattr(self, name), numbers.Integral, "an int or None")
        flags = ("include_stop_str_in_output", "ignore_eos", "skip_special_tokens", "detokenize")
        for name in flags:
            if not isinstance(getattr(self, name), bool):
                raise OptionError(name, f"{getattr(self, name)!r} is not a bool")
        if self.seed is not None and not 0 <= self.seed < _MAX_SEED:
            raise OptionError("seed", f"{self.seed} is outside 0..2**64-1")
        if self.logprobs is not None and self.logprobs < 0:
            raise OptionError("logprobs", f"{self.logprobs} is negative; give 0 or more, or None")
        self._check_stops()
        for name, (neutral, way_out) in _LATER.items():
            value = getattr(self, name)
            is_empty = neutral is None and isinstance(value, Sized) and len(value) == 0
            if value != neutral and not is_empty:
                raise OptionError(name, f"{value!r} is not built yet; {way_out}")

    def _check_stops(self) -> None:
        if self.stop is not None and not isinstance(self.stop, (str, Sequence)):
            raise OptionError("stop", f"{self.stop!r} is not a string or a list of strings")
        for stop in self.stop_strings():
            if not isinstance(stop, str):
                raise OptionError("stop", f"{self.stop!r} is not a string or a list of strings")
            if any("\ud800" <= char <= "\udfff" for char in stop):
                raise OptionError(
                    "stop", f"{stop!r} holds half a surrogate pair, which no text has"
                )
        if self.stop_strings() and not self.detokenize:
            raise OptionError("stop", "it needs text; set detokenize=True or use stop_token_ids")
        ids = self.stop_token_ids
        if ids is None:
            return
        if isinstance(ids, (str, bytes)) or not isinstance(ids, Sequence):
            raise OptionError("stop_token_ids", f"{ids!r} is not a list of ints")
        for token in ids:
            _check("stop_token_ids", token, numbers.Integral, "an int; give a list of token ids")

    def stop_strings(self) -> list[str]:
        """``stop`` as a list."""
        if self.stop is None:
            return []
        return [self.stop] if isinstance(self.stop, str) else list(self.stop)


def _check(name: str, value: Any, kind: type, wanted: str) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise OptionError(name, f"{value!r} is not {wanted}")


def default_params(generation: GenerationDefaults) -> SamplingParams:
    """The parameters of a call that gives none: what the model's generation config says.

    Raises:
        OptionError: the generation config asks for something that is not supported.
    """
    given: dict[str, Any] = {}
    for name in ("temperature", "top_k", "top_p", "min_p", "repetition_penalty"):
        value = getattr(generation, name)
        if value is not None:
            given[name] = value
    if generation.do_sample is False:
        given["temperature"] = 0.0
    if generation.max_new_tokens is not None:
        given["max_tokens"] = generation.max_new_tokens
    try:
        return SamplingParams(**given)
    except OptionError as error:
        raise OptionError(
            error.option,
            f"the model's generation config sets it ({error}); pass SamplingParams explicitly",
        ) from error
