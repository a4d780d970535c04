"""Log-probabilities of the model's own distribution (before temperature and filters)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class LogprobRegion:
    """Log-probabilities of every sampled row of one step, beside the result array.

    Attributes:
        sampled: float32 [M], of the row's sampled token.
        rank: int64 [M], 1 for the most likely token.
        top_ids: int64 [M, K]; top_values: float32 [M, K], descending.
        num_decode: decode rows; width: rectangle width. Token j of decode row r is row
            r * width + j, and the token of prefill row p is num_decode * width + p - num_decode.
    """

    sampled: Tensor
    rank: Tensor
    top_ids: Tensor
    top_values: Tensor
    num_decode: int
    width: int

    def index(self, row: int, column: int) -> int:
        """Index into the region of token ``column`` of step row ``row``."""
        if row < self.num_decode:
            return row * self.width + column
        return self.num_decode * (self.width - 1) + row

    def to_host(self) -> LogprobRegion:
        """The same in host memory; on a GPU the copies are only queued, behind whatever made the
        values, and may be read after an event that follows."""

        def copied(values: Tensor) -> Tensor:
            if values.device.type == "cpu":
                return values
            host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            return host.copy_(values, non_blocking=True)

        return LogprobRegion(
            copied(self.sampled),
            copied(self.rank),
            copied(self.top_ids),
            copied(self.top_values),
            self.num_decode,
            self.width,
        )


def gather_logprobs(
    logits: Tensor, sampled: Tensor, max_logprobs: int, num_decode: int, width: int
) -> LogprobRegion:
    """Log-probabilities of float32 logits [M, V] at int64 sampled tokens [M] and the top K."""
    normaliser = torch.logsumexp(logits, dim=1)
    chosen = logits.gather(1, sampled[:, None])
    rank = (logits > chosen).sum(1) + 1
    top = logits.topk(max_logprobs, dim=1)
    return LogprobRegion(
        sampled=chosen[:, 0] - normaliser,
        rank=rank,
        top_ids=top.indices,
        top_values=top.values - normaliser[:, None],
        num_decode=num_decode,
        width=width,
    )
