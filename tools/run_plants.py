"""Runs every planted fault of `mtpcore check`; fails unless each one is found.

usage: run_plants.py PATH_OF_MTPCORE
"""

from __future__ import annotations

import json
import subprocess
import sys
import time


def run(command: list[str]) -> tuple[int, str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.stderr.write(done.stderr)
    return done.returncode, done.stdout


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    mtpcore = sys.argv[1]
    status, listing = run([mtpcore, "check", "--list-plants", "--json"])
    if status != 0:
        return 1
    missed = []
    names = json.loads(listing)["plants"]
    for name in names:
        started = time.perf_counter()
        status, output = run([mtpcore, "check", "--plant", name, "--json"])
        found = status == 1 and bool(json.loads(output)["failed"])
        reason = json.loads(output)["failed"][0]["reason"] if found else "NOT FOUND"
        print(f"{name:32} {time.perf_counter() - started:5.1f} s  {reason}", flush=True)
        if not found:
            missed.append(name)
    print(f"{len(names) - len(missed)} of {len(names)} planted faults found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
