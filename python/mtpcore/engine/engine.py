"""One engine: core, worker and tokenizer of one model."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from .. import _core
from ..models.loader import load_model
from ..worker.worker import Worker
from .dispatch import dispatch
from .interrupt import deferred_interrupt
from .loop import Committed, StepLoop, Transform
from .requests import RequestInput, RequestRecord
from .tokenizer import TextTokenizer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..config.validate import Resolved


class EngineClosed(RuntimeError):
    """The engine was shut down."""


class Engine:
    """Runs requests of one model.

    Attributes:
        core: the scheduler, which owns every integer that decides.
        worker: owns every tensor.
        tokenizer: None for a directory without one.
        resolved: the settings after every "auto" was decided.
    """

    def __init__(self, resolved: Resolved) -> None:
        self.resolved = resolved
        directory = Path(resolved.model_dir)
        config = resolved.worker_config
        model = load_model(directory, config.dtype, config.device, resolved.mtp_mode == "mtp")
        self.generation = model.generation
        self.vocab_size = model.config.vocab_size
        self.tokenizer = TextTokenizer.load(directory, self.vocab_size)
        plan_fields = _core.plan_fields(resolved.core_config)
        result_fields = _core.result_fields(resolved.core_config)
        self.core = _core.Scheduler(resolved.core_config)
        if self.tokenizer is not None:
            self.core.set_vocabulary(self.tokenizer.text_bytes())
        self.worker = Worker(model, config, plan_fields, result_fields)
        self.loop = StepLoop(
            self.core, self.worker, config.overlap_depth, plan_fields, result_fields
        )
        self._records: dict[int, RequestRecord] = {}
        # Steps of one engine never run at once, whichever threads ask for them.
        self._lock = threading.RLock()

    @property
    def transform_plan(self) -> Transform | None:
        """Hook on each plan before it runs (fault injection and tests)."""
        return self.loop.seams.transform_plan

    @transform_plan.setter
    def transform_plan(self, hook: Transform | None) -> None:
        self.loop.seams.transform_plan = hook

    @property
    def transform_result(self) -> Transform | None:
        """Hook on each result before it commits (fault injection and tests)."""
        return self.loop.seams.transform_result

    @transform_result.setter
    def transform_result(self, hook: Transform | None) -> None:
        self.loop.seams.transform_result = hook

    def submit(self, requests: Iterable[RequestInput]) -> list[RequestRecord]:
        """Queue requests, all or none.

        Raises:
            _core.RejectError: the first refusal; the requests before it are withdrawn.
        """
        with self._lock:
            records: list[RequestRecord] = []
            try:
                for request in requests:
                    records.append(self._submit(request))
            except BaseException:
                self.abort(records)
                raise
            return records

    def _submit(self, request: RequestInput) -> RequestRecord:
        request_id = self.core.submit(
            request.prompt_token_ids,
            max_tokens=request.max_tokens,
            min_tokens=request.min_tokens,
            temperature=request.temperature,
            top_k=request.top_k,
            top_p=request.top_p,
            seed=request.seed,
            sample_index=request.sample_index,
            stop_token_ids=request.stop_token_ids,
            stop=request.stop,
            logprobs=request.logprobs,
            priority=request.priority,
            salt=request.salt,
        )
        record = RequestRecord(request_id, request.prompt_token_ids, request.logprobs)
        self._records[request_id] = record
        return record

    def step(self) -> list[RequestRecord] | None:
        """Advance by one step.

        Returns:
            The requests that got tokens or ended, or None when there is nothing left to do.
        """
        with self._lock, deferred_interrupt():
            committed = self.loop.advance()
            if committed is None:
                return None
            return dispatch(committed, self._records)

    def abort(self, records: Iterable[RequestRecord]) -> None:
        """End requests; those that ended already are left alone."""
        with self._lock:
            for record in records:
                if not record.is_finished:
                    self.core.abort(record.request_id)
            dispatch(Committed(self.core.take_outputs()), self._records)

    def settle(self) -> None:
        """Commit what is in flight once nothing is left to run, so that every pool is free."""
        with self._lock, deferred_interrupt():
            if self.core.num_unfinished() == 0 and self.loop.num_in_flight:
                dispatch(self.loop.settle(), self._records)

    def abandon(self, records: Iterable[RequestRecord]) -> None:
        """Abort requests and free what they hold, after an error or an interrupt."""
        with self._lock:
            self.abort(records)
            dispatch(self.loop.settle(), self._records)
