"""The requests of one case: what is asked, in which passes, and which hits it must find."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mtpcore.check.sampling import Sampling

if TYPE_CHECKING:
    from mtpcore.check.prompts import Corpus
    from mtpcore.check.slow_path import Tokens

# Lengths around page and chunk borders; a single token is the shortest prompt there is.
RAGGED = (1, 100, 16, 33, 57, 15)
SHARED_TAIL = 9


@dataclass(frozen=True)
class Request:
    """One request; `expect_cached` is the hit it has to find, None where it does not matter."""

    prompt: Tokens
    sampling: Sampling
    expect_cached: int | None = None


def first_pass(choice: dict[str, Any], corpus: Corpus) -> list[Request]:
    """The requests that meet an empty cache."""
    batch = choice["batch"]
    lengths = RAGGED if batch == "ragged" else (70,) if batch == 1 else (48,) * batch
    requests = []
    for i, length in enumerate(lengths):
        sampling = Sampling(seed=1000 + i, max_tokens=24 if batch == 8 else 32)
        if batch == "ragged":
            sampling = replace(sampling, max_tokens=12 + 5 * i)
        # One greedy row stays among the sampled ones, so that both kinds share a step.
        if choice["sampling"] == "seeded" and (i % 4 != 3 or len(lengths) == 1):
            top_k, top_p = ((40, 0.95), (0, 1.0), (0, 0.9))[i % 3]
            sampling = replace(sampling, temperature=0.7 + 0.1 * (i % 4), top_k=top_k, top_p=top_p)
        if choice["ending"] == "stop":
            stops = corpus.stop_ids
            sampling = replace(sampling, stop_token_ids=stops, min_tokens=(i % 3) * 5)
        requests.append(Request(corpus.cut(37 * i, length), sampling, 0))
    return requests


def siblings(requests: list[Request], corpus: Corpus, page_size: int) -> list[list[Request]]:
    """Two passes of prompts that leave each first prompt SHARED_TAIL tokens before its end.

    The first sibling shows where the prompts part; the second hits every whole page up to there.
    """
    passes: list[list[Request]] = [[], []]
    for i, request in enumerate(requests):
        shared = len(request.prompt) - SHARED_TAIL
        if i % 3 == 2 or len(requests) == 1:
            for turn in range(2):
                tail = corpus.cut(500 + 50 * turn + i, 20)
                hit = shared // page_size * page_size if turn and shared >= page_size else None
                passes[turn].append(
                    Request((*request.prompt[: max(shared, 0)], *tail), request.sampling, hit)
                )
    return passes


def repeats(
    requests: list[Request], outputs: list[Tokens], corpus: Corpus, second_turn: bool
) -> list[Request]:
    """The same prompts again, or a second turn that goes on from the first one's output."""
    found = []
    for i, (request, output) in enumerate(zip(requests, outputs, strict=True)):
        known = (*request.prompt, *output)
        if second_turn and (i % 3 == 1 or len(requests) == 1):
            prompt = (*known, *corpus.cut(700 + i, 11))
            # The last sampled token was never consumed, so no state knows it.
            found.append(Request(prompt, request.sampling, len(known) - 1))
        elif not second_turn and (i % 3 == 0 or len(requests) == 1):
            found.append(Request(request.prompt, request.sampling, len(request.prompt)))
    return found
