"""Own implementation of the counter-based Gumbel noise, in numpy on unsigned words.

The noise of a token is a pure function of (seed, sample index, output position, token id); the
engine's version works on signed torch words. Both have to give the same 31 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORD = 0xFFFFFFFF


def _mix(word: int) -> int:
    word ^= word >> 16
    word = word * 0x7FEB352D & WORD
    word ^= word >> 15
    word = word * 0x046CA68B & WORD
    return word ^ word >> 16


def row_key(seed: int, sample_index: int, position: int) -> tuple[int, int]:
    """The two 32-bit key words of one output position; `seed` counts modulo 2**64."""
    key = _mix(seed & WORD ^ 0x5851F42D)
    key = _mix(key + (seed >> 32 & WORD) & WORD)
    key = _mix(key + sample_index & WORD)
    first = _mix(key ^ position)
    return first, _mix(first + key + 0x2545F491 & WORD)


def gumbel(seed: int, sample_index: int, position: int, vocab: int) -> NDArray[np.float64]:
    """Standard Gumbel noise [vocab] of one output position (0 = first output token)."""
    first, second = row_key(seed, sample_index, position)
    x = np.arange(vocab, dtype=np.uint32) * np.uint32(0x9E3779B1) + np.uint32(first)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x += np.uint32(second)
    x *= np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    uniform = (x & np.uint32(0x7FFFFFFF)).astype(np.float32) + np.float32(0.5)
    uniform = np.minimum(uniform * np.float32(2.0**-31), np.float32(1.0 - 2.0**-24))
    return -np.log(-np.log1p(-uniform.astype(np.float64)))
