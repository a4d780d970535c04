"""The model that comes with the package."""

from __future__ import annotations

from pathlib import Path

from ..config.facts import BUNDLED


def bundled_model_dir() -> Path:
    """Directory of the bundled model, in hub layout."""
    return BUNDLED
