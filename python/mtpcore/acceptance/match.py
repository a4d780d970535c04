"""Matching drafts against sampled tokens."""

from __future__ import annotations

import torch
from torch import Tensor


def num_accepted_by_match(drafts: Tensor, sampled: Tensor, query_len: Tensor) -> Tensor:
    """Tokens accepted before any limit, the base row included.

    Args:
        drafts: int64 [D, W-1]; column j holds the guess for the token that row j samples.
            -1 marks an absent draft and never matches.
        sampled: int64 [D, W], what the target sampled in each row.
        query_len: int64 [D], rows that ran (0 = HOLD).

    Returns:
        int64 [D]: 1 + leading matches, at most query_len; 0 for HOLD.
    """
    if drafts.shape[1] == 0:
        return query_len.clamp(max=1)
    leading = (drafts == sampled[:, :-1]).to(torch.int64).cumprod(1).sum(1)
    return torch.minimum(leading + 1, query_len)
