"""Sizes of the pools within a budget: the byte formulas are the core's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from .. import _core
from .errors import OptionError
from .options import EngineOptions, parse_bytes

# Without a budget a CPU engine takes this share of the memory that is free now, up to a limit:
# it shares the machine with the program around it.
CPU_SHARE = 0.25
CPU_LIMIT = 4 << 30
GPU_SHARE = 0.9


def free_cpu_memory() -> int:
    """Bytes that the system says it can give without swapping; 8 GiB where it does not say."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 8 << 30


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
        if not 0 < share <= 1:
            raise OptionError("gpu_memory_utilization", f"{share} is outside (0, 1]")
    if options.memory_budget is not None:
        return parse_bytes("memory_budget", options.memory_budget)
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return min(free, int((share or GPU_SHARE) * total))
    budget = min(CPU_LIMIT, int(CPU_SHARE * free_cpu_memory()))
    notes.append(f"memory_budget: {budget / 2**20:.0f} MiB chosen from the free memory")
    return budget


def plan_memory(shape: dict[str, int], settings: dict[str, Any]) -> dict[str, Any]:
    """The core's memory plan.

    Raises:
        OptionError: not even the least engine fits.
    """
    try:
        return _core.memory_plan(shape, settings)
    except ValueError as error:
        option, _, reason = str(error).partition(": ")
        raise OptionError(option, reason or str(error)) from error
