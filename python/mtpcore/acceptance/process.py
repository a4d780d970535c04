"""A request's processed distribution: temperature, then top-k, then top-p, per row.

Both filters keep the first m tokens of the row sorted by (score descending, token id ascending).
m depends on the sorted scores alone, so only values are sorted and ties at the cut go to the
lower token ids: the kept set is a function of the row, not of the batch around it.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Below this many candidates a partial sort beats a full one.
PARTIAL_SORT_LIMIT = 256


def _num_kept(values: Tensor, top_k: Tensor, top_p: Tensor, vocab_size: int) -> Tensor:
    """Tokens that survive both filters: int64 [M], from the leading sorted scores [M, C]."""
    num_candidates = values.shape[1]
    k = torch.where(top_k > 0, top_k, vocab_size).clamp(max=num_candidates)
    rank = torch.arange(num_candidates, device=values.device)
    weights = torch.exp((values - values[:, :1]).to(torch.float64))
    weights = weights.masked_fill_(rank[None, :] >= k[:, None], 0.0)
    cumulative = weights.cumsum(1)
    before = cumulative - weights
    total = cumulative[:, -1:]
    inside = (before < top_p.to(torch.float64)[:, None] * total) & (rank[None, :] < k[:, None])
    return inside.sum(1).clamp_(min=1)


def filtered_scores(scores: Tensor, top_k: Tensor, top_p: Tensor, max_top_k: int) -> Tensor:
    """Scores with every token outside top-k and top-p set to -inf.

    Args:
        scores: float32 [M, V], logits already divided by the temperature.
        top_k: int64 [M], 0 = off.
        top_p: float32 [M], 1 = off.
        max_top_k: host bound on the top_k of every row that filters at all; 0 when some row
            filters by top-p alone, which needs the whole row sorted.

    Returns:
        float32 [M, V]. Rows with both filters off come back unchanged.
    """
    vocab_size = scores.shape[1]
    if 0 < max_top_k <= min(PARTIAL_SORT_LIMIT, vocab_size):
        values = scores.topk(max_top_k, dim=1).values
    else:
        values = scores.sort(dim=1, descending=True).values
    num_kept = _num_kept(values, top_k, top_p, vocab_size)
    cut = values.gather(1, (num_kept - 1)[:, None])
    above = scores > cut
    at_cut = scores == cut
    num_at_cut = num_kept - above.sum(1)
    keep = above | (at_cut & (at_cut.cumsum(1) <= num_at_cut[:, None]))
    unfiltered = (top_k <= 0) & (top_p >= 1.0)
    return scores.masked_fill(~(keep | unfiltered[:, None]), float("-inf"))


def process(
    logits: Tensor, temperature: Tensor, top_k: Tensor, top_p: Tensor, max_top_k: int | None
) -> Tensor:
    """Unnormalised log-probabilities of each row's processed distribution.

    Args:
        logits: float32 [M, V].
        temperature: float32 [M]; 0 marks a greedy row, which is not scaled.
        top_k, top_p, max_top_k: see :func:`filtered_scores`; ``max_top_k`` None skips the filters.

    Returns:
        float32 [M, V], 0 for the most likely tokens and -inf outside the kept set.
    """
    greedy = temperature <= 0
    # Shifted first: however small the temperature, the largest quotient is 0 and none is NaN.
    shifted = logits - logits.amax(1, keepdim=True)
    scores = shifted.div_(torch.where(greedy, 1.0, temperature)[:, None])
    if max_top_k is None:
        return scores
    return filtered_scores(scores, top_k, top_p, max_top_k)
