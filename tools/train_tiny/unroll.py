"""The MTP head applied again and again from every position of a sequence at once.

The pattern is that of use: the entry of (hidden of p-1, token p) lies at position p; a draft that
starts at p sees the true entries 1..p, then its own entries, fed with the head's hidden rows.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from model import GatedAttention, TinyModel
from torch import Tensor


def attend(q: Tensor, keys: Tensor, values: Tensor, own: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Row i sees keys 0..i and row i of each pair in `own`; all [B, heads, n, head_dim]."""
    n, scale = q.shape[2], q.shape[-1] ** -0.5
    if not own:
        return F.scaled_dot_product_attention(q, keys[:, :, :n], values[:, :, :n], is_causal=True)
    past = torch.ones(n, n, dtype=torch.bool, device=q.device).tril()
    scores = (q @ keys[:, :, :n].transpose(-1, -2)).float() * scale
    scores = scores.masked_fill(~past, -torch.inf)
    extra = [(q * k[:, :, :n]).sum(-1, keepdim=True).float() * scale for k, _ in own]
    weights = torch.cat([scores, *extra], -1).softmax(-1).to(values.dtype)
    out = weights[..., :n] @ values[:, :, :n]
    for j, (_, v) in enumerate(own):
        out = out + weights[..., n + j, None] * v[:, :, :n]
    return out


def unroll(model: TinyModel, hidden: Tensor, tokens: Tensor, steps: int) -> list[Tensor]:
    """Rows after mtp.norm for each step; the one of step k for anchor p predicts token p + k.

    hidden [B, T, H] after the trunk's final norm, tokens [B, T]. Element k-1 of the result is
    [B, T - k, H], for the anchors 1..T-k; its row i stands beside the trunk's row i + k.
    """
    mtp, layer = model.mtp, model.mtp.layers[0]
    mixer = layer.mixer
    assert isinstance(mixer, GatedAttention)
    embedded = model.model.embed_tokens(tokens)
    positions = torch.arange(tokens.shape[1], device=tokens.device)
    previous, size = hidden[:, :-1], tokens.shape[1]
    keys = values = torch.empty(0)
    own: list[tuple[Tensor, Tensor]] = []
    rows: list[Tensor] = []
    for k in range(1, steps + 1):
        x = mtp.join(embedded[:, k:], previous[:, : size - k])
        q, new_keys, new_values, gate = mixer.project(layer.input_layernorm(x), positions[k:])
        if k == 1:
            keys, values = new_keys, new_values
        else:
            own.append((new_keys, new_values))
        x = x + mixer.finish(attend(q, keys, values, own), gate)
        x = x + layer.mlp(layer.post_attention_layernorm(x))
        previous = mtp.norm(x)
        rows.append(previous)
    return rows
