"""Runs every planted fault of `mtpcore check` on the bundled model; fails unless each is found.

A fault counts as found when the comparison with the slow path or an invariant of the core sees it;
an error of torch would mean that the plant itself is broken. usage: run_plants.py
"""

from __future__ import annotations

import sys
import time

from mtpcore.api import bundled_model_dir
from mtpcore.check.plants import PLANTS
from mtpcore.check.run import Check


def main() -> int:
    subject = Check(bundled_model_dir())
    missed = []
    for name in PLANTS:
        started = time.perf_counter()
        failed = subject.run_plant(name)["failed"]
        reason = failed[0]["reason"] if failed else "NOT FOUND"
        print(f"{name:32} {time.perf_counter() - started:5.1f} s  {reason}", flush=True)
        if not failed or "RuntimeError: " in reason:
            missed.append(name)
    print(f"{len(PLANTS) - len(missed)} of {len(PLANTS)} planted faults found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
