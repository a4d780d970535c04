"""Sizes of the pools within a budget: the byte formulas are the core's."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from .. import _core
from .errors import OptionError
from .options import EngineOptions, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

# Without a budget a CPU engine takes this share of the memory that is free now, up to a limit:
# it shares the machine with the program around it.
CPU_SHARE = 0.25
CPU_LIMIT = 4 << 30
UNKNOWN_FREE = 8 << 30
GPU_SHARE = 0.9


def cpu_memory(key: str) -> int | None:
    """Bytes of an entry of /proc/meminfo; None where the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{key}:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def _given_budget(given: int | str, device: torch.device) -> int:
    budget = parse_bytes("memory_budget", given)
    if device.type == "cuda":
        total: int | None = torch.cuda.mem_get_info(device)[1]
    else:
        total = cpu_memory("MemTotal")
    if total is not None and budget > total:
        raise OptionError(
            "memory_budget",
            f"{given!r} is more than the {total / 2**30:.1f} GiB of the {device.type}; lower it",
        )
    return budget


def budget_of(options: EngineOptions, device: torch.device, notes: list[str]) -> int:
    """Bytes for all pools together.

    Raises:
        OptionError: two settings for one budget, or one that does not fit the device.
    """
    share = options.gpu_memory_utilization
    if share is not None:
        if device.type != "cuda":
            raise OptionError(
                "gpu_memory_utilization", "the engine runs on a CPU; use memory_budget"
            )
        if options.memory_budget is not None:
            raise OptionError(
                "gpu_memory_utilization", "memory_budget is set too; give one of the two"
            )
        if not isinstance(share, (int, float)) or not 0 < share <= 1:
            raise OptionError("gpu_memory_utilization", f"{share!r} is no number in (0, 1]")
    if options.memory_budget is not None:
        return _given_budget(options.memory_budget, device)
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return min(free, int((share or GPU_SHARE) * total))
    # MemAvailable is what the system can give without swapping.
    free = cpu_memory("MemAvailable") or UNKNOWN_FREE
    budget = min(CPU_LIMIT, int(CPU_SHARE * free))
    notes.append(f"memory_budget: {budget / 2**20:.0f} MiB chosen from the free memory")
    return budget


def plan_memory(shape: dict[str, int], settings: dict[str, Any]) -> dict[str, Any]:
    """The core's memory plan.

    Raises:
        OptionError: not even the least engine fits.
    """
    with core_refusals():
        return _core.memory_plan(shape, settings)


@contextmanager
def core_refusals() -> Iterator[None]:
    """The core's refusals of a setting as OptionError."""
    try:
        yield
    except ValueError as error:
        option, _, reason = str(error).partition(": ")
        raise OptionError(option, reason or str(error)) from error
