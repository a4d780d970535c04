"""How far a run is, by steps or by time, and an end to a run that stands still."""

from __future__ import annotations

import faulthandler
import math
import time

import torch

WARMUP = 100
STARTING_SECONDS, LOOKING_SECONDS, STALLED_SECONDS = 600, 60, 45


class Pace:
    """Progress from 0 to 1: by steps, or by time where a limit comes first.

    Seconds count from the making of this object, the schedule from `go`, which is to be called
    once all kernels are built: minutes, on a machine that never ran them. A GPU that answers
    nothing for STALLED_SECONDS after that ends the process with a traceback: whoever started it
    can start it again from the saved state.
    """

    def __init__(self, steps: int, limit: float | None) -> None:
        self.steps, self.limit, self.begin = steps, limit, 0.0
        self.start, self.first, self.seen = time.perf_counter(), 0.0, 0
        self.watch(STARTING_SECONDS)

    def watch(self, seconds: float) -> None:
        """End the process unless the next call of this comes within `seconds`."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
            faulthandler.dump_traceback_later(seconds, exit=True)

    def seconds(self) -> float:
        return time.perf_counter() - self.start

    def go(self, begin: float = 0.0) -> None:
        """The schedule starts, at `begin` of its way."""
        self.watch(STALLED_SECONDS)
        self.first, self.begin = self.seconds(), begin

    def progress(self, step: int) -> float:
        """Share of the run that is over before `step`; 1 at its end. To be called once a step."""
        self.seen += 1
        if self.seen % 10 == 0:
            self.watch(STALLED_SECONDS)
        done = max(self.begin, step / self.steps)
        if self.limit is not None:
            if self.seconds() >= self.limit:
                return 1.0
            gone = (self.seconds() - self.first) / (self.limit - self.first)
            done = max(done, self.begin + (1 - self.begin) * gone)
        return min(1.0, done)

    def look(self) -> None:
        """Grant an evaluation its own time."""
        self.watch(LOOKING_SECONDS)

    def close(self) -> None:
        faulthandler.cancel_dump_traceback_later()


def rate(step: int, progress: float) -> float:
    """Share of the peak rate: linear up over WARMUP steps, then a cosine down to 2 %."""
    return min(1.0, (step + 1) / WARMUP) * (0.02 + 0.49 * (1 + math.cos(math.pi * progress)))
