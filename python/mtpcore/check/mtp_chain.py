"""The slow path's own MTP head: committed entries from true hidden rows, then a recurrent chain.

The entry of (hidden row of position p-1, token p) sits at position p, so position 0 has none. Every
start position is worked out side by side: row p of a tensor belongs to the chain that begins at p.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from mtpcore.check.naive import Weights, attend, mlp, project_attention, rms_norm

if TYPE_CHECKING:
    from mtpcore.check.weights import TextConfig

LAYER = "mtp.layers.0."


@dataclass
class MtpChain:
    """Chains that start at positions 1..T-1 of a text; `advance` feeds one more token to each."""

    weights: Weights
    config: TextConfig
    keys: list[Tensor]
    values: list[Tensor]
    hidden: Tensor

    @classmethod
    def begin(cls, ids: Tensor, hidden: Tensor, weights: Weights, config: TextConfig) -> MtpChain:
        """ids [T], the trunk's hidden [T, H]; the result's `hidden` is [T-1, H], row p-1 for p."""
        positions = torch.arange(1, ids.shape[0])
        chain = cls(weights, config, [], [], hidden[:-1])
        chain.hidden = chain._layer(ids[1:], hidden[:-1], positions)
        return chain

    def logits(self) -> Tensor:
        """[T-1, V]: what the chain from each start predicts next."""
        return F.linear(self.hidden, self.weights["lm_head.weight"])

    def advance(self, tokens: Tensor) -> None:
        """Feeds drafted tokens [T-1], one a start, at the next position of each chain."""
        depth = len(self.keys)
        positions = torch.arange(1, self.hidden.shape[0] + 1) + depth
        self.hidden = self._layer(tokens, self.hidden, positions)

    def _layer(self, tokens: Tensor, hidden: Tensor, positions: Tensor) -> Tensor:
        weights, config = self.weights, self.config
        embedded = weights["embed_tokens.weight"][tokens]
        embedded = rms_norm(embedded, weights["mtp.pre_fc_norm_embedding.weight"], config.eps)
        carried = rms_norm(hidden, weights["mtp.pre_fc_norm_hidden.weight"], config.eps)
        x = F.linear(torch.cat([embedded, carried], -1), weights["mtp.fc.weight"])
        y = rms_norm(x, weights[LAYER + "input_layernorm.weight"], config.eps)
        query, gate, key, value = project_attention(
            y, weights, LAYER + "self_attn.", config, positions
        )
        self.keys.append(key)
        self.values.append(value)
        y = attend(query, torch.cat(self.keys), torch.cat(self.values), self._visible())
        x = x + F.linear(y * torch.sigmoid(gate), weights[LAYER + "self_attn.o_proj.weight"])
        y = rms_norm(x, weights[LAYER + "post_attention_layernorm.weight"], config.eps)
        x = x + mlp(y, weights, LAYER + "mlp.")
        return rms_norm(x, weights["mtp.norm.weight"], config.eps)

    def _visible(self) -> Tensor:
        # Chain p sees the committed entries 1..p and, of the drafted ones, its own alone.
        count = self.keys[0].shape[0]
        committed = torch.ones(count, count, dtype=torch.bool).tril()
        own = torch.eye(count, dtype=torch.bool)
        return torch.cat([committed, *[own] * (len(self.keys) - 1)], 1)
