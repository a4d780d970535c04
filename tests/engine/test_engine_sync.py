"""A step never waits for the device: no value leaves it but the one result copy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from engine_cases import engine, greedy, on_each_step, prompt, sampled
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from mtpcore.acceptance.state_acceptance import StateAcceptance

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from mtpcore import LLM

# Operators whose result's size or value the host must know, so that a GPU would be waited for.
WAITS = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "equal", "is_nonzero")
PROMPTS = [prompt(length, 9) for length in (40, 7, 23, 3, 70)]
PARAMS = [
    greedy(12),
    sampled(1, 12),
    sampled(2, 12, top_k=5, logprobs=3),
    sampled(3, 12, top_p=0.7, stop_token_ids=list(range(12))),
    greedy(6, logprobs=0),
]


# Methods that hand a value to the host. In inference mode they bypass the dispatcher on a CPU.
READS = ("item", "tolist", "cpu", "__bool__", "__int__", "__float__", "__index__")


def is_reference(frame: FrameType | None) -> bool:
    """Whether the code that called is a reference of a kernel: on a CPU these look at values in
    host memory, and on a GPU they take another way."""
    while frame is not None and Path(frame.f_code.co_filename).parts[-3:-2] != ("kernels",):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.endswith("reference.py")


class MethodReads(TorchFunctionMode):
    """Notes calls of the methods above, from anywhere but a reference."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in READS and not is_reference(sys._getframe(1)):
            self.found.append(name)
        return func(*args, **(kwargs or {}))


class HostReads(TorchDispatchMode):
    """Notes operators that wait for the device, and boolean masks used as indices."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = func.overloadpacket.__name__
        if any(name == wait or name.startswith(f"{wait}_") for wait in WAITS):
            self.found.append(name)
        if name.startswith("index") and len(args) > 1 and isinstance(args[1], (list, tuple)):
            masks = (torch.bool, torch.uint8)
            if any(isinstance(index, torch.Tensor) and index.dtype in masks for index in args[1]):
                self.found.append(f"{name} with a mask")
        if name == "repeat_interleave" and kwargs and kwargs.get("output_size") is None:
            self.found.append(name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mtp_step", [0, 3])
def test_a_step_reads_nothing_back(
    tiny_dir: Path, monkeypatch: pytest.MonkeyPatch, mtp_step: int
) -> None:
    options = {"mtp_step": mtp_step, "max_num_batched_tokens": 32, "checkpoint_interval": 16}
    with engine(tiny_dir, **options) as llm:
        # On a CPU the export of states looks which rows fired; this is the way of a GPU.
        monkeypatch.setattr(
            StateAcceptance,
            "_export_states",
            lambda self, rows, index, checkpoint: self._state.export(rows, index, checkpoint),
        )
        execute = llm.engine.worker.execute
        reads: list[str] = []

        def watched(plan: torch.Tensor) -> Any:
            with MethodReads() as methods, HostReads() as operators:
                result = execute(plan)
            reads.extend(methods.found + operators.found)
            return result

        llm.engine.worker.execute = watched  # type: ignore[method-assign]
        for _ in range(2):
            llm.generate(PROMPTS, PARAMS)
        counters = llm.engine.core.counters()
        assert counters["prefix_hit_tokens"] > 0
        assert counters["checkpoints_published"] > 0
        assert reads == []


@torch.inference_mode()
def test_the_watch_sees_what_waits() -> None:
    values = torch.arange(5)
    with MethodReads() as methods, HostReads() as operators:
        values[2].item()
        values[values > 2]
        values.nonzero()
        bool(values.sum() > 3)
        values.tolist()
        values[: int(values[1])]
    assert {"item", "__bool__", "tolist", "__int__"} <= set(methods.found)
    assert {"nonzero", "index with a mask"} <= set(operators.found)


@pytest.fixture
def on_gpu(tiny_dir: Path) -> Iterator[LLM]:
    with engine(tiny_dir, device="cuda", mtp_step=3, max_num_batched_tokens=32) as llm:
        yield llm


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_step_never_synchronises_a_gpu(on_gpu: LLM) -> None:
    on_gpu.generate(PROMPTS, PARAMS)
    execute = on_gpu.engine.worker.execute

    def strict(plan: torch.Tensor) -> Any:
        torch.cuda.set_sync_debug_mode("error")
        try:
            return execute(plan)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    on_gpu.engine.worker.execute = strict  # type: ignore[method-assign]
    on_each_step(on_gpu, lambda _: None)
    for _ in range(2):
        outs = on_gpu.generate(PROMPTS, PARAMS)
        assert all(out.finished for out in outs)
