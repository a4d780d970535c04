"""tests/PITFALLS.md names every case, and what it names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from mtpcore.check.cases import AXES
from mtpcore.check.plants import PLANTS

ROOT = Path(__file__).resolve().parents[2]
ROWS = re.findall(
    r"^\| ([SD]\d+) \| (.+?) \| (.+?) \|$",
    (ROOT / "tests" / "PITFALLS.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


@cache
def collected(path: Path) -> frozenset[str]:
    """Names of the tests of a file: functions that pytest collects, or that cargo runs."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        nodes = ast.parse(text).body
        return frozenset(n.name for n in nodes if isinstance(n, ast.FunctionDef))
    return frozenset(re.findall(r"#\[test\]\s*(?:#\[[^\n]*\]\s*)*fn (\w+)", text))


@cache
def sources() -> str:
    files = [*(ROOT / "src").rglob("*.rs"), *(ROOT / "python" / "mtpcore").rglob("*.py")]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def test_every_case_has_one_row() -> None:
    numbers = [number for number, _, _ in ROWS]
    assert numbers == [f"S{i}" for i in range(1, 41)] + [f"D{i}" for i in range(1, 51)]


def test_every_test_that_is_named_exists() -> None:
    named = 0
    for number, _, cure in ROWS:
        for path, name in re.findall(r"([\w/]+\.(?:py|rs))::(\w+)", cure):
            named += 1
            assert (ROOT / path).is_file(), f"{number}: {path}"
            assert name in collected(ROOT / path), f"{number}: {path}::{name}"
    assert named > 50


def test_every_type_that_is_named_exists() -> None:
    for number, _, cure in ROWS:
        for part in cure.split("; "):
            if part.startswith("type: "):
                for word in re.findall(r"`([\w.:<>]+)`", part):
                    for name in re.findall(r"\w+", word):
                        assert re.search(rf"\b{name}\b", sources()), f"{number}: {name}"


def test_every_plant_and_axis_that_is_named_exists() -> None:
    for number, _, cure in ROWS:
        for plant in re.findall(r"plant ([\w-]+)", cure):
            assert plant in PLANTS, f"{number}: {plant}"
        for axis, value in re.findall(r"axis (\w+)(?:=(\w+))?", cure):
            assert axis in AXES, f"{number}: {axis}"
            assert not value or value in map(str, AXES[axis]), f"{number}: {axis}={value}"


def test_every_row_says_how() -> None:
    known = re.compile(r"later: \w|type: |plant |axis |(?:tests|src)/[\w/]+\.(?:py|rs)::")
    assert all(known.search(cure) for _, _, cure in ROWS)
