"""Watches a live engine's rounds: which drafts a request had at a position, and what was accepted.

The worker's `apply_plan` and `accept` are wrapped on the instance. A request is known by its seed,
which every start brings to the device and which is unique within a pass.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Round:
    """One decode round: tokens consumed before it, rows that ran, the drafts, tokens accepted."""

    seq_len: int
    query_len: int
    drafts: tuple[int, ...]
    num_accepted: int


class Recorder:
    """Rounds by request seed, newest pass only after `clear`."""

    def __init__(self, worker: Any) -> None:
        self.rounds: dict[int, list[Round]] = defaultdict(list)
        self._seed: dict[int, int] = {}
        apply_plan, accept = worker.apply_plan, worker.accept

        def watch_starts(plan: Any, host: Any) -> Any:
            for i in range(host.scalar("num_starts")):
                words = (int(host[name][i]) for name in ("start_seed_lo", "start_seed_hi"))
                low, high = (word & 0xFFFFFFFF for word in words)
                self._seed[int(host["start_req_idx"][i])] = high << 32 | low
            return apply_plan(plan, host)

        def watch_rounds(host: Any, rows: Any, hidden: Any) -> Any:
            accepted = accept(host, rows, hidden)
            count = rows.num_decode
            if count:
                self._note(
                    rows.req_idx[:count].tolist(),
                    rows.old_len[:count].tolist(),
                    rows.query_len[:count].tolist(),
                    rows.drafts.tolist(),
                    accepted.num_accepted[:count].tolist(),
                )
            return accepted

        worker.apply_plan, worker.accept = watch_starts, watch_rounds

    def _note(self, *columns: list[Any]) -> None:
        for req, seq_len, query_len, drafts, num_accepted in zip(*columns, strict=True):
            if query_len > 0:
                used = tuple(drafts[: query_len - 1])
                self.rounds[self._seed[req]].append(Round(seq_len, query_len, used, num_accepted))

    def take(self) -> dict[int, list[Round]]:
        """The rounds since the last call."""
        taken, self.rounds = self.rounds, defaultdict(list)
        return taken
