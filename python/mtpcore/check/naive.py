"""The naive forward of the slow path: one text, all its tokens, plain torch on a dict of tensors.

Formulas follow the published Qwen3.5 text architecture; the delta rule is the token recurrence of
"Gated Delta Networks" (arXiv 2412.06464), one token after another.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from mtpcore.check.weights import TextConfig

Weights = dict[str, Tensor]


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / rms(x) * (1 + weight) over the last dimension."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * (1.0 + weight)


def rope_tables(config: TextConfig, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos and sin, each [T, rotary/2]; YaRN (arXiv 2309.00071) where the config asks for it."""
    rope = config.rope
    dim = int(config.head_dim * rope.get("partial_rotary_factor", 1.0))
    theta = float(rope["rope_theta"])
    pair = torch.arange(0, dim, 2, dtype=torch.float64)
    inverse = theta ** (-pair / dim)
    scale = 1.0
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "yarn":
        factor = float(rope["factor"])
        original = float(rope.get("original_max_position_embeddings", config.max_position))

        def turn(beta: float) -> float:
            return dim * math.log(original / (2 * math.pi * beta)) / (2 * math.log(theta))

        low = max(math.floor(turn(float(rope.get("beta_fast", 32)))), 0)
        high = min(math.ceil(turn(float(rope.get("beta_slow", 1)))), dim - 1)
        ramp = ((pair / 2 - low) / max(high - low, 0.001)).clamp(0, 1)
        inverse = inverse / factor * ramp + inverse * (1 - ramp)
        scale = float(rope.get("attention_factor") or 0.1 * math.log(factor) + 1.0)
    elif kind != "default":
        raise ValueError(f"rope_type {kind!r} has no slow path; use default or yarn")
    # Angles are rounded to float32 as every published implementation of the family does.
    angle = (positions.float()[:, None] * inverse.float()[None]).double()
    return (angle.cos() * scale).to(dtype), (angle.sin() * scale).to(dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates pairs (j, j + rotary/2) of x [T, heads, head_dim]; the rest passes."""
    half = cos.shape[-1]
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


def project_attention(
    x: Tensor, weights: Weights, name: str, config: TextConfig, positions: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """query [T, heads, D], gate [T, heads*D], key and value [T, kv_heads, D] of x [T, H]."""
    count, dim = x.shape[0], config.head_dim
    both = F.linear(x, weights[name + "q_proj.weight"]).view(count, config.num_heads, 2 * dim)
    query, gate = both[..., :dim], both[..., dim:].reshape(count, -1)
    key = F.linear(x, weights[name + "k_proj.weight"]).view(count, config.num_kv_heads, dim)
    value = F.linear(x, weights[name + "v_proj.weight"]).view(count, config.num_kv_heads, dim)
    cos, sin = rope_tables(config, positions, x.dtype)
    query = rotate(rms_norm(query, weights[name + "q_norm.weight"], config.eps), cos, sin)
    key = rotate(rms_norm(key, weights[name + "k_norm.weight"], config.eps), cos, sin)
    return query, gate, key, value


def attend(query: Tensor, key: Tensor, value: Tensor, visible: Tensor) -> Tensor:
    """Softmax attention to [T, heads*D].

    query [T, heads, D]; key, value [S, kv_heads, D]; visible [T, S], bool.
    """
    share = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(share, 1), value.repeat_interleave(share, 1)
    score = torch.einsum("thd,shd->hts", query, key) * query.shape[-1] ** -0.5
    score = score.masked_fill(~visible, -torch.inf)
    # A row that sees nothing (slot 0 of an MTP head) yields zeros instead of NaN.
    weight = torch.nan_to_num(torch.softmax(score, -1))
    return torch.einsum("hts,shd->thd", weight, value).reshape(query.shape[0], -1)


def gated_delta(x: Tensor, weights: Weights, name: str, config: TextConfig) -> Tensor:
    """Gated DeltaNet over x [T, H] from an empty state."""
    count, repeat = x.shape[0], config.num_v_heads // config.num_k_heads
    raw = F.linear(x, weights[name + "in_proj_qkv.weight"])
    z = F.linear(x, weights[name + "in_proj_z.weight"]).view(count, config.num_v_heads, -1)
    beta = torch.sigmoid(F.linear(x, weights[name + "in_proj_b.weight"]))
    a = F.linear(x, weights[name + "in_proj_a.weight"])
    decay = -weights[name + "A_log"].exp() * F.softplus(a + weights[name + "dt_bias"])
    taps = weights[name + "conv1d.weight"][:, 0]
    padded = torch.cat([raw.new_zeros(config.conv_kernel - 1, raw.shape[1]), raw])
    mixed = sum(padded[j : j + count] * taps[:, j] for j in range(config.conv_kernel))
    mixed = F.silu(torch.as_tensor(mixed))
    width = config.num_k_heads * config.k_dim
    query, key, value = mixed.split([width, width, config.num_v_heads * config.v_dim], -1)
    query = _unit(query.view(count, config.num_k_heads, -1)).repeat_interleave(repeat, 1)
    key = _unit(key.view(count, config.num_k_heads, -1)).repeat_interleave(repeat, 1)
    value = value.view(count, config.num_v_heads, -1)
    out = delta_rule(query * config.k_dim**-0.5, key, value, decay, beta)
    out = out * torch.rsqrt(out.pow(2).mean(-1, keepdim=True) + config.eps)
    out = out * weights[name + "norm.weight"] * F.silu(z)
    return F.linear(out.reshape(count, -1), weights[name + "out_proj.weight"])


def _unit(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6)


def delta_rule(query: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor) -> Tensor:
    """S <- e^g S; u = beta (v - S^T k); S <- S + k u^T; o = S^T q, one token at a time.

    query, key [T, heads, dk]; value [T, heads, dv]; decay (log), beta [T, heads] -> [T, heads, dv].
    """
    state = query.new_zeros(query.shape[1], query.shape[2], value.shape[2])
    factor, rows = decay.exp()[..., None, None], []
    for t in range(query.shape[0]):
        state = state * factor[t]
        seen = torch.matmul(key[t][:, None], state)[:, 0]
        update = beta[t][:, None] * (value[t] - seen)
        state = state + key[t][..., None] * update[:, None]
        rows.append(torch.matmul(query[t][:, None], state)[:, 0])
    return torch.stack(rows)


def mlp(x: Tensor, weights: Weights, name: str) -> Tensor:
    """down(silu(gate x) * up x)."""
    gate = F.silu(F.linear(x, weights[name + "gate_proj.weight"]))
    up = F.linear(x, weights[name + "up_proj.weight"])
    return F.linear(gate * up, weights[name + "down_proj.weight"])


def trunk(ids: Tensor, weights: Weights, config: TextConfig) -> Tensor:
    """Hidden rows [T, H] after the final norm for token ids [T] at positions 0..T-1."""
    x = weights["embed_tokens.weight"][ids]
    positions = torch.arange(ids.shape[0])
    causal = positions[:, None] >= positions[None, :]
    for layer, kind in enumerate(config.layer_types):
        name = f"layers.{layer}."
        y = rms_norm(x, weights[name + "input_layernorm.weight"], config.eps)
        if kind == "full_attention":
            part = name + "self_attn."
            query, gate, key, value = project_attention(y, weights, part, config, positions)
            y = attend(query, key, value, causal) * torch.sigmoid(gate)
            x = x + F.linear(y, weights[part + "o_proj.weight"])
        else:
            x = x + gated_delta(y, weights, name + "linear_attn.", config)
        y = rms_norm(x, weights[name + "post_attention_layernorm.weight"], config.eps)
        x = x + mlp(y, weights, name + "mlp.")
    return rms_norm(x, weights["norm.weight"], config.eps)
