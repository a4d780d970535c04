"""What an engine that cannot run any more says."""

from __future__ import annotations


class EngineClosed(RuntimeError):
    """The engine was shut down."""


class EngineFailed(RuntimeError):
    """An earlier step raised, so what the device holds is unknown; the cause is chained."""
