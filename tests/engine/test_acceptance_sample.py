"""Processed distributions against a naive twin, and sampling in law."""

from __future__ import annotations

import math

import pytest
import torch

from mtpcore.acceptance.process import process
from mtpcore.acceptance.sample import SamplingRows, sample_rows


def naive_kept(row: list[float], top_k: int, top_p: float) -> set[int]:
    """Tokens kept by top-k, then top-p, by walking the sorted row."""
    order = sorted(range(len(row)), key=lambda token: (-row[token], token))
    kept = order[:top_k] if top_k else order
    total = math.fsum(math.exp(row[token] - row[order[0]]) for token in kept)
    out: set[int] = set()
    mass = 0.0
    for token in kept:
        if out and mass >= top_p * total:
            break
        out.add(token)
        mass += math.exp(row[token] - row[order[0]])
    return out


def kept_of(scores: torch.Tensor) -> list[set[int]]:
    return [set(torch.isfinite(row).nonzero()[:, 0].tolist()) for row in scores]


def processed(
    logits: torch.Tensor, temperature: float, top_k: int, top_p: float, max_top_k: int | None
) -> torch.Tensor:
    rows = len(logits)
    return process(
        logits,
        torch.full((rows,), temperature),
        torch.full((rows,), top_k),
        torch.full((rows,), top_p),
        max_top_k,
    )


@pytest.mark.parametrize("top_k", [0, 1, 3, 20, 97])
@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.5, 0.01])
@pytest.mark.parametrize("coarse", [False, True])
def test_filters_keep_what_a_walk_keeps(top_k: int, top_p: float, coarse: bool) -> None:
    logits = torch.randn(24, 97, generator=torch.Generator().manual_seed(top_k)) * 2
    if coarse:
        # Many equal logits put ties at every cut.
        logits = logits.round()
    expected = [naive_kept(row, top_k, top_p) for row in (logits / 0.5).tolist()]
    assert kept_of(processed(logits, 0.5, top_k, top_p, 0)) == expected
    if top_k:
        assert kept_of(processed(logits, 0.5, top_k, top_p, top_k)) == expected


def test_rows_do_not_depend_on_the_batch() -> None:
    logits = torch.randn(5, 97, generator=torch.Generator().manual_seed(1))
    top_k = torch.tensor([0, 5, 40, 0, 3])
    top_p = torch.tensor([1.0, 0.9, 1.0, 0.7, 0.3])
    temperature = torch.tensor([0.0, 0.7, 1.0, 1.3, 0.2])
    whole = process(logits, temperature, top_k, top_p, 0)
    for row in range(5):
        one = slice(row, row + 1)
        bound = int(top_k[row])
        alone = process(logits[one], temperature[one], top_k[one], top_p[one], bound)
        assert torch.equal(whole[one], alone)


def test_greedy_rows_are_not_scaled() -> None:
    logits = torch.randn(2, 97, generator=torch.Generator().manual_seed(2))
    best = logits.max(1, keepdim=True).values
    assert torch.equal(processed(logits, 0.0, 0, 1.0, None), logits - best)


@pytest.mark.parametrize("temperature", [1e-30, 1.1754944e-38])
@pytest.mark.parametrize(("top_k", "top_p"), [(0, 1.0), (5, 1.0), (0, 0.9)])
def test_next_to_no_temperature_is_greedy(temperature: float, top_k: int, top_p: float) -> None:
    logits = 20 * torch.randn(6, 97, generator=torch.Generator().manual_seed(3))
    tokens = sample_rows(logits, rows_for(6, temperature, top_k, top_p))
    assert torch.equal(tokens, logits.argmax(1))


def rows_for(n: int, temperature: float, top_k: int, top_p: float, seed: int = 3) -> SamplingRows:
    return SamplingRows(
        temperature=torch.full((n,), temperature),
        top_k=torch.full((n,), top_k),
        top_p=torch.full((n,), top_p),
        seed_lo=torch.full((n,), seed),
        seed_hi=torch.zeros(n, dtype=torch.int64),
        sample_index=torch.zeros(n, dtype=torch.int64),
        position=torch.arange(n),
        max_top_k=None if top_k == 0 and top_p == 1.0 else top_k,
    )


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(1.0, 0, 1.0), (0.7, 0, 1.0), (1.0, 5, 1.0), (1.3, 8, 0.8)]
)
def test_frequencies_follow_the_processed_distribution(
    temperature: float, top_k: int, top_p: float
) -> None:
    n, vocab = 100_000, 13
    logits = torch.randn(1, vocab, generator=torch.Generator().manual_seed(4)) * 1.5
    tokens = sample_rows(logits.expand(n, -1), rows_for(n, temperature, top_k, top_p))
    probability = torch.softmax(
        processed(logits, temperature, top_k, top_p, 0)[0].to(torch.float64), 0
    )
    count = torch.bincount(tokens, minlength=vocab).to(torch.float64)
    assert int(count[probability == 0].sum()) == 0
    used = probability > 0
    chi2 = float(((count - n * probability)[used] ** 2 / (n * probability[used])).sum())
    # 99.99 % point of chi-square with 12 degrees of freedom; the noise is fixed.
    assert chi2 < 39.1


def test_greedy_is_the_plain_argmax() -> None:
    logits = torch.randn(6, 97, generator=torch.Generator().manual_seed(5))
    expected = logits.argmax(1)
    assert torch.equal(sample_rows(logits, None), expected)
    assert torch.equal(sample_rows(logits, rows_for(6, 0.0, 0, 1.0)), expected)


def test_top_k_1_is_greedy_at_any_temperature() -> None:
    logits = torch.randn(6, 97, generator=torch.Generator().manual_seed(6))
    assert torch.equal(sample_rows(logits, rows_for(6, 2.0, 1, 1.0)), logits.argmax(1))


def test_close_distributions_agree_often_under_shared_noise() -> None:
    generator = torch.Generator().manual_seed(8)
    target = torch.randn(1, 97, generator=generator)
    draft = target + 0.3 * torch.randn(1, 97, generator=generator)
    n = 20_000
    shared = rows_for(n, 1.0, 0, 1.0)
    other = rows_for(n, 1.0, 0, 1.0, seed=4)
    p = sample_rows(target.expand(n, -1), shared)
    same = float((p == sample_rows(draft.expand(n, -1), shared)).float().mean())
    apart = float((p == sample_rows(draft.expand(n, -1), other)).float().mean())
    assert same > 0.6
    assert apart < 0.1
