"""Reference of the gated delta rule (Gated DeltaNet, arXiv 2412.06464), float32 throughout.

Per value head, with S of shape [dk, dv]:
    S <- exp(g) S;   u = beta (v - S^T k);   S <- S + k u^T;   o = S^T q.
Value head h reads key head h // (Hv // Hk). Both entry points solve the recurrence for a window of
tokens at once: with c the running sum of g, (I + A) U = beta (v - exp(c) S0^T k), where
A_ts = beta_t (k_t . k_s) exp(c_t - c_s) for s < t, so that S0 is read once for the whole window.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 64


@dataclass(frozen=True)
class StepRows:
    """Where the rows of a verify step read and write their states.

    `read_slot` [D] and `write_slot` [D, W] are int64 indices into the pool flattened to
    [rows * T, ...]; a masked column has write slot 0, which is the null state. `host` holds
    (first write slot, number of columns) of each row where the states lie in host memory.
    """

    read_slot: Tensor
    write_slot: Tensor
    host: tuple[tuple[int, int], ...] | None

    @staticmethod
    def build(
        state_idx: Tensor, accepted: Tensor, query_len: Tensor, width: int, depth: int
    ) -> StepRows:
        """All inputs int64 [D]; `depth` is the number T of state slots in a pool row."""
        columns = torch.arange(width, device=state_idx.device)
        base = state_idx * depth
        write = torch.where(columns < query_len[:, None], base[:, None] + columns, 0)
        # Values in host memory cost nothing to read, and save copying rows that are masked.
        host = None
        if state_idx.device.type == "cpu":
            host = tuple(zip(base.tolist(), query_len.tolist(), strict=True))
        return StepRows(base + accepted, write, host)


def qk_l2norm(qk: Tensor, eps: float = 1e-6) -> Tensor:
    """Normalise queries and keys and scale the queries.

    qk: float32 [..., 2, Hk, dk], queries first. Each row becomes x / sqrt(sum x^2 + eps), eps
    inside the root; queries are then multiplied by dk^-1/2.
    """
    factor = torch.rsqrt(qk.square().sum(-1, keepdim=True).add_(eps))
    factor[..., 0, :, :] *= qk.shape[-1] ** -0.5
    return qk * factor


def step(qk: Tensor, v: Tensor, g: Tensor, beta: Tensor, pool: Tensor, rows: StepRows) -> Tensor:
    """Run D rows of W tokens and store the state after every token that is not masked.

    qk: [D, W, 2, Hk, dk] from `qk_l2norm`; v: [D, W, Hv, dv]; g, beta: [D, W, Hv]; all float32.
    pool: [rows, T, Hv, dk, dv] in the state dtype. Returns o [D, W, Hv, dv] float32.
    With a state dtype below float32 each stored state is rounded and the next token reads the
    rounded one, as a run of single tokens would.
    """
    flat = pool.view(-1, *pool.shape[2:])
    state = flat.index_select(0, rows.read_slot)
    if pool.dtype == torch.float32:
        return _window(qk, v, g, beta, state, flat, rows)
    outs = []
    every = torch.arange(len(state), device=v.device)
    for t in range(v.shape[1]):
        one = slice(t, t + 1)
        after = torch.empty_like(state)
        whole = StepRows(every, every, None)
        outs.append(
            _window(qk[:, one], v[:, one], g[:, one], beta[:, one], state.float(), after, whole)
        )
        flat.index_copy_(0, rows.write_slot[:, t], after)
        state = after
    return torch.cat(outs, 1)


def _window(
    qk: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor, flat: Tensor, rows: StepRows
) -> Tensor:
    """`state` [D, Hv, dk, dv] float32; the new states go to `flat` at `rows`."""
    num_rows, width, num_v, dv = v.shape
    num_k, dk = qk.shape[3:]
    batch = num_rows * num_v
    spread = qk.permute(0, 3, 2, 1, 4)[:, :, None]
    spread = spread.expand(num_rows, num_k, num_v // num_k, 2, width, dk)
    spread = spread.reshape(batch, 2 * width, dk)
    key = spread[:, width:].transpose(1, 2)
    v, beta = (
        v.transpose(1, 2).reshape(batch, width, dv),
        beta.transpose(1, 2).reshape(batch, width, 1),
    )
    c = g.transpose(1, 2).reshape(batch, width)
    if width > 1:
        c = c.cumsum(1)
    decay = c.exp()
    read = torch.bmm(spread, state.view(batch, dk, dv)).view(batch, 2, width, dv)
    read *= decay[:, None, :, None]
    rhs = (v - read[:, 1]) * beta
    dots = torch.bmm(spread, key)
    if width == 1:
        u, factor = rhs, key
        out = torch.addcmul(read[:, 0], dots[:, :1], u)
    else:
        weight = (c[:, :, None] - c[:, None]).exp_().tril_()
        u = _solve(dots[:, width:] * weight * beta, rhs)
        out = torch.baddbmm(read[:, 0], dots[:, :width] * weight, u)
        weight = weight.view(num_rows, num_v, width, 1, width).transpose(1, 2)
        factor = key.contiguous().view(num_rows, 1, num_v, dk, width) * weight
    # S_t = exp(c_t) S0 + sum over s <= t of exp(c_t - c_s) k_s u_s^T, for every column t.
    factor = factor.reshape(num_rows, width * num_v, dk, width)
    u = u.view(num_rows, 1, num_v, width, dv).expand(num_rows, width, num_v, width, dv)
    decay = decay.view(num_rows, num_v, width).transpose(1, 2)[..., None, None]
    _store(factor, u.reshape(num_rows, width * num_v, width, dv), decay, state, flat, rows)
    return out.view(num_rows, num_v, width, dv).transpose(1, 2)


def _store(
    factor: Tensor, u: Tensor, decay: Tensor, state: Tensor, flat: Tensor, rows: StepRows
) -> None:
    """factor: [D, W * Hv, dk, W], u: [D, W * Hv, W, dv], decay: [D, W, Hv, 1, 1]."""
    width, num_v = decay.shape[1:3]
    if rows.host is None:
        new = torch.matmul(factor, u).unflatten(1, (width, num_v))
        new.addcmul_(state[:, None], decay)
        flat.index_copy_(0, rows.write_slot.reshape(-1), new.flatten(0, 1).to(flat.dtype))
        return
    for i, (first, count) in enumerate(rows.host):
        if count:
            target = flat[first : first + count]
            torch.mul(state[i], decay[i, :count], out=target)
            part = count * num_v
            target.flatten(0, 1).baddbmm_(factor[i, :part], u[i, :part])


def _solve(a: Tensor, rhs: Tensor) -> Tensor:
    """(I + strictly lower part of a)^-1 rhs."""
    return torch.linalg.solve_triangular(a, rhs, upper=False, unitriangular=True)


def prefill(
    qk: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor, cuts: tuple[int, ...] = ()
) -> tuple[Tensor, list[Tensor]]:
    """Run one sequence of L tokens from `state`, in chunks of 64 that start anew at every cut.

    qk: [L, 2, Hk, dk] from `qk_l2norm`; v: [L, Hv, dv]; g, beta: [L, Hv]; state: [Hv, dk, dv]; all
    float32. `cuts` are token counts, ascending, each in 1..L. Returns o [L, Hv, dv] and the states
    after each cut and, as the last one, after all L tokens.
    """
    qk = qk.repeat_interleave(v.shape[1] // qk.shape[2], 2).transpose(0, 2)
    v, g, beta = v.transpose(0, 1), g.t(), beta.t()
    outs, states = [], []
    begin = 0
    for end in (*cuts, v.shape[1]):
        if end > begin:
            part = slice(begin, end)
            q, k = qk[:, 0, part], qk[:, 1, part]
            out, state = _chunks(q, k, v[:, part], g[:, part], beta[:, part], state)
            outs.append(out)
        states.append(state)
        begin = end
    out = outs[0] if len(outs) == 1 else torch.cat(outs, 1)
    return out.transpose(0, 1), states


def _chunks(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Inputs head first: q, k [H, L, dk], v [H, L, dv], g, beta [H, L]."""
    heads, length, _ = q.shape
    size = min(CHUNK, length)
    pad = -length % size
    if pad:
        # A padded token has g = 0, beta = 0 and k = 0: it leaves the state as it is.
        q, k, v = (F.pad(x, (0, 0, 0, pad)) for x in (q, k, v))
        g, beta = (F.pad(x, (0, pad)) for x in (g, beta))
    count = (length + pad) // size
    q, k, v = (x.reshape(heads, count, size, x.shape[-1]) for x in (q, k, v))
    c = g.reshape(heads, count, size).cumsum(2)
    beta = beta.reshape(heads, count, size, 1)
    decay = c.exp()[..., None]
    weight = (c[..., None] - c[:, :, None]).exp_().tril_()
    kt = k.transpose(2, 3)
    solved = _solve(
        torch.matmul(k, kt) * weight * beta, torch.cat((v * beta, k * beta * decay), -1)
    )
    u_bar, w = solved[..., : v.shape[-1]], solved[..., v.shape[-1] :]
    inner = torch.matmul(q, kt) * weight
    q = q * decay
    tail = kt * (c[..., -1:] - c).exp_()[:, :, None]
    out = torch.empty_like(v)
    for i in range(count):
        u = u_bar[:, i] - torch.bmm(w[:, i], state)
        out[:, i] = torch.baddbmm(torch.bmm(q[:, i], state), inner[:, i], u)
        state = torch.baddbmm(state * decay[:, i, -1:], tail[:, i], u)
    return out.reshape(heads, -1, v.shape[-1])[:, :length], state
