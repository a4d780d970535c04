"""The one place where settings are judged: a combination works or is refused here, by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .. import _core
from ..worker.allocate import WorkerConfig
from .errors import OptionError
from .facts import ModelFacts, model_directory, read_facts
from .memory import budget_of, core_refusals, plan_memory
from .refused import check_refused
from .resolve import (
    DTYPES,
    check_integers,
    resolve_device,
    resolve_drafter,
    resolve_dtype,
    resolve_interval,
)

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from .options import EngineOptions


@dataclass(frozen=True)
class Resolved:
    """Settings after every "auto" was decided.

    Attributes:
        worker_config, core_config: what the worker and the core are built from.
        memory: the core's memory plan (pools, limiting_pool, max_requests, sizes).
        notes: what "auto" decided and why, a line each.
    """

    options: EngineOptions
    model_dir: Path
    mtp_mode: str
    max_model_len: int
    seed: int
    worker_config: WorkerConfig
    core_config: dict[str, Any]
    memory: dict[str, Any]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Basics:
    device: torch.device
    dtype: torch.dtype
    ssm_dtype: torch.dtype
    mtp_mode: str
    mtp_step: int
    checkpoint_interval: int


def validate(options: EngineOptions, needs_weights: bool = True) -> Resolved:
    """Judge the options against each other, the model and the memory.

    Args:
        needs_weights: False is for planning alone; config.json is enough then.

    Raises:
        OptionError: the first setting that is wrong, unsupported, or does not fit, and the way out.
        ModelFileError: a broken model directory.
    """
    notes: list[str] = []
    check_refused(options)
    check_integers(options)
    facts = read_facts(model_directory(options.model), needs_weights)
    basics = _basics(options, facts, notes)
    budget = budget_of(options, basics.device, notes)
    max_model_len = _context(options, facts)
    shape = facts.memory_shape(basics.dtype, basics.ssm_dtype, basics.mtp_mode == "mtp")
    memory = plan_memory(shape, memory_settings(options, basics.mtp_step, budget, max_model_len))
    sizes = memory["sizes"]
    max_model_len = _fit_context(options, max_model_len, sizes, notes)
    core_config = _core_config(options, basics, memory, max_model_len, facts.config.vocab_size)
    with core_refusals():
        _core.plan_fields(core_config)
    return Resolved(
        options=options,
        model_dir=facts.directory,
        mtp_mode=basics.mtp_mode,
        max_model_len=max_model_len,
        seed=options.seed,
        worker_config=_worker_config(options, basics, sizes, max_model_len),
        core_config=core_config,
        memory=memory,
        notes=notes,
    )


def _basics(options: EngineOptions, facts: ModelFacts, notes: list[str]) -> _Basics:
    device = resolve_device(options, notes)
    mtp_mode, mtp_step = resolve_drafter(options, facts.has_mtp, notes)
    return _Basics(
        device=device,
        dtype=resolve_dtype(options, facts.config.dtype, device, notes),
        ssm_dtype=DTYPES[options.ssm_state_dtype],
        mtp_mode=mtp_mode,
        mtp_step=mtp_step,
        checkpoint_interval=resolve_interval(options),
    )


def _context(options: EngineOptions, facts: ModelFacts) -> int:
    most = facts.config.max_position_embeddings
    if options.max_model_len is None:
        return most
    if options.max_model_len > most:
        raise OptionError(
            "max_model_len",
            f"{options.max_model_len} is beyond the model's max_position_embeddings {most}",
        )
    return options.max_model_len


def _fit_context(
    options: EngineOptions, max_model_len: int, sizes: dict[str, int], notes: list[str]
) -> int:
    """The context limit that the pages can hold for one request."""
    room = sizes["num_pages"] * options.page_size
    if room >= max_model_len:
        return max_model_len
    if options.max_model_len is not None:
        raise OptionError(
            "max_model_len",
            f"{max_model_len} tokens need more pages than fit: the memory holds {room} tokens; "
            "lower max_model_len or raise memory_budget",
        )
    notes.append(f"max_model_len: {room} instead of the model's {max_model_len}: that many fit")
    return room


def memory_settings(
    options: EngineOptions, mtp_step: int, budget: int, max_model_len: int
) -> dict[str, Any]:
    """What the core's memory plan needs beside the model's shape."""
    return {
        "memory_budget": budget,
        "page_size": options.page_size,
        "max_num_seqs": options.max_num_seqs,
        "max_model_len": max_model_len,
        "mtp_step": mtp_step,
        "overlap_depth": options.overlap_depth,
        "enable_prefix_caching": options.enable_prefix_caching,
        "ssm_state_mode": options.ssm_state_mode,
    }


def _worker_config(
    options: EngineOptions, basics: _Basics, sizes: dict[str, int], max_model_len: int
) -> WorkerConfig:
    return WorkerConfig(
        device=basics.device,
        dtype=basics.dtype,
        ssm_state_dtype=basics.ssm_dtype,
        ssm_state_mode=options.ssm_state_mode,
        max_num_seqs=options.max_num_seqs,
        max_model_len=max_model_len,
        page_size=options.page_size,
        mtp_step=basics.mtp_step,
        overlap_depth=options.overlap_depth,
        num_pages=sizes["num_pages"],
        num_states=sizes["num_states"],
        num_checkpoints=sizes["num_checkpoints"],
    )


def _core_config(
    options: EngineOptions,
    basics: _Basics,
    memory: dict[str, Any],
    max_model_len: int,
    vocab_size: int,
) -> dict[str, Any]:
    pools = {pool["name"]: pool for pool in memory["pools"]}
    return {
        "max_num_seqs": options.max_num_seqs,
        "max_num_batched_tokens": options.max_num_batched_tokens,
        "page_size": options.page_size,
        "num_pages": memory["sizes"]["num_pages"],
        "num_states": memory["sizes"]["num_states"],
        "num_checkpoints": memory["sizes"]["num_checkpoints"],
        "num_rings": 0,
        "window": 0,
        "max_model_len": max_model_len,
        "vocab_size": vocab_size,
        "mtp_step": basics.mtp_step,
        "overlap_depth": options.overlap_depth,
        "enable_prefix_caching": options.enable_prefix_caching,
        "checkpoint_interval": basics.checkpoint_interval,
        "max_queue": options.max_queue,
        "state_mode": options.ssm_state_mode,
        "replay_history_len": 0,
        "page_bytes": pools["kv_pages"]["bytes_each"],
        "checkpoint_bytes": pools["checkpoints"]["bytes_each"],
    }
