"""Faults inside a step, and the end of an engine's life."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from engine_cases import assert_idle, engine, greedy, on_each_step, prompt, token_ids

from mtpcore import LLM
from mtpcore.engine.errors import EngineClosed, EngineFailed

if TYPE_CHECKING:
    from pathlib import Path

    import torch

PROMPTS = [prompt(length, 6) for length in (30, 7, 19, 3, 50)]
SMALL: dict[str, Any] = {"memory_budget": "8MiB", "max_model_len": 256, "max_num_seqs": 4}


class BrokenDevice(Exception):
    """What a test's step raises."""


def break_execute(llm: LLM, at: int, after: bool) -> None:
    """The step number ``at`` raises before or after the worker ran it."""
    execute = llm.engine.worker.execute
    calls = 0

    def broken(plan: torch.Tensor) -> Any:
        nonlocal calls
        calls += 1
        if calls == at and not after:
            raise BrokenDevice("no such device")
        result = execute(plan)
        if calls == at:
            raise BrokenDevice("no such device")
        return result

    llm.engine.worker.execute = broken  # type: ignore[method-assign]


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize(("at", "after"), [(1, False), (2, True), (5, False), (9, True)])
def test_a_step_that_raises_ends_the_engine(
    tiny_dir: Path, depth: int, at: int, after: bool
) -> None:
    with engine(tiny_dir, overlap_depth=depth, max_num_batched_tokens=32) as llm:
        break_execute(llm, at, after)
        other = llm.stream(PROMPTS[0], greedy(20))
        records = list(llm.engine._records.values())
        on_each_step(llm, lambda _: records.extend(llm.engine._records.values()))
        with pytest.raises(BrokenDevice, match="no such device"):
            llm.generate(PROMPTS, greedy(20))
        assert {record.finish_reason for record in records} <= {"error", "length"}
        assert records[0].finish_reason == "error"
        assert_idle(llm)
        for call in (
            lambda: llm.generate(PROMPTS, greedy(4)),
            lambda: llm.stream(PROMPTS, greedy(4)),
            lambda: list(other),
        ):
            with pytest.raises(EngineFailed, match="BrokenDevice: no such device.*new one") as info:
                call()
            assert isinstance(info.value.__cause__, BrokenDevice)
    # The context manager closed it; a new engine in the same process works.
    with engine(tiny_dir) as llm:
        assert len(token_ids(llm.generate(PROMPTS, greedy(4)))) == len(PROMPTS)


def test_a_result_that_breaks_a_law_ends_the_engine(tiny_dir: Path) -> None:
    with LLM(tiny_dir, **SMALL) as llm:
        calls = 0

        def spoil(result: Any) -> None:
            nonlocal calls
            calls += 1
            if calls == 4:
                result["num_accepted"][0] = 99

        llm.engine.transform_result = spoil
        with pytest.raises(ValueError, match="num_accepted"):
            llm.generate(PROMPTS, greedy(20))
        with pytest.raises(EngineFailed, match="num_accepted"):
            llm.generate(PROMPTS, greedy(4))


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_logits_that_are_not_finite_end_one_request(
    tiny_dir: Path, depth: int, value: float
) -> None:
    with engine(tiny_dir, overlap_depth=depth, enable_prefix_caching=False) as llm:
        plain = token_ids(llm.generate(PROMPTS, greedy(12)))
        target, accept = llm.engine.worker.target, llm.engine.worker.accept

        class Poisoned:
            """The third request's logits are spoiled from its fifth output token on."""

            rows: Any = None

            def logits(self, hidden: torch.Tensor) -> torch.Tensor:
                logits, rows = target.logits(hidden), self.rows
                for row in range(rows.num_decode):
                    victim = rows.cursors[row, 1] >= 8 and rows.req_idx[row] == self.victim
                    if victim:
                        logits[row * rows.width] = value
                return logits

            victim = -1

            def accept(self, host: Any, rows: Any, hidden: torch.Tensor) -> Any:
                self.rows = rows
                return accept(host, rows, hidden)

            def __getattr__(self, name: str) -> Any:
                return getattr(target, name)

        poisoned = Poisoned()
        poisoned.victim = 3
        llm.engine.worker.target = poisoned  # type: ignore[assignment]
        llm.engine.worker.accept = poisoned.accept  # type: ignore[method-assign]
        outs = llm.generate(PROMPTS, greedy(12))
        ended = [out.outputs[0].finish_reason for out in outs]
        assert 1 <= ended.count("error") < len(PROMPTS)
        assert set(ended) == {"error", "length"}
        for reason, out, expected in zip(ended, outs, plain, strict=True):
            tokens = out.outputs[0].token_ids
            assert tokens == expected[: len(tokens)]
            assert (len(tokens) < 12) == (reason == "error")


def test_shutdown_twice_and_use_after_it(tiny_dir: Path) -> None:
    llm = LLM(tiny_dir, **SMALL)
    stream = llm.stream(PROMPTS, greedy(20))
    next(stream)
    llm.shutdown()
    llm.shutdown()
    for call in (
        lambda: llm.generate(PROMPTS, greedy(4)),
        lambda: llm.engine,
        lambda: list(stream),
    ):
        with pytest.raises(EngineClosed, match="shut down; make a new one"):
            call()


def tensors_of(llm: LLM) -> list[weakref.ref[torch.Tensor]]:
    worker = llm.engine.worker
    tensors = [worker.pools.kv.layers[0], worker.pools.state.ssm, worker.target.head]
    return [weakref.ref(tensor) for tensor in (*tensors, worker.buffers.cursors)]


@pytest.mark.parametrize("way", ["shutdown", "with", "drop", "open stream"])
def test_the_end_of_an_engine_frees_its_tensors(tiny_dir: Path, way: str) -> None:
    llm: LLM | None = LLM(tiny_dir, **SMALL)
    assert llm is not None
    llm.generate(PROMPTS, greedy(4))
    tensors = tensors_of(llm)
    stream = None
    if way == "shutdown":
        llm.shutdown()
    elif way == "with":
        with llm:
            pass
    elif way == "open stream":
        stream = llm.stream(PROMPTS, greedy(20))
        next(stream)
        llm.shutdown()
    else:
        llm = None
    gc.collect()
    assert [tensor() for tensor in tensors] == [None] * len(tensors)
    assert way == "drop" or llm is not None
    del stream


def test_two_engines_run_side_by_side(tiny_dir: Path) -> None:
    with engine(tiny_dir, mtp_step=3) as first, engine(tiny_dir, mtp_step=0) as second:
        streams = [llm.stream(PROMPTS, greedy(10)) for llm in (first, second)]
        found: list[dict[int, list[int]]] = [{}, {}]
        open_streams = {0, 1}
        while open_streams:
            for index in tuple(open_streams):
                delta = next(streams[index], None)
                if delta is None:
                    open_streams.discard(index)
                elif delta.result is not None:
                    found[index][delta.index] = delta.result.outputs[0].token_ids
        assert found[0] == found[1]
        assert len(found[0]) == len(PROMPTS)
