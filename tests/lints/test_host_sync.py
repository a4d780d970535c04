"""The step never waits for the device but once: no call that reads a tensor's value on the host."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "mtpcore"
WATCHED = [
    *(PACKAGE / "worker").glob("expand*.py"),
    *(PACKAGE / "worker").glob("forward*.py"),
    *(
        p
        for part in ("acceptance", "state", "draft", "layers")
        for p in (PACKAGE / part).glob("*.py")
    ),
]
SYNCING = {"item", "tolist", "cpu", "nonzero", "numpy", "masked_select", "is_nonzero", "unique"}
# (file, method): why it may stay
ALLOWED: dict[tuple[str, str], str] = {
    ("state_acceptance.py", "nonzero"): "inside a branch that runs on the CPU alone",
}


def names_in(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def host_names(tree: ast.AST) -> set[str]:
    """`host`, the plan's copy in host memory, and the names that are bound to parts of it."""
    found = {"host"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and names_in(node.value) == {"host", "count"}:
            found.update(t.id for t in node.targets if isinstance(t, ast.Name))
    return found


def syncing_calls(path: Path) -> list[tuple[int, str]]:
    found = []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    host = host_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            allowed = (path.name, name) in ALLOWED or bool(names_in(node.func) & host)
            if name in SYNCING and not allowed:
                found.append((node.lineno, name))
        # x[mask] with a comparison as the index picks rows by value, so the host has to count them.
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Compare):
            found.append((node.lineno, "boolean index"))
    return found


def test_the_watched_parts_exist() -> None:
    assert len(WATCHED) > 12


@pytest.mark.parametrize("path", WATCHED, ids=[f"{p.parent.name}/{p.name}" for p in WATCHED])
def test_no_host_synchronisation(path: Path) -> None:
    calls = syncing_calls(path)
    assert not calls, f"{path.name}: {calls}"


def test_the_lint_sees_a_fault(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def f(x):\n    n = x.sum().item()\n    return x[x > 0], n\n", encoding="utf-8")
    assert sorted(name for _, name in syncing_calls(bad)) == ["boolean index", "item"]
