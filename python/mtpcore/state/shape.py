"""Sizes of the recurrent state of one model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StateShape:
    """`num_layers` logical recurrent layers, each with a state [num_v_heads, k_dim, v_dim] and a
    window of conv_kernel - 1 columns of `conv_channels` raw inputs; `hidden` is the model's width.
    """

    num_layers: int
    num_v_heads: int
    k_dim: int
    v_dim: int
    conv_kernel: int
    conv_channels: int
    hidden: int
