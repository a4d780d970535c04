"""Requests that end early: aborts at any point, dropped streams, interrupts."""

from __future__ import annotations

import gc
import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest
from engine_cases import (
    ScriptedDrafts,
    assert_idle,
    engine,
    on_each_step,
    prompt,
    sampled,
    token_ids,
)

from mtpcore.worker.worker import StepResult

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mtpcore import LLM
    from mtpcore.engine.requests import RequestRecord

LENGTHS = (40, 7, 23, 90, 12, 5)
PROMPTS = [prompt(length, 5) for length in LENGTHS]
PARAMS = [sampled(seed, 20) for seed in range(len(LENGTHS))]
OPTIONS = {"max_num_batched_tokens": 24, "max_num_seqs": 4, "page_size": 8}


@pytest.fixture(scope="module")
def plain(tiny_dir: Path) -> list[list[int]]:
    with engine(tiny_dir, mtp_mode="none") as llm:
        return token_ids(llm.generate(PROMPTS, PARAMS))


@pytest.fixture(params=[0, 1], ids=["depth0", "depth1"])
def llm(tiny_dir: Path, plain: list[list[int]], request: pytest.FixtureRequest) -> Iterator[LLM]:
    with engine(tiny_dir, mtp_step=3, overlap_depth=request.param, **OPTIONS) as running:
        ScriptedDrafts(running, dict(enumerate(plain)), 0.7)
        yield running


def records_of(llm: LLM) -> list[RequestRecord]:
    return list(llm.engine._records.values())


@pytest.mark.parametrize("when", [1, 2, 3, 5, 8, 12, 16])
def test_an_abort_at_any_step_leaves_the_others_alone(
    llm: LLM, plain: list[list[int]], when: int
) -> None:
    """Six requests, four rows and small chunks: at each of these steps some wait, some prefill and
    some decode, and some are in flight."""
    victims: dict[int, RequestRecord] = {}

    def abort_two(step: int) -> None:
        if step == when:
            for record in records_of(llm)[::2][:2]:
                victims[len(record.prompt_token_ids)] = record
            llm.engine.abort(victims.values())

    on_each_step(llm, abort_two)
    outs = llm.generate(PROMPTS, PARAMS)
    assert victims
    for length, out, expected in zip(LENGTHS, outs, plain, strict=True):
        tokens = out.outputs[0].token_ids
        if length in victims:
            assert out.outputs[0].finish_reason == "abort"
            assert tokens == expected[: len(tokens)]
            assert len(tokens) < len(expected)
        else:
            assert tokens == expected
    assert_idle(llm)


def test_an_abort_of_what_never_ran(llm: LLM, plain: list[list[int]]) -> None:
    stream = llm.stream(PROMPTS, PARAMS)
    llm.engine.abort(records_of(llm))
    results = [delta.result for delta in stream if delta.result is not None]
    assert [out.outputs[0].finish_reason for out in results] == ["abort"] * len(LENGTHS)
    assert [out.outputs[0].token_ids for out in results] == [[]] * len(LENGTHS)
    assert_idle(llm)
    assert token_ids(llm.generate(PROMPTS, PARAMS)) == plain


def test_an_abort_from_inside_the_loop_over_a_stream(llm: LLM, plain: list[list[int]]) -> None:
    finished: dict[int, list[int]] = {}
    for delta in llm.stream(PROMPTS, PARAMS):
        if delta.index == 1 and not delta.finished:
            llm.engine.abort([record for record in records_of(llm) if record.request_id == 2])
        if delta.result is not None:
            finished[delta.index] = delta.result.outputs[0].token_ids
    assert sorted(finished) == list(range(len(LENGTHS)))
    others = [index for index in finished if index != 1]
    assert all(finished[index] == plain[index] for index in others)
    assert finished[1] == plain[1][: len(finished[1])]
    assert_idle(llm)


