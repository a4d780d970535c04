"""The commands as a user runs them: exit status, one JSON object, one line for a mistake."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from mtpcore.cli.engine_options import ENGINE_OPTIONS, spellings
from mtpcore.cli.main import main
from mtpcore.config.options import EngineOptions

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


def mtpcore(*arguments: str) -> Done:
    """Runs the command in this process, which spares the time of importing torch again."""
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["mtpcore", *arguments]),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    assert isinstance(ended.value.code, int)
    return Done(ended.value.code, out.getvalue(), err.getvalue())


def json_of(*arguments: str) -> dict[str, Any]:
    done = mtpcore(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_one_line(done: Done, *words: str) -> None:
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    for word in words:
        assert word in done.stderr


def test_generate() -> None:
    found = json_of("generate", "ROMEO:", "JULIET:", "--max-tokens", "12", "--mtp_step", "2")
    assert [out["index"] for out in found["outputs"]] == [0, 1]
    for out in found["outputs"]:
        assert len(out["token_ids"]) == 12
        assert out["text"]
        assert out["finish_reason"] == "length"
        assert out["num_cached_tokens"] == 0
    stats = found["stats"]
    assert stats["tokens_per_s"] > 0
    assert 1 <= stats["mean_acceptance_length"] <= 3
    assert len(stats["acceptance_per_position"]) == 2
    assert stats["state_bytes_per_request"] > 0
    assert stats["cached_tokens"] == 0


def test_generate_streams_for_a_person() -> None:
    done = mtpcore("generate", "ROMEO:", "--max-tokens", "8")
    assert done.returncode == 0, done.stderr
    assert "tokens/s" in done.stdout
    assert "acceptance" in done.stdout


def test_bench() -> None:
    found = json_of("bench", "--batch", "1", "--batch", "2", "--steps", "0,1", "--max-tokens", "8")
    assert [(r["batch"], r["mtp_step"]) for r in found["rows"]] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    for row in found["rows"]:
        assert row["tokens_per_s"] > 0 and row["ms_per_step"] > 0
        assert row["ssm_state_mode"] == "native"
        assert row["mtp_mode"] == ("none" if row["mtp_step"] == 0 else "mtp")
        assert row["mean_acceptance_length"] >= 1
    assert found["machine"]


def test_plan_needs_config_json_alone(tmp_path: Path) -> None:
    import importlib.resources

    source = importlib.resources.files("mtpcore").joinpath("bundled", "config.json")
    (tmp_path / "config.json").write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    found = json_of("plan", str(tmp_path), "--memory", "2GiB")
    assert found["budget_bytes"] == 2 << 30
    for pool in found["pools"]:
        assert pool["bytes"] == pool["bytes_each"] * pool["count"]
    names = {pool["name"] for pool in found["pools"]}
    assert {"weights", "kv_pages", "ssm_state", "conv_state", "checkpoints"} <= names
    assert found["limiting_pool"] in names
    assert found["max_requests"] >= 1


def test_plan_runs_as_many_requests_as_fit() -> None:
    tokens = ("--tokens-per-request", "4096")
    found = json_of("plan", "--memory", "2GiB", *tokens)
    most = found["max_requests"]
    assert most == found["max_num_seqs"] > 1
    assert sum(pool["bytes"] for pool in found["pools"]) <= found["budget_bytes"]
    more = json_of("plan", "--memory", "2GiB", *tokens, "--max-num-seqs", str(most + 1))
    assert more["max_requests"] <= most
    assert_one_line(mtpcore("plan", "--memory", "60MiB"), "--memory", "missing")


def test_doctor() -> None:
    found = json_of("doctor")
    assert found["problems"] == []
    assert found["python"] and found["torch"] and found["device"]
    assert found["kernels"]


def test_list_plants() -> None:
    found = json_of("check", "--list-plants")
    assert len(found["plants"]) >= 12


def test_a_plant_is_found_with_status_1() -> None:
    done = mtpcore("check", "--plant", "seed-ignored", "--json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert not found["ok"]
    assert set(found["failed"][0]) == {"case", "first_difference", "reason"}


def test_a_refused_value_is_one_line_and_prints_nothing_else() -> None:
    assert_one_line(mtpcore("generate", "x", "--max-tokens", "0"), "max_tokens")
    assert_one_line(mtpcore("generate", "", "--json"), "prompt")


def test_a_refused_option_is_one_line() -> None:
    for flag in ("--ssm-state-mode", "--ssm_state_mode"):
        assert_one_line(mtpcore("generate", "x", flag, "compact"), "ssm_state_mode")
    assert_one_line(mtpcore("generate", "x", "--mtp-windowed"), "mtp_windowed")
    assert_one_line(mtpcore("generate", "x", "--mtp-step", "9"), "mtp_step")


def test_bad_usage_is_one_line(tmp_path: Path) -> None:
    assert_one_line(mtpcore("generate", "x", "--no-such-option"), "no-such-option")
    assert_one_line(mtpcore("nothing"), "nothing")
    assert_one_line(mtpcore(), "--help")
    assert_one_line(mtpcore("bench", "--steps", "1,9"), "--steps")
    assert_one_line(mtpcore("check", str(tmp_path / "gone")), "gone")
    assert_one_line(mtpcore("plan", str(tmp_path), "--memory", "1GiB"), "config.json")
    assert_one_line(mtpcore("plan", "--memory", "much"), "memory")
    assert_one_line(mtpcore("check", "--plant", "nothing"), "--list-plants")
    assert_one_line(mtpcore("check", "--mtp-step", "2"), "mtp-step")
    assert_one_line(mtpcore("check", "--full", "--plant", "seed-ignored"), "--full")


def test_every_engine_option_has_both_spellings() -> None:
    named = {option.name for option in ENGINE_OPTIONS}
    assert named == set(EngineOptions.names()) - {"model"}
    assert spellings("mtp_step") == ["--mtp-step", "--mtp_step"]


def test_the_program_keeps_json_alone_on_stdout_and_hands_on_the_status() -> None:
    for arguments, status in ((["doctor", "--json"], 0), (["check", "--plant", "x"], 2)):
        done = subprocess.run(
            [sys.executable, "-m", "mtpcore", *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stderr
        assert status or set(json.loads(done.stdout)) >= {"python", "torch", "problems"}


@pytest.mark.parametrize("command", ["generate", "check", "bench", "plan", "doctor"])
def test_help(command: str) -> None:
    done = mtpcore(command, "--help")
    assert done.returncode == 0
    assert "--json" in done.stdout
    assert f"  mtpcore {command}" in done.stdout.partition("Examples:")[2]
