"""Matching and clamping, case by case and against a naive twin."""

from __future__ import annotations

import random

import pytest
import torch

from mtpcore.acceptance.clamp import StopRows, clamp_accepted, is_stop
from mtpcore.acceptance.match import num_accepted_by_match


def test_leading_matches_count_and_later_ones_do_not() -> None:
    sampled = torch.tensor([[5, 6, 7, 8]] * 6)
    drafts = torch.tensor([[5, 6, 7], [5, 6, 9], [9, 6, 7], [5, 9, 7], [-1, -1, -1], [5, 6, 7]])
    query_len = torch.tensor([4, 4, 4, 4, 4, 2])
    assert num_accepted_by_match(drafts, sampled, query_len).tolist() == [4, 3, 1, 2, 1, 2]


def test_hold_accepts_nothing() -> None:
    hold = torch.tensor([0, 0])
    sampled = torch.tensor([[1, 2], [1, 2]])
    assert num_accepted_by_match(sampled[:, :1], sampled, hold).tolist() == [0, 0]
    assert num_accepted_by_match(sampled[:, :0], sampled[:, :1], hold).tolist() == [0, 0]


def naive(
    num_accepted: int, tokens: list[int], stops: set[int], output: int, least: int, left: int
) -> tuple[int, int]:
    for count in range(1, num_accepted + 1):
        if count > left:
            break
        if tokens[count - 1] in stops and output + count - 1 >= least:
            return count, 1
        if count == left:
            return count, 2
    return min(num_accepted, left), 0


@pytest.mark.parametrize("as_bitmap", [False, True])
def test_clamping_equals_one_token_at_a_time(as_bitmap: bool) -> None:
    generator = random.Random(0)
    n, width, vocab = 400, 5, 70
    rows = []
    for _ in range(n):
        stops = set(generator.sample(range(vocab), generator.choice([0, 1, 8])))
        tokens = [generator.choice([*stops, *range(8)]) for _ in range(width)]
        rows.append(
            (
                generator.randint(0, width),
                tokens,
                stops,
                generator.randint(0, 6),
                generator.randint(0, 8),
                generator.randint(1, 7),
            )
        )
    accepted, tokens, stops, output, least, left = zip(*rows, strict=True)
    ids = torch.full((n, 8), -1)
    bitmap = torch.zeros(n, 3, dtype=torch.int32)
    for row, stop in enumerate(stops):
        for column, token in enumerate(sorted(stop)):
            if as_bitmap:
                word = int(bitmap[row, token // 32]) | 1 << token % 32
                bitmap[row, token // 32] = word - (1 << 32) if word >= 1 << 31 else word
            else:
                ids[row, column] = token
    index = torch.tensor(output)[:, None] + torch.arange(width)
    conditions = StopRows(ids, bitmap if as_bitmap else None, torch.tensor(least))
    stop = is_stop(torch.tensor(tokens), index, conditions)
    count, finish = clamp_accepted(torch.tensor(accepted), stop, torch.tensor(left))
    for row, case in enumerate(rows):
        assert (int(count[row]), int(finish[row])) == naive(*case), case


def test_a_stop_at_the_limit_is_a_stop() -> None:
    stop = torch.tensor([[False, True]])
    count, finish = clamp_accepted(torch.tensor([2]), stop, torch.tensor([2]))
    assert (count.tolist(), finish.tolist()) == ([2], [1])
