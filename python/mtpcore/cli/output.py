"""Printing: one JSON object on stdout, or plain aligned tables."""

from __future__ import annotations

import importlib.metadata
import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence


def version() -> str:
    """Of the installed package."""
    try:
        return importlib.metadata.version("mtpcore")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def say(text: str = "", *, nl: bool = True, as_json: bool = False) -> None:
    """Text for a person: stdout, or stderr where stdout carries the JSON object."""
    click.echo(text, nl=nl, err=as_json)


def print_json(value: dict[str, Any]) -> None:
    """Exactly one JSON object on stdout."""
    click.echo(json.dumps(value, ensure_ascii=False))


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns aligned by width, numbers to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [
        max(len(name), *(len(row[i]) for row in cells)) if cells else len(name)
        for i, name in enumerate(head)
    ]
    right = [
        bool(rows) and all(isinstance(row[i], int | float) for row in rows)
        for i in range(len(head))
    ]

    def line(values: Sequence[str]) -> str:
        padded = [
            value.rjust(width) if to_right else value.ljust(width)
            for value, width, to_right in zip(values, widths, right, strict=True)
        ]
        return "  ".join(padded).rstrip()

    return "\n".join([line(head), *(line(row) for row in cells)])


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def size(count: int) -> str:
    """Bytes as B, KiB, MiB, GiB or TiB."""
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
