"""Copies between live states and checkpoint rows."""

from .reference import export_rows

__all__ = ["export_rows"]
