"""Sharded safetensors files: index, headers, tensors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from .errors import ModelFileError
from .fields import Fields, read_json

if TYPE_CHECKING:
    from torch import Tensor

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
MAX_HEADER = 100_000_000


@dataclass(frozen=True)
class TensorEntry:
    """Where a tensor lies and what its header says."""

    path: Path
    name: str
    dtype: str
    shape: tuple[int, ...]


class Shards:
    """All tensors of a directory, checked against their headers, read one at a time."""

    def __init__(self, directory: Path) -> None:
        """ModelFileError for a missing, cut or contradictory file."""
        self.directory = directory
        self.entries: dict[str, TensorEntry] = {}
        self._open: dict[Path, Any] = {}
        if (directory / INDEX).is_file():
            self._read_index(directory / INDEX)
        elif (directory / SINGLE).is_file():
            self.entries = _read_header(directory / SINGLE)
        else:
            raise ModelFileError(f"{directory}: holds neither {SINGLE} nor {INDEX}")

    def read(self, entry: TensorEntry) -> Tensor:
        """The tensor on the CPU, in the dtype of the file."""
        try:
            if entry.path not in self._open:
                self._open[entry.path] = safe_open(entry.path, framework="pt")
            return self._open[entry.path].get_tensor(entry.name)
        except (SafetensorError, OSError) as error:
            raise ModelFileError(
                f"{entry.path}: tensor {entry.name} cannot be read: {error}"
            ) from None

    def _read_index(self, index: Path) -> None:
        weight_map = Fields(index, read_json(index)).child("weight_map")
        if weight_map is None:
            raise ModelFileError(f"{index}: weight_map is missing")
        headers: dict[str, dict[str, TensorEntry]] = {}
        for name, file in weight_map.values.items():
            if not isinstance(file, str) or not file:
                raise ModelFileError(f"{index}: weight_map names no file for tensor {name}")
            if file not in headers:
                headers[file] = _read_header(self._inside(index, file))
            if name not in headers[file]:
                raise ModelFileError(
                    f"{self.directory / file}: tensor {name} is missing, though {INDEX} names it"
                )
            self.entries[name] = headers[file][name]

    def _inside(self, index: Path, file: str) -> Path:
        pure = PurePosixPath(file)
        if (
            pure.is_absolute()
            or ".." in pure.parts
            or "\\" in file
            or not file.endswith(".safetensors")
        ):
            raise ModelFileError(
                f"{index}: weight_map names {file!r}, not a safetensors file of this directory"
            )
        return self.directory / file


def _read_header(path: Path) -> dict[str, TensorEntry]:
    """Parse the header and check that the file is as long as it says."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, MAX_HEADER):
                raise ModelFileError(
                    f"{path}: is cut or no safetensors file: {size} bytes, header of {length}"
                )
            header = json.loads(file.read(length))
    except FileNotFoundError:
        raise ModelFileError(f"{path}: not found, though {INDEX} names it") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ModelFileError(f"{path}: its header cannot be read: {error}") from None
    entries: dict[str, TensorEntry] = {}
    end = 0
    try:
        for name, item in header.items():
            if name != "__metadata__":
                entries[name] = TensorEntry(
                    path, name, str(item["dtype"]), tuple(int(n) for n in item["shape"])
                )
                end = max(end, int(item["data_offsets"][1]))
    except (AttributeError, KeyError, IndexError, TypeError, ValueError):
        raise ModelFileError(f"{path}: its header is not that of a safetensors file") from None
    if size != 8 + length + end:
        raise ModelFileError(
            f"{path}: has {size} bytes, its header says {8 + length + end}; download it again"
        )
    return entries
