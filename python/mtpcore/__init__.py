"""mtpcore: inference for hybrid linear-attention models with multi-token prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._core import __version__
    from .api import LLM, SamplingParams

__all__ = ["LLM", "SamplingParams", "__version__"]


def __getattr__(name: str) -> Any:
    """Import on first use: reading the version must not import torch."""
    if name == "__version__":
        from ._core import __version__

        return __version__
    if name in ("LLM", "SamplingParams"):
        from . import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
