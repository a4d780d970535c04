"""Results that no correct device gives: refused whole, with nothing applied and nothing leaked."""

from __future__ import annotations

import numpy as np
import pytest
from core.device import Harness
from core.settings import prompt

from mtpcore import _core


def decoding(**changes):
    """Two requests, the oldest step in flight a step of decode rows."""
    engine = Harness(accept=1, **changes)
    for i in range(2):
        engine.submit(prompt(9, i), max_tokens=30, seed=i, stop_token_ids=[39])
    for _ in range(3):
        engine.step()
    engine.launch()
    assert engine.plan["num_rows"][0] == engine.plan["num_decode_rows"][0] == 2
    return engine


# (field, index, value) of the result of two decode rows with width 4, and the field named.
GARBAGE = [
    ("num_accepted", 0, 5, "num_accepted of row 0 is 5"),
    ("num_accepted", 1, -1, "num_accepted of row 1 is -1"),
    ("num_accepted", 0, 0, "a live row emits a token"),
    ("rows_run", 0, 5, "rows_run of row 0 is 5"),
    ("rows_run", 0, -1, "rows_run"),
    ("rows_run", 1, 1, "num_accepted of row 1 is 2: it lies in 0..=rows_run"),
    ("tokens", 0, 40, "tokens of row 0 is 40: emitted tokens lie in 0..vocab_size"),
    ("tokens", 5, -1, "tokens of row 1 is -1"),
    ("finish", 0, 3, "finish of row 0 is 3"),
    ("finish", 0, -1, "finish of row 0 is -1"),
    ("finish", 0, 2, "it is 2 exactly when the last token allowed came"),
    ("finish", 0, 1, "a stop ends with a stop token"),
    ("non_finite", 0, 2, "non_finite of row 0 is 2: it is 0 or 1"),
    ("non_finite", 1, -1, "non_finite of row 1 is -1"),
    ("end_fired", 0, 1, "exactly when the row ended"),
    ("end_fired", 0, 9, "end_fired of row 0 is 9"),
    ("folded", 0, 1, "native mode keeps no records"),
    ("num_rows", 0, 1, "num_rows is 1, the plan of this step says 2"),
    ("num_rows", 0, 99, "num_rows is 99"),
    ("step_id", 0, 0, "step_id is 0"),
]


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize(("field", "index", "value", "text"), GARBAGE)
def test_garbage_is_refused_and_changes_nothing(field, index, value, text, depth):
    engine = decoding(overlap_depth=depth)
    step_id, right = engine.in_flight[0]
    wrong = right.copy()
    assert engine.result.view(wrong, field)[index] != value
    engine.result.view(wrong, field)[index] = value
    before = engine.core.pools(), engine.core.counters()
    for _ in range(2):
        with pytest.raises(_core.ResultError, match=text):
            engine.core.commit(step_id, wrong)
    assert (engine.core.pools(), engine.core.counters()) == before
    assert len(engine.core.take_outputs()) == 0
    # The right result still commits, and the requests run to their ends.
    engine.drain()
    engine.assert_idle()
    assert [len(out.finishes) for out in engine.out.values()] == [1, 1]


def test_every_word_of_a_result_may_be_garbage():
    rng = np.random.default_rng(0)
    engine = decoding()
    refused = 0
    for share in np.linspace(0.02, 1, 300):
        step_id, right = engine.in_flight[0]
        garbage = rng.integers(-3, 8, right.size, dtype=np.int32)
        wrong = np.where(rng.random(right.size) < share, garbage, right)
        try:
            engine.core.commit(step_id, wrong)
        except _core.ResultError:
            refused += 1
        else:
            # Lawful by chance, though not what this device did: its requests are of no use now.
            engine.core.check_integrity()
            engine = decoding()
    assert refused > 200
    engine.drain()
    engine.assert_idle()


def test_steps_commit_in_order_and_once():
    engine = decoding()
    engine.commit()
    step_id, result = engine.in_flight[0]
    for wrong in (step_id + 1, 0, 2**31 - 1):
        with pytest.raises(_core.ResultError, match=f"step {step_id} is the oldest in flight"):
            engine.core.commit(wrong, result)
    engine.commit()
    with pytest.raises(_core.ResultError, match=f"commit of step {step_id}"):
        engine.core.commit(step_id, result)
    engine.drain()
    engine.assert_idle()


def test_a_commit_without_a_step_is_refused():
    engine = Harness()
    with pytest.raises(_core.ResultError, match="no step is in flight"):
        engine.core.commit(1, engine.result.array)
    engine.assert_idle()


@pytest.mark.parametrize("depth", [0, 1])
def test_a_non_finite_row_ends_its_request_alone(depth):
    engine = decoding(overlap_depth=depth)
    _, result = engine.in_flight[0]
    engine.result.view(result, "non_finite")[1] = 1
    published = engine.core.counters()["pages_published"]
    engine.commit()
    failed = [out for out in engine.out.values() if out.finishes == [4]]
    assert len(failed) == 1
    assert engine.core.counters()["requests_failed"] == 1
    assert engine.core.counters()["pages_published"] <= published + 1
    engine.drain()
    engine.assert_idle()
    assert sorted(out.finishes[0] for out in engine.out.values()) in ([1, 4], [2, 4])
    assert all(len(out.finishes) == 1 for out in engine.out.values())


def test_a_dead_row_must_be_hold():
    engine = Harness(accept=3)
    engine.submit(prompt(5), max_tokens=4)
    statuses = [engine.launch() for _ in range(2)]
    engine.commit()
    engine.launch()
    assert statuses == ["run", "run"]
    engine.commit()
    # The request has ended; the step planned before that is still in flight.
    assert engine.out[1].finishes == [2]
    step_id, result = engine.in_flight[0]
    wrong = result.copy()
    engine.result.view(wrong, "rows_run")[0] = 1
    with pytest.raises(_core.ResultError, match="so this row is HOLD"):
        engine.core.commit(step_id, wrong)
    engine.drain()
    engine.assert_idle()
