"""Weight matrices as they are stored to be multiplied."""

from __future__ import annotations

import torch
from torch import Tensor


def pack(*weights: Tensor) -> Tensor:
    """Weights [out_i, in] of a checkpoint as one contiguous matrix [in, sum of out_i].

    Input rows first: a product with few rows then reads the matrix in storage order, which on a CPU
    takes half the time of the checkpoint's order.
    """
    packed = weights[0].new_empty(weights[0].shape[1], sum(weight.shape[0] for weight in weights))
    at = 0
    # A copy each instead of one concatenation, whose meta kernel (sizes without weights) imports
    # torch's whole compiler.
    for weight in weights:
        packed[:, at : at + weight.shape[0]].copy_(weight.t())
        at += weight.shape[0]
    return packed


def linear(x: Tensor, packed: Tensor) -> Tensor:
    """x: [M, in], packed: [in, out]. Returns [M, out]."""
    return torch.mm(x, packed)
