"""The offline interface: one object, one model, many prompts."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from ..config.options import EngineOptions
from ..config.validate import validate
from ..engine.engine import Engine
from ..engine.errors import EngineClosed
from .assemble import request_output
from .inputs import (
    CheckedPrompt,
    Prompt,
    as_params,
    as_prompts,
    check_prompt,
    derived_seed,
    request_input,
)
from .params import SamplingParams, default_params
from .results import RequestOutput, StreamDelta
from .stream import RequestStream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from ..engine.requests import RequestRecord

logger = logging.getLogger("mtpcore")


class LLM:
    """A model ready to generate.

    Args:
        model: hub-layout directory; None is the bundled model.
        options: see :class:`~mtpcore.config.options.EngineOptions`.

    Attributes:
        engine: core, worker and tokenizer.
        notes: what "auto" decided and why, a line each.

    Raises:
        OptionError: an option that is wrong, unsupported, or does not fit another one.
        ModelFileError: a broken model directory.
    """

    def __init__(self, model: str | Path | None = None, **options: Any) -> None:
        given = EngineOptions.of(model=None if model is None else str(model), **options)
        resolved = validate(given)
        self._engine: Engine | None = Engine(resolved)
        self.options = given
        self.notes = list(resolved.notes)
        self._num_submitted = 0
        self._submitting = threading.Lock()
        for note in self.notes:
            logger.info("%s", note)

    @property
    def engine(self) -> Engine:
        """The engine. Raises EngineClosed after ``shutdown``."""
        if self._engine is None:
            raise EngineClosed("this LLM was shut down; make a new one")
        return self._engine

    def default_params(self) -> SamplingParams:
        """What a call without parameters uses: the model's generation config."""
        return default_params(self.engine.generation)

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
    ) -> list[RequestOutput]:
        """Generate for every prompt and return the results in the prompts' order.

        Args:
            prompts: a text (or ``{"prompt": text}``), ``{"prompt_token_ids": [...]}``, or a list
                of either.
            sampling_params: one for all prompts or one a prompt; None takes the model's
                generation config.

        Raises:
            OptionError: an input of the wrong shape or type.
            RejectError: a value that the engine refuses. Nothing has run in either case.
        """
        engine = self.engine
        checked, params = self._check(prompts, sampling_params)
        records = self._submit(checked, params)
        try:
            while not all(record.is_finished for record in records):
                # Another thread's step may have ended them between the two looks.
                if engine.step() is None and not all(record.is_finished for record in records):
                    raise RuntimeError("the scheduler is idle although requests are unfinished")
            engine.settle()
        except BaseException:
            engine.abandon(records)
            raise
        rows = zip(records, checked, params, strict=True)
        return [request_output(record, prompt, param, engine) for record, prompt, param in rows]

    def stream(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
    ) -> Iterator[StreamDelta]:
        """Generate for every prompt and yield deltas as they come, of any prompt in any order.

        Inputs are checked in this call, before the first delta is asked for. Leaving the iterator
        early aborts what is unfinished.
        """
        checked, params = self._check(prompts, sampling_params)
        engine = self.engine
        records = self._submit(checked, params)
        try:
            rows = enumerate(zip(records, checked, params, strict=True))
            deltas = self._deltas(
                [
                    RequestStream(index, record, prompt, param, engine)
                    for index, (record, prompt, param) in rows
                ]
            )
            # From its first yield on the generator aborts its requests even if it is just dropped.
            next(deltas)
        except BaseException:
            engine.abandon(records)
            raise
        return deltas

    def _deltas(self, streams: list[RequestStream]) -> Iterator[StreamDelta]:
        """One empty delta at once, then those of the requests."""
        engine = self.engine
        records = [stream.record for stream in streams]
        open_streams = {stream.record.request_id: stream for stream in streams}
        try:
            yield StreamDelta(-1, "", [], False)
            while open_streams:
                progress = engine.step()
                # Another call's step may have brought this one's tokens, so all are looked at.
                for request_id, stream in list(open_streams.items()):
                    if stream.has_news():
                        if stream.record.is_finished:
                            del open_streams[request_id]
                        yield stream.take()
                if progress is None and open_streams:
                    raise RuntimeError("the scheduler is idle although requests are unfinished")
        finally:
            if open_streams:
                engine.abandon(records)
            # Whoever leaves at the last delta leaves a step in flight.
            engine.settle()

    def shutdown(self) -> None:
        """End all requests and free everything that the engine holds. Calling it again does
        nothing; a stream that is still open raises EngineClosed when it is asked for more."""
        if self._engine is not None:
            self._engine.close()
        self._engine = None

    def __enter__(self) -> LLM:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shutdown()

    def _check(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None,
    ) -> tuple[list[CheckedPrompt], list[SamplingParams]]:
        engine = self.engine
        given = as_prompts(prompts)
        params = self.default_params() if sampling_params is None else sampling_params
        checked = [check_prompt(prompt, index, engine) for index, prompt in enumerate(given)]
        return checked, as_params(params, len(given))

    def _submit(
        self, checked: list[CheckedPrompt], params: list[SamplingParams]
    ) -> list[RequestRecord]:
        engine = self.engine
        # Two threads must not derive the same seeds.
        with self._submitting:
            first = self._num_submitted
            requests = [
                request_input(prompt, param, engine, derived_seed(engine.resolved.seed, first + i))
                for i, (prompt, param) in enumerate(zip(checked, params, strict=True))
            ]
            records = engine.submit(requests)
            self._num_submitted += len(records)
        return records
