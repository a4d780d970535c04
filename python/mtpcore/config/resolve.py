"""Deciding every "auto" that does not need the memory plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .errors import OptionError

if TYPE_CHECKING:
    from .options import EngineOptions

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
DEFAULT_MTP_STEP = 3
MAX_MTP_STEP = 7
DEFAULT_CHECKPOINT_INTERVAL = 1024


def resolve_device(options: EngineOptions, notes: list[str]) -> torch.device:
    """cpu, or a CUDA device that is there."""
    if options.device == "auto":
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        notes.append(f"device: auto is {device.type}")
        return device
    try:
        device = torch.device(options.device)
    except (RuntimeError, TypeError) as error:
        raise OptionError(
            "device", f"{options.device!r} is unknown; use auto, cpu, cuda or cuda:N"
        ) from error
    if device.type not in ("cpu", "cuda"):
        raise OptionError("device", f"{options.device!r} is not supported; use cpu or cuda")
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise OptionError("device", "torch finds no usable CUDA device; use device='cpu'")
        if device.index is not None and device.index >= torch.cuda.device_count():
            count = torch.cuda.device_count()
            raise OptionError("device", f"{options.device!r} does not exist; there are {count}")
    return device


def resolve_dtype(
    options: EngineOptions, declared: str, device: torch.device, notes: list[str]
) -> torch.dtype:
    """The dtype of weights, activations and KV."""
    if options.dtype != "auto":
        return DTYPES[options.dtype]
    if device.type == "cpu":
        if declared != "float32":
            notes.append(
                f"dtype: auto is float32 on a CPU (the checkpoint holds {declared}): faster "
                "there, and exact in the sense of token equality"
            )
        return torch.float32
    if declared not in DTYPES:
        raise OptionError("dtype", f"the checkpoint declares {declared}; use float32 or bfloat16")
    return DTYPES[declared]


def resolve_drafter(options: EngineOptions, has_mtp: bool, notes: list[str]) -> tuple[str, int]:
    """(mtp_mode, mtp_step) with "auto" decided."""
    step = options.mtp_step
    if step is not None and not 0 <= step <= MAX_MTP_STEP:
        raise OptionError("mtp_step", f"{step} is outside 0..{MAX_MTP_STEP}")
    if options.mtp_mode == "mtp" and not has_mtp:
        raise OptionError(
            "mtp_mode", "the model has no MTP head (mtp.* tensors); use mtp_mode='none'"
        )
    if options.mtp_mode == "none":
        if step:
            raise OptionError(
                "mtp_step", f"{step} drafts need a drafter; set it to 0 or use mtp_mode='mtp'"
            )
        return "none", 0
    if options.mtp_mode == "auto" and not has_mtp:
        if step:
            raise OptionError(
                "mtp_step", f"the model has no MTP head, so mtp_mode is none; {step} must be 0"
            )
        notes.append("mtp_mode: auto is none, the model has no MTP head")
        return "none", 0
    step = DEFAULT_MTP_STEP if step is None else step
    if step == 0:
        notes.append("mtp_step: 0 drafts, the MTP head is not loaded")
        return "none", 0
    if options.mtp_mode == "auto":
        notes.append(f"mtp_mode: auto is mtp with mtp_step {step}")
    return "mtp", step


def resolve_interval(options: EngineOptions) -> int:
    """Tokens between coarse checkpoints: a multiple of the page size, 0 for none."""
    page_size = options.page_size
    if options.checkpoint_interval is None:
        return -(-DEFAULT_CHECKPOINT_INTERVAL // page_size) * page_size
    return options.checkpoint_interval


def check_integers(options: EngineOptions) -> None:
    """Types and signs of the counts; the core judges how they fit together."""
    for name in ("max_num_seqs", "max_num_batched_tokens", "page_size", "max_queue"):
        _integer(name, getattr(options, name), least=1)
    for name, least in (("max_model_len", 2), ("checkpoint_interval", 0), ("mtp_step", 0)):
        if getattr(options, name) is not None:
            _integer(name, getattr(options, name), least)
    _integer("overlap_depth", options.overlap_depth, least=0)
    if options.overlap_depth > 1:
        raise OptionError("overlap_depth", f"{options.overlap_depth} is outside 0..1")
    _integer("seed", options.seed, least=0)
    flags = ("enable_prefix_caching", "enforce_eager", "mtp_dynamic_verify", "mtp_windowed")
    for name in flags:
        if not isinstance(getattr(options, name), bool):
            raise OptionError(name, f"{getattr(options, name)!r} is not a bool")


def _integer(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise OptionError(name, f"{value!r} is not an int")
    if value < least:
        raise OptionError(name, f"{value} is below {least}")
