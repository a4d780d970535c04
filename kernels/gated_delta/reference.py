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
    def build(state_idx: Tensor, accepted: Tensor, query_len: Tensor, width: int, depth: int) -> StepRows:
        """All inputs int64 [D]; `depth` is the number T of state slots in a pool row."""
        columns = torch.arange(width, device=state_idx.device)
        base = state_idx * depth
        live = columns < query_len[:, None]
        write = torch.where(live, base[:, None] + columns, 0)
        # Values in host memory cost nothing to read, and save copying rows that are masked.
        host = None
        if state_idx.device.type == "cpu":
            host = tuple(zip(base.tolist(), query_len.tolist(), strict=True))
        return StepRows(base + accepted, write, host)


def l2norm(x: Tensor, eps: float = 1e-6) -> Tensor:
    """x / sqrt(sum x^2 + eps) over the last axis; eps is inside the root."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + eps)


def step(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, pool: Tensor, rows: StepRows) -> Tensor:
    """Run D rows of W tokens and store the state after every token that is not masked.

    q, k: [D, W, Hk, dk], normalised, q already scaled; v: [D, W, Hv, dv]; g, beta: [D, W, Hv];
    all float32. pool: [rows, T, Hv, dk, dv] in the state dtype. Returns o [D, W, Hv, dv] float32.
    With a state dtype below float32 each stored state is rounded and the next token reads the
    rounded one, as a run of single tokens would.
    """
    flat = pool.view(-1, *pool.shape[2:])
    state = flat.index_select(0, rows.read_slot)
    if pool.dtype == torch.float32:
        return _step_window(q, k, v, g, beta, state, flat, rows)
    outs = []
    for t in range(q.shape[1]):
        part = (x[:, t : t + 1] for x in (q, k, v, g, beta))
        column = StepRows(rows.read_slot, rows.write_slot[:, t : t + 1], None)
        scratch = torch.empty_like(state)
        identity = StepRows(rows.read_slot, torch.arange(len(state), device=q.device)[:, None], None)
        outs.append(_step_window(*part, state.float(), scratch, identity))
        flat.index_copy_(0, column.write_slot[:, 0], scratch)
        state = scratch
    return torch.cat(outs, 1)


def _step_window(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor, flat: Tensor, rows: StepRows
) -> Tensor:
    num_rows, width, num_k, dk = q.shape
    num_v, dv = v.shape[2:]
    qk = torch.stack((k, q), 1)
    if num_k != num_v:
        qk = qk.repeat_interleave(num_v // num_k, 3)
    qk = qk.permute(0, 3, 1, 2, 4).reshape(num_rows, num_v, 2 * width, dk)
    key = qk[:, :, :width]
    c = g.transpose(1, 2).cumsum(2) if width > 1 else g.transpose(1, 2)
    decay = c.exp()[..., None]
    read = torch.matmul(qk, state).view(num_rows, num_v, 2, width, dv) * decay[:, :, None]
    rhs = (v.transpose(1, 2) - read[:, :, 0]) * beta.transpose(1, 2)[..., None]
    dots = torch.matmul(qk, key.transpose(2, 3))
    if width == 1:
        u, weight = rhs, None
        out = torch.addcmul(read[:, :, 1], dots[:, :, 1:], u)
    else:
        weight = (c[..., None] - c[:, :, None]).exp().tril()
        u = _solve(dots[:, :, :width] * weight * beta.transpose(1, 2)[..., None], rhs)
        out = torch.matmul(dots[:, :, width:] * weight, u) + read[:, :, 1]
    _store(key, u, decay, weight, state, flat, rows)
    return out.transpose(1, 2)


def _solve(a: Tensor, rhs: Tensor) -> Tensor:
    """(I + strictly lower part of a)^-1 rhs."""
    return torch.linalg.solve_triangular(a, rhs, upper=False, unitriangular=True)


def _store(
    key: Tensor, u: Tensor, decay: Tensor, weight: Tensor | None, state: Tensor, flat: Tensor, rows: StepRows
) -> None:
    """Write S_t = exp(c_t) S0 + sum_{s <= t} exp(c_t - c_s) k_s u_s^T for every column t."""
    num_rows, num_v, width, dk = key.shape
    dv = u.shape[-1]
    factor = key.transpose(2, 3)[:, None]
    if weight is not None:
        factor = factor * weight.transpose(1, 2)[:, :, :, None]
    factor = factor.reshape(num_rows, width * num_v, dk, width)
    right = u[:, None].expand(num_rows, width, num_v, width, dv).reshape(num_rows, width * num_v, width, dv)
    decay = decay.transpose(1, 2)[..., None]
    if rows.host is None:
        new = torch.matmul(factor, right).view(num_rows, width, num_v, dk, dv)
        new.addcmul_(state[:, None], decay)
        flat.index_copy_(0, rows.write_slot.reshape(-1), new.flatten(0, 1).to(flat.dtype))
        return
    for i, (first, count) in enumerate(rows.host):
        if count:
            target = flat[first : first + count]
            torch.mul(state[i], decay[i, :count], out=target)
            part = count * num_v
            target.view(part, dk, dv).baddbmm_(factor[i, :part], right[i, :part])


def prefill(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor, cuts: tuple[int, ...] = ()
) -> tuple[Tensor, list[Tensor]]:
    """Run one sequence of L tokens from `state`, in chunks of 64 that start anew at every cut.

    q, k: [L, Hk, dk]; v: [L, Hv, dv]; g, beta: [L, Hv]; state: [Hv, dk, dv]; all float32. `cuts`
    are token counts, ascending, each in 1..L. Returns o [L, Hv, dv] and the states after each cut
    and, as the last one, after all L tokens.
    """
    ratio = v.shape[1] // q.shape[1]
    if ratio > 1:
        q, k = q.repeat_interleave(ratio, 1), k.repeat_interleave(ratio, 1)
    outs, states = [], []
    begin = 0
    for end in (*cuts, q.shape[0]):
        if end > begin:
            part = (x[begin:end].transpose(0, 1) for x in (q, k, v, g, beta))
            out, state = _chunks(*part, state)
            outs.append(out)
        states.append(state)
        begin = end
    out = outs[0] if len(outs) == 1 else torch.cat(outs, 1)
    return out.transpose(0, 1), states


def _chunks(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Inputs head first: q, k [H, L, dk], v [H, L, dv], g, beta [H, L]."""
    heads, length, dk = q.shape
    size = min(CHUNK, length)
    pad = -length % size
    if pad:
        # A padded token has g = 0, beta = 0 and k = 0: it leaves the state as it is.
        q, k, v = (torch.nn.functional.pad(x, (0, 0, 0, pad)) for x in (q, k, v))
        g, beta = (torch.nn.functional.pad(x, (0, pad)) for x in (g, beta))
    count = (length + pad) // size
    q, k, v = (x.reshape(heads, count, size, x.shape[-1]) for x in (q, k, v))
    c = g.reshape(heads, count, size).cumsum(2)
    beta = beta.reshape(heads, count, size, 1)
    decay = c.exp()[..., None]
    weight = (c[..., None] - c[:, :, None]).exp().tril()
    kt = k.transpose(2, 3)
    lower = torch.matmul(k, kt) * weight * beta
    solved = _solve(lower, torch.cat((v * beta, k * beta * decay), -1))
    u_bar, w = solved[..., : v.shape[-1]], solved[..., v.shape[-1] :]
    inner = torch.matmul(q, kt) * weight
    q = q * decay
    tail = kt * (c[..., -1:] - c).exp()[:, :, None]
    out = torch.empty_like(v)
    for i in range(count):
        u = u_bar[:, i] - torch.bmm(w[:, i], state)
        out[:, i] = torch.baddbmm(torch.bmm(q[:, i], state), inner[:, i], u)
        state = torch.baddbmm(state * decay[:, i, -1:], tail[:, i], u)
    return out.reshape(heads, -1, v.shape[-1])[:, :length], state
