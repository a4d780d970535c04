"""The trunk and its MTP head in torch, parameters named as in the hub layout."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from delta import delta_rule
from torch import Tensor, nn

if TYPE_CHECKING:
    from settings import Shape


def linear(inputs: int, outputs: int) -> nn.Linear:
    return nn.Linear(inputs, outputs, bias=False)


class Norm(nn.Module):
    """RMSNorm with a zero-centred weight; float32 inside."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.zeros(size)), eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), x.shape[-1:], 1 + self.weight, self.eps)


class GatedNorm(nn.Module):
    """RMSNorm with a plain weight, times silu of the gate."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x: Tensor, gate: Tensor) -> Tensor:
        return F.rms_norm(x.float(), x.shape[-1:], self.weight, self.eps) * F.silu(gate.float())


class ShortConv(nn.Module):
    """Causal depthwise convolution, then silu; weight [channels, 1, width]."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels, 1, width))
        nn.init.uniform_(self.weight, -(width**-0.5), width**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        width, size = self.weight.shape[-1], x.shape[1]
        padded = F.pad(x, (0, 0, width - 1, 0))
        taps = self.weight[:, 0].to(x.dtype)
        mixed = sum(padded[:, j : j + size] * taps[:, j] for j in range(width))
        return F.silu(torch.as_tensor(mixed))


class GatedDeltaNet(nn.Module):
    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.s = s
        self.key_dim = s.linear_num_key_heads * s.linear_key_head_dim
        self.value_dim = s.linear_num_value_heads * s.linear_value_head_dim
        channels = 2 * self.key_dim + self.value_dim
        self.in_proj_qkv = linear(s.hidden_size, channels)
        self.in_proj_z = linear(s.hidden_size, self.value_dim)
        self.in_proj_b = linear(s.hidden_size, s.linear_num_value_heads)
        self.in_proj_a = linear(s.hidden_size, s.linear_num_value_heads)
        self.conv1d = ShortConv(channels, s.linear_conv_kernel_dim)
        self.A_log = nn.Parameter(torch.empty(s.linear_num_value_heads).uniform_(0.01, 16).log())
        step = torch.empty(s.linear_num_value_heads).uniform_(math.log(1e-3), math.log(0.1)).exp()
        self.dt_bias = nn.Parameter(step + torch.log(-torch.expm1(-step)))
        self.norm = GatedNorm(s.linear_value_head_dim, s.rms_norm_eps)
        self.out_proj = linear(self.value_dim, s.hidden_size)

    def split(self, mixed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q, k (repeated to the value heads) and v, each [..., heads, width]."""
        s = self.s
        q, k, v = mixed.split([self.key_dim, self.key_dim, self.value_dim], -1)
        repeat = s.linear_num_value_heads // s.linear_num_key_heads
        q, k = (
            x.unflatten(-1, (-1, s.linear_key_head_dim)).repeat_interleave(repeat, -2)
            for x in (q, k)
        )
        return q, k, v.unflatten(-1, (-1, s.linear_value_head_dim))

    def gates(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Log decay and beta, float32, [..., value heads]."""
        decay = F.softplus(self.in_proj_a(x).float() + self.dt_bias)
        return -self.A_log.exp() * decay, self.in_proj_b(x).float().sigmoid()

    def finish(self, out: Tensor, x: Tensor) -> Tensor:
        z = self.in_proj_z(x).unflatten(-1, (-1, self.s.linear_value_head_dim))
        return self.out_proj(self.norm(out, z).flatten(-2).to(x.dtype))

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        g, beta = self.gates(x)
        q, k, v = self.split(self.conv1d(self.in_proj_qkv(x)))
        return self.finish(delta_rule(q, k, v, g, beta), x)


class GatedAttention(nn.Module):
    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.s = s
        self.q_proj = linear(s.hidden_size, 2 * s.num_attention_heads * s.head_dim)
        self.k_proj = linear(s.hidden_size, s.num_key_value_heads * s.head_dim)
        self.v_proj = linear(s.hidden_size, s.num_key_value_heads * s.head_dim)
        self.o_proj = linear(s.num_attention_heads * s.head_dim, s.hidden_size)
        self.q_norm = Norm(s.head_dim, s.rms_norm_eps)
        self.k_norm = Norm(s.head_dim, s.rms_norm_eps)

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """RoPE on the first rotary_dim of [B, T, heads, head_dim]; positions [T]."""
        d = self.s.rotary_dim
        exponents = torch.arange(0, d, 2, device=x.device).float() / d
        angles = positions.float()[:, None] * self.s.rope_theta**-exponents
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        a, b, rest = x.float().split([d // 2, d // 2, x.shape[-1] - d], -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)

    def project(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """q, k, v as [B, heads, T, head_dim] (k, v repeated to the query heads); gate [B, T, .]."""
        s = self.s
        q, gate = self.q_proj(x).unflatten(-1, (-1, 2 * s.head_dim)).chunk(2, -1)
        k, v = (p(x).unflatten(-1, (-1, s.head_dim)) for p in (self.k_proj, self.v_proj))
        repeat = s.num_attention_heads // s.num_key_value_heads
        q, k = self.rotate(self.q_norm(q), positions), self.rotate(self.k_norm(k), positions)
        k, v = (t.to(v.dtype).repeat_interleave(repeat, 2).transpose(1, 2) for t in (k, v))
        return q.to(v.dtype).transpose(1, 2), k, v, gate.flatten(-2)

    def finish(self, out: Tensor, gate: Tensor) -> Tensor:
        """out [B, heads, T, head_dim]."""
        return self.o_proj(out.transpose(1, 2).flatten(-2) * gate.sigmoid())

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        q, k, v, gate = self.project(x, positions)
        return self.finish(F.scaled_dot_product_attention(q, k, v, is_causal=True), gate)


class Mlp(nn.Module):
    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.gate_proj = linear(s.hidden_size, s.intermediate_size)
        self.up_proj = linear(s.hidden_size, s.intermediate_size)
        self.down_proj = linear(s.intermediate_size, s.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, s: Shape, kind: str) -> None:
        super().__init__()
        self.input_layernorm = Norm(s.hidden_size, s.rms_norm_eps)
        self.post_attention_layernorm = Norm(s.hidden_size, s.rms_norm_eps)
        self.mlp = Mlp(s)
        if kind == "linear_attention":
            self.linear_attn = GatedDeltaNet(s)
        else:
            self.self_attn = GatedAttention(s)

    @property
    def mixer(self) -> GatedDeltaNet | GatedAttention:
        return self.linear_attn if hasattr(self, "linear_attn") else self.self_attn

    def forward(self, x: Tensor, positions: Tensor, dropout: float = 0.0) -> Tensor:
        x = x + F.dropout(self.mixer(self.input_layernorm(x), positions), dropout, self.training)
        y = self.mlp(self.post_attention_layernorm(x))
        return x + F.dropout(y, dropout, self.training)


class Trunk(nn.Module):
    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(s.vocab_size, s.hidden_size)
        self.layers = nn.ModuleList(Layer(s, kind) for kind in s.layer_types)
        self.norm = Norm(s.hidden_size, s.rms_norm_eps)

    def forward(self, tokens: Tensor, dropout: float = 0.0) -> Tensor:
        """Hidden rows after the final norm, float32 [B, T, hidden]."""
        x = F.dropout(self.embed_tokens(tokens), dropout, self.training)
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        for layer in self.layers:
            x = layer(x, positions, dropout)
        return self.norm(x)


class MtpHead(nn.Module):
    """One full-attention layer behind fc([norm(embedding) | norm(hidden)])."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.pre_fc_norm_embedding = Norm(s.hidden_size, s.rms_norm_eps)
        self.pre_fc_norm_hidden = Norm(s.hidden_size, s.rms_norm_eps)
        self.fc = linear(2 * s.hidden_size, s.hidden_size)
        self.layers = nn.ModuleList([Layer(s, "full_attention")])
        self.norm = Norm(s.hidden_size, s.rms_norm_eps)

    def join(self, embedded: Tensor, hidden: Tensor) -> Tensor:
        pair = self.pre_fc_norm_embedding(embedded), self.pre_fc_norm_hidden(hidden)
        return self.fc(torch.cat(pair, -1)).float()


class TinyModel(nn.Module):
    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.model = Trunk(s)
        self.mtp = MtpHead(s)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
        for name, parameter in self.named_parameters():
            if name.endswith(("out_proj.weight", "o_proj.weight", "down_proj.weight")):
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * s.num_hidden_layers))

    def head(self, hidden: Tensor) -> Tensor:
        """Logits through the tied head."""
        return F.linear(hidden, self.model.embed_tokens.weight)
