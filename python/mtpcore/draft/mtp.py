"""Multi-token prediction head: one attention layer, applied again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from ..layers.attention import AttnRun, GatedAttention
from ..layers.linear import linear

if TYPE_CHECKING:
    from ..layers.mlp import MLP
    from ..layers.norm import RMSNorm
    from ..layers.paged_kv import PagedKV
    from ..layers.rope import Rope
    from ..state.forward import AttnForward


@dataclass(frozen=True)
class MtpHead:
    """From the token at position p and the hidden row of p - 1 to a row that predicts p + 1.

    y = norm(layer(fc([norm_e(embed x) | norm_h(h)]))), with the target's embedding, head and rope.
    `fc` is [2 H, H]; the keys and values lie in `kv_slot` of the pages, at the slot of p.
    """

    embedding: Tensor
    embedding_norm: RMSNorm
    hidden_norm: RMSNorm
    fc: Tensor
    input_norm: RMSNorm
    mixer: GatedAttention
    post_norm: RMSNorm
    mlp: MLP
    norm: RMSNorm
    rope: Rope
    kv_slot: int

    def forward(self, ids: Tensor, hidden: Tensor, attn: AttnForward, kv: PagedKV) -> Tensor:
        """ids: int64 [M], the tokens at attn.positions; hidden: [M, H], the rows before them: the
        target's after its final norm, or this head's own output when drafting on. Returns [M, H];
        logits are the target's of it."""
        run = AttnRun.begin(attn, kv, self.rope)
        token = self.embedding_norm(F.embedding(ids, self.embedding))
        x = linear(torch.cat((token, self.hidden_norm(hidden)), -1), self.fc)
        x = x + self.mixer(self.input_norm(x), run, self.kv_slot)
        x = x + self.mlp(self.post_norm(x))
        return self.norm(x)
