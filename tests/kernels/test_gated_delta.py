"""Gated delta rule: both forms against a token-by-token recurrence in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mtpcore.kernels.gated_delta import StepRows, prefill, qk_l2norm, step

HEADS = [(2, 2), (2, 4), (1, 3)]


def make(
    length: int, k_heads: int, v_heads: int, seed: int, dk: int = 8, dv: int = 6
) -> list[Tensor]:
    """qk, v, g, beta of `length` tokens; decays reach from none to nearly all."""
    generator = torch.Generator().manual_seed(seed)
    qk = qk_l2norm(torch.randn(length, 2, k_heads, dk, generator=generator))
    v = torch.randn(length, v_heads, dv, generator=generator)
    g = -torch.rand(length, v_heads, generator=generator).pow(3) * 4
    beta = torch.rand(length, v_heads, generator=generator)
    return [qk, v, g, beta]


def naive(
    qk: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """The recurrence as it is defined, float64; returns outputs and the state after every token."""
    qk, v, g, beta, state = (x.double() for x in (qk, v, g, beta, state))
    ratio = v.shape[1] // qk.shape[2]
    outs, states = [], []
    for t in range(len(v)):
        out = torch.empty_like(v[t])
        state = state.clone()
        for h in range(v.shape[1]):
            q, k = qk[t, 0, h // ratio], qk[t, 1, h // ratio]
            state[h] *= g[t, h].exp()
            u = beta[t, h] * (v[t, h] - state[h].T @ k)
            state[h] += torch.outer(k, u)
            out[h] = state[h].T @ q
        outs.append(out)
        states.append(state)
    return torch.stack(outs), states


def close(got: Tensor, want: Tensor, bound: float = 2e-5) -> None:
    assert got.dtype == torch.float32
    assert (got.double() - want).abs().max() <= bound


def test_normalisation_has_eps_inside_the_root_and_scales_queries_alone() -> None:
    qk = torch.full((1, 2, 1, 4), 1e-3)
    got = qk_l2norm(qk)
    want = 1e-3 / (4e-6 + 1e-6) ** 0.5
    assert torch.allclose(got[0, 1], torch.full((1, 4), want))
    assert torch.allclose(got[0, 0], torch.full((1, 4), want / 2))


@pytest.mark.parametrize(("k_heads", "v_heads"), HEADS)
@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 130])
def test_prefill_equals_the_recurrence(length: int, k_heads: int, v_heads: int) -> None:
    parts = make(length, k_heads, v_heads, seed=length)
    state = torch.randn(v_heads, 8, 6, generator=torch.Generator().manual_seed(1))
    want, states = naive(*parts, state)
    got, got_states = prefill(*parts, state)
    close(got, want)
    close(got_states[-1], states[-1])
    assert len(got_states) == 1


def test_prefill_exports_the_state_at_every_cut() -> None:
    parts = make(150, 2, 4, seed=3)
    state = torch.randn(4, 8, 6, generator=torch.Generator().manual_seed(1))
    want, states = naive(*parts, state)
    cuts = (1, 2, 66, 149, 150)
    got, exported = prefill(*parts, state, cuts)
    close(got, want)
    assert len(exported) == len(cuts) + 1
    for count, at in zip([*cuts, 150], exported, strict=True):
        close(at, states[count - 1])


@pytest.mark.parametrize("on_host", [True, False])
@pytest.mark.parametrize(("k_heads", "v_heads"), HEADS)
@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_step_writes_every_columns_state(
    width: int, k_heads: int, v_heads: int, on_host: bool
) -> None:
    """Ragged rows and a HOLD row; all slots that nobody may read are NaN."""
    depth, num_rows = 8, 4
    pool = torch.full((6, depth, v_heads, 8, 6), float("nan"))
    pool[0] = 0
    state_idx = torch.tensor([5, 2, 0, 3])
    accepted = torch.tensor([7, 0, 0, 3])
    query_len = torch.tensor([width, max(1, width - 1), 0, 1])
    generator = torch.Generator().manual_seed(9)
    for row in (0, 1, 3):
        pool[state_idx[row], accepted[row]] = torch.randn(v_heads, 8, 6, generator=generator)
    before = pool.clone()
    parts = [make(width, k_heads, v_heads, seed=row) for row in range(num_rows)]
    rows = StepRows.build(state_idx, accepted, query_len, width, depth)
    assert rows.host is not None
    if not on_host:
        rows = StepRows(rows.read_slot, rows.write_slot, None)
    out = step(*(torch.stack(x) for x in zip(*parts, strict=True)), pool, rows)
    assert torch.isfinite(out).all()
    expected = before
    for row in (0, 1, 3):
        index, count = state_idx[row], int(query_len[row])
        want, states = naive(*parts[row], before[index, accepted[row]])
        close(out[row, :count], want[:count])
        for t in range(count):
            close(pool[index, t], states[t])
            expected[index, t] = pool[index, t]
    assert torch.equal(pool[1:].nan_to_num(7e7), expected[1:].nan_to_num(7e7))


def test_a_bfloat16_state_is_rounded_after_every_token() -> None:
    """A step of four equals four steps of one, bit for bit, since each reads a stored state."""
    parts = [x[None] for x in make(4, 2, 4, seed=5)]
    start = torch.randn(4, 8, 6, generator=torch.Generator().manual_seed(1)).bfloat16()
    pools = [torch.zeros(2, 4, 4, 8, 6, dtype=torch.bfloat16) for _ in range(2)]
    for pool in pools:
        pool[1, 0] = start
    at, four = torch.tensor([1]), torch.tensor([4])
    whole = step(*parts, pools[0], StepRows.build(at, at * 0, four, 4, 4))
    for t in range(4):
        live = torch.tensor([max(t - 1, 0)])
        rows = StepRows(4 + live, torch.tensor([[4 + t]]), None)
        one = step(*(x[:, t : t + 1] for x in parts), pools[1], rows)
        assert torch.equal(one[:, 0], whole[:, t])
    assert torch.equal(pools[0][1], pools[1][1])


@pytest.mark.parametrize("g", [0.0, -1e4])
def test_extreme_decays_stay_finite(g: float) -> None:
    qk, v, gates, beta = make(130, 2, 4, seed=6)
    out, states = prefill(qk, v, torch.full_like(gates, g), beta, torch.zeros(4, 8, 6))
    want, want_states = naive(qk, v, torch.full_like(gates, g), beta, torch.zeros(4, 8, 6))
    close(out, want, 1e-4)
    close(states[-1], want_states[-1], 1e-4)
