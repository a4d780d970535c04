"""Errors about a model directory."""

from __future__ import annotations


class ModelFileError(ValueError):
    """A file of a model directory is missing, broken or not supported; the message names it."""
