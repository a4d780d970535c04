"""Load a model directory in hub layout."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .config import ModelConfig, read_config, resolve_dtype
from .errors import ModelFileError
from .generation import GenerationDefaults, read_generation
from .names import check_tensors, sort_names
from .shards import Shards, TensorEntry
from .table import family_of
from .weight_bytes import weight_bytes

if TYPE_CHECKING:
    from ..draft.mtp import MtpHead
    from .causal_lm import CausalLM


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to run; `notes` says what was left out or decided on the way."""

    config: ModelConfig
    target: CausalLM
    mtp: MtpHead | None
    generation: GenerationDefaults
    dtype: torch.dtype
    device: torch.device
    notes: list[str] = field(default_factory=list)

    def weight_bytes(self) -> int:
        """Storage bytes of all weights, equal to `config.memory_shape(...)["weight_bytes"]`."""
        return weight_bytes(self.target, self.mtp)

    def memory_shape(self, ssm_dtype: torch.dtype = torch.float32) -> dict[str, int]:
        """The configuration's memory shape, with what the tensors decided."""
        shape = self.config.memory_shape(
            self.dtype, ssm_dtype, self.mtp is not None, self.target.tied
        )
        return shape | {
            "num_mtp_layers": int(self.mtp is not None),
            "weight_bytes": self.weight_bytes(),
        }


def load_model(
    directory: str | Path,
    dtype: torch.dtype | str = "auto",
    device: torch.device | str = "cpu",
    with_mtp: bool = True,
) -> LoadedModel:
    """Read config, weights and generation defaults; `dtype` is auto, float32 or bfloat16.

    The tensors decide: without `lm_head.weight` the head is the embedding. `mtp.*` tensors are
    read only if `with_mtp`. ModelFileError names the file and the key or tensor.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise ModelFileError(
            f"{directory}: not a directory; give the directory of a model in hub layout"
        )
    config = read_config(directory)
    resolved, place = resolve_dtype(config, dtype), torch.device(device)
    family = family_of(config.model_type)
    shards = Shards(directory)
    names = sort_names(shards.entries)
    tied = "lm_head.weight" not in names.target
    check_tensors(names.target, family.target_shapes(config, tied), str(directory))
    notes = []
    if tied != config.tied:
        said = "true" if config.tied else "false"
        notes.append(
            f"config.json says tie_word_embeddings {said}, the tensors say otherwise and decide"
        )

    def take_from(group: dict[str, TensorEntry]):
        def take(name: str) -> Tensor:
            return shards.read(group[name]).to(place, resolved)

        return take

    target = family.build_target(config, take_from(names.target), tied, resolved, place)
    mtp = None
    if with_mtp and names.mtp:
        _refuse_deep_mtp(names.mtp)
        check_tensors(names.mtp, family.mtp_shapes(config), str(directory))
        mtp = family.build_mtp(config, take_from(names.mtp), target)
    elif with_mtp:
        notes.append("the model has no mtp.* tensors, so that it has no MTP head")
    return LoadedModel(
        config, target, mtp, read_generation(directory, config), resolved, place, notes
    )


def _refuse_deep_mtp(entries: dict[str, TensorEntry]) -> None:
    for name, entry in entries.items():
        if name.startswith("mtp.layers.") and not name.startswith("mtp.layers.0."):
            raise ModelFileError(
                f"{entry.path}: tensor {entry.name}: an MTP head of several layers is not "
                "supported; one layer is"
            )
