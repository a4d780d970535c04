"""The bundled model gives the logits of transformers, and its shapes are what memory plans with."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
import torch
from tiny_driver import Driver
from transformers import AutoModelForCausalLM
from transformers.cache_utils import MtpCache
from transformers.modeling_layers import MtpModel

from mtpcore.models import LoadedModel, load_model

DIRECTORY = Path(str(files("mtpcore") / "bundled"))
TOKENS = [(17 * i * i + 5 * i) % 4000 for i in range(160)]


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return load_model(DIRECTORY, "float32")


@pytest.fixture(scope="module")
def oracle():
    loaded, info = AutoModelForCausalLM.from_pretrained(
        DIRECTORY, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    assert not info["missing_keys"]
    return loaded.eval()


def test_logits(model: LoadedModel, oracle) -> None:
    with torch.no_grad():
        want = oracle(input_ids=torch.tensor([TOKENS]), use_cache=False).logits[0]
    driver = Driver(model, 2, page_size=16, pages=12)
    whole = model.target.logits(driver.run_whole(1, TOKENS))
    assert (whole - want).abs().max() <= 1e-4
    hidden = driver.step(prefill=[(2, TOKENS[:70])])[1]
    hidden += driver.step(prefill=[(2, TOKENS[70:100])])[1]
    position = 100
    for count in (1, 4, 3, 4, 1, 1, 4, 4, 4, 4):
        tokens = TOKENS[position : position + count]
        wrong = [0] * (4 - count)
        hidden.append(driver.step(decode=[(2, tokens + wrong)])[0][0][:count])
        driver.accept(2, count)
        position += count
    assert (model.target.logits(torch.cat(hidden)) - want[:position]).abs().max() <= 1e-4


def test_mtp_head(model: LoadedModel, oracle) -> None:
    oracle.config.num_mtp_layers, oracle.config.mtp_layer_types = 1, ["full_attention"]
    oracle.config.name_or_path = str(DIRECTORY)
    head = MtpModel.from_pretrained(oracle).eval().float()
    driver = Driver(model, 1, page_size=16, pages=12)
    hidden = driver.run_whole(1, TOKENS)
    with torch.no_grad():
        want = head.forward_layer(
            0,
            hidden[None, :-1],
            torch.arange(1, len(TOKENS))[None],
            MtpCache(config=oracle.config.get_mtp_config()),
            input_ids=torch.tensor([TOKENS[1:]]),
        )
    assert model.mtp is not None
    attn = driver.attention([], 1, [(1, 1, len(TOKENS) - 1)], first_key=1)
    got = model.mtp.forward(torch.tensor(TOKENS[1:]), hidden[:-1], attn, driver.kv)
    logits = [model.target.logits(x) for x in (got, want[0])]
    assert (logits[0] - logits[1]).abs().max() <= 1e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("with_mtp", [True, False])
def test_weight_bytes_follow_from_the_config(dtype: torch.dtype, with_mtp: bool) -> None:
    loaded = load_model(DIRECTORY, dtype, with_mtp=with_mtp)
    assert (loaded.mtp is not None) == with_mtp
    planned = loaded.config.memory_shape(dtype, with_mtp=with_mtp)
    assert planned == loaded.memory_shape()
    assert loaded.notes == []


def test_stop_tokens(model: LoadedModel) -> None:
    assert len(model.generation.eos_token_ids) >= 1
    assert all(0 <= token < model.config.vocab_size for token in model.generation.eos_token_ids)
