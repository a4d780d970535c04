"""A small deterministic covering-array generator: every pair of values of two axes occurs."""

from __future__ import annotations

from itertools import combinations, product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Choice = dict[str, Any]


def all_pairs(axes: Mapping[str, Sequence[Any]]) -> list[Choice]:
    """Rows that together hold every pair of values of any two axes; the same rows every time.

    Each row starts from the first pair still missing and takes, axis by axis, the value that covers
    most of the missing pairs, which comes close to the smallest possible number of rows.
    """
    names = list(axes)
    missing = {
        (a, x, b, y): None
        for a, b in combinations(names, 2)
        for x, y in product(range(len(axes[a])), range(len(axes[b])))
    }
    rows: list[dict[str, int]] = []
    while missing:
        a, x, b, y = next(iter(missing))
        row = {a: x, b: y}
        for name in names:
            if name not in row:
                row[name] = max(
                    range(len(axes[name])),
                    key=lambda value, name=name, row=row: (
                        _gain(names, row, name, value, missing),
                        # Spread the values where nothing is to be gained.
                        -sum(earlier[name] == value for earlier in rows),
                        -value,
                    ),
                )
        for one, two in combinations(names, 2):
            missing.pop((one, row[one], two, row[two]), None)
        rows.append(row)
    return [{name: axes[name][row[name]] for name in names} for row in rows]


def _gain(
    names: list[str],
    row: dict[str, int],
    name: str,
    value: int,
    missing: dict[tuple[str, int, str, int], None],
) -> int:
    order, gain = names.index(name), 0
    for other, chosen in row.items():
        if names.index(other) < order:
            gain += (other, chosen, name, value) in missing
        else:
            gain += (name, value, other, chosen) in missing
    return gain


def full_product(axes: Mapping[str, Sequence[Any]]) -> list[Choice]:
    """Every combination of the axes' values."""
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
