"""Prompts and parameters of a call, checked before any work starts."""

from __future__ import annotations

import hashlib
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..config.errors import OptionError
from ..engine.requests import RequestInput
from .params import SamplingParams

if TYPE_CHECKING:
    from ..engine.engine import Engine

Prompt = str | Mapping[str, Any]
_INT32 = 2**31


@dataclass(frozen=True)
class CheckedPrompt:
    """A prompt: its text if it was one, and its tokens, int32 [n]."""

    text: str | None
    token_ids: np.ndarray


def as_prompts(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """A single prompt as a list of one."""
    if isinstance(prompts, (str, Mapping)):
        return [prompts]
    if not isinstance(prompts, Sequence):
        raise OptionError("prompts", f"{type(prompts).__name__} is no text, dict or list of either")
    return list(prompts)


def as_params(
    params: SamplingParams | Sequence[SamplingParams], num_prompts: int
) -> list[SamplingParams]:
    """One SamplingParams a prompt."""
    if isinstance(params, SamplingParams):
        return [params] * num_prompts
    given: list[SamplingParams] = list(params) if isinstance(params, Sequence) else []
    if not all(isinstance(one, SamplingParams) for one in given):
        raise OptionError("sampling_params", "give one SamplingParams or a list of them")
    if len(given) != num_prompts:
        raise OptionError(
            "sampling_params", f"{len(given)} for {num_prompts} prompts; give one, or one a prompt"
        )
    return given


def check_prompt(prompt: Prompt, index: int, engine: Engine) -> CheckedPrompt:
    """Tokens of a prompt.

    Raises:
        OptionError: naming the prompt and what is wrong with it.
    """
    where = f"prompts[{index}]"
    if isinstance(prompt, Mapping) and set(prompt) == {"prompt"}:
        prompt = prompt["prompt"]
        if not isinstance(prompt, str):
            raise OptionError(where, f"its prompt is {prompt!r}, not a text")
    if isinstance(prompt, str):
        if engine.tokenizer is None:
            raise OptionError(
                where,
                "the model's directory has no tokenizer.json; give {'prompt_token_ids': [...]}",
            )
        try:
            ids = engine.tokenizer.encode(prompt)
        except (TypeError, UnicodeError) as error:
            raise OptionError(where, f"the text cannot be encoded: {error}") from error
        return CheckedPrompt(prompt, _as_int32(ids, where))
    if not isinstance(prompt, Mapping) or set(prompt) != {"prompt_token_ids"}:
        raise OptionError(
            where,
            "it is neither a text nor {'prompt': text} nor {'prompt_token_ids': [...]}",
        )
    ids = prompt["prompt_token_ids"]
    if isinstance(ids, np.ndarray):
        ids = ids.tolist()
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Sequence):
        raise OptionError(where, "prompt_token_ids is not a list of ints")
    for token in ids:
        if not isinstance(token, numbers.Integral) or isinstance(token, bool):
            raise OptionError(where, f"prompt_token_ids holds {token!r}, which is not an int")
    return CheckedPrompt(None, _as_int32(ids, where))


def _as_int32(ids: Sequence[int], where: str) -> np.ndarray:
    # The core judges what lies within int32 and names the token and the vocabulary.
    for token in ids:
        if not -_INT32 <= token < _INT32:
            raise OptionError(where, f"token {token} is outside the vocabulary")
    return np.array(ids, dtype=np.int32)


def request_input(
    prompt: CheckedPrompt, params: SamplingParams, engine: Engine, seed: int
) -> RequestInput:
    """A request for the core.

    Args:
        seed: used when the parameters name none.
    """
    room = max(engine.resolved.max_model_len - len(prompt.token_ids), 1)
    stop_token_ids = [int(token) for token in params.stop_token_ids or ()]
    if not params.ignore_eos:
        stop_token_ids += engine.generation.eos_token_ids
    return RequestInput(
        prompt_token_ids=prompt.token_ids,
        max_tokens=room if params.max_tokens is None else int(params.max_tokens),
        min_tokens=int(params.min_tokens),
        temperature=float(params.temperature),
        top_k=int(params.top_k),
        top_p=float(params.top_p),
        seed=seed if params.seed is None else int(params.seed),
        stop_token_ids=stop_token_ids,
        stop=_stop_bytes(params, engine),
        logprobs=-1 if params.logprobs is None else int(params.logprobs),
    )


def _stop_bytes(params: SamplingParams, engine: Engine) -> list[bytes]:
    stops = params.stop_strings()
    for stop in stops:
        for special in engine.tokenizer.special_text if engine.tokenizer else ():
            if special in stop:
                raise OptionError(
                    "stop",
                    f"{stop!r} holds the special token {special!r}, and stop strings are looked "
                    "for in the text without special tokens; name it in stop_token_ids",
                )
    return [stop.encode("utf-8") for stop in stops]


def derived_seed(engine_seed: int, counter: int) -> int:
    """Seed of a request that names none: a hash of the engine's seed and the request's number."""
    data = f"{engine_seed}:{counter}".encode()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
