"""Counter-based noise: a pure function of its counters, and Gumbel in law."""

from __future__ import annotations

import math

import pytest
import torch

from mtpcore.acceptance.noise import gumbel_noise, hash_words, row_keys


def counters(n: int, seed: int = 7, sample: int = 0, first: int = 0) -> tuple[torch.Tensor, ...]:
    position = torch.arange(first, first + n)
    return (
        torch.full((n,), seed),
        torch.zeros(n, dtype=torch.int64),
        torch.full((n,), sample),
        position,
    )


def test_a_row_is_the_same_alone_and_in_any_batch() -> None:
    whole = gumbel_noise(*counters(33), 1001)
    for row in (0, 1, 17, 32):
        alone = gumbel_noise(*(c[row : row + 1] for c in counters(33)), 1001)
        assert torch.equal(whole[row : row + 1], alone)
    order = torch.randperm(33, generator=torch.Generator().manual_seed(0))
    assert torch.equal(gumbel_noise(*(c[order] for c in counters(33)), 1001), whole[order])


def test_a_token_is_the_same_in_any_vocabulary() -> None:
    assert torch.equal(gumbel_noise(*counters(3), 4096)[:, :97], gumbel_noise(*counters(3), 97))


@pytest.mark.parametrize("changed", [0, 1, 2, 3])
def test_every_counter_changes_the_row(changed: int) -> None:
    base = list(counters(1))
    other = list(base)
    other[changed] = other[changed] + 1
    a, b = hash_words(*row_keys(*base), 4096), hash_words(*row_keys(*other), 4096)
    # 4096 pairs of 32-bit words agree by chance with probability 1e-6.
    assert int((a == b).sum()) <= 1


def test_negative_words_are_bit_patterns() -> None:
    lo, hi, sample, position = counters(2)
    wrapped = gumbel_noise(lo - 2**32, hi + 2**32, sample, position, 97)
    assert torch.equal(wrapped, gumbel_noise(lo, hi, sample, position, 97))


def test_the_law_is_gumbel() -> None:
    values = gumbel_noise(*counters(256), 4096).flatten().to(torch.float64).sort().values
    cdf = torch.exp(-torch.exp(-values))
    steps = torch.arange(1, len(values) + 1) / len(values)
    # Kolmogorov's bound at 1e-6 for n = 2**20; the noise is fixed, so this never flickers.
    assert float((cdf - steps).abs().max()) < math.sqrt(-math.log(1e-6 / 2) / 2 / len(values))
    assert torch.isfinite(values).all()


def test_the_upper_tail_is_fine_grained() -> None:
    values = gumbel_noise(*counters(512), 4096).flatten()
    # About 2**21 / e**10 = 95 values above 10, and they differ.
    tail = values[values > 10]
    assert 60 < len(tail) < 140
    assert len(tail.unique()) == len(tail)


@pytest.mark.parametrize("shift", [(0, 1), (1, 0), (1, 1), (1, -1), (2, 0), (0, 2)])
def test_neighbours_are_uncorrelated(shift: tuple[int, int]) -> None:
    noise = gumbel_noise(*counters(512), 2048)
    other = torch.roll(noise, shift, (0, 1))
    correlation = torch.corrcoef(torch.stack((noise.flatten(), other.flatten())))[0, 1]
    assert abs(float(correlation)) < 5 / 1024


def test_seeds_are_uncorrelated() -> None:
    base = gumbel_noise(*counters(128, seed=1), 4096).flatten()
    for seed in (2, 3, 257, 65537):
        other = gumbel_noise(*counters(128, seed=seed), 4096).flatten()
        assert abs(float(torch.corrcoef(torch.stack((base, other)))[0, 1])) < 5 / 724
