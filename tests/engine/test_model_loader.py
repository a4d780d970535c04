"""What the loader decides from the tensors, and what it says about broken directories."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import TinySpec, write_tiny
from torch import Tensor

from mtpcore.models import ModelFileError, load_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MODEL = "model.safetensors"
INDEX = "model.safetensors.index.json"


def edit_tensors(directory: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    tensors = load_file(directory / MODEL)
    change(tensors)
    save_file(tensors, directory / MODEL)


def edit_index(directory: Path, change: Callable[[dict[str, str]], object]) -> None:
    index = json.loads((directory / INDEX).read_text())
    change(index["weight_map"])
    (directory / INDEX).write_text(json.dumps(index))


def refused(directory: Path, *parts: str) -> None:
    with pytest.raises(ModelFileError) as error:
        load_model(directory, "float32")
    for part in parts:
        assert part in str(error.value), str(error.value)


def test_shards_and_one_file_hold_the_same_model(tmp_path: Path) -> None:
    one = load_model(write_tiny(tmp_path / "one"), "float32")
    many = load_model(write_tiny(tmp_path / "many", shards=3), "float32")
    assert torch.equal(one.target.embedding, many.target.embedding)
    assert torch.equal(one.target.layers[3].mlp.down, many.target.layers[3].mlp.down)


@pytest.mark.parametrize("said", [True, False])
def test_the_tensors_decide_whether_the_head_is_tied(tmp_path: Path, said: bool) -> None:
    write_tiny(tmp_path, TinySpec(tied=not said))
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tie_word_embeddings": said}))
    model = load_model(tmp_path, "float32")
    assert model.target.tied is not said
    assert len(model.notes) == 1 and "tie_word_embeddings" in model.notes[0]
    assert model.memory_shape()["weight_bytes"] == model.weight_bytes()


def test_mtp_is_read_only_when_asked_for(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    assert load_model(tmp_path, "float32", with_mtp=False).mtp is None
    assert load_model(tmp_path, "float32").mtp is not None
    edit_tensors(tmp_path, lambda t: t.pop("mtp.fc.weight"))
    assert load_model(tmp_path, "float32", with_mtp=False).mtp is None
    refused(tmp_path, str(tmp_path), "tensors are missing: mtp.fc.weight")


def test_a_model_without_mtp_tensors_says_so(tmp_path: Path) -> None:
    model = load_model(write_tiny(tmp_path, TinySpec(mtp=False)), "float32")
    assert model.mtp is None
    assert model.notes == ["the model has no mtp.* tensors, so that it has no MTP head"]


def test_a_deep_mtp_head_is_refused(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    edit_tensors(tmp_path, lambda t: t.update({"mtp.layers.1.x.weight": torch.zeros(2)}))
    refused(tmp_path, MODEL, "mtp.layers.1.x.weight", "one layer is")


NORM = "model.layers.1.input_layernorm.weight"
FAULTS = {
    "missing": (lambda t: t.pop(NORM), ["tensors are missing", "layers.1.input_layernorm.weight"]),
    "unknown": (
        lambda t: t.update({"model.layers.0.extra.weight": torch.zeros(2)}),
        [MODEL, "not known to this model", "model.layers.0.extra.weight"],
    ),
    "shape": (
        lambda t: t.update({NORM: torch.zeros(47)}),
        [MODEL, NORM, "shape [47]", "config.json asks for [48]"],
    ),
    "dtype": (
        lambda t: t.update({NORM: torch.zeros(48, dtype=torch.int32)}),
        [MODEL, NORM, "dtype I32", "supported are F32, BF16 and F16"],
    ),
    "quantised": (
        lambda t: t.update({"model.layers.0.mlp.up_proj.weight_scale_inv": torch.zeros(2)}),
        [MODEL, "model.layers.0.mlp.up_proj.weight_scale_inv", "use bf16 weights"],
    ),
    "two prefixes": (
        lambda t: t.update({"model.language_model.norm.weight": t.pop("model.norm.weight")}),
        [MODEL, "model.language_model.norm.weight", "different prefixes"],
    ),
    "twice": (
        lambda t: t.update({"norm.weight": t["model.norm.weight"].clone()}),
        [MODEL, "norm.weight", "mean the same weight"],
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_tensor_is_named_with_its_file(tmp_path: Path, fault: str) -> None:
    change, parts = FAULTS[fault]
    write_tiny(tmp_path)
    edit_tensors(tmp_path, change)
    refused(tmp_path, *parts)


def test_files_must_be_as_long_as_their_headers_say(tmp_path: Path) -> None:
    path = write_tiny(tmp_path) / MODEL
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    for cut in (content[:-4], content + b"\0"):
        path.write_bytes(cut)
        refused(tmp_path, str(path), f"has {len(cut)} bytes", "download it again")
    for cut in (b"", content[:5], content[: length // 2]):
        path.write_bytes(cut)
        refused(tmp_path, str(path), "is cut or no safetensors file")
    path.write_bytes(content[:8] + b"x" * length + content[8 + length :])
    refused(tmp_path, str(path), "its header cannot be read")
    path.write_bytes((2).to_bytes(8, "little") + b"[]")
    refused(tmp_path, str(path), "its header is not that of a safetensors file")


def test_index_faults(tmp_path: Path) -> None:
    write_tiny(tmp_path, shards=2)
    outside = tmp_path / "x" / ".." / "a.safetensors"
    for bad in ("../a.safetensors", str(outside), "/a.safetensors", "a\\b.safetensors", "a.bin"):
        edit_index(tmp_path, lambda m, bad=bad: m.update({"model.norm.weight": bad}))
        refused(tmp_path, INDEX, "not a safetensors file of this directory")
    edit_index(tmp_path, lambda m: m.update({"model.norm.weight": "absent.safetensors"}))
    refused(tmp_path, "absent.safetensors", "not found")
    edit_index(tmp_path, lambda m: m.update({"model.norm.weight": 3}))
    refused(tmp_path, INDEX, "names no file for tensor model.norm.weight")
    part = "model-00001-of-00002.safetensors"
    edit_index(tmp_path, lambda m: m.update({"model.norm.weight": part, "model.absent": part}))
    refused(tmp_path, part, "is missing, though")
    (tmp_path / INDEX).write_text("{}")
    refused(tmp_path, INDEX, "weight_map is missing")


def test_a_directory_without_weights_or_config(tmp_path: Path) -> None:
    refused(tmp_path / "absent", "not a directory")
    refused(tmp_path, "config.json", "not found")
    write_tiny(tmp_path)
    (tmp_path / MODEL).unlink()
    refused(tmp_path, str(tmp_path), MODEL, INDEX)


def test_vision_tensors_are_ignored(tmp_path: Path) -> None:
    model = load_model(write_tiny(tmp_path, TinySpec(prefix="model.language_model.")), "float32")
    assert len(model.target.layers) == 4


def test_stop_tokens_are_the_union_of_all_files(tmp_path: Path) -> None:
    """Pitfall 13: generation_config, both levels of config.json and the tokenizer's eos token."""
    write_tiny(tmp_path, TinySpec(prefix="model.language_model."))
    (tmp_path / "generation_config.json").write_text(
        '{"eos_token_id": [9, 5], "temperature": 0.0, "top_k": 20, "pad_token_id": 0}'
    )
    tokenizer = {
        "eos_token": {"content": "<end>"},
        "added_tokens_decoder": {"11": {"content": "<end>"}},
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    generation = load_model(tmp_path, "float32").generation
    assert generation.eos_token_ids == (9, 5, 7, 11)
    assert (generation.temperature, generation.top_k, generation.pad_token_id) == (0.0, 20, 0)
    tokenizer = {"eos_token": "<end>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    added = {"added_tokens": [{"id": 12, "content": "<end>"}]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(added))
    assert load_model(tmp_path, "float32").generation.eos_token_ids == (9, 5, 7, 12)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": "x"}')
    refused(tmp_path, "generation_config.json", "eos_token_id", "a token id or a list")
