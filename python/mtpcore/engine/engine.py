"""One engine: core, worker and tokenizer of one model."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .. import _core
from ..models.loader import load_model
from ..worker.worker import Worker
from .dispatch import dispatch
from .errors import EngineClosed, EngineFailed
from .interrupt import deferred_interrupt
from .loop import Committed, StepLoop, Transform
from .requests import ERROR, RequestInput, RequestRecord
from .tokenizer import TextTokenizer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..config.validate import Resolved


class Engine:
    """Runs requests of one model. Any thread may call it; calls wait for each other.

    A step that raises ends every request with finish "error" and the engine with it: later calls
    raise EngineFailed. An interrupt aborts requests and leaves the engine usable.

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
        self._lock = threading.RLock()
        self._num_entered = 0
        self._abandoned: list[RequestRecord] = []
        self._is_closed = False
        self._failure: BaseException | None = None

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
            _core.RejectError: the first refusal, which names the prompt; the requests before it
                are withdrawn.
            EngineClosed, EngineFailed: it takes no requests any more.
        """
        with self._entered():
            self._check_usable()
            records: list[RequestRecord] = []
            try:
                for index, request in enumerate(requests):
                    try:
                        records.append(self._submit(request))
                    except _core.RejectError as error:
                        error.args = (f"prompts[{index}]: {error}",)
                        raise
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

    def unfinished_ids(self) -> list[int]:
        """Core's ids of the requests that have not ended, in order of submission."""
        with self._lock:
            return list(self._records)

    def step(self) -> list[RequestRecord] | None:
        """Advance by one step.

        Returns:
            The requests that got tokens or ended, or None when there is nothing left to do.

        Raises:
            EngineClosed, EngineFailed: it does not run any more.
        """
        with self._entered(), deferred_interrupt():
            self._check_usable()
            try:
                committed = self.loop.advance()
                if committed is None:
                    return None
                return dispatch(committed, self._records)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                self._fail(error)
                raise

    def abort(self, records: Iterable[RequestRecord]) -> None:
        """End requests; those that ended already are left alone."""
        with self._entered():
            for record in records:
                if not record.is_finished:
                    self.core.abort(record.request_id)
            dispatch(Committed(self.core.take_outputs()), self._records)

    def settle(self) -> None:
        """Commit what is in flight once nothing is left to run, so that every pool is free."""
        with self._entered(), deferred_interrupt():
            if self._is_closed or self._failure is not None:
                return
            if self.core.num_unfinished() == 0 and self.loop.num_in_flight:
                dispatch(self.loop.settle(), self._records)

    def abandon(self, records: Iterable[RequestRecord]) -> None:
        """Abort requests and free what they hold, after an error or an interrupt.

        A dropped iterator may ask for this from inside any other call, wherever the interpreter
        collects it; that call does it when it ends.
        """
        with self._lock:
            self._abandoned.extend(records)
            with self._entered():
                pass

    def close(self) -> None:
        """End all requests with finish "abort" and let go of every tensor. Calling it again does
        nothing."""
        with self._entered():
            if self._is_closed:
                return
            if self._failure is None:
                self._end_all()
            self._is_closed = True
            del self.loop, self.worker, self.core

    @contextmanager
    def _entered(self) -> Iterator[None]:
        with self._lock:
            self._num_entered += 1
            try:
                yield
            finally:
                if self._num_entered == 1:
                    self._end_abandoned()
                self._num_entered -= 1

    def _end_abandoned(self) -> None:
        while self._abandoned:
            records, self._abandoned = self._abandoned, []
            if self._is_closed or all(record.is_finished for record in records):
                continue
            self.abort(records)
            dispatch(self.loop.settle(), self._records)

    def _end_all(self) -> None:
        self.abort(list(self._records.values()))
        dispatch(self.loop.settle(), self._records)

    def _check_usable(self) -> None:
        if self._is_closed:
            raise EngineClosed("this LLM was shut down; make a new one")
        if self._failure is not None:
            raise EngineFailed(
                f"a step failed ({type(self._failure).__name__}: {self._failure}) and the engine "
                "with it; shut this LLM down and make a new one"
            ) from self._failure

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        records = list(self._records.values())
        # The core may be what failed: no request may look unfinished even then, and the first
        # error is the one to report.
        with suppress(BaseException):
            self._end_all()
        self._records.clear()
        for record in records:
            record.finish = ERROR
