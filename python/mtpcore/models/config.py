"""The configuration of a model, read from config.json and checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ..state.shape import StateShape
from .errors import ModelFileError
from .fields import Fields, read_json
from .rope_config import read_rope

if TYPE_CHECKING:
    from ..layers.rope import RopeConfig

LAYER_KINDS = ("linear_attention", "full_attention")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class ModelConfig:
    """Shapes and constants of a text model; `tied` is the file's word, the tensors decide."""

    model_type: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layer_types: tuple[str, ...]
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    max_position_embeddings: int
    rope: RopeConfig
    linear_num_key_heads: int
    linear_num_value_heads: int
    linear_key_head_dim: int
    linear_value_head_dim: int
    conv_kernel: int
    num_mtp_layers: int
    tied: bool
    dtype: str
    eos_token_ids: tuple[int, ...]

    @property
    def num_attn_layers(self) -> int:
        return self.layer_types.count("full_attention")

    @property
    def num_ssm_layers(self) -> int:
        return self.layer_types.count("linear_attention")

    @property
    def conv_channels(self) -> int:
        keys = self.linear_num_key_heads * self.linear_key_head_dim
        return 2 * keys + self.linear_num_value_heads * self.linear_value_head_dim

    def state_shape(self) -> StateShape:
        return StateShape(
            num_layers=self.num_ssm_layers,
            num_v_heads=self.linear_num_value_heads,
            k_dim=self.linear_key_head_dim,
            v_dim=self.linear_value_head_dim,
            conv_kernel=self.conv_kernel,
            conv_channels=self.conv_channels,
            hidden=self.hidden_size,
        )

    def memory_shape(
        self,
        dtype: torch.dtype,
        ssm_dtype: torch.dtype = torch.float32,
        with_mtp: bool = True,
        tied: bool | None = None,
    ) -> dict[str, int]:
        """What the byte formulas need. `weight_bytes` counts the tensors as they are stored at run
        time, from shapes alone; `tied` defaults to what the file says."""
        from .table import family_of

        with_mtp = with_mtp and self.num_mtp_layers > 0
        tied = self.tied if tied is None else tied
        return {
            "num_attn_layers": self.num_attn_layers,
            "num_mtp_layers": int(with_mtp),
            "num_kv_heads": self.num_key_value_heads,
            "head_dim": self.head_dim,
            "num_ssm_layers": self.num_ssm_layers,
            "num_k_heads": self.linear_num_key_heads,
            "num_v_heads": self.linear_num_value_heads,
            "k_dim": self.linear_key_head_dim,
            "v_dim": self.linear_value_head_dim,
            "conv_kernel": self.conv_kernel,
            "conv_channels": self.conv_channels,
            "hidden": self.hidden_size,
            "vocab": self.vocab_size,
            "model_elt_bytes": dtype.itemsize,
            "state_elt_bytes": ssm_dtype.itemsize,
            "weight_bytes": family_of(self.model_type).weight_bytes(self, dtype, tied, with_mtp),
        }


def read_config(directory: str | Path) -> ModelConfig:
    """Read `directory`/config.json. ModelFileError names the file and the key."""
    from .table import check_model_type

    path = Path(directory) / "config.json"
    outer = Fields(path, read_json(path))
    model_type = check_model_type(outer)
    inner = outer.child("text_config") or outer
    for level in (outer, inner):
        if level.get("quantization_config") is not None:
            raise level.error(
                "quantization_config",
                "is set; quantised weights are not supported, use bf16 weights",
            )
    _refuse_variants(inner)
    heads = inner.integer("num_attention_heads")
    kv_heads = inner.integer("num_key_value_heads")
    _multiple(inner, "num_attention_heads", heads, "num_key_value_heads", kv_heads)
    k_heads = inner.integer("linear_num_key_heads")
    v_heads = inner.integer("linear_num_value_heads")
    _multiple(inner, "linear_num_value_heads", v_heads, "linear_num_key_heads", k_heads)
    head_dim = inner.integer("head_dim")
    positions = inner.integer("max_position_embeddings")
    return ModelConfig(
        model_type=model_type,
        vocab_size=inner.integer("vocab_size"),
        hidden_size=inner.integer("hidden_size"),
        intermediate_size=inner.integer("intermediate_size"),
        layer_types=_layer_types(inner),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        rms_norm_eps=inner.number("rms_norm_eps", 1e-6),
        max_position_embeddings=positions,
        rope=read_rope(inner, head_dim, positions),
        linear_num_key_heads=k_heads,
        linear_num_value_heads=v_heads,
        linear_key_head_dim=inner.integer("linear_key_head_dim"),
        linear_value_head_dim=inner.integer("linear_value_head_dim"),
        conv_kernel=inner.integer("linear_conv_kernel_dim", least=2),
        num_mtp_layers=inner.integer("mtp_num_hidden_layers", 0, least=0),
        tied=inner.boolean("tie_word_embeddings", outer.boolean("tie_word_embeddings", False)),
        dtype=_dtype(outer, inner),
        eos_token_ids=tuple(
            dict.fromkeys(inner.token_ids("eos_token_id") + outer.token_ids("eos_token_id"))
        ),
    )


def _refuse_variants(fields: Fields) -> None:
    """Refuse what would change the mathematics in a way that is not implemented."""
    fields.require("hidden_act", "silu", "silu")
    fields.require("attention_bias", False, False)
    fields.require("attn_output_gate", True, True)
    fields.require("mtp_use_dedicated_embeddings", False, False)
    fields.require("mlp_only_layers", [], [])
    fields.require("num_experts", 0, 0)


def _multiple(fields: Fields, key: str, value: int, other: str, unit: int) -> None:
    if value % unit:
        raise fields.error(key, f"is {value}, not a multiple of {other} {unit}")


def _layer_types(fields: Fields) -> tuple[str, ...]:
    count = fields.integer("num_hidden_layers")
    kinds = fields.get("layer_types")
    if kinds is None:
        interval = fields.integer("full_attention_interval", 4)
        kinds = [LAYER_KINDS[(i + 1) % interval == 0] for i in range(count)]
    if not isinstance(kinds, list) or len(kinds) != count:
        raise fields.error("layer_types", f"is not a list of num_hidden_layers = {count} entries")
    for kind in kinds:
        if kind not in LAYER_KINDS:
            supported = ", ".join(LAYER_KINDS)
            raise fields.error("layer_types", f"holds {kind!r}; supported are {supported}")
    for kind in LAYER_KINDS:
        if kind not in kinds:
            raise fields.error("layer_types", f"has no {kind} layer; a hybrid model has both kinds")
    return tuple(kinds)


def _dtype(outer: Fields, inner: Fields) -> str:
    """The declared dtype; newer files say `dtype`, older ones `torch_dtype`, at either level."""
    for fields in (inner, outer):
        for key in ("dtype", "torch_dtype"):
            value = fields.get(key)
            if value is not None:
                if not isinstance(value, str):
                    raise fields.error(key, f"is {value!r}, a name of a dtype is needed")
                return value
    return "float32"


def resolve_dtype(config: ModelConfig, dtype: torch.dtype | str) -> torch.dtype:
    """'auto' is the declared dtype. ModelFileError for one that the model cannot run in."""
    name = config.dtype if dtype == "auto" else str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        source = "config.json declares" if dtype == "auto" else "the option asks for"
        raise ModelFileError(f"dtype: {source} {name!r}; set dtype to one of {', '.join(DTYPES)}")
    return DTYPES[name]
