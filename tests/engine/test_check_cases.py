"""Single cases of the check, and its judgement of made-up observations."""

from __future__ import annotations

import importlib.resources
from dataclasses import replace
from pathlib import Path

import pytest

from mtpcore.check.cases import AXES, CaseResult, choices
from mtpcore.check.compare import Difference, Observed, compare_drafts, compare_tokens
from mtpcore.check.plants import BASE, PLANTS
from mtpcore.check.recorder import Round
from mtpcore.check.report import report
from mtpcore.check.requests import Request
from mtpcore.check.run import Check
from mtpcore.check.sampling import Sampling
from mtpcore.check.slow_path import SlowPath

BUNDLED = Path(str(importlib.resources.files("mtpcore").joinpath("bundled")))
PROMPT = tuple(range(400, 420))
SAMPLING = Sampling(max_tokens=6)


@pytest.fixture(scope="module")
def check() -> Check:
    return Check(BUNDLED)


@pytest.fixture(scope="module")
def slow() -> SlowPath:
    return SlowPath(BUNDLED)


def test_a_hit_keeps_acceptance(check: Check) -> None:
    result = check.run_case(BASE | {"prefix": "hit", "batch": 1, "mtp_step": 3})
    assert result.difference is None
    assert sum(result.accepted["same prompt"]) > 0
    assert result.accepted["same prompt"] == result.accepted["first"]


def test_hits_are_those_without_speculation(check: Check) -> None:
    for mtp_step in (0, 3):
        result = check.run_case(BASE | {"prefix": "hit", "batch": 1, "mtp_step": mtp_step})
        assert result.difference is None


def test_plants_of_each_kind_are_found(check: Check) -> None:
    for name in ("conv-not-rolled-back", "drafts-kept-from-last-round", "stop-clamp-skipped"):
        found = check.run_plant(name)
        assert not found["ok"], name
        assert found["failed"][0]["reason"]


def test_there_are_plants_enough_and_their_cases_exist() -> None:
    assert len(PLANTS) >= 12
    for plant in PLANTS.values():
        assert all(value in AXES[axis] for axis, value in plant.choice().items())


def test_an_unknown_plant_is_refused(check: Check) -> None:
    with pytest.raises(ValueError, match="--list-plants"):
        check.run_plant("nothing")


def test_a_wrong_token_is_a_difference(slow: SlowPath) -> None:
    output = slow.decode(PROMPT, SAMPLING)
    seen = Observed(output, "length", 0)
    request = Request(PROMPT, SAMPLING)
    assert compare_tokens(slow, request, seen).difference is None
    wrong = replace(seen, output=(*output[:2], output[2] ^ 1, *output[3:]))
    found = compare_tokens(slow, request, wrong).difference
    assert found is not None and found.index == 2
    for changed in (
        replace(seen, output=output[:-1]),
        replace(seen, output=(*output, output[0])),
        replace(seen, finish_reason="stop"),
    ):
        assert compare_tokens(slow, request, changed).difference is not None


def test_going_on_after_a_stop_is_a_difference(slow: SlowPath) -> None:
    output = slow.decode(PROMPT, SAMPLING)
    stops = replace(SAMPLING, stop_token_ids=(output[1],))
    end = output.index(output[1]) + 1
    request = Request(PROMPT, stops)
    assert compare_tokens(slow, request, Observed(output, "length", 0)).difference is not None
    stopped = Observed(output[:end], "stop", 0)
    assert compare_tokens(slow, request, stopped).difference is None


def test_a_wrong_draft_is_a_difference(slow: SlowPath) -> None:
    output = slow.decode(PROMPT, SAMPLING)
    request = Request(PROMPT, SAMPLING)
    verified = slow.verify(PROMPT, output, SAMPLING)
    drafts = tuple(c.token for c in slow.drafts(verified, SAMPLING, 2)[len(PROMPT)])
    right = Observed(output, "length", 0, [Round(len(PROMPT), 3, drafts, 1)])
    assert compare_drafts(slow, request, right, 2) is None
    wrong = replace(right, rounds=[Round(len(PROMPT), 3, (drafts[0], drafts[1] ^ 1), 1)])
    assert compare_drafts(slow, request, wrong, 2) is not None


def test_too_many_ties_fail() -> None:
    results = [CaseResult(str(i)) for i in range(100)]
    results[0].ties = results[1].ties = 1
    assert report(results)["ok"]
    results[2].ties = 1
    assert not report(results)["ok"]


def test_a_difference_is_reported() -> None:
    result = CaseResult("one", difference=Difference(3, "token"), where="first, request 0")
    found = report([result, CaseResult("two")])
    assert (found["ok"], found["cases"], found["equal"]) == (False, 2, 1)
    assert found["failed"] == [
        {"case": "one", "first_difference": 3, "reason": "first, request 0: token"}
    ]


def test_full_is_the_product() -> None:
    count = 1
    for values in AXES.values():
        count *= len(values)
    assert len(choices(AXES, full=True)) == count
    assert len(choices(AXES, full=False)) < 40
