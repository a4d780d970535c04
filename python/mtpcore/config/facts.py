"""What the settings depend on of a model: its config and, if it is there, what its files hold."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..models.config import ModelConfig, read_config
from ..models.names import sort_names
from ..models.shards import INDEX, SINGLE, Shards
from .errors import OptionError

if TYPE_CHECKING:
    import torch

BUNDLED = Path(__file__).resolve().parent.parent / "bundled"


@dataclass(frozen=True)
class ModelFacts:
    """A model directory without its weights.

    Attributes:
        has_mtp: an MTP head is there; without weight files the config's word counts.
        tied: the head is the embedding.
    """

    directory: Path
    config: ModelConfig
    has_mtp: bool
    tied: bool

    def memory_shape(
        self, dtype: torch.dtype, ssm_dtype: torch.dtype, with_mtp: bool
    ) -> dict[str, int]:
        """Shapes and element sizes for the byte formulas."""
        return self.config.memory_shape(dtype, ssm_dtype, with_mtp, self.tied)


def model_directory(model: str | None) -> Path:
    """The directory that ``model`` names; None is the bundled model."""
    if model is None:
        return BUNDLED
    directory = Path(model)
    if not directory.is_dir():
        raise OptionError(
            "model", f"{model} is not a directory; give a local directory in hub layout"
        )
    return directory


def read_facts(directory: Path, needs_weights: bool = True) -> ModelFacts:
    """Read config.json and the headers of the weight files.

    Args:
        needs_weights: False accepts a directory with a config.json alone.

    Raises:
        ModelFileError: naming the file and the key or tensor.
    """
    config = read_config(directory)
    has_weights = any((directory / name).exists() for name in (SINGLE, INDEX))
    if not has_weights and not needs_weights:
        return ModelFacts(directory, config, config.num_mtp_layers > 0, config.tied)
    names = sort_names(Shards(directory).entries)
    return ModelFacts(directory, config, bool(names.mtp), "lm_head.weight" not in names.target)
