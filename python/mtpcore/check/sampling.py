"""The slow path's own sampling of one row: processed distribution, shared noise, choice, ties."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtpcore.check.noise import gumbel

TIE = 1e-4

Row = NDArray[np.float64]


@dataclass(frozen=True)
class Sampling:
    """What a case asks of a request; temperature 0 is greedy, top_k 0 is off."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    max_tokens: int = 16
    min_tokens: int = 0
    stop_token_ids: tuple[int, ...] = ()

    def distribution(self) -> tuple[float, int, float, int]:
        """What decides the token at a position, and so what plain text may be shared by."""
        return (self.temperature, self.top_k, self.top_p, self.seed if self.temperature else 0)


def _kept(scaled: Row, sampling: Sampling) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Tokens inside the top-k and top-p cuts, and tokens within TIE of one of the cuts."""
    order = np.argsort(-scaled, kind="stable")
    value = scaled[order]
    rank = np.arange(len(scaled))
    keep, border = np.ones(len(scaled), bool), np.zeros(len(scaled), bool)
    if 0 < sampling.top_k < len(scaled):
        keep = rank < sampling.top_k
        last, next_one = value[sampling.top_k - 1], value[sampling.top_k]
        if last - next_one < TIE:
            border = (value < next_one + TIE) & (value > last - TIE)
    if sampling.top_p < 1.0:
        mass = np.where(keep, np.exp(value - value[0]), 0.0)
        before = (np.cumsum(mass) - mass) / mass.sum()
        border |= keep & (np.abs(before - sampling.top_p) < TIE)
        keep &= before < sampling.top_p
    keep, border = keep[np.argsort(order)], border[np.argsort(order)]
    return keep, border


@dataclass(frozen=True)
class Choice:
    """The token of one row, and every token that a tie would excuse in its place."""

    token: int
    excused: frozenset[int]


def choose(logits: Row, sampling: Sampling, position: int) -> Choice:
    """argmax(log p + g) for one row of logits [V] at an output position.

    A token is excused when the perturbed value comes within TIE of the best one, with the tokens at
    a cut taken in or left out.
    """
    if sampling.temperature == 0.0:
        best = int(logits.argmax())
        return Choice(best, frozenset(np.flatnonzero(logits > logits[best] - TIE).tolist()))
    scaled = logits / sampling.temperature
    keep, border = _kept(scaled, sampling)
    noisy = scaled + gumbel(sampling.seed, 0, position, len(scaled))
    excused: set[int] = set()
    for kept in (keep, keep | border, keep & ~border):
        if kept.any():
            value = np.where(kept, noisy, -np.inf)
            excused.update(np.flatnonzero(value > value.max() - TIE).tolist())
    return Choice(int(np.where(keep, noisy, -np.inf).argmax()), frozenset(excused))
