"""The engine's side of a case: one `LLM`, requests as token ids, rounds recorded, preemptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mtpcore.api import LLM, SamplingParams
from mtpcore.check.compare import Observed
from mtpcore.check.recorder import Recorder

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from mtpcore.check.plants import Plant
    from mtpcore.check.requests import Request

# Steps of a pass after which a request is preempted: inside a chunked prompt, early and late.
PREEMPT_AFTER = (2, 4, 7, 11)


class Preempter:
    """Preempts the running requests of a pass in turn, between steps of the engine."""

    def __init__(self, engine: Any) -> None:
        self.active = False
        self._core = engine.core
        self._records: list[Any] = []
        self._steps = 0
        submit, step = engine.submit, engine.step

        def watched_submit(requests: Any) -> Any:
            self._records, self._steps = submit(requests), 0
            return self._records

        def watched_step() -> Any:
            self._steps += 1
            if self.active and self._steps in PREEMPT_AFTER:
                self._preempt(PREEMPT_AFTER.index(self._steps))
            return step()

        engine.submit, engine.step = watched_submit, watched_step

    def _preempt(self, turn: int) -> None:
        running = [record for record in self._records if not record.is_finished]
        for record in running[turn % 2 :: 2] or running:
            self._core.preempt(record.request_id)


class LiveEngine:
    """One engine for one case; `plant` breaks it before the first request."""

    def __init__(self, directory: Path, options: dict[str, Any], plant: Plant | None) -> None:
        self._llm = LLM(model=str(directory), **options)
        engine = self._llm.engine
        self.page_size = int(engine.worker.config.page_size)
        if plant is not None:
            plant.inject(engine)
        self._core = engine.core
        # Outermost, so that a plant cannot hide from it.
        self._recorder = Recorder(engine.worker)
        self._preempter = Preempter(engine)

    def __enter__(self) -> LiveEngine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._llm.shutdown()

    def run(self, requests: list[Request], preempt: bool) -> list[Observed]:
        """All requests at once, in order. RuntimeError if nothing was preempted although asked."""
        before = self._core.counters()["num_preemptions"]
        self._preempter.active = preempt
        outs = self._llm.generate(
            [{"prompt_token_ids": list(request.prompt)} for request in requests],
            [self._params(request) for request in requests],
        )
        self._preempter.active = False
        self._core.check_integrity()
        preempted = self._core.counters()["num_preemptions"] - before
        if preempt and not preempted and max(len(out.outputs[0].token_ids) for out in outs) > 8:
            raise RuntimeError("no request was preempted although the case asks for it")
        rounds = self._recorder.take()
        return [
            Observed(
                tuple(out.outputs[0].token_ids),
                out.outputs[0].finish_reason,
                out.num_cached_tokens,
                rounds.get(request.sampling.seed, []),
            )
            for request, out in zip(requests, outs, strict=True)
        ]

    @staticmethod
    def _params(request: Request) -> SamplingParams:
        sampling = request.sampling
        return SamplingParams(
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            seed=sampling.seed,
            max_tokens=sampling.max_tokens,
            min_tokens=sampling.min_tokens,
            stop_token_ids=list(sampling.stop_token_ids),
            ignore_eos=True,
            detokenize=False,
        )
