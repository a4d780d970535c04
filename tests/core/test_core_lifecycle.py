"""From submit to the one terminal of each request: aborts, preemption, outputs, arrays, threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from core.device import FINAL, PREFILL, Harness, token_at
from core.settings import BASE, prompt, vocabulary

STOP, LENGTH, ABORT, STOP_STRING = 1, 2, 3, 5


def expected(count: int, seed: int = 0) -> list[int]:
    return [token_at(seed, position, BASE["vocab_size"]) for position in range(count)]


def queued(engine: Harness) -> int:
    for i in range(5):
        last = engine.submit(prompt(9, i), max_tokens=20)
    engine.step()
    assert engine.core.num_waiting() >= 1
    return last


def before_any_plan(engine: Harness) -> int:
    return engine.submit(prompt(9))


def prefilling(engine: Harness) -> int:
    request_id = engine.submit(prompt(50), max_tokens=10)
    engine.step()
    assert engine.plan["row_kind"][0] == PREFILL
    return request_id


def last_chunk_in_flight(engine: Harness) -> int:
    request_id = engine.submit(prompt(9), max_tokens=20)
    engine.launch()
    assert engine.plan["row_kind"][0] == FINAL
    return request_id


def decoding(engine: Harness) -> int:
    request_id = engine.submit(prompt(9), max_tokens=30)
    for _ in range(4):
        engine.step()
    assert engine.out[request_id].tokens
    return request_id


def as_deep_in_flight_as_may_be(engine: Harness) -> int:
    request_id = decoding(engine)
    while engine.launch() == "run":
        pass
    assert len(engine.in_flight) == engine.config["overlap_depth"] + 1
    return request_id


def preempted(engine: Harness) -> int:
    request_id = decoding(engine)
    assert engine.core.preempt(request_id)
    while engine.in_flight:
        engine.commit()
    # The plan preempts it and, as it is alone, admits it again at once.
    engine.launch()
    assert engine.core.counters()["num_preemptions"] == 1
    return request_id


STATES = [
    before_any_plan,
    queued,
    prefilling,
    last_chunk_in_flight,
    decoding,
    as_deep_in_flight_as_may_be,
    preempted,
]


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("reach", STATES, ids=lambda f: f.__name__)
def test_abort_in_each_state(reach, depth):
    engine = Harness(overlap_depth=depth)
    request_id = reach(engine)
    assert engine.core.abort(request_id)
    assert not engine.core.abort(request_id), "it has ended"
    assert not engine.core.preempt(request_id)
    engine.take()
    assert engine.out[request_id].finishes == [ABORT]
    engine.core.check_integrity()
    told = list(engine.out[request_id].tokens)
    engine.drain()
    engine.assert_idle()
    assert engine.out[request_id].finishes == [ABORT]
    assert engine.out[request_id].tokens == told, "nothing is told after the terminal"
    assert all(len(out.finishes) == 1 for out in engine.out.values())


def test_unknown_identities_have_no_effect():
    engine = Harness()
    for request_id in (0, 1, 99, -1, 1 << 64):
        assert not engine.core.abort(request_id)
        assert not engine.core.preempt(request_id)
    with pytest.raises(TypeError, match="^request_id: str found; give the int"):
        engine.core.abort("1")  # type: ignore[arg-type]


@pytest.mark.parametrize("depth", [0, 1])
def test_preemption_anywhere_keeps_the_text(depth):
    for after in range(1, 9):
        engine = Harness(overlap_depth=depth)
        first = engine.submit(prompt(13), max_tokens=20, stop_token_ids=[expected(20)[-1]])
        other = engine.submit(prompt(20, 7), max_tokens=25, seed=1)
        for _ in range(after):
            engine.step()
        engine.core.preempt(first)
        engine.drain()
        engine.assert_idle()
        assert engine.out[first].tokens == expected(20)
        assert engine.out[first].finishes == [STOP]
        assert engine.out[other].tokens == expected(25, 1)
        assert engine.out[other].finishes == [LENGTH]


def test_identities_are_never_used_again():
    engine = Harness()
    seen = set()
    for i in range(30):
        seen.add(engine.submit(prompt(4, i), max_tokens=1))
        engine.drain()
    assert len(seen) == 30


def test_columns_of_an_output_batch_agree():
    engine = Harness()
    engine.core.set_vocabulary(vocabulary(BASE["vocab_size"]))
    for i in range(3):
        engine.submit(prompt(6, i), max_tokens=9 + i, seed=i)
    entries = 0
    while engine.launch() == "run" or engine.in_flight:
        if len(engine.in_flight) < 2 and engine.core.num_unfinished():
            continue
        step_id, result = engine.in_flight.popleft()
        engine.core.commit(step_id, result)
        batch = engine.core.take_outputs()
        columns = [getattr(batch, name) for name in ("request_id", "step_id", "row", "finish")]
        assert {len(column) for column in columns} == {len(batch)}
        assert batch.num_tokens.sum() == len(batch.tokens)
        assert batch.tokens_offset.tolist() == [0, *np.cumsum(batch.num_tokens)][: len(batch)]
        assert (batch.step_id == step_id).all()
        accepted = engine.result.view(result, "num_accepted")
        assert batch.num_tokens.tolist() == accepted[batch.row].tolist()
        assert batch.request_id.dtype == batch.stop_bytes.dtype == np.int64
        assert batch.tokens.dtype == batch.finish.dtype == np.int32
        entries += len(batch)
        assert len(engine.core.take_outputs()) == 0, "taken once"
    assert entries > 6


def test_a_stop_string_ends_the_text_at_its_byte():
    engine = Harness()
    words = vocabulary(BASE["vocab_size"])
    engine.core.set_vocabulary(words)
    tokens = expected(6)
    text = b"".join(words[token] for token in tokens)
    # It begins inside the fourth token and ends inside the fifth.
    stop = text[7:9]
    request_id = engine.submit(prompt(5), max_tokens=20, stop=[b"never", stop])
    engine.drain()
    engine.assert_idle()
    out = engine.out[request_id]
    assert (out.finishes, out.stop_bytes) == ([STOP_STRING], 7)
    assert out.tokens == tokens[:5]


def test_the_same_prompt_again_computes_nothing():
    engine = Harness()
    first = engine.submit(prompt(21), max_tokens=4)
    engine.drain()
    before = engine.core.counters()["prefill_tokens"]
    again = engine.submit(prompt(21), max_tokens=4)
    salted = engine.submit(prompt(21), max_tokens=4, salt=b"tenant")
    blind = engine.submit(prompt(21), max_tokens=4, read_cache=False)
    engine.drain()
    engine.assert_idle()
    cached = [engine.out[r].num_cached for r in (first, again, salted, blind)]
    assert cached == [0, 21, 0, 0]
    assert engine.core.counters()["prefill_tokens"] == before + 2 * 21
    assert all(engine.out[r].tokens == expected(4) for r in (first, again, salted, blind))


WRONG_ARRAYS = [
    (lambda array: array.astype(np.int64), TypeError, "int64 of 1 dimensions found"),
    (lambda array: array.astype(np.float32), TypeError, "float32 of 1 dimensions found"),
    (lambda array: array.reshape(1, -1), TypeError, "int32 of 2 dimensions found"),
    (lambda array: array.tolist(), TypeError, "list found"),
    (lambda array: np.repeat(array, 2)[::2], ValueError, "not contiguous"),
    (lambda array: array[:-1], ValueError, "field table has .* allocate it from"),
    (lambda array: np.append(array, array[:1]), ValueError, "field table has .* allocate it from"),
]


@pytest.mark.parametrize(("spoil", "error", "text"), WRONG_ARRAYS)
def test_wrong_arrays_are_refused_and_change_nothing(spoil, error, text):
    engine = Harness()
    engine.submit(prompt(9))
    with pytest.raises(error, match=text):
        engine.core.plan(spoil(engine.plan.array))
    assert engine.core.num_waiting() == 1
    assert engine.launch() == "run"
    step_id, result = engine.in_flight[0]
    with pytest.raises(error, match=text):
        engine.core.commit(step_id, spoil(result))
    engine.drain()
    engine.assert_idle()


def test_a_read_only_plan_is_refused():
    engine = Harness()
    engine.plan.array.flags.writeable = False
    with pytest.raises(ValueError, match="^plan: the array is read-only; pass a writable one"):
        engine.launch()


@pytest.mark.parametrize("spoil", [c[0] for c in WRONG_ARRAYS[:3]])
def test_a_wrong_prompt_array_is_refused(spoil):
    with pytest.raises(TypeError, match="^prompt: .* one-dimensional numpy array of int32"):
        Harness().submit(spoil(prompt(4)))
    assert Harness().submit(np.repeat(prompt(4), 2)[::2]), "a prompt may have strides"


def test_other_threads_may_submit_and_abort_while_one_steps():
    engine = Harness(max_queue=1000)
    aborted: list[int] = []
    errors: list[Exception] = []

    def feed(start: int) -> None:
        try:
            for i in range(60):
                request_id = engine.submit(prompt(5 + i % 9, start + i), max_tokens=6, seed=i)
                if i % 5 == 0 and engine.core.abort(request_id):
                    aborted.append(request_id)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=feed, args=(start,)) for start in (0, 20)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        engine.step()
    for thread in threads:
        thread.join()
    engine.drain()
    engine.take()
    engine.assert_idle()
    assert errors == []
    assert len(engine.out) == 120
    assert all(len(out.finishes) == 1 for out in engine.out.values())
    assert {r for r, out in engine.out.items() if out.finishes == [ABORT]} == set(aborted)
