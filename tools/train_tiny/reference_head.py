"""The MTP head one draft step at a time, in plain float32, straight from the saved tensors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor

if TYPE_CHECKING:
    from pathlib import Path


class ReferenceHead:
    """Drafts along given tokens; rows are independent sequences of equal length."""

    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "config.json").read_text())
        index = json.loads((folder / "model.safetensors.index.json").read_text())
        self.weights: dict[str, Tensor] = {}
        for name, file in index["weight_map"].items():
            if name.startswith("mtp.") or "embed_tokens" in name:
                with safe_open(folder / file, "pt") as shard:
                    self.weights[name] = shard.get_tensor(name).float()
        self.embedding = self.weights["model.embed_tokens.weight"]

    def norm(self, x: Tensor, name: str) -> Tensor:
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + self.config["rms_norm_eps"])
        return x * scale * (1 + self.weights[f"mtp.{name}.weight"])

    def project(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self.weights[f"mtp.{name}.weight"])

    def turn(self, x: Tensor, positions: Tensor) -> Tensor:
        """Partial rotary embedding of [rows, n, heads, head_dim]."""
        rope = self.config["rope_parameters"]
        width = int(self.config["head_dim"] * rope["partial_rotary_factor"])
        exponents = torch.arange(0, width, 2) / width
        angles = positions[:, None, None] * rope["rope_theta"] ** -exponents
        half = torch.polar(torch.ones_like(angles), angles)
        pairs = torch.complex(x[..., : width // 2], x[..., width // 2 : width]) * half
        return torch.cat([pairs.real, pairs.imag, x[..., width:]], -1)

    def entry(self, tokens: Tensor, hidden: Tensor, positions: Tensor) -> tuple[Tensor, ...]:
        """Layer input, query, gate, key and value of (hidden of p-1, token p) at positions p."""
        pair = (
            self.norm(self.embedding[tokens], "pre_fc_norm_embedding"),
            self.norm(hidden, "pre_fc_norm_hidden"),
        )
        x = self.project(torch.cat(pair, -1), "fc")
        h = self.norm(x, "layers.0.input_layernorm")
        width = self.config["head_dim"]
        mixed = self.project(h, "layers.0.self_attn.q_proj").unflatten(-1, (-1, 2 * width))
        q, gate = mixed[..., :width], mixed[..., width:].flatten(-2)
        k = self.project(h, "layers.0.self_attn.k_proj").unflatten(-1, (-1, width))
        v = self.project(h, "layers.0.self_attn.v_proj").unflatten(-1, (-1, width))
        q = self.turn(self.norm(q, "layers.0.self_attn.q_norm"), positions)
        k = self.turn(self.norm(k, "layers.0.self_attn.k_norm"), positions)
        return x, q, gate, k, v

    def finish(self, x: Tensor, q: Tensor, gate: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """The row after mtp.norm for one query a row; keys and values are all that it sees."""
        share = q.shape[2] // keys.shape[2]
        keys, values = (t.repeat_interleave(share, 2) for t in (keys, values))
        scores = torch.einsum("rqhd,rnhd->rhqn", q, keys) * q.shape[-1] ** -0.5
        out = torch.einsum("rhqn,rnhd->rqhd", scores.softmax(-1), values).flatten(-2)
        x = x + self.project(out * gate.sigmoid(), "layers.0.self_attn.o_proj")
        h = self.norm(x, "layers.0.post_attention_layernorm")
        up = self.project(h, "layers.0.mlp.up_proj")
        x = x + self.project(
            F.silu(self.project(h, "layers.0.mlp.gate_proj")) * up, "layers.0.mlp.down_proj"
        )
        return self.norm(x, "norm")

    def drafts(
        self,
        hidden: Tensor,
        tokens: Tensor,
        anchors: list[int],
        steps: int,
        temperature: float = 0.0,
        noise: Tensor | None = None,
    ) -> Tensor:
        """Drafted tokens [steps, rows, anchors], each step fed with the given tokens.

        hidden [rows, n, hidden_size] of the trunk after its final norm, tokens [rows, n]. Draft k
        of anchor p stands for token p + k: the best of logits + temperature * noise[:, p + k], or
        of the logits alone without `noise` [rows, n, vocabulary].
        """
        every = torch.arange(1, tokens.shape[1]).float()
        _, _, _, true_keys, true_values = self.entry(tokens[:, 1:], hidden[:, :-1], every)
        found = torch.empty(steps, len(tokens), len(anchors), dtype=torch.long)
        for column, anchor in enumerate(anchors):
            keys, values = true_keys[:, : anchor - 1], true_values[:, : anchor - 1]
            row = hidden[:, anchor - 1 : anchor]
            for k in range(steps):
                at = anchor + k
                x, q, gate, key, value = self.entry(
                    tokens[:, at : at + 1], row, torch.tensor([float(at)])
                )
                keys, values = torch.cat([keys, key], 1), torch.cat([values, value], 1)
                row = self.finish(x, q, gate, keys, values)
                logits = F.linear(row[:, 0], self.embedding)
                if noise is not None:
                    logits = logits + temperature * noise[:, at + 1]
                found[k, :, column] = logits.argmax(-1)
        return found
