"""The step loop: plan, execute, commit, at overlap depth 0 and 1."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..worker.expand_prefill import ROW_DECODE
from ..worker.fields import FieldTable, HostFields, Staging, table_size
from ..worker.worker import StepResult

if TYPE_CHECKING:
    from .._core import OutputBatch, Scheduler
    from ..worker.worker import Worker

Transform = Callable[[HostFields], None]


@dataclass
class Seams:
    """Hooks on the two arrays that cross the boundary, for fault injection and tests; None does
    nothing."""

    transform_plan: Transform | None = None
    transform_result: Transform | None = None


@dataclass(frozen=True)
class InFlight:
    """A launched step that has not been committed."""

    step_id: int
    num_decode_rows: int
    result: StepResult


@dataclass
class Committed:
    """What a commit brought: the core's outputs, and the steps that produced them."""

    outputs: OutputBatch
    steps: dict[int, InFlight] = field(default_factory=dict)


class StepLoop:
    """Drives one core and one worker.

    At depth 1 a step is planned and launched before the one ahead of it is committed.
    """

    def __init__(
        self,
        core: Scheduler,
        worker: Worker,
        depth: int,
        plan_fields: FieldTable,
        result_fields: FieldTable,
    ) -> None:
        self.seams = Seams()
        self._core = core
        self._worker = worker
        self._depth = depth
        self._result_fields = result_fields
        pinned = worker.config.device.type == "cuda"
        self._plans = Staging(plan_fields, depth + 2, pinned)
        self._flight: deque[InFlight] = deque()

    @property
    def num_in_flight(self) -> int:
        """Launched steps that are not committed."""
        return len(self._flight)

    def advance(self) -> Committed | None:
        """Launch at most one step and commit at most one.

        Returns:
            The outputs of a commit, or None when there was nothing to launch or commit.
        """
        status = self._launch()
        if status == "idle" and not self._flight:
            return None
        steps: dict[int, InFlight] = {}
        if self._flight and (status != "run" or len(self._flight) > self._depth):
            step = self._commit_oldest()
            steps[step.step_id] = step
        return Committed(self._core.take_outputs(), steps)

    def settle(self) -> Committed:
        """Commit every step in flight without launching more."""
        steps: dict[int, InFlight] = {}
        while self._flight:
            step = self._commit_oldest()
            steps[step.step_id] = step
        return Committed(self._core.take_outputs(), steps)

    def _launch(self) -> str:
        tensor, plan = self._plans.take()
        info = self._core.plan(plan.array)
        if info.status != "run":
            return info.status
        try:
            if self.seams.transform_plan is not None:
                self.seams.transform_plan(plan)
            result = self._worker.execute(tensor)
            if self.seams.transform_result is not None:
                result.wait()
                self.seams.transform_result(result.fields)
        except BaseException:
            # The core waits for this step: its rows end as failed, so that all they hold is freed.
            self._flight.append(
                InFlight(info.step_id, info.num_decode_rows, self._failed(plan, info.num_rows))
            )
            raise
        self._flight.append(InFlight(info.step_id, info.num_decode_rows, result))
        return info.status

    def _commit_oldest(self) -> InFlight:
        step = self._flight[0]
        step.result.wait()
        self._core.commit(step.step_id, step.result.fields.array)
        return self._flight.popleft()

    def _failed(self, plan: HostFields, num_rows: int) -> StepResult:
        """A result in which every row failed; nothing of it is published."""
        fields = HostFields(
            self._result_fields, np.zeros(table_size(self._result_fields), dtype=np.int32)
        )
        fields["step_id"][0] = plan.scalar("step_id")
        fields["num_rows"][0] = num_rows
        fields["non_finite"][:num_rows] = 1
        is_prefill = plan["row_kind"][:num_rows] != ROW_DECODE
        fields["rows_run"][:num_rows] = np.where(is_prefill, plan["row_query_len"][:num_rows], 0)
        return StepResult(fields, None, None)
