"""Imports go one way, so that a part can be read, tested and replaced without those above it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "mtpcore"

# A part may import parts of its own level or lower ones; cycles between parts are refused below.
LEVEL = {
    "cli": 7,
    "server": 7,
    "check": 7,
    "api": 6,
    "engine": 5,
    "worker": 4,
    "config": 4,
    "transfer": 4,
    "models": 3,
    "draft": 3,
    "acceptance": 3,
    "state": 2,
    "layers": 2,
    "kernels": 1,
    "bundled": 0,
    "_core": 0,
}
# `check` proves the engine from outside: it may use the public API and its own files, no more.
CHECK_MAY_USE = {"check", "api"}


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """Names of the parts of mtpcore that the file imports anywhere, type-checking blocks too."""
    module = ("mtpcore", *path.relative_to(PACKAGE).with_suffix("").parts)
    package = module[:-1]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            stem = ".".join(filter(None, (base, node.module)))
            names = (
                [f"{stem}.{alias.name}" for alias in node.names] if stem == "mtpcore" else [stem]
            )
        for name in names:
            parts = name.split(".")
            if parts[0] == "mtpcore" and len(parts) > 1:
                found.add(parts[1])
    return found


def python_files() -> list[Path]:
    return [p for p in sorted(PACKAGE.rglob("*.py")) if "__pycache__" not in p.parts]


FILES = python_files()


@pytest.mark.parametrize("path", FILES, ids=[str(p.relative_to(PACKAGE)) for p in FILES])
def test_imports_go_down(path: Path) -> None:
    part = part_of(path)
    if part.startswith("__"):
        pytest.skip("the package's face may name every part")
    assert part in LEVEL, f"{part} has no level; add it to LEVEL"
    for other in imports_of(path) - {part}:
        if other in LEVEL:
            assert LEVEL[other] <= LEVEL[part], f"{path.name}: {part} must not import {other}"


def test_no_cycle_between_parts() -> None:
    edges: dict[str, set[str]] = {}
    for path in FILES:
        part = part_of(path)
        if part in LEVEL:
            edges.setdefault(part, set()).update(imports_of(path) & LEVEL.keys() - {part})
    done: set[str] = set()

    def visit(part: str, trail: tuple[str, ...]) -> None:
        assert part not in trail, "import cycle: " + " -> ".join((*trail, part))
        if part not in done:
            for other in sorted(edges.get(part, ())):
                visit(other, (*trail, part))
            done.add(part)

    for part in sorted(edges):
        visit(part, ())


def test_check_uses_the_public_api_alone() -> None:
    files = [p for p in FILES if part_of(p) == "check"]
    assert len(files) > 5
    for path in files:
        foreign = (imports_of(path) & LEVEL.keys()) - CHECK_MAY_USE
        assert not foreign, f"check/{path.name} imports {sorted(foreign)}"


def test_worker_never_imports_the_engine() -> None:
    files = [p for p in FILES if part_of(p) == "worker"]
    assert files
    for path in files:
        assert not imports_of(path) & {"engine", "api", "cli"}, path.name
