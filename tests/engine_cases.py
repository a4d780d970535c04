"""Helpers of the engine tests: small engines, random prompts, and drafts that are known."""

from __future__ import annotations

import random
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mtpcore import LLM, SamplingParams
from mtpcore.engine.requests import RequestInput, RequestRecord
from mtpcore.worker.buffers import OUTPUT_LEN, SEED_LO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from mtpcore.api import RequestOutput

torch.set_num_threads(1)
VOCAB = 97


def prompt(length: int, seed: int = 0, vocab: int = VOCAB) -> dict[str, list[int]]:
    """A random token-id prompt."""
    generator = random.Random(f"{length}:{seed}")
    return {"prompt_token_ids": [generator.randrange(vocab) for _ in range(length)]}


def token_ids(outputs: list[RequestOutput]) -> list[list[int]]:
    """Output tokens of each result."""
    return [output.outputs[0].token_ids for output in outputs]


@contextmanager
def engine(model: Path | None, **options: Any) -> Iterator[LLM]:
    """A small engine; at the end nothing may be in use and every invariant holds."""
    budget = "8MiB" if model else "100MiB"
    settings = {"memory_budget": budget, "max_model_len": 512, "max_num_seqs": 4, **options}
    with LLM(model, device="cpu", **settings) as llm:
        yield llm
        assert_idle(llm)


def assert_idle(llm: LLM) -> None:
    """Every pool holds free and cached entries only."""
    llm.engine.core.check_integrity()
    assert llm.engine.core.num_unfinished() == 0
    assert llm.engine.loop.num_in_flight == 0
    for pool in llm.engine.core.pools():
        assert pool["used"] == 0, pool
        assert pool["free"] + pool["cached"] == pool["total"], pool


def greedy(max_tokens: int = 16, **changes: Any) -> SamplingParams:
    """Greedy sampling without end-of-sequence tokens."""
    given = {"temperature": 0.0, "max_tokens": max_tokens, "ignore_eos": True, **changes}
    return SamplingParams(**given)


def sampled(seed: int, max_tokens: int = 16, **changes: Any) -> SamplingParams:
    """Seeded sampling without end-of-sequence tokens."""
    return greedy(max_tokens, **{"temperature": 1.0, "seed": seed, **changes})


def request(given: dict[str, list[int]], **changes: Any) -> RequestInput:
    """A greedy request for the engine itself, with what the public interface does not offer."""
    fields: dict[str, Any] = {
        "max_tokens": 8,
        "min_tokens": 0,
        "temperature": 0.0,
        "top_k": 0,
        "top_p": 1.0,
        "seed": 0,
        "stop_token_ids": [],
        "stop": [],
        **changes,
    }
    return RequestInput(np.array(given["prompt_token_ids"], dtype=np.int32), **fields)


def run_requests(llm: LLM, requests: Iterable[RequestInput]) -> list[RequestRecord]:
    """Submit requests and run them to their ends."""
    records = llm.engine.submit(requests)
    while llm.engine.unfinished_ids():
        llm.engine.step()
    llm.engine.settle()
    return records


def num_drafts_accepted(outputs: list[RequestOutput]) -> int:
    """Accepted drafts of all results together."""
    return sum(output.metrics.speculation.num_accepted for output in outputs)


def on_each_step(llm: LLM, action: Callable[[int], None]) -> None:
    """Call ``action(number)`` after each step of an engine, from 1."""
    step, count = llm.engine.step, 0

    def stepped() -> Any:
        nonlocal count
        progress = step()
        count += 1
        action(count)
        return progress

    llm.engine.step = stepped  # type: ignore[method-assign]


class ScriptedDrafts:
    """Replaces the drafter by one that knows the right tokens and errs on purpose.

    With random weights an MTP head guesses nothing, so the accepted lengths that matter would
    never come up.

    Args:
        expected: output tokens by request seed; a request of another seed gets wrong drafts.
        accuracy: share of drafts that are right.
    """

    def __init__(self, llm: LLM, expected: dict[int, list[int]], accuracy: float) -> None:
        self._worker = llm.engine.worker
        self._expected = expected
        self._accuracy = accuracy
        self._random = random.Random(0)
        self._vocab = llm.engine.vocab_size
        self._worker.run_drafter = self._run  # type: ignore[method-assign]

    def _run(self, host: Any, rows: Any, accepted: Any, hidden: Any) -> None:
        buffers = self._worker.buffers
        next_index = (rows.cursors[:, OUTPUT_LEN] + accepted.num_accepted).tolist()
        for req_idx, index in zip(rows.req_idx.tolist(), next_index, strict=True):
            known = self._expected.get(int(buffers.sampling[req_idx, SEED_LO]), [])
            for column in range(buffers.dev_drafts.shape[1]):
                at = index + column
                right = known[at] if at < len(known) else 0
                wrong = self._random.random() >= self._accuracy
                buffers.dev_drafts[req_idx, column] = (right + int(wrong)) % self._vocab


class ScriptedModel:
    """Makes every request say what its seed's script says, greedily; past its end, token 0.

    The forward, the matching of drafts and everything behind them stay the engine's own.
    """

    def __init__(self, llm: LLM, scripts: dict[int, list[int]]) -> None:
        worker = llm.engine.worker
        self._buffers, self._scripts = worker.buffers, scripts
        self._target, self._accept = worker.target, worker.accept
        self._rows: Any = None
        worker.accept = self._scripted_accept  # type: ignore[method-assign]
        worker.target = self  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def _scripted_accept(self, host: Any, rows: Any, hidden: Any) -> Any:
        self._rows = rows
        return self._accept(host, rows, hidden)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        logits, rows = self._target.logits(hidden), self._rows
        at = 0
        for row, req_idx in enumerate(rows.req_idx.tolist()):
            script = self._scripts[int(self._buffers.sampling[req_idx, SEED_LO])]
            first = int(rows.cursors[row, OUTPUT_LEN])
            for column in range(rows.width if row < rows.num_decode else 1):
                index = first + column
                logits[at, script[index] if index < len(script) else 0] += 1e3
                at += 1
        return logits
