"""Short convolution and its window, against a sum over taps written out in float64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mtpcore.kernels.conv1d import ConvRows, prefill, step


def naive(raw: Tensor, weight: Tensor) -> Tensor:
    """raw: [L, C] from the start of the sequence; weight: [K, C]."""
    raw, weight = raw.double(), weight.double()
    kernel = weight.shape[0]
    out = torch.zeros_like(raw)
    for t in range(len(raw)):
        for j in range(kernel):
            if t - kernel + 1 + j >= 0:
                out[t] += weight[j] * raw[t - kernel + 1 + j]
    return F.silu(out)


@pytest.mark.parametrize("kernel", [2, 3, 4])
@pytest.mark.parametrize("cut", [1, 2, 5, 40])
def test_prefill_in_two_parts(kernel: int, cut: int) -> None:
    generator = torch.Generator().manual_seed(kernel)
    raw, weight = (torch.randn(n, 6, generator=generator) for n in (60, kernel))
    first, padded = prefill(raw[:cut], weight, torch.zeros(kernel - 1, 6))
    second, _ = prefill(raw[cut:], weight, padded[cut:])
    assert torch.equal(padded[cut:][-min(cut, kernel - 1) :], raw[:cut][-(kernel - 1) :])
    assert (torch.cat((first, second)).double() - naive(raw, weight)).abs().max() < 1e-5


@pytest.mark.parametrize("kernel", [2, 3, 4])
def test_steps_with_rollback_follow_the_accepted_tokens(kernel: int) -> None:
    """Rejected inputs never reach a later output, whatever index was accepted."""
    generator = torch.Generator().manual_seed(7)
    mtp_step = 3
    columns = kernel - 1 + mtp_step
    weight = torch.randn(kernel, 5, generator=generator)
    pool = torch.full((4, columns, 5), float("nan"))
    pool[0] = 0
    state_idx, accepted = torch.tensor([3, 1]), torch.tensor([0, 0])
    pool[state_idx] = 0
    history = [torch.zeros(0, 5), torch.zeros(0, 5)]
    for turn in range(12):
        width = int(torch.randint(1, mtp_step + 2, (), generator=generator))
        lengths = torch.randint(0, width + 1, (2,), generator=generator)
        x = torch.randn(2, width, 5, generator=generator)
        rows = ConvRows.build(state_idx, accepted, lengths, width, kernel, columns)
        before = pool.clone()
        out = step(x, weight, pool, rows)
        assert torch.isfinite(out).all()
        assert pool[2].isnan().all(), turn
        for i, length in enumerate(lengths.tolist()):
            if length == 0:
                assert torch.equal(pool[state_idx[i]], before[state_idx[i]])
                continue
            want = naive(torch.cat((history[i], x[i, :length])), weight)[-length:]
            assert (out[i, :length].double() - want).abs().max() < 1e-5
            taken = int(torch.randint(1, length + 1, (), generator=generator))
            history[i] = torch.cat((history[i], x[i, :taken]))
            accepted[i] = taken - 1


def test_the_state_is_the_raw_input() -> None:
    x = torch.tensor([[[-3.0], [2.0]]])
    pool = torch.zeros(2, 3, 1)
    rows = ConvRows.build(torch.tensor([1]), torch.tensor([0]), torch.tensor([2]), 2, 3, 3)
    step(x, torch.ones(3, 1), pool, rows)
    assert pool[1, :, 0].tolist() == [0.0, -3.0, 2.0]


def test_bfloat16_is_rounded_before_the_activation() -> None:
    generator = torch.Generator().manual_seed(2)
    raw = torch.randn(30, 4, generator=generator).bfloat16()
    weight = torch.randn(4, 4, generator=generator).bfloat16().float()
    got, _ = prefill(raw, weight, raw.new_zeros(3, 4))
    padded = torch.cat((torch.zeros(3, 4), raw.float()))
    total = sum(padded[j : j + 30] * weight[j] for j in range(4))
    assert isinstance(total, Tensor)
    assert torch.equal(got, F.silu(total.bfloat16()))
