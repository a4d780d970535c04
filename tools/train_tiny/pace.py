"""How far a run is, by steps or by time, and an end to a run that stands still."""

from __future__ import annotations

import faulthandler
import math
import time

import torch

COMPILING = 20
WARMUP = 100
STARTING_SECONDS, STALLED_SECONDS = 180, 45


class Pace:
    """Progress from `begin` to 1: by steps, or by time where a limit comes first.

    The first COMPILING steps of a process build kernels, so time counts from there on. A GPU that
    answers nothing for STALLED_SECONDS ends the process with a traceback: whoever started it can
    start it again from the saved state.
    """

    def __init__(self, steps: int, limit: float | None, begin: float = 0.0) -> None:
        self.steps, self.limit, self.begin = steps, limit, begin
        self.start, self.first, self.seen = time.perf_counter(), 0.0, 0
        faulthandler.dump_traceback_later(STARTING_SECONDS, exit=True)

    def seconds(self) -> float:
        return time.perf_counter() - self.start

    def progress(self, step: int) -> float:
        """Share of the run that is over before `step`; 1 at its end. To be called once a step."""
        self.seen += 1
        if self.seen % 10 == 0:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            if self.seen > COMPILING:
                faulthandler.dump_traceback_later(STALLED_SECONDS, exit=True)
        if self.seen == COMPILING:
            self.first = self.seconds()
        done = step / self.steps
        if self.limit is not None:
            if self.seconds() >= self.limit:
                return 1.0
            if self.seen > COMPILING:
                gone = (self.seconds() - self.first) / (self.limit - self.first)
                done = max(done, self.begin + (1 - self.begin) * gone)
        return min(1.0, done)

    def rearm(self) -> None:
        """Grant a long evaluation its own time."""
        faulthandler.dump_traceback_later(STARTING_SECONDS, exit=True)

    def close(self) -> None:
        faulthandler.cancel_dump_traceback_later()


def rate(step: int, progress: float) -> float:
    """Share of the peak rate: linear up over WARMUP steps, then a cosine down to 2 %."""
    return min(1.0, (step + 1) / WARMUP) * (0.02 + 0.49 * (1 + math.cos(math.pi * progress)))
