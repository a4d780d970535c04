"""The axes of the check, and one case: its passes through one engine, request by request."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from mtpcore.check.compare import (
    Difference,
    Observed,
    acceptance,
    compare_cache,
    compare_drafts,
    compare_tokens,
)
from mtpcore.check.pairwise import all_pairs, full_product
from mtpcore.check.requests import Request, first_pass, repeats, siblings

if TYPE_CHECKING:
    from mtpcore.check.driver import LiveEngine
    from mtpcore.check.prompts import Corpus
    from mtpcore.check.slow_path import SlowPath

AXES: dict[str, list[Any]] = {
    "mtp_step": [0, 1, 2, 3, 4, 5, 6, 7],
    "prefix": ["off", "miss", "hit"],
    "batch": [1, 8, "ragged"],
    "chunk": [24, 64, 512],
    "overlap_depth": [0, 1],
    "preempted": [False, True],
    "sampling": ["greedy", "seeded"],
    "ending": ["length", "stop"],
}
MAX_TIE_SHARE = 0.02
MAX_RESUMPTIONS = 3


def choices(axes: dict[str, list[Any]], full: bool) -> list[dict[str, Any]]:
    """Pairwise covering rows, or every combination."""
    return full_product(axes) if full else all_pairs(axes)


def name_of(choice: dict[str, Any]) -> str:
    """A case's name: its axis values in order."""
    return " ".join(f"{axis}={choice[axis]}" for axis in choice)


def engine_options(choice: dict[str, Any]) -> dict[str, Any]:
    """Keywords of `LLM` for a case."""
    options = {
        "dtype": "float32",
        "max_num_seqs": 4 if choice["batch"] == "ragged" else 8,
        "max_model_len": 512,
        "max_num_batched_tokens": choice["chunk"],
        "enable_prefix_caching": choice["prefix"] != "off",
        "overlap_depth": choice["overlap_depth"],
    }
    if choice["mtp_step"] == 0:
        return options | {"mtp_mode": "none"}
    return options | {"mtp_mode": "mtp", "mtp_step": choice["mtp_step"]}


@dataclass
class CaseResult:
    """Outcome of a case; `offered` and `accepted` count drafts by position, by pass kind."""

    name: str
    requests: int = 0
    ties: int = 0
    difference: Difference | None = None
    where: str = ""
    offered: dict[str, list[int]] = field(default_factory=dict)
    accepted: dict[str, list[int]] = field(default_factory=dict)

    def count(self, kind: str, counts: tuple[list[int], list[int]]) -> None:
        for total, part in zip((self.offered, self.accepted), counts, strict=True):
            total[kind] = [
                a + b for a, b in zip(total.get(kind, [0] * len(part)), part, strict=True)
            ]


class Case:
    """Runs one choice of axis values through one engine and stops at the first difference."""

    def __init__(
        self, choice: dict[str, Any], slow: SlowPath, corpus: Corpus, live: LiveEngine
    ) -> None:
        self._choice = choice
        self._slow = slow
        self._corpus = corpus
        self._live = live
        self.result = CaseResult(name_of(choice))

    def run(self) -> CaseResult:
        """All passes of the case."""
        first = first_pass(self._choice, self._corpus)
        seen = self._pass("first", first)
        if self._choice["prefix"] != "hit" or self._broken():
            return self.result
        outputs = [one.output for one in seen]
        page_size = self._live.page_size
        sibling = siblings(first, self._corpus, page_size)
        for kind, requests in (
            ("same prompt", repeats(first, outputs, self._corpus, second_turn=False)),
            ("first sibling", sibling[0]),
            ("second sibling", sibling[1]),
            ("second turn", repeats(first, outputs, self._corpus, second_turn=True)),
        ):
            if requests and not self._broken():
                self._pass(kind, requests)
        if not self._broken():
            self._compare_acceptance(first, seen)
        return self.result

    def _broken(self) -> bool:
        return self.result.difference is not None

    def _pass(self, kind: str, requests: list[Request]) -> list[Observed]:
        preempted = bool(self._choice["preempted"])
        seen = self._live.run(requests, preempt=preempted)
        for index, (request, one) in enumerate(zip(requests, seen, strict=True)):
            self.result.requests += 1
            self.result.count(kind, acceptance(one.rounds, self._choice["mtp_step"]))
            difference = self._compare(request, one)
            if difference is not None:
                self.result.difference = difference
                self.result.where = f"{kind}, request {index}"
                break
        return seen

    def _compare(self, request: Request, seen: Observed, depth: int = 0) -> Difference | None:
        verdict = compare_tokens(self._slow, request, seen)
        if verdict.tie is not None:
            self.result.ties += 1
            return self._after_tie(request, seen, verdict.tie, depth)
        return (
            verdict.difference
            or (compare_cache(request, seen) if depth == 0 else None)
            or compare_drafts(self._slow, request, seen, self._choice["mtp_step"])
        )

    def _after_tie(
        self, request: Request, seen: Observed, tie: int, depth: int
    ) -> Difference | None:
        """Goes on behind the tie, teacher-forced: plain decoding's tokens become the prompt."""
        verified = self._slow.verify(request.prompt, seen.output, request.sampling)
        plain = (*seen.output[:tie], verified.choices[tie].token)
        left = request.sampling.max_tokens - len(plain)
        ended = plain[-1] in request.sampling.stop_token_ids
        if left <= 0 or ended or depth >= MAX_RESUMPTIONS:
            return None
        sampling = replace(
            request.sampling,
            max_tokens=left,
            min_tokens=max(request.sampling.min_tokens - len(plain), 0),
        )
        rest = Request((*request.prompt, *plain), sampling)
        return self._compare(rest, self._live.run([rest], preempt=False)[0], depth + 1)

    def _compare_acceptance(self, first: list[Request], seen: list[Observed]) -> None:
        """A hit must not cost acceptance: the same prompts again, round for round."""
        if self._choice["mtp_step"] == 0 or self._choice["preempted"] or self.result.ties:
            return
        again = self._live.run(first, preempt=False)
        for index, (cold, hot) in enumerate(zip(seen, again, strict=True)):
            counts = [acceptance(one.rounds, self._choice["mtp_step"]) for one in (cold, hot)]
            if cold.output == hot.output and counts[0] != counts[1]:
                reason = f"acceptance {counts[1]} after a hit, {counts[0]} without"
                self.result.difference = Difference(-1, reason)
                self.result.where = f"hit against miss, request {index}"
                return
