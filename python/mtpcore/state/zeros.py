"""Zeroed memory of a pool."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor


def zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | str) -> Tensor:
    """A tensor of zeros.

    On a CPU its pages come from the system as they are first touched, so that a pool of gigabytes
    costs nothing at start; torch writes the zeros at once.
    """
    if torch.device(device).type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    count = math.prod(shape) * dtype.itemsize
    if count == 0:
        return torch.zeros(shape, dtype=dtype)
    return torch.from_numpy(np.zeros(count, dtype=np.uint8)).view(dtype).view(shape)
