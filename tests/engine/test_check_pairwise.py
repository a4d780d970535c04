"""The covering array of the check."""

from __future__ import annotations

from itertools import combinations, product

from mtpcore.check.pairwise import all_pairs, full_product

AXES = {"a": list(range(8)), "b": ["x", "y"], "c": [1, 8, "ragged"], "d": [True, False]}


def test_every_pair_of_values_occurs() -> None:
    rows = all_pairs(AXES)
    for one, two in combinations(AXES, 2):
        assert {(r[one], r[two]) for r in rows} == set(product(AXES[one], AXES[two]))


def test_it_is_small_and_the_same_every_time() -> None:
    assert all_pairs(AXES) == all_pairs(AXES)
    assert len(all_pairs(AXES)) <= 26
    assert len(full_product(AXES)) == 96
