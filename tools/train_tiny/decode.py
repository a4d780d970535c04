"""Token-by-token generation for many rows at once, with recurrent states and a KV cache."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from delta import l2
from model import GatedAttention, GatedDeltaNet, TinyModel
from torch import Tensor


class Cache:
    """States of one layer: conv columns and S for GDN, keys and values for attention."""

    def __init__(self, mixer: GatedDeltaNet | GatedAttention, rows: int, size: int) -> None:
        s, device = mixer.s, next(mixer.parameters()).device
        if isinstance(mixer, GatedDeltaNet):
            channels, width = mixer.conv1d.weight.shape[0], mixer.conv1d.weight.shape[-1]
            self.columns = torch.zeros(rows, width - 1, channels, device=device)
            shape = (s.linear_num_value_heads, s.linear_key_head_dim, s.linear_value_head_dim)
            self.state = torch.zeros(rows, *shape, device=device)
        else:
            shape = (s.num_attention_heads, size, s.head_dim)
            self.keys = torch.zeros(rows, *shape, device=device)
            self.values = torch.zeros(rows, *shape, device=device)


def step_delta(mixer: GatedDeltaNet, x: Tensor, cache: Cache) -> Tensor:
    """One token of every row; x [rows, 1, hidden]."""
    window = torch.cat([cache.columns, mixer.in_proj_qkv(x).float()], 1)
    cache.columns = window[:, 1:]
    taps = mixer.conv1d.weight[:, 0].T
    q, k, v = mixer.split(F.silu((window * taps).sum(1)))
    g, beta = mixer.gates(x[:, 0])
    q, k = l2(q) * q.shape[-1] ** -0.5, l2(k)
    state = cache.state * g.exp()[..., None, None]
    fresh = (v - (k[..., None, :] @ state)[..., 0, :]) * beta[..., None]
    cache.state = state + k[..., :, None] * fresh[..., None, :]
    return mixer.finish((q[..., None, :] @ cache.state)[..., 0, :][:, None], x)


def step_attention(mixer: GatedAttention, x: Tensor, cache: Cache, position: int) -> Tensor:
    q, k, v, gate = mixer.project(x, torch.tensor([position], device=x.device))
    cache.keys[:, :, position], cache.values[:, :, position] = (
        k[:, :, 0].float(),
        v[:, :, 0].float(),
    )
    keys, values = cache.keys[:, :, : position + 1], cache.values[:, :, : position + 1]
    return mixer.finish(F.scaled_dot_product_attention(q.float(), keys, values), gate)


def noise(shape: torch.Size, generator: torch.Generator, device: torch.device) -> Tensor:
    """Standard Gumbel noise."""
    uniform = torch.rand(shape, generator=generator, device=device).clamp_(1e-20, 1 - 1e-7)
    return -(-uniform.log()).log()


@torch.no_grad()
def generate(
    model: TinyModel, prompts: Tensor, size: int, temperature: Tensor, seed: int
) -> Tensor:
    """Prompts [rows, n] (n at least 1) continued to [rows, size]; temperature [rows], 0 greedy."""
    trunk, device = model.model.eval(), prompts.device
    caches = [Cache(layer.mixer, len(prompts), size) for layer in trunk.layers]
    generator = torch.Generator(device).manual_seed(seed)
    out = torch.zeros(len(prompts), size, dtype=torch.long, device=device)
    out[:, : prompts.shape[1]] = prompts
    for position in range(size - 1):
        x = trunk.embed_tokens(out[:, position : position + 1])
        for layer, cache in zip(trunk.layers, caches, strict=True):
            h = layer.input_layernorm(x)
            if isinstance(layer.mixer, GatedDeltaNet):
                x = x + step_delta(layer.mixer, h, cache)
            else:
                x = x + step_attention(layer.mixer, h, cache, position)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        if position + 1 >= prompts.shape[1]:
            logits = model.head(trunk.norm(x))[:, 0].float()
            drawn = logits + temperature[:, None] * noise(logits.shape, generator, device)
            out[:, position + 1] = drawn.argmax(-1)
    return out
