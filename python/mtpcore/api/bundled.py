"""The model that comes with the package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..config.facts import BUNDLED

if TYPE_CHECKING:
    from pathlib import Path


def bundled_model_dir() -> Path:
    """Directory of the bundled model, in hub layout."""
    return BUNDLED
