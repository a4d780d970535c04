"""One request of the engine against the slow path: tokens, ending, cached tokens, drafts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mtpcore.check.slow_path import plain_length

if TYPE_CHECKING:
    from mtpcore.check.recorder import Round
    from mtpcore.check.requests import Request
    from mtpcore.check.slow_path import SlowPath, Tokens


@dataclass(frozen=True)
class Observed:
    """What the engine said of one request."""

    output: Tokens
    finish_reason: str | None
    num_cached: int
    rounds: list[Round] = field(default_factory=list)


@dataclass(frozen=True)
class Difference:
    """Where the engine left plain decoding (index of the output token; -1 none) and why."""

    index: int
    reason: str


@dataclass(frozen=True)
class Verdict:
    """`tie` is the output index at which a tie was met and the texts may part."""

    difference: Difference | None = None
    tie: int | None = None


def compare_tokens(slow: SlowPath, request: Request, seen: Observed) -> Verdict:
    """Equal, a tie, or the first difference in tokens or ending."""
    sampling = request.sampling
    if len(seen.output) > sampling.max_tokens:
        reason = f"{len(seen.output)} tokens, max_tokens is {sampling.max_tokens}"
        return Verdict(Difference(sampling.max_tokens, reason))
    verified = slow.verify(request.prompt, seen.output, sampling)
    plain = tuple(choice.token for choice in verified.choices)
    for index, token in enumerate(seen.output):
        end = plain_length(seen.output[:index], sampling)
        if end is not None:
            return Verdict(Difference(end, f"went on after its end at {end} tokens"))
        if token != plain[index]:
            if token in verified.choices[index].excused:
                return Verdict(tie=index)
            reason = f"token {token}, plain decoding gives {plain[index]}"
            return Verdict(Difference(index, reason))
    end = plain_length(seen.output, sampling)
    if end is None:
        reason = f"ended after {len(seen.output)} tokens, plain decoding goes on"
        return Verdict(Difference(len(seen.output), reason))
    stopped = seen.output[-1] in sampling.stop_token_ids and end - 1 >= sampling.min_tokens
    expected = "stop" if stopped else "length"
    if seen.finish_reason != expected:
        reason = f"finish_reason {seen.finish_reason!r}, expected {expected!r}"
        return Verdict(Difference(end, reason))
    return Verdict()


def compare_cache(request: Request, seen: Observed) -> Difference | None:
    """The hit that the request has to find."""
    if request.expect_cached is None or seen.num_cached == request.expect_cached:
        return None
    return Difference(-1, f"{seen.num_cached} cached tokens, expected {request.expect_cached}")


def compare_drafts(
    slow: SlowPath, request: Request, seen: Observed, mtp_step: int
) -> Difference | None:
    """Every draft of every round against the slow path's own chain; only for equal texts."""
    if mtp_step == 0 or not slow.has_mtp:
        return None
    verified = slow.verify(request.prompt, seen.output, request.sampling)
    table = slow.drafts(verified, request.sampling, mtp_step)
    for round_ in seen.rounds:
        if round_.seq_len not in table:
            return Difference(-1, f"a round began at {round_.seq_len}, outside the text")
        for j, token in enumerate(round_.drafts):
            choice = table[round_.seq_len][j]
            if token == choice.token:
                continue
            # A drafter's tie changes what follows in its chain, so the round says no more.
            if token in choice.excused:
                break
            index = round_.seq_len - len(request.prompt)
            return Difference(index, f"draft {j + 1} is {token}, the MTP head gives {choice.token}")
    return None


def acceptance(rounds: list[Round], mtp_step: int) -> tuple[list[int], list[int]]:
    """Per draft position: how often it was verified, how often it was accepted."""
    offered, accepted = [0] * mtp_step, [0] * mtp_step
    for round_ in rounds:
        for j in range(round_.query_len - 1):
            offered[j] += 1
            accepted[j] += round_.num_accepted > j + 1
    return offered, accepted
