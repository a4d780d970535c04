"""A fake device in numpy: it does what a plan says, at each row as the field tables define it.

Tokens come from a counter, so that what a request emits depends on its output position alone.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from core.settings import REQUEST, Settings, settings

from mtpcore import _core

DECODE, PREFILL, FINAL = 0, 1, 2
NO_FINISH, STOP, LENGTH = 0, 1, 2


class Table:
    """A field table and one array that is split along it."""

    def __init__(self, fields: list[tuple[str, int, int]]) -> None:
        self.fields = {name: (offset, capacity) for name, offset, capacity in fields}
        self.array = np.zeros(sum(capacity for _, _, capacity in fields), dtype=np.int32)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.view(self.array, name)

    def view(self, array: np.ndarray, name: str) -> np.ndarray:
        """The field of another array of the same table, without a copy."""
        offset, capacity = self.fields[name]
        return array[offset : offset + capacity]


def token_at(req_seed: int, position: int, vocab: int) -> int:
    """The token of an output position."""
    return (7 * req_seed + 3 * position + 5) % vocab


@dataclass
class Row:
    """What the device keeps of one request."""

    seq_len: int
    output_len: int
    tokens_left: int
    min_tokens: int
    seed: int
    stops: set[int]
    done: bool = False


@dataclass
class Emitted:
    """All that was taken from the core about one request."""

    tokens: list[int] = field(default_factory=list)
    finishes: list[int] = field(default_factory=list)
    stop_bytes: int = -1
    num_cached: int = 0


class Harness:
    """The core and the device in one loop, a step at a time.

    Attributes:
        accept: drafts that the target agrees with in each row.
        in_flight: (step_id, result array) of planned steps, oldest first.
    """

    def __init__(self, accept: int = 2, **changes: Any) -> None:
        config: Settings = settings(**changes)
        self.config = config
        self.core = _core.Scheduler(config)
        self.plan = Table(_core.plan_fields(config))
        self.result = Table(_core.result_fields(config))
        self.accept = accept
        self.rows: dict[int, Row] = {}
        self.in_flight: deque[tuple[int, np.ndarray]] = deque()
        self.out: defaultdict[int, Emitted] = defaultdict(Emitted)

    def submit(self, prompt: np.ndarray, **changes: Any) -> int:
        """Queue a request."""
        return self.core.submit(prompt, **{**REQUEST, **changes})

    def launch(self) -> str:
        """Plan a step and run it, without a commit."""
        info = self.core.plan(self.plan.array)
        if info.status == "run":
            self.in_flight.append((info.step_id, self._run()))
        return info.status

    def commit(self) -> None:
        """Commit the oldest step in flight and take its outputs."""
        step_id, result = self.in_flight[0]
        self.core.commit(step_id, result)
        self.in_flight.popleft()
        self.take()

    def step(self) -> str:
        """Plan, and commit what the depth does not hold."""
        status = self.launch()
        if len(self.in_flight) > (self.config["overlap_depth"] if status == "run" else 0):
            self.commit()
        return status

    def drain(self) -> None:
        """Run until nothing is left; every request then has its terminal."""
        for _ in range(10_000):
            if self.step() == "idle":
                break
        while self.in_flight:
            self.commit()
        assert self.core.num_unfinished() == 0

    def take(self) -> _core.OutputBatch:
        """Take the outputs and note them by request."""
        batch = self.core.take_outputs()
        for entry in range(len(batch)):
            into = self.out[int(batch.request_id[entry])]
            first = int(batch.tokens_offset[entry])
            into.tokens += batch.tokens[first : first + int(batch.num_tokens[entry])].tolist()
            into.num_cached = int(batch.num_cached[entry])
            if batch.finish[entry]:
                into.finishes.append(int(batch.finish[entry]))
                into.stop_bytes = int(batch.stop_bytes[entry])
        return batch

    def used(self) -> dict[str, int]:
        """Entries in use by pool; checks the sums and every invariant on the way."""
        self.core.check_integrity()
        pools = self.core.pools()
        for pool in pools:
            assert pool["free"] + pool["used"] + pool["cached"] == pool["total"], pool
        return {pool["name"]: pool["used"] for pool in pools}

    def assert_idle(self) -> None:
        """Nothing is open, in flight or in use."""
        assert self.core.num_unfinished() == 0
        assert not any(self.used().values()), self.core.pools()

    def _run(self) -> np.ndarray:
        plan, to = self.plan, Table([(n, o, c) for n, (o, c) in self.result.fields.items()])
        to["step_id"][0], to["num_rows"][0] = plan["step_id"][0], plan["num_rows"][0]
        for i in range(plan["num_starts"][0]):
            self._start(i)
        for row in range(plan["num_rows"][0]):
            self._run_row(row, to)
        return to.array

    def _start(self, i: int) -> None:
        plan = self.plan
        count = plan["start_num_stop_ids"][i]
        self.rows[int(plan["start_req_idx"][i])] = Row(
            seq_len=int(plan["start_seq_len"][i]),
            output_len=int(plan["start_output_len"][i]),
            tokens_left=int(plan["start_tokens_left"][i]),
            min_tokens=int(plan["start_min_tokens"][i]),
            seed=int(plan["start_seed_lo"][i]),
            stops=set(plan["start_stop_ids"][8 * i : 8 * i + count].tolist()),
        )

    def _run_row(self, row: int, to: Table) -> None:
        plan, kind = self.plan, int(self.plan["row_kind"][row])
        request = self.rows[int(plan["row_req_idx"][row])]
        old = request.seq_len
        if kind == DECODE:
            run = 0 if request.done else min(int(plan["row_query_len"][row]), request.tokens_left)
            accepted = min(run, self.accept + 1)
        else:
            run = int(plan["row_query_len"][row])
            assert old == plan["row_start"][row]
            request.seq_len += run
            accepted = int(kind == FINAL)
        to["rows_run"][row] = run
        for position in range(request.output_len, request.output_len + accepted):
            token = token_at(request.seed, position, self.config["vocab_size"])
            width = self.config["mtp_step"] + 1
            to["tokens"][row * width + position - request.output_len] = token
            if token in request.stops and position >= request.min_tokens:
                accepted = position - request.output_len + 1
                to["finish"][row] = STOP
                break
        to["num_accepted"][row] = accepted
        request.output_len += accepted
        request.tokens_left -= accepted
        request.seq_len += accepted if kind == DECODE else 0
        if accepted and request.tokens_left == 0 and to["finish"][row] == NO_FINISH:
            to["finish"][row] = LENGTH
        if to["finish"][row]:
            request.done = True
            to["end_fired"][row] = int(plan["row_end_checkpoint"][row] != 0)
        for entry in range(plan["num_armed"][0]):
            if plan["armed_row"][entry] == row:
                to["fired"][entry] = int(old < plan["armed_boundary"][entry] <= request.seq_len)
