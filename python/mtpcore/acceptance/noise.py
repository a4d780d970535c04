"""Counter-based Gumbel noise: a pure function of (seed, sample index, output position, token).

Nothing is drawn from a stateful generator, so the noise of an output position is the same
whether the position is sampled by the target, guessed by a drafter, verified in a batch, or
sampled again after a preemption. The hash works on integers only and is equal on every device;
the two logarithms that follow are equal up to the device's rounding.

The mixer is a chain of xor-shifts and odd multiplications on 32-bit words, with the row's second
key word added between the rounds, so that two rows are never shifted copies of each other. The
multipliers are those of Wellons' low-bias 32-bit hash and Knuth's golden ratio.
"""

from __future__ import annotations

import torch
from torch import Tensor

_GOLDEN = 0x9E3779B1 - (1 << 32)
_MULTIPLIER_A = 0x7FEB352D
_MULTIPLIER_B = 0x846CA68B - (1 << 32)
_WORD_MASK = 0xFFFFFFFF
_LOW_31 = 0x7FFFFFFF
_KEY_SALT = 0x5851F42D
# Largest float32 below one: the hash may round up to 1, whose logarithm would be infinite.
_BELOW_ONE = 1.0 - 2.0**-24


def _xor_shift_(x: Tensor, bits: int) -> Tensor:
    """x ^= x >>> bits in place; torch shifts int32 arithmetically, hence the mask."""
    return x.bitwise_xor_((x >> bits).bitwise_and_((1 << (32 - bits)) - 1))


def _mix64(x: Tensor) -> Tensor:
    """Mix 32-bit words held in int64 (0 <= x < 2**32); the products stay below 2**63."""
    x = x ^ (x >> 16)
    x = (x * _MULTIPLIER_A) & _WORD_MASK
    x = x ^ (x >> 15)
    # The second multiplier has its top bit set; its low 31 bits keep the product positive.
    x = (x * 0x046CA68B) & _WORD_MASK
    return x ^ (x >> 16)


def _to_int32(x: Tensor) -> Tensor:
    """Reinterpret words 0..2**32-1 held in int64 as int32."""
    return (x - ((x >> 31) << 32)).to(torch.int32)


def row_keys(
    seed_lo: Tensor, seed_hi: Tensor, sample_index: Tensor, position: Tensor
) -> tuple[Tensor, Tensor]:
    """Two 32-bit key words a row.

    Args:
        seed_lo, seed_hi: int64 [M], the halves of the request's 64-bit seed (any sign).
        sample_index: int64 [M], index of the sample within its request.
        position: int64 [M], output position (0 = first output token).

    Returns:
        Two int32 tensors [M].
    """
    k = _mix64((seed_lo & _WORD_MASK) ^ _KEY_SALT)
    k = _mix64((k + (seed_hi & _WORD_MASK)) & _WORD_MASK)
    k = _mix64((k + (sample_index & _WORD_MASK)) & _WORD_MASK)
    k0 = _mix64((k ^ (position & _WORD_MASK)) & _WORD_MASK)
    k1 = _mix64((k0 + k + 0x2545F491) & _WORD_MASK)
    return _to_int32(k0), _to_int32(k1)


def hash_words(k0: Tensor, k1: Tensor, vocab_size: int) -> Tensor:
    """32-bit hash of (row key, token id): int32 [M, V] from int32 [M] keys."""
    tokens = torch.arange(vocab_size, dtype=torch.int32, device=k0.device)
    x = tokens.mul_(_GOLDEN)[None, :] + k0[:, None]
    _xor_shift_(x, 16).mul_(_MULTIPLIER_A)
    _xor_shift_(x, 15).add_(k1[:, None]).mul_(_MULTIPLIER_B)
    _xor_shift_(x, 16).mul_(_MULTIPLIER_A)
    return _xor_shift_(x, 15)


def gumbel_noise(
    seed_lo: Tensor, seed_hi: Tensor, sample_index: Tensor, position: Tensor, vocab_size: int
) -> Tensor:
    """Standard Gumbel noise, float32 [M, V], from int64 [M] counters.

    With v uniform in (0, 1), -log(1 - v) is exponential and -log of that is Gumbel. Small v is
    the upper tail, where float32 keeps all 31 bits of the hash that are used.
    """
    k0, k1 = row_keys(seed_lo, seed_hi, sample_index, position)
    v = hash_words(k0, k1, vocab_size).bitwise_and_(_LOW_31).to(torch.float32)
    v = v.add_(0.5).mul_(2.0**-31).clamp_(max=_BELOW_ONE)
    return v.neg_().log1p_().neg_().log_().neg_()
