"""Allocation of every pool, and the bytes that each one takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..layers.paged_kv import PagedKV
from ..state.conv_ssm_state import ConvSSMState
from ..state.executor import SSMExecutor
from .buffers import BufferSizes, RequestBuffers

if TYPE_CHECKING:
    import torch

    from ..models.loader import LoadedModel


@dataclass(frozen=True)
class WorkerConfig:
    """Sizes and dtypes of one worker; counts of pools are usable entries, without the null one."""

    device: torch.device
    dtype: torch.dtype
    ssm_state_dtype: torch.dtype
    ssm_state_mode: str
    max_num_seqs: int
    max_model_len: int
    page_size: int
    mtp_step: int
    overlap_depth: int
    num_pages: int
    num_states: int
    num_checkpoints: int


@dataclass(frozen=True)
class Pools:
    """Everything that a worker allocates; ``weight_bytes`` are the loaded model's."""

    kv: PagedKV
    state: ConvSSMState
    executor: SSMExecutor
    buffers: RequestBuffers
    weight_bytes: int

    def num_bytes(self) -> dict[str, int]:
        """Storage bytes by the pool names of a memory plan; ``workspace`` counts the request
        buffers alone, not the activations that a step needs."""
        return {
            "weights": self.weight_bytes,
            "kv_pages": self.kv.num_bytes(),
            **self.state.num_bytes(),
            "workspace": self.buffers.storage_bytes(),
        }


def allocate(model: LoadedModel, config: WorkerConfig) -> Pools:
    """Allocate the pools of a model; every pool has its null entry 0 in front."""
    shape = model.config
    kv = PagedKV(
        num_layers=shape.num_attn_layers + int(model.mtp is not None),
        num_pages=config.num_pages + 1,
        page_size=config.page_size,
        num_kv_heads=shape.num_key_value_heads,
        head_dim=shape.head_dim,
        dtype=config.dtype,
        device=config.device,
    )
    state = ConvSSMState(
        shape.state_shape(),
        num_states=config.num_states,
        num_checkpoints=config.num_checkpoints,
        mode=config.ssm_state_mode,
        mtp_step=config.mtp_step,
        dtype=config.dtype,
        ssm_dtype=config.ssm_state_dtype,
        device=config.device,
    )
    sizes = BufferSizes(
        max_num_seqs=config.max_num_seqs,
        max_pages=-(-config.max_model_len // config.page_size),
        mtp_step=config.mtp_step,
        hidden_size=shape.hidden_size,
        vocab_size=shape.vocab_size,
    )
    return Pools(
        kv=kv,
        state=state,
        executor=SSMExecutor(config.ssm_state_mode),
        buffers=RequestBuffers(sizes, config.dtype, config.device),
        weight_bytes=model.weight_bytes(),
    )
