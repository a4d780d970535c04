"""Paged attention against a loop over rows and heads in float64, in poisoned memory."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from mtpcore.kernels.attention import RectangleIndex, rectangle, span

PAGE = 4


def setup(
    num_kv: int, lengths: list[int], seed: int
) -> tuple[Tensor, list[list[int]], list[Tensor]]:
    """A pool of NaN with the keys and values of some requests on random pages."""
    generator = torch.Generator().manual_seed(seed)
    order = list(range(1, 40))
    random.Random(seed).shuffle(order)
    pool = torch.full((40, PAGE, 2, num_kv, 8), float("nan"))
    tables, contents = [], []
    for length in lengths:
        table = [order.pop() for _ in range(6)]
        content = torch.randn(length, 2, num_kv, 8, generator=generator)
        for position in range(length):
            pool[table[position // PAGE], position % PAGE] = content[position]
        tables.append(table)
        contents.append(content)
    return pool, tables, contents


def naive(q: Tensor, content: Tensor, position: int, first_key: int, scale: float) -> Tensor:
    """One query row [Hq, d] over keys first_key .. position."""
    q, content = q.double(), content.double()[first_key : position + 1]
    ratio = q.shape[0] // content.shape[2]
    outs = []
    for h in range(q.shape[0]):
        key, value = content[:, 0, h // ratio], content[:, 1, h // ratio]
        outs.append(torch.softmax(key @ q[h] * scale, 0) @ value)
    return torch.cat(outs)


@pytest.mark.parametrize("ratio", [1, 2, 3])
@pytest.mark.parametrize("first_key", [0, 1])
def test_rectangle(ratio: int, first_key: int) -> None:
    lengths = [9, 23, 3]
    pool, tables, contents = setup(2, lengths, seed=ratio)
    width, heads = 3, 2 * ratio
    query_len = [3, 1, 0]
    q = torch.randn(3, width, heads, 8, generator=torch.Generator().manual_seed(5))
    # The rows that run are the last ones whose keys are written; the others get any position.
    positions = torch.tensor(
        [
            [n - w + j if j < w else n + 5 for j in range(width)]
            for n, w in zip(lengths, query_len, strict=True)
        ]
    )
    slots = torch.tensor([[1 if j < w else 0 for j in range(width)] for w in query_len])
    index = RectangleIndex.build(positions, slots, torch.tensor(tables), PAGE, first_key)
    got = rectangle(q, pool, index, 0.3)
    for i, count in enumerate(query_len):
        for j in range(width):
            if j < count:
                want = naive(q[i, j], contents[i], int(positions[i, j]), first_key, 0.3)
                assert (got[i, j].double() - want).abs().max() < 1e-5
            else:
                assert (got[i, j] == 0).all()


def test_a_row_before_the_first_key_gives_zero() -> None:
    pool, tables, _ = setup(1, [1], seed=2)
    index = RectangleIndex.build(
        torch.tensor([[0]]), torch.tensor([[8]]), torch.tensor(tables), PAGE, 1
    )
    got = rectangle(torch.randn(1, 1, 2, 8), pool, index, 1.0)
    assert (got == 0).all()


@pytest.mark.parametrize("ratio", [1, 2, 3])
@pytest.mark.parametrize("first_key", [0, 1])
@pytest.mark.parametrize(("start", "length"), [(0, 1), (0, 11), (1, 10), (7, 4), (10, 1)])
def test_span(start: int, length: int, first_key: int, ratio: int) -> None:
    pool, tables, contents = setup(2, [start + length], seed=ratio)
    if first_key:
        pool[tables[0][0], 0] = float("nan")
    q = torch.randn(length, 2 * ratio, 8, generator=torch.Generator().manual_seed(5))
    got = span(q, pool, torch.tensor(tables[0]), start, first_key, 0.3)
    assert torch.isfinite(got).all()
    for j in range(length):
        if start + j >= first_key:
            want = naive(q[j], contents[0], start + j, first_key, 0.3)
            assert (got[j].double() - want).abs().max() < 1e-5


def test_a_long_span_is_cut_into_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, tables, _ = setup(1, [20], seed=3)
    q = torch.randn(15, 2, 8)
    whole = span(q, pool, torch.tensor(tables[0]), 5, 0, 0.3)
    monkeypatch.setattr("mtpcore.kernels.attention.reference.BLOCK_SCORES", 45)
    assert torch.allclose(span(q, pool, torch.tensor(tables[0]), 5, 0, 0.3), whole, atol=1e-6)
