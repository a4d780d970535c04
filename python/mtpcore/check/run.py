"""Runs cases: one engine each, the slow path shared, and with a plant the one case that sees it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mtpcore.check.cases import AXES, Case, CaseResult, choices, engine_options, name_of
from mtpcore.check.compare import Difference
from mtpcore.check.driver import LiveEngine
from mtpcore.check.plants import PLANTS, Plant
from mtpcore.check.prompts import Corpus
from mtpcore.check.report import report
from mtpcore.check.slow_path import SlowPath

if TYPE_CHECKING:
    from pathlib import Path

Progress = Callable[[CaseResult, float], None]


class Check:
    """One model under check. ValueError if it has no slow path or cannot be read."""

    def __init__(self, directory: Path, options: dict[str, Any] | None = None) -> None:
        self._directory = directory
        self._options = options or {}
        self._slow = SlowPath(directory)
        self._corpus = Corpus(directory, self._slow.config.vocab)
        self.axes = dict(AXES)
        if not self._slow.has_mtp:
            self.axes["mtp_step"] = [0]

    def run(self, full: bool = False, progress: Progress | None = None) -> dict[str, Any]:
        """The report over all cases; every case runs, whatever others found."""
        results = []
        for choice in choices(self.axes, full):
            started = time.perf_counter()
            results.append(self.run_case(choice))
            if progress is not None:
                progress(results[-1], time.perf_counter() - started)
        return report(results, self.axes)

    def run_plant(self, name: str) -> dict[str, Any]:
        """The report of one planted fault's case; not ok when the fault is found."""
        plant = PLANTS.get(name)
        if plant is None:
            raise ValueError(f"--plant {name}: no such fault; see mtpcore check --list-plants")
        choice = plant.choice()
        return report([self.run_case(choice, plant)], {axis: [v] for axis, v in choice.items()})

    def run_case(self, choice: dict[str, Any], plant: Plant | None = None) -> CaseResult:
        """One case through its own engine; an engine that breaks off is a difference too."""
        options = engine_options(choice) | self._options
        with LiveEngine(self._directory, options, plant) as live:
            case = Case(choice, self._slow, self._corpus, live)
            try:
                return case.run()
            except (RuntimeError, ValueError, IndexError) as error:
                case.result.difference = Difference(-1, f"{type(error).__name__}: {error}")
                case.result.where = name_of(choice)
                return case.result
