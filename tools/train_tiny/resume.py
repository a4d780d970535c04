"""Weights and optimiser state in one safetensors file, so that a run can go on after a break."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def replace(
    path: Path, tensors: dict[str, Tensor], numbers: dict[str, float] | None = None
) -> None:
    """Writes `path` at once, so that a break in between leaves the older file."""
    fresh = path.with_suffix(".part")
    metadata = {name: repr(value) for name, value in (numbers or {}).items()}
    save_file({name: w.contiguous() for name, w in tensors.items()}, fresh, metadata=metadata)
    fresh.replace(path)


def slots(
    found: list[torch.optim.Optimizer],
) -> Iterator[tuple[str, torch.optim.Optimizer, Tensor]]:
    """Each optimised parameter with a name that is the same in every run."""
    for i, optimiser in enumerate(found):
        parameters = (p for group in optimiser.param_groups for p in group["params"])
        for j, parameter in enumerate(parameters):
            yield f"optimiser.{i}.{j}.", optimiser, parameter


def save_state(
    path: Path, model: nn.Module, found: list[torch.optim.Optimizer], numbers: dict[str, float]
) -> None:
    """Keeps weights, optimisers and `numbers` in `path`."""
    tensors = {f"model.{name}": w for name, w in model.state_dict().items()}
    for prefix, optimiser, parameter in slots(found):
        for key, value in optimiser.state[parameter].items():
            tensors[prefix + key] = torch.as_tensor(value)
    replace(path, tensors, numbers)


def load_state(
    path: Path, model: nn.Module, found: list[torch.optim.Optimizer], device: torch.device
) -> dict[str, float]:
    """Restores what `save_state` kept and returns its numbers."""
    with safe_open(path, "pt", device=str(device)) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        numbers = {name: float(value) for name, value in file.metadata().items()}
    model.load_state_dict(
        {n.removeprefix("model."): w for n, w in tensors.items() if n.startswith("model.")}
    )
    for prefix, optimiser, parameter in slots(found):
        state = {n.removeprefix(prefix): w for n, w in tensors.items() if n.startswith(prefix)}
        optimiser.state[parameter].update(state)
    return numbers
