"""Errors about options and inputs."""

from __future__ import annotations


class OptionError(ValueError):
    """A setting that is wrong, unsupported, or does not fit another one.

    Attributes:
        option: name of the setting, as in the Python interface.
    """

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"{option}: {reason}")
        self.option = option
