"""Every field of config.json that matters is checked, with the file and the key in the message."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tiny import TinySpec, tiny_config, write_tiny

from mtpcore.draft import check_drafter
from mtpcore.models import ModelFileError, build_exec_layers, load_model, read_config

if TYPE_CHECKING:
    from pathlib import Path


def write(directory: Path, **changes: Any) -> Path:
    """A plain config with some keys changed; None removes one."""
    content = tiny_config(TinySpec()) | changes
    content = {key: value for key, value in content.items() if value is not None}
    (directory / "config.json").write_text(json.dumps(content))
    return directory


def test_fields_come_from_text_config_or_from_the_top(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps(tiny_config(TinySpec(prefix="model.language_model.")))
    )
    wrapped = read_config(tmp_path)
    plain = read_config(write(tmp_path))
    assert wrapped.eos_token_ids == (5, 7) and plain.eos_token_ids == (5,)
    assert wrapped.rope == plain.rope and wrapped.layer_types == plain.layer_types
    assert wrapped.model_type == plain.model_type == "qwen3_5_text"


def test_an_interval_makes_the_schedule(tmp_path: Path) -> None:
    config = read_config(
        write(tmp_path, layer_types=None, num_hidden_layers=6, full_attention_interval=3)
    )
    assert [kind[:4] for kind in config.layer_types] == ["line", "line", "full"] * 2
    layers = build_exec_layers(config.layer_types)
    assert [layer.physical for layer in layers] == list(range(6))
    assert [layer.kv_slot for layer in layers] == [-1, -1, 0, -1, -1, 1]
    assert [layer.state_slot for layer in layers] == [0, 1, -1, 2, 3, -1]


ROPE = {"rope_theta": 10000.0, "partial_rotary_factor": 0.25}


def test_rope_parameters_are_found_in_every_place(tmp_path: Path) -> None:
    want = read_config(write(tmp_path)).rope
    assert want.rotary_dim == 4 and want.factor is None
    for changes in (
        {"rope_parameters": None, **ROPE},
        {"rope_parameters": None, "rope_scaling": {"type": "default", **ROPE}},
        {"rope_parameters": {"rope_theta": 10000.0}},
        {"rope_parameters": {"rope_type": "default"}, **ROPE},
    ):
        assert read_config(write(tmp_path, **changes)).rope == want
    yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
    rope = read_config(write(tmp_path, rope_parameters=None, rope_scaling=yarn, **ROPE)).rope
    assert (rope.factor, rope.original_max_positions, rope.rotary_dim) == (4.0, 1024, 4)


BAD = {
    "model_type": ("mamba", "model_type is 'mamba', which is not supported; supported are qwen3_5"),
    "hidden_size": (None, "hidden_size is missing"),
    "vocab_size": ("many", "vocab_size is 'many', an integer of at least 1"),
    "head_dim": (0, "head_dim is 0, an integer of at least 1"),
    "intermediate_size": (True, "intermediate_size is True"),
    "linear_conv_kernel_dim": (1, "linear_conv_kernel_dim is 1, an integer of at least 2"),
    "num_key_value_heads": (3, "num_attention_heads is 4, not a multiple of num_key_value_heads 3"),
    "linear_num_value_heads": (3, "linear_num_value_heads is 3, not a multiple"),
    "layer_types": (["full_attention"], "layer_types is not a list of num_hidden_layers = 4"),
    "num_hidden_layers": (5, "layer_types is not a list of num_hidden_layers = 5"),
    "rms_norm_eps": (0, "rms_norm_eps is 0, a number above 0"),
    "hidden_act": ("gelu", "hidden_act is 'gelu', only 'silu' is supported"),
    "attention_bias": (True, "attention_bias is True, only False is supported"),
    "attn_output_gate": (False, "attn_output_gate is False, only True is supported"),
    "mtp_use_dedicated_embeddings": (True, "mtp_use_dedicated_embeddings is True"),
    "mlp_only_layers": ([1], "mlp_only_layers is [1], only [] is supported"),
    "num_experts": (8, "num_experts is 8, only 0 is supported"),
    "quantization_config": ({"quant_method": "fp8"}, "quantization_config is set"),
    "rope_parameters": (
        {"rope_type": "longrope", **ROPE},
        "rope_parameters.rope_type is 'longrope'",
    ),
    "partial": ({"rope_theta": 1e4, "partial_rotary_factor": 0.1}, "makes 1 of 16 dimensions"),
    "theta": ({"partial_rotary_factor": 0.5}, "rope_parameters.rope_theta is missing"),
    "factor": ({"rope_type": "yarn", "factor": -1, **ROPE}, "rope_parameters.factor is -1"),
    "tie_word_embeddings": ("yes", "tie_word_embeddings is 'yes', true or false is needed"),
    "text_config": ([1], "text_config is [1], an object is needed"),
}


@pytest.mark.parametrize("key", BAD)
def test_a_bad_field_is_named(tmp_path: Path, key: str) -> None:
    value, message = BAD[key]
    field = "rope_parameters" if key in ("partial", "theta", "factor") else key
    with pytest.raises(ModelFileError) as error:
        read_config(write(tmp_path, **{field: value}))
    assert str(tmp_path / "config.json") in str(error.value)
    assert message in str(error.value)


def test_layer_kinds_are_named(tmp_path: Path) -> None:
    kinds = ["linear_attention"] * 3
    with pytest.raises(ModelFileError, match="layer_types holds 'sliding_attention'; supported"):
        read_config(write(tmp_path, layer_types=[*kinds, "sliding_attention"]))
    with pytest.raises(ModelFileError, match="layer_types has no full_attention layer"):
        read_config(write(tmp_path, layer_types=[*kinds, "linear_attention"]))
    with pytest.raises(ModelFileError, match="layer_types has no linear_attention layer"):
        read_config(write(tmp_path, layer_types=None, full_attention_interval=1))


@pytest.mark.parametrize("content", ["", "[1]", "{"])
def test_a_file_that_is_no_object(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ModelFileError, match=r"config\.json: (holds list|cannot be read as JSON)"):
        read_config(tmp_path)


def test_dtypes(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    assert load_model(tmp_path).dtype == torch.float32
    with pytest.raises(ModelFileError, match="the option asks for 'float16'; set dtype to one of"):
        load_model(tmp_path, "float16")
    write(tmp_path, dtype="float64")
    with pytest.raises(ModelFileError, match=r"config\.json declares 'float64'"):
        load_model(tmp_path)
    write(tmp_path, dtype=None, torch_dtype="bfloat16")
    assert load_model(tmp_path).dtype == torch.bfloat16


def test_memory_shape_counts_the_stored_tensors(tmp_path: Path) -> None:
    for tied in (True, False):
        model = load_model(write_tiny(tmp_path / str(tied), TinySpec(tied=tied)), "bfloat16")
        shape = model.config.memory_shape(torch.bfloat16)
        assert shape["weight_bytes"] == model.weight_bytes()
        assert (shape["num_attn_layers"], shape["num_ssm_layers"], shape["num_mtp_layers"]) == (
            1,
            3,
            1,
        )
        assert shape["conv_channels"] == 2 * 2 * 8 + 4 * 12
        assert (shape["model_elt_bytes"], shape["state_elt_bytes"]) == (2, 4)
        parameters = model.weight_bytes() / 2
        assert parameters > 97 * 48 * (1 if tied else 2)


@pytest.mark.parametrize(
    ("mode", "step", "message"),
    [
        ("medusa", 1, "mtp_mode 'medusa' is unknown; set mtp_mode to one of auto, none, mtp"),
        ("dflash", 1, "mtp_mode 'dflash' does not run yet; set mtp_mode to one of auto, none, mtp"),
        ("mtp", 8, "mtp_step is 8, mtp_mode 'mtp' takes 0 to 7; change one of the two"),
        ("mtp", -1, "mtp_step is -1"),
        ("none", 1, "mtp_step is 1, mtp_mode 'none' takes 0 to 0"),
    ],
)
def test_drafters_that_cannot_run_are_refused(mode: str, step: int, message: str) -> None:
    assert check_drafter("mtp", 7).own_kv and check_drafter("none", 0).max_step == 0
    with pytest.raises(ValueError, match=message):
        check_drafter(mode, step)
