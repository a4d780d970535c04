"""The target model: embedding, schedule of layers, final norm, head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch.nn.functional as F
from torch import Tensor

from ..layers.attention import AttnRun, GatedAttention
from ..layers.gdn import GatedDeltaNet

if TYPE_CHECKING:
    from ..layers.mlp import MLP
    from ..layers.norm import RMSNorm
    from ..layers.paged_kv import PagedKV
    from ..layers.rope import Rope
    from ..state import AttnForward, ConvSSMState, SSMExecutor, SSMForward
    from .config import ModelConfig
    from .exec_layers import ExecLayer


@dataclass(frozen=True)
class DecoderLayer:
    """x += mixer(norm x); x += mlp(norm x)."""

    input_norm: RMSNorm
    mixer: GatedAttention | GatedDeltaNet
    post_norm: RMSNorm
    mlp: MLP


@dataclass(frozen=True)
class CausalLM:
    """Weights by physical layer, run by `exec_layers`. A tied model's `head` is its `embedding`."""

    config: ModelConfig
    exec_layers: tuple[ExecLayer, ...]
    embedding: Tensor
    layers: tuple[DecoderLayer, ...]
    norm: RMSNorm
    head: Tensor
    rope: Rope

    @property
    def tied(self) -> bool:
        return self.head is self.embedding

    def forward(
        self,
        ids: Tensor,
        attn: AttnForward,
        ssm: SSMForward,
        kv: PagedKV,
        state: ConvSSMState,
        executor: SSMExecutor,
    ) -> Tensor:
        """ids: int64 [M] in flattened order. Returns hidden [M, H] after the final norm.

        Writes keys, values and states; fills the checkpoints of the spans' exports, hidden row
        included.
        """
        attn_run = AttnRun.begin(attn, kv, self.rope)
        ssm_run = executor.begin(ssm, state)
        x = F.embedding(ids, self.embedding)
        for step in self.exec_layers:
            layer = self.layers[step.physical]
            h = layer.input_norm(x)
            if isinstance(layer.mixer, GatedDeltaNet):
                x = x + layer.mixer(h, ssm_run, step.state_slot)
            else:
                x = x + layer.mixer(h, attn_run, step.kv_slot)
            x = x + layer.mlp(layer.post_norm(x))
        hidden = self.norm(x)
        for span in ssm.prefill:
            for count, row in span.exports:
                state.ckpt_hidden[row].copy_(hidden[span.offset + count - 1])
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden: [..., H] after a final norm. Returns float32 [..., V]."""
        return F.linear(hidden, self.head).float()
