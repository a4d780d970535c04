"""Acceptance of the MTP head's drafts, counted from the parallel unrolling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from unroll import unroll

if TYPE_CHECKING:
    from model import TinyModel

STEPS = 7


@torch.no_grad()
def matches(model: TinyModel, tokens: Tensor, begin: int, target: Tensor | None = None) -> Tensor:
    """[STEPS, B, n]: whether draft k of each anchor from `begin` on is the trunk's greedy token.

    With `target` [B, T] the drafts are compared with these tokens instead (entry p = token p).
    """
    model.eval()
    hidden = model.model(tokens)
    if target is None:
        greedy = model.head(hidden).argmax(-1)
        target = torch.cat([tokens[:, :1], greedy[:, :-1]], 1)
    last = tokens.shape[1] - STEPS
    rows = unroll(model, hidden, tokens, STEPS)
    hits = []
    for k, row in enumerate(rows, 1):
        drafts = model.head(row).argmax(-1)
        hits.append(drafts[:, begin - 1 : last - 1] == target[:, begin + k : last + k])
    return torch.stack(hits)


def accepted(hits: Tensor) -> list[float]:
    """Share of anchors whose drafts 1..k are all right, for each k."""
    return hits.float().cumprod(0).flatten(1).mean(1).tolist()


def right(hits: Tensor) -> list[float]:
    """Share of right drafts for each step, whatever came before."""
    return hits.float().flatten(1).mean(1).tolist()
