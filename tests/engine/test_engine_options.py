"""Every bad engine option is refused by name, with the way out, before any weight is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tiny import TinySpec, write_tiny

from mtpcore import LLM
from mtpcore.config import EngineOptions, OptionError, validate
from mtpcore.models.loader import load_model

if TYPE_CHECKING:
    from pathlib import Path

SMALL: dict[str, Any] = {"memory_budget": "8MiB", "max_model_len": 64, "max_num_seqs": 2}

# option, value, what the text says beside the option's name
BAD: list[tuple[str, Any, str]] = [
    ("dtype", "float16", "not built yet; use auto or float32 or bfloat16"),
    ("dtype", "fp8", "unknown; use auto"),
    ("dtype", None, "unknown; use auto"),
    ("dtype", torch.float32, "unknown; use auto"),
    ("device", "tpu", "use auto, cpu, cuda or cuda:N"),
    ("device", "mps", "use cpu or cuda"),
    ("device", None, "use auto, cpu, cuda or cuda:N"),
    ("max_model_len", 1, "below 2"),
    ("max_model_len", -5, "below 2"),
    ("max_model_len", 64.0, "not an int"),
    ("max_model_len", True, "not an int"),
    ("max_model_len", 5000, "max_position_embeddings 4096"),
    ("max_num_seqs", 0, "below 1"),
    ("max_num_seqs", 10**9, "outside 1..=65536"),
    ("max_num_seqs", 10**30, "int"),
    ("max_num_seqs", None, "not an int"),
    ("max_num_seqs", 2000, "set max_num_seqs to at most"),
    ("max_num_batched_tokens", 0, "below 1"),
    ("max_num_batched_tokens", 3, "raise it or lower mtp_step"),
    ("max_num_batched_tokens", 10**12, "int"),
    ("memory_budget", 0, "not positive"),
    ("memory_budget", "lots", "give bytes or text like '80GiB'"),
    ("memory_budget", 1.5e7, "give bytes or text like '80GiB'"),
    ("memory_budget", True, "not a size"),
    ("memory_budget", "1KiB", "raise memory_budget"),
    ("memory_budget", "9000TiB", "lower it"),
    ("gpu_memory_utilization", 0.9, "use memory_budget"),
    ("enable_prefix_caching", 1, "not a bool"),
    ("enforce_eager", True, "leave it False"),
    ("seed", -1, "below 0"),
    ("seed", None, "not an int"),
    ("mtp_mode", "ngram", "not built yet; use auto or none or mtp"),
    ("mtp_mode", "dflash", "not built yet; use auto or none or mtp"),
    ("mtp_mode", "eagle", "unknown; use auto or none or mtp"),
    ("mtp_step", 8, "outside 0..7"),
    ("mtp_step", -1, "below 0"),
    ("mtp_step", True, "not an int"),
    ("mtp_draft_model_dir", "/drafts", "leave it out"),
    ("mtp_dynamic_verify", True, "leave it False"),
    ("mtp_windowed", True, "leave it False"),
    ("mtp_window_size", 64, "leave it out"),
    ("overlap_depth", 2, "outside 0..1"),
    ("overlap_depth", -1, "below 0"),
    ("ssm_state_mode", "replay", "not built yet; use native"),
    ("ssm_state_mode", "compact", "not built yet; use native"),
    ("ssm_state_mode", "auto", "not built yet; use native"),
    ("ssm_state_dtype", "float16", "use float32 or bfloat16"),
    ("replay_history_len", 16, "leave it out"),
    ("replay_projection", "raw", "leave it 'auto'"),
    ("page_size", 0, "below 1"),
    ("page_size", 10**6, "outside 1..=4096"),
    ("checkpoint_interval", 7, "not a multiple of page_size 16"),
    ("checkpoint_interval", -16, "below 0"),
    ("max_queue", 0, "below 1"),
    ("max_queue", 10**12, "int"),
    ("max_num_seq", 2, "did you mean max_num_seqs"),
    ("mtp_steps", 2, "did you mean mtp_step"),
    ("prefix_caching", True, "did you mean enable_prefix_caching"),
    ("zzz", 1, "known are model, dtype"),
]


@pytest.mark.parametrize(("option", "value", "text"), BAD, ids=lambda value: str(value)[:30])
def test_a_bad_option_is_named(
    tiny_dir: Path, monkeypatch: pytest.MonkeyPatch, option: str, value: Any, text: str
) -> None:
    monkeypatch.setattr("mtpcore.engine.engine.load_model", None)
    with pytest.raises(OptionError) as info:
        LLM(tiny_dir, **{"device": "cpu", **SMALL, option: value})
    assert info.value.option == option
    assert str(info.value).startswith(f"{option}: ")
    assert text in str(info.value)


COMBINATIONS: list[tuple[dict[str, Any], str, str]] = [
    ({"mtp_mode": "none", "mtp_step": 3}, "mtp_step", "set it to 0 or use mtp_mode='mtp'"),
    ({"mtp_step": 7, "max_num_batched_tokens": 7}, "max_num_batched_tokens", "lower mtp_step"),
    ({"page_size": 24, "checkpoint_interval": 32}, "checkpoint_interval", "page_size 24"),
    ({"max_model_len": 4096, "memory_budget": "1MiB"}, "memory_budget", "max_model_len"),
]


@pytest.mark.parametrize(("options", "named", "text"), COMBINATIONS)
def test_a_combination_that_does_not_work_names_both(
    tiny_dir: Path, options: dict[str, Any], named: str, text: str
) -> None:
    with pytest.raises(OptionError) as info:
        LLM(tiny_dir, **{"device": "cpu", **SMALL, **options})
    assert info.value.option == named
    assert text in str(info.value)


def test_a_model_without_a_head_drafts_nothing(tmp_path: Path) -> None:
    directory = write_tiny(tmp_path / "plain", TinySpec(mtp=False))
    for options, named in (({"mtp_mode": "mtp"}, "mtp_mode"), ({"mtp_step": 2}, "mtp_step")):
        with pytest.raises(OptionError, match="no MTP head") as info:
            LLM(directory, **SMALL, **options)
        assert info.value.option == named
    with LLM(directory, device="cpu", **SMALL) as llm:
        assert "mtp_mode: auto is none, the model has no MTP head" in llm.notes
        out = llm.generate({"prompt_token_ids": [1, 2, 3]})[0]
        assert out.metrics.speculation.num_drafts == 0


def test_a_model_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="model: .*not a directory"):
        LLM(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="config.json"):
        LLM(tmp_path)


def test_a_vocabulary_beyond_the_models_is_refused(texts_dir: Path, tmp_path: Path) -> None:
    directory = write_tiny(tmp_path / "model", TinySpec())
    (directory / "tokenizer.json").write_bytes((texts_dir / "tokenizer.json").read_bytes())
    with pytest.raises(OptionError, match="beyond the model's vocab_size 97"):
        LLM(directory, **SMALL)


def test_a_broken_tokenizer_is_refused(tiny_dir: Path, tmp_path: Path) -> None:
    directory = write_tiny(tmp_path / "model", TinySpec())
    (directory / "tokenizer.json").write_text("{")
    with pytest.raises(OptionError, match=r"model: .*tokenizer\.json cannot be read"):
        LLM(directory, **SMALL)


# Options whose other value changes what an engine resolves to.
ACTING: list[dict[str, Any]] = [
    {"dtype": "bfloat16"},
    {"max_model_len": 32},
    {"max_num_seqs": 3},
    {"max_num_batched_tokens": 64},
    {"memory_budget": "9MiB"},
    {"enable_prefix_caching": False},
    {"seed": 5},
    {"mtp_mode": "none"},
    {"mtp_step": 1},
    {"overlap_depth": 0},
    {"ssm_state_dtype": "bfloat16"},
    {"page_size": 8},
    {"checkpoint_interval": 16},
    {"max_queue": 5},
]


@pytest.mark.parametrize("option", ACTING, ids=str)
def test_every_option_reaches_the_core_or_the_worker(
    tiny_dir: Path, option: dict[str, Any]
) -> None:
    base = {"model": str(tiny_dir), "device": "cpu", **SMALL}
    default, changed = (validate(EngineOptions.of(**base | more)) for more in ({}, option))
    assert (default.core_config, default.worker_config, default.seed) != (
        changed.core_config,
        changed.worker_config,
        changed.seed,
    )


def test_the_tables_above_cover_every_option() -> None:
    judged = {option for option, _, _ in BAD} | {name for entry in ACTING for name in entry}
    assert set(EngineOptions.names()) - judged == {"model"}


def test_bfloat16_runs(tiny_dir: Path) -> None:
    options = {"dtype": "bfloat16", "ssm_state_dtype": "bfloat16", "mtp_step": 3}
    with LLM(tiny_dir, device="cpu", **SMALL, **options) as llm:
        assert llm.engine.worker.pools.state.ssm.dtype == torch.bfloat16
        outs = llm.generate([{"prompt_token_ids": [4, 5, 6]}] * 3)
        assert {out.outputs[0].finish_reason for out in outs} <= {"stop", "length"}


def test_auto_says_what_it_chose(tiny_dir: Path) -> None:
    resolved = validate(EngineOptions.of(model=str(tiny_dir), device="cpu"))
    notes = "\n".join(resolved.notes)
    assert "mtp_mode: auto is mtp with mtp_step 3" in notes
    assert "memory_budget:" in notes
    assert (
        resolved.max_model_len
        == json.loads((tiny_dir / "config.json").read_text())["max_position_embeddings"]
    )


def test_zero_drafts_leave_the_head_out(tiny_dir: Path) -> None:
    resolved = validate(EngineOptions.of(model=str(tiny_dir), mtp_step=0, **SMALL))
    assert resolved.mtp_mode == "none"
    model = load_model(tiny_dir, torch.float32, torch.device("cpu"), False)
    assert model.mtp is None
