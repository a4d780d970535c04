"""Clamping of accepted tokens at stop ids and at the tokens left, before anything commits."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

FINISH_NONE = 0
FINISH_STOP = 1
FINISH_LENGTH = 2


@dataclass(frozen=True)
class StopRows:
    """Stop conditions of n rows, on the device.

    Attributes:
        stop_ids: int64 [n, 8], unused entries -1.
        bitmap: int32 [n, ceil(V/32)], bit t % 32 of word t // 32 is token t; None when no
            running request has more than 8 stop ids.
        min_tokens: int64 [n], stops are ignored while the output index is below it.
    """

    stop_ids: Tensor
    bitmap: Tensor | None
    min_tokens: Tensor


def is_stop(tokens: Tensor, output_index: Tensor, stops: StopRows) -> Tensor:
    """Whether each token ends its request: bool [n, W] from int64 [n, W] tokens and indices."""
    hit = (tokens[:, :, None] == stops.stop_ids[:, None, :]).any(2)
    if stops.bitmap is not None:
        words = stops.bitmap.gather(1, tokens >> 5).to(torch.int64)
        hit = hit | (((words >> (tokens & 31)) & 1) != 0)
    return hit & (output_index >= stops.min_tokens[:, None])


def clamp_accepted(
    num_accepted: Tensor, stop: Tensor, tokens_left: Tensor
) -> tuple[Tensor, Tensor]:
    """Cut after the first accepted stop token and at the tokens left.

    Args:
        num_accepted: int64 [n].
        stop: bool [n, W].
        tokens_left: int64 [n], output tokens that the request may still emit.

    Returns:
        (num_accepted int64 [n], finish int64 [n] with the FINISH_* codes). A stop token that is
        also the last allowed token counts as a stop.
    """
    width = stop.shape[1]
    column = torch.arange(1, width + 1, device=stop.device)
    up_to_stop = torch.where(stop, column[None, :], width + 1).amin(1)
    allowed = torch.minimum(num_accepted, tokens_left)
    accepted = torch.minimum(allowed, up_to_stop)
    stopped = up_to_stop <= allowed
    exhausted = (accepted > 0) & (accepted == tokens_left)
    finish = torch.where(stopped, FINISH_STOP, torch.where(exhausted, FINISH_LENGTH, FINISH_NONE))
    return accepted, finish
