"""Views of the plan and result arrays by the field tables that the core exports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    import numpy as np

FieldTable = Sequence[tuple[str, int, int]]


def table_size(fields: FieldTable) -> int:
    """Length of the int32 array that a field table describes."""
    return max(offset + capacity for _, offset, capacity in fields)


class HostFields:
    """Numpy views of one int32 array, one a field."""

    def __init__(self, fields: FieldTable, array: np.ndarray) -> None:
        self.array = array
        self._views = {name: array[offset : offset + size] for name, offset, size in fields}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._views[name]

    def scalar(self, name: str) -> int:
        """Value of a field of capacity 1."""
        return int(self._views[name][0])


class DeviceFields:
    """One int32 tensor that never moves and its views, made once."""

    def __init__(self, fields: FieldTable, device: torch.device) -> None:
        self.tensor = torch.zeros(table_size(fields), dtype=torch.int32, device=device)
        self._views = {name: self.tensor[offset : offset + size] for name, offset, size in fields}
        self._floats = {name: view.view(torch.float32) for name, view in self._views.items()}

    def __getitem__(self, name: str) -> Tensor:
        return self._views[name]

    def ints(self, name: str, count: int) -> Tensor:
        """The first ``count`` entries as int64 (torch indexes with int64)."""
        return self._views[name][:count].to(torch.int64)

    def floats(self, name: str, count: int) -> Tensor:
        """The first ``count`` entries, whose words are float32 bits."""
        return self._floats[name][:count]


class Staging:
    """Host copies of an array, used in turn: one a step in flight, and two more.

    On a GPU they are pinned; a copy is used again only after the step that read it has ended,
    which ``depth + 2`` copies guarantee for a loop that commits in order.
    """

    def __init__(self, fields: FieldTable, copies: int, pinned: bool) -> None:
        size = table_size(fields)
        self.tensors = [
            torch.zeros(size, dtype=torch.int32, pin_memory=pinned) for _ in range(copies)
        ]
        self.fields = [HostFields(fields, tensor.numpy()) for tensor in self.tensors]
        self._next = 0

    def take(self) -> tuple[Tensor, HostFields]:
        """The next copy: its tensor and its numpy views."""
        index = self._next
        self._next = (index + 1) % len(self.tensors)
        return self.tensors[index], self.fields[index]
