"""Bytes of the tensors that a model object holds."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch import Tensor


def weight_bytes(*models: Any) -> int:
    """Storage bytes of all tensors reachable from dataclass fields, tuples and objects; a storage
    that is shared counts once."""
    seen: dict[int, int] = {}
    for model in models:
        _collect(model, seen)
    return sum(seen.values())


def _collect(value: Any, seen: dict[int, int]) -> None:
    if isinstance(value, Tensor):
        storage = value.untyped_storage()
        seen[storage._cdata] = storage.nbytes()
    elif isinstance(value, tuple):
        for item in value:
            _collect(item, seen)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            _collect(getattr(value, field.name), seen)
    elif type(value).__module__.partition(".")[0] == __name__.partition(".")[0]:
        _collect(tuple(vars(value).values()), seen)
