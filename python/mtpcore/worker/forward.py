"""The target forward of a step and the logits of the rows that sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from ..layers.paged_kv import PagedKV
    from ..models.causal_lm import CausalLM
    from ..state.conv_ssm_state import ConvSSMState
    from ..state.executor import SSMExecutor
    from .expand import StepRows


def forward_target(
    target: CausalLM,
    rows: StepRows,
    kv: PagedKV,
    state: ConvSSMState,
    executor: SSMExecutor,
    last_hidden: Tensor,
) -> Tensor:
    """Hidden rows [M, H] after the final norm, M >= 1.

    A step whose prompts are all wholly cached computes nothing; the null request's hidden row
    stands for its missing rows, and every reader selects ``last_hidden`` instead.
    """
    if rows.ids.shape[0] == 0:
        return last_hidden[:1]
    return target.forward(rows.ids, rows.attn, rows.ssm, kv, state, executor)


def sampling_hidden(rows: StepRows, hidden: Tensor, last_hidden: Tensor) -> Tensor:
    """Hidden rows that sample: the whole rectangle, then the last token of each prefill row.

    Returns:
        [num_decode * width + num_prefill_rows, H]. An inner chunk's row is there too, so that its
        logits are checked for non-finite values; a chunk of length 0 gives ``last_hidden``.
    """
    rectangle = rows.num_decode * rows.width
    if not rows.prefill:
        return hidden
    first = rows.hidden_base[rows.num_decode :]
    length = rows.query_len[rows.num_decode :]
    last = (first + length - 1).clamp(min=0, max=hidden.shape[0] - 1)
    cached = last_hidden[rows.req_idx[rows.num_decode :]]
    tail = torch.where((length > 0)[:, None], hidden[last], cached)
    if rectangle == 0:
        return tail
    return torch.cat((hidden[:rectangle], tail))
