"""Tensor names of a checkpoint, brought to one form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import ModelFileError

if TYPE_CHECKING:
    from .shards import TensorEntry

# Longest first: `model.` begins the wrapper's names too.
TEXT_PREFIXES = ("model.language_model.", "language_model.model.", "model.")
IGNORED_PREFIXES = ("model.visual.", "visual.", "language_model.visual.")
SCALES = (".weight_scale_inv", ".weight_scale", ".input_scale")


@dataclass(frozen=True)
class NamedTensors:
    """`target` without the text prefix, `lm_head.weight` and `mtp` with their full names."""

    target: dict[str, TensorEntry]
    mtp: dict[str, TensorEntry]


def sort_names(entries: dict[str, TensorEntry]) -> NamedTensors:
    """ModelFileError for quantised tensors, two prefixes at once, or a name given twice."""
    target: dict[str, TensorEntry] = {}
    mtp: dict[str, TensorEntry] = {}
    prefixes: dict[str, str] = {}
    for name, entry in entries.items():
        if name.endswith(SCALES):
            raise ModelFileError(
                f"{entry.path}: tensor {name} belongs to quantised weights, which are not "
                "supported; use bf16 weights"
            )
        if name.startswith(IGNORED_PREFIXES):
            continue
        bare = (
            name.removeprefix("language_model.") if name.startswith("language_model.mtp.") else name
        )
        if bare.startswith("mtp."):
            group, short = mtp, bare
        elif name in ("lm_head.weight", "language_model.lm_head.weight"):
            group, short = target, "lm_head.weight"
        else:
            prefix = next((p for p in TEXT_PREFIXES if name.startswith(p)), "")
            if prefix:
                prefixes.setdefault(prefix, name)
            group, short = target, name[len(prefix) :]
        if short in group:
            raise ModelFileError(
                f"{entry.path}: tensor {name} and {group[short].name} mean the same weight"
            )
        group[short] = entry
    if len(prefixes) > 1:
        first, second = list(prefixes.values())[:2]
        raise ModelFileError(
            f"{entries[second].path}: tensors {first} and {second} have different prefixes; "
            "a checkpoint has one"
        )
    return NamedTensors(target, mtp)


def check_tensors(
    found: dict[str, TensorEntry], shapes: dict[str, tuple[int, ...]], where: str
) -> None:
    """Every expected tensor with its shape and a float dtype, and nothing else."""
    missing = [name for name in shapes if name not in found]
    if missing:
        raise ModelFileError(f"{where}: tensors are missing: {_some(missing)}")
    unknown = [entry.name for name, entry in found.items() if name not in shapes]
    if unknown:
        path = next(entry.path for name, entry in found.items() if name not in shapes)
        raise ModelFileError(f"{path}: tensors are not known to this model: {_some(unknown)}")
    for name, shape in shapes.items():
        entry = found[name]
        if entry.shape != shape:
            raise ModelFileError(
                f"{entry.path}: tensor {entry.name} has shape {list(entry.shape)}, "
                f"config.json asks for {list(shape)}"
            )
        if entry.dtype not in ("F32", "BF16", "F16"):
            raise ModelFileError(
                f"{entry.path}: tensor {entry.name} has dtype {entry.dtype}; "
                "supported are F32, BF16 and F16"
            )


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"
