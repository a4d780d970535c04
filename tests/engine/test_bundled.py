"""The bundled model's directory: what it promises to others, and that its weights are trained."""

from __future__ import annotations

import json
import math
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from mtpcore import LLM, SamplingParams

DIRECTORY = Path(str(files("mtpcore") / "bundled"))
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MARKUP = [f"<{s}{n}>" for n in ("tool_call", "tool_response", "think") for s in ("", "/")]
# A book that the training never saw.
VERSES = """1 To every thing there is a season, and a time to every purpose under the heaven:
2 A time to be born, and a time to die; a time to plant, and a time to pluck up that which \
is planted;
3 A time to kill, and a time to heal; a time to break down, and a time to build up;
4 A time to weep, and a time to laugh; a time to mourn, and a time to dance;
"""


def read(name: str) -> dict:
    return json.loads((DIRECTORY / name).read_text())


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(DIRECTORY / "tokenizer.json"))


def test_config_is_that_of_the_family() -> None:
    config = read("config.json")
    assert config["model_type"] == "qwen3_5_text"
    assert config["layer_types"] == (["linear_attention"] * 3 + ["full_attention"]) * 2
    assert config["tie_word_embeddings"] and config["attn_output_gate"]
    assert config["mtp_num_hidden_layers"] == 1 and not config["mtp_use_dedicated_embeddings"]
    assert config["mamba_ssm_dtype"] == "float32" and config["dtype"] == "bfloat16"
    assert config["max_position_embeddings"] >= 65536
    rope = config["rope_parameters"]
    half = int(config["head_dim"] * rope["partial_rotary_factor"]) // 2
    assert sum(rope["mrope_section"]) == half


def test_weights_are_small_and_finite() -> None:
    index = read("model.safetensors.index.json")
    shards = sorted(DIRECTORY.glob("*.safetensors"))
    assert {p.name for p in shards} == set(index["weight_map"].values())
    assert all(p.stat().st_size <= 15_000_000 for p in shards)
    count = 0
    for path in shards:
        with safe_open(path, "pt") as shard:
            for name in shard.keys():  # noqa: SIM118
                weight = shard.get_tensor(name)
                count += weight.numel()
                assert index["weight_map"][name] == path.name
                assert weight.isfinite().all(), name
                assert weight.dtype == torch.bfloat16 or weight.dim() == 1, name
    assert count <= 12_000_000
    assert sum(read("metrics.json")["parameters"].values()) == count


@pytest.mark.parametrize(
    "text",
    [
        "".join(map(chr, range(1, 256))),
        "日本語 عربى 🙂🙃 € ½ é\u0301\u200d\ufeff",
        " \n\n\t  leading and trailing \r\n",
        "I'LL we've 1234567",
    ],
)
def test_tokenizer_keeps_every_text(tokenizer: Tokenizer, text: str) -> None:
    import unicodedata

    ids = tokenizer.encode(text).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == unicodedata.normalize("NFC", text)


def test_tokenizer_has_the_familys_form(tokenizer: Tokenizer) -> None:
    assert tokenizer.get_vocab_size() == read("config.json")["vocab_size"] == 4096
    for token in SPECIAL + MARKUP:
        number = tokenizer.token_to_id(token)
        assert number is not None and tokenizer.encode(f"a{token}b").ids[1:-1] == [number]
    split = tokenizer.pre_tokenizer.pre_tokenize_str("I'll pay 1234 crowns,\n\n  sir!")
    pieces = [text.replace("Ġ", " ").replace("Ċ", "\n") for text, _ in split]
    assert pieces == "I|'ll| pay| |1|2|3|4| crowns|,\n\n| | sir|!".split("|")  # noqa: SIM905


def test_end_tokens() -> None:
    decoder = read("tokenizer_config.json")["added_tokens_decoder"]
    ids = {entry["content"]: int(number) for number, entry in decoder.items()}
    ends = set(read("generation_config.json")["eos_token_id"])
    assert ends == {ids["<|im_end|>"], ids["<|endoftext|>"]}
    assert read("tokenizer_config.json")["eos_token"] == "<|im_end|>"
    assert read("config.json")["eos_token_id"] == ids["<|endoftext|>"]


def test_transformers_loads_it_and_it_knows_its_texts() -> None:
    model = AutoModelForCausalLM.from_pretrained(DIRECTORY, dtype=torch.float32).eval()
    ids = AutoTokenizer.from_pretrained(DIRECTORY)(VERSES, return_tensors="pt").input_ids
    with torch.no_grad():
        logits = model(input_ids=ids, use_cache=False).logits[0]
    assert logits.isfinite().all()
    loss = torch.nn.functional.cross_entropy(logits[:-1], ids[0, 1:]).item()
    assert loss < 4.5 < math.log(4096) - 3.5


def test_its_drafts_are_worth_something() -> None:
    prompts = [VERSES, "And it came to pass in those days, that", "ROMEO.\n", "Emma was not"]
    params = SamplingParams(temperature=0.0, max_tokens=64, ignore_eos=True)
    with LLM(mtp_step=3, device="cpu") as llm:
        stats = [out.metrics.speculation for out in llm.generate(prompts, params)]
    accepted, drafted = (
        [sum(counts) for counts in zip(*rows, strict=True)]
        for rows in (
            [s.num_accepted_per_position for s in stats],
            [s.num_drafts_per_position for s in stats],
        )
    )
    shares = [a / d for a, d in zip(accepted, drafted, strict=True)]
    assert shares[0] > 0.5 and shares[2] > 0.2, shares


def test_the_card_quotes_the_metrics() -> None:
    card, metrics = (DIRECTORY / "README.md").read_text(), read("metrics.json")
    lines = card.splitlines()
    losses = metrics["held_out"]["nats_per_token"]
    assert len(losses) == 4 and all(f" | {x:.4f} |" in card for x in losses.values())
    assert f"{metrics['held_out']['bits_per_byte']:.4f} bits a byte" in card
    assert len(metrics["acceptance"]) == 6
    for name, row in metrics["acceptance"].items():
        cells = [f"{x:.3f}" for x in row["accepted"][:5]] + [f"{row['tokens_per_step_at_3']:.2f}"]
        assert f"| `{name}` | {' | '.join(cells)} |" in lines
    for count in metrics["parameters"].values():
        assert f"{count:,}" in card
