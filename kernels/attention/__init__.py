"""Attention over paged keys and values: a rectangle of decode rows, and prefill spans."""

from .reference import RectangleIndex, rectangle, span

__all__ = ["RectangleIndex", "rectangle", "span"]
