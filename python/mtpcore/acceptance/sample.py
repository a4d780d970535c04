"""Sampling by perturbed argmax: token = argmax(log p + g), g = 0 for a greedy row."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .noise import gumbel_noise
from .process import process


@dataclass(frozen=True)
class SamplingRows:
    """Sampling parameters of M rows, on the device.

    Attributes:
        temperature, top_p: float32 [M]; temperature 0 is greedy.
        top_k: int64 [M], 0 = off.
        seed_lo, seed_hi, sample_index: int64 [M].
        position: int64 [M], the output position that each row samples.
        max_top_k: host bound for the filters (see ``process``); None when no row filters.
    """

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    seed_lo: Tensor
    seed_hi: Tensor
    sample_index: Tensor
    position: Tensor
    max_top_k: int | None

    def at(self, position: Tensor) -> SamplingRows:
        """The same rows at other output positions."""
        return SamplingRows(
            self.temperature,
            self.top_k,
            self.top_p,
            self.seed_lo,
            self.seed_hi,
            self.sample_index,
            position,
            self.max_top_k,
        )


def perturbed_scores(logits: Tensor, rows: SamplingRows) -> Tensor:
    """log p + g up to a constant of the row: float32 [M, V] from float32 logits [M, V]."""
    scores = process(logits, rows.temperature, rows.top_k, rows.top_p, rows.max_top_k)
    noise = gumbel_noise(
        rows.seed_lo, rows.seed_hi, rows.sample_index, rows.position, logits.shape[1]
    )
    return scores.add_(noise.mul_((rows.temperature > 0)[:, None]))


def sample_rows(logits: Tensor, rows: SamplingRows | None) -> Tensor:
    """Sample one token a row.

    Args:
        logits: float32 [M, V].
        rows: parameters, or None when every row is greedy: no noise and no sorting then.

    Returns:
        int64 [M].
    """
    if rows is None:
        return torch.argmax(logits, dim=1)
    return torch.argmax(perturbed_scores(logits, rows), dim=1)
