"""Gated delta rule over whole sequences: the CUDA kernel where it is, plain torch elsewhere."""

from __future__ import annotations

import importlib.util

import torch
from torch import Tensor

CHUNK = 64


def l2(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)


def chunked(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
    """Chunk form in float32 (Yang et al., Gated Delta Networks, arXiv 2412.06464, section 3).

    q, k [B, T, H, dk], v [B, T, H, dv], g (log decay) and beta [B, T, H]; returns [B, T, H, dv].
    """
    size, steps = q.shape[1], -(-q.shape[1] // CHUNK)
    pad = steps * CHUNK - size

    def cut(x: Tensor) -> Tensor:
        shape = (0, 0) * (x.dim() - 2) + (0, pad)
        x = torch.nn.functional.pad(x.float(), shape).transpose(1, 2)
        return x.reshape(*x.shape[:2], steps, CHUNK, *x.shape[3:])

    q, k, v, g, beta = (cut(x) for x in (l2(q.float()), l2(k.float()), v, g, beta))
    q = q * q.shape[-1] ** -0.5
    decay = g.cumsum(-1)
    lower = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=q.device).tril()
    gaps = (decay[..., :, None] - decay[..., None, :]).masked_fill(~lower, -torch.inf).exp()
    strict = (k * beta[..., None]) @ k.transpose(-1, -2) * gaps.tril(-1)
    inner = torch.eye(CHUNK, device=q.device) + strict
    right = torch.cat([v, k * decay[..., None].exp()], -1) * beta[..., None]
    solved = torch.linalg.solve_triangular(inner, right, upper=False, unitriangular=True)
    values, keys = solved.split([v.shape[-1], k.shape[-1]], -1)
    local = q @ k.transpose(-1, -2) * gaps
    state = q.new_zeros(*q.shape[:2], k.shape[-1], v.shape[-1])
    out = []
    for i in range(steps):
        fresh = values[:, :, i] - keys[:, :, i] @ state
        out.append((q[:, :, i] * decay[:, :, i, :, None].exp()) @ state + local[:, :, i] @ fresh)
        last = decay[:, :, i, -1:]
        weighted = k[:, :, i] * (last - decay[:, :, i]).exp()[..., None]
        state = state * last[..., None].exp() + weighted.transpose(-1, -2) @ fresh
    return torch.cat(out, 2)[:, :, :size].transpose(1, 2)


def kernel(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
    """As `chunked`, by flash-linear-attention's KDA kernel with one decay for all key channels.

    Its GDN kernel has no backward pass on Hopper with Triton 3.4 to 3.7.0.
    """
    from fla.ops.kda import chunk_kda  # type: ignore[import-not-found]

    wide = g[..., None].expand(*g.shape, k.shape[-1]).contiguous()
    out, _ = chunk_kda(q, k, v, wide, beta, use_qk_l2norm_in_kernel=True, disable_recompute=True)
    return out


def kernel_agrees(device: torch.device) -> bool:
    """Whether the kernel is installed and gives the values and gradients of `chunked`."""
    if device.type != "cuda" or importlib.util.find_spec("fla") is None:
        return False
    torch.manual_seed(0)
    shape = (2, 200, 8, 64)
    inputs = [torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(3)]
    decay = -(torch.rand(shape[:3], device=device) ** 3) * 8
    inputs += [decay, torch.rand(shape[:3], device=device)]
    weight = torch.randn(shape, device=device)
    grads: list[list[Tensor]] = []
    for rule in (chunked, kernel):
        leaves = [x.detach().clone().requires_grad_() for x in inputs]
        out = rule(*leaves).float()
        grads.append([out.detach(), *torch.autograd.grad((out * weight).sum(), leaves)])
    errors = [
        ((a - b).float().norm() / a.float().norm()).item() for a, b in zip(*grads, strict=True)
    ]
    print("kernel against torch, relative errors:", [round(e, 5) for e in errors], flush=True)
    return max(errors) < 0.03


class DeltaRule:
    """Which of the two `delta_rule` uses on a GPU; `kernel_agrees` decides at the start."""

    use_kernel = False


def delta_rule(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
    if DeltaRule.use_kernel and q.dtype == torch.bfloat16:
        return kernel(q, k, v, g, beta)
    return chunked(q, k, v, g, beta).to(v.dtype)
