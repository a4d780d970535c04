"""tests/PITFALLS.md names every case, and what it names exists."""

from __future__ import annotations

import re
from pathlib import Path

from mtpcore.check.cases import AXES
from mtpcore.check.plants import PLANTS

ROOT = Path(__file__).resolve().parents[2]
ROWS = re.findall(
    r"^\| ([SD]\d+) \| (.+?) \| (.+?) \|$",
    (ROOT / "tests" / "PITFALLS.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


def test_every_case_has_one_row() -> None:
    numbers = [number for number, _, _ in ROWS]
    assert numbers == [f"S{i}" for i in range(1, 41)] + [f"D{i}" for i in range(1, 51)]


def test_every_test_that_is_named_exists() -> None:
    for number, _, cure in ROWS:
        for path, name in re.findall(r"((?:tests|src)/[\w/]+\.(?:py|rs))::(\w+)", cure):
            assert (ROOT / path).is_file(), f"{number}: {path}"
            text = (ROOT / path).read_text(encoding="utf-8")
            assert re.search(rf"(def|fn) {name}\b", text), f"{number}: {path}::{name}"


def test_every_plant_and_axis_that_is_named_exists() -> None:
    for number, _, cure in ROWS:
        for plant in re.findall(r"plant ([\w-]+)", cure):
            assert plant in PLANTS, f"{number}: {plant}"
        for axis, value in re.findall(r"axis (\w+)(?:=(\w+))?", cure):
            assert axis in AXES, f"{number}: {axis}"
            assert not value or value in map(str, AXES[axis]), f"{number}: {axis}={value}"


def test_every_row_says_how() -> None:
    known = re.compile(r"later: |type: |plant |axis |(tests|src)/")
    assert all(known.search(cure) for _, _, cure in ROWS)
