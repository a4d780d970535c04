"""Typed access to the fields of a JSON object, with errors that name file and key."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from .errors import ModelFileError

if TYPE_CHECKING:
    from pathlib import Path


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelFileError(
            f"{path}: not found; give the directory of a model in hub layout"
        ) from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ModelFileError(f"{path}: cannot be read as JSON: {error}") from None
    if not isinstance(value, dict):
        raise ModelFileError(f"{path}: holds {type(value).__name__}, an object is needed")
    return value


class Fields:
    """One JSON object of a file; `where` prefixes its keys in messages."""

    def __init__(self, path: Path, values: dict[str, Any], where: str = "") -> None:
        self.path = path
        self.values = values
        self.where = where

    def error(self, key: str, problem: str) -> ModelFileError:
        return ModelFileError(f"{self.path}: {self.where}{key} {problem}")

    def get(self, key: str) -> Any:
        """The raw value; null counts as absent."""
        return self.values.get(key)

    def child(self, key: str) -> Fields | None:
        """A nested object, None if absent."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(key, f"is {value!r}, an object is needed")
        return Fields(self.path, value, f"{self.where}{key}.")

    def integer(self, key: str, default: int | None = None, least: int = 1) -> int:
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.error(key, f"is {value!r}, an integer of at least {least} is needed")
        return value

    def number(self, key: str, default: float | None = None, least: float = 0.0) -> float:
        """A finite number above `least`."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, f"is {value!r}, a number is needed")
        if not math.isfinite(value) or value <= least:
            raise self.error(key, f"is {value!r}, a number above {least:g} is needed")
        return float(value)

    def optional_number(self, key: str) -> float | None:
        return None if self.get(key) is None else self.number(key)

    def boolean(self, key: str, default: bool) -> bool:
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self.error(key, f"is {value!r}, true or false is needed")
        return value

    def token_ids(self, key: str) -> tuple[int, ...]:
        """An id or a list of ids; empty if absent."""
        value = self.get(key)
        items = [] if value is None else value if isinstance(value, list) else [value]
        for item in items:
            if isinstance(item, bool) or not isinstance(item, int) or item < 0:
                raise self.error(key, f"is {value!r}, a token id or a list of them is needed")
        return tuple(items)

    def require(self, key: str, default: Any, supported: Any) -> None:
        """Refuse a field whose value (or `default` where absent) is not the supported one."""
        value = self.get(key)
        value = default if value is None else value
        if value != supported:
            raise self.error(key, f"is {value!r}, only {supported!r} is supported")

    def _value(self, key: str, default: Any) -> Any:
        value = self.get(key)
        if value is not None:
            return value
        if default is None:
            raise self.error(key, "is missing")
        return default