@pytest.mark.parametrize("deltas", [0, 1, 7, 30])
def test_a_stream_that_is_left_frees_everything(
    llm: LLM, plain: list[list[int]], deltas: int
) -> None:
    stream = llm.stream(PROMPTS, PARAMS)
    for _ in range(deltas):
        next(stream)
    assert llm.engine.core.num_unfinished() > 0
    del stream
    gc.collect()
    assert_idle(llm)
    assert token_ids(llm.generate(PROMPTS, PARAMS)) == plain


def test_streams_and_calls_share_an_engine(llm: LLM, plain: list[list[int]]) -> None:
    first, second = llm.stream(PROMPTS[:3], PARAMS[:3]), llm.stream(PROMPTS[3:], PARAMS[3:])
    ended: dict[int, list[int]] = {}
    next(first)
    next(second)
    assert token_ids(llm.generate(PROMPTS, PARAMS)) == plain
    for base, stream in ((3, second), (0, first)):
        for delta in stream:
            if delta.result is not None:
                ended[base + delta.index] = delta.result.outputs[0].token_ids
    assert [ended[index] for index in range(len(LENGTHS))] == plain
    assert_idle(llm)


def test_a_stream_dropped_inside_a_step_is_aborted_after_it(
    llm: LLM, plain: list[list[int]]
) -> None:
    """As when the collector finds a forgotten iterator while another call runs a step."""
    streams = [llm.stream(PROMPTS[3], PARAMS[3])]
    execute = llm.engine.worker.execute

    def drop_one(plan: object) -> object:
        if streams:
            streams.pop()
        return execute(plan)  # type: ignore[arg-type]

    llm.engine.worker.execute = drop_one  # type: ignore[method-assign, assignment]
    assert token_ids(llm.generate(PROMPTS, PARAMS)) == plain
    assert_idle(llm)


def test_a_stream_dropped_inside_a_commit_is_aborted_after_it(
    llm: LLM, plain: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There an abort at once would commit the same step twice."""
    streams = [llm.stream(PROMPTS[3], PARAMS[3])]
    next(streams[0])
    wait = StepResult.wait

    def drop_one(result: StepResult) -> None:
        wait(result)
        if streams:
            streams.pop()

    monkeypatch.setattr(StepResult, "wait", drop_one)
    assert token_ids(llm.generate(PROMPTS, PARAMS)) == plain
    assert not streams
    assert_idle(llm)


def test_two_threads_generate_at_once(llm: LLM, plain: list[list[int]]) -> None:
    found: dict[int, list[list[int]]] = {}

    def run(index: int) -> None:
        found[index] = token_ids(llm.generate(PROMPTS, PARAMS))

    threads = [threading.Thread(target=run, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(3), plain)
    assert_idle(llm)


@pytest.fixture
def python_interrupt() -> Iterator[None]:
    """Python's own handler; a shell starts what runs in its background with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("inside", [True, False], ids=["in a step", "between steps"])
def test_an_interrupt_aborts_the_call_and_nothing_else(
    llm: LLM, plain: list[list[int]], inside: bool, python_interrupt: None
) -> None:
    stream = llm.stream(PROMPTS[4], PARAMS[4])
    execute, step = llm.engine.worker.execute, llm.engine.step
    calls = 0

    def interrupt() -> None:
        nonlocal calls
        calls += 1
        if calls == 4:
            os.kill(os.getpid(), signal.SIGINT)

    def executed(plan: object) -> object:
        if inside:
            interrupt()
        return execute(plan)  # type: ignore[arg-type]

    def stepped() -> object:
        if not inside:
            interrupt()
        return step()

    llm.engine.worker.execute = executed  # type: ignore[method-assign, assignment]
    llm.engine.step = stepped  # type: ignore[method-assign, assignment]
    with pytest.raises(KeyboardInterrupt):
        llm.generate(PROMPTS, PARAMS)
    assert len(llm.engine.unfinished_ids()) == 1
    results = [delta.result for delta in stream if delta.result is not None]
    assert token_ids(results) == [plain[4]]
    assert token_ids(llm.generate(PROMPTS, PARAMS)) == plain
    assert_idle(llm)
