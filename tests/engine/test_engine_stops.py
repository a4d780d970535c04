"""Where an output ends, what is kept of it, and what the result says."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from engine_cases import ScriptedDrafts, engine, greedy, prompt, sampled, token_ids

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mtpcore import LLM
    from mtpcore.api import CompletionOutput

PROMPT = prompt(11)
NUM_TOKENS = 24


@pytest.fixture(scope="module")
def plain(tiny_dir: Path) -> list[int]:
    """A sampled output without stops; the seed is one in which every token differs from the next,
    so that no index is ambiguous."""
    with engine(tiny_dir, mtp_mode="none") as llm:
        return token_ids(llm.generate(PROMPT, sampled(7, NUM_TOKENS)))[0]


@pytest.fixture(scope="module", params=[0, 1], ids=["depth0", "depth1"])
def llm(tiny_dir: Path, plain: list[int], request: pytest.FixtureRequest) -> Iterator[LLM]:
    """Most drafts are right, so stops fall inside accepted runs."""
    with engine(tiny_dir, mtp_step=3, overlap_depth=request.param) as running:
        ScriptedDrafts(running, {7: plain}, 0.9)
        yield running


def run(llm: LLM, num_tokens: int = NUM_TOKENS, **params: object) -> CompletionOutput:
    return llm.generate(PROMPT, sampled(7, num_tokens, **params))[0].outputs[0]


def first_index(plain: list[int], token: int, start: int = 0) -> int:
    return plain.index(token, start)


@pytest.mark.parametrize("index", [0, 1, 2, 3, 4, 10, NUM_TOKENS - 1])
def test_a_stop_token_ends_the_output_inside_an_accepted_run(
    llm: LLM, plain: list[int], index: int
) -> None:
    stop = plain[index]
    kept = first_index(plain, stop) + 1
    out = run(llm, stop_token_ids=[stop])
    assert out.token_ids == plain[:kept]
    assert (out.finish_reason, out.stop_reason) == ("stop", stop)


def test_the_first_of_several_stop_tokens_counts(llm: LLM, plain: list[int]) -> None:
    stops = [plain[9], plain[5], plain[14]]
    kept = min(map(plain.index, stops)) + 1
    out = run(llm, stop_token_ids=stops)
    assert (out.token_ids, out.stop_reason) == (plain[:kept], plain[kept - 1])


def test_more_than_eight_stop_tokens_work(llm: LLM, plain: list[int]) -> None:
    unused = [token for token in range(97) if token not in plain]
    assert len(unused) > 40
    assert run(llm, stop_token_ids=unused).token_ids == plain
    out = run(llm, stop_token_ids=[*unused, plain[6]])
    assert out.token_ids == plain[: plain.index(plain[6]) + 1]
    # The bitmap belongs to the request, not to the row that it ran in.
    assert run(llm).token_ids == plain


def test_min_tokens_lets_stops_pass(llm: LLM, plain: list[int]) -> None:
    stop = plain[2]
    out = run(llm, stop_token_ids=[stop], min_tokens=9)
    # Output positions 0..8 may not stop; the ninth token is the first that may.
    later = [index for index, token in enumerate(plain) if token == stop and index >= 9]
    assert out.token_ids == plain[: later[0] + 1 if later else NUM_TOKENS]
    at_first = run(llm, stop_token_ids=[stop], min_tokens=plain.index(stop))
    assert at_first.token_ids == plain[: plain.index(stop) + 1]


@pytest.mark.parametrize("num_tokens", [1, 2, 3, 4, 5, 23])
def test_max_tokens_cuts_an_accepted_run(llm: LLM, plain: list[int], num_tokens: int) -> None:
    out = run(llm, num_tokens)
    assert out.token_ids == plain[:num_tokens]
    assert (out.finish_reason, out.stop_reason) == ("length", None)


def test_a_stop_at_the_last_allowed_token_is_a_stop(llm: LLM, plain: list[int]) -> None:
    at = plain.index(plain[8])
    out = run(llm, at + 1, stop_token_ids=[plain[at]])
    assert (len(out.token_ids), out.finish_reason) == (at + 1, "stop")


def test_what_follows_a_stop_in_the_same_run_counts_nowhere(llm: LLM, plain: list[int]) -> None:
    stop = plain[5]
    kept = plain.index(stop) + 1
    for _ in range(2):
        result = llm.generate(PROMPT, sampled(7, NUM_TOKENS, stop_token_ids=[stop], logprobs=0))[0]
        assert len(result.outputs[0].token_ids) == kept
        assert len(result.outputs[0].logprobs or []) == kept
        speculation = result.metrics.speculation
        assert speculation.num_accepted + speculation.num_steps + 1 == kept


def test_the_context_limit_ends_an_output(tiny_dir: Path) -> None:
    for mtp_step in (0, 3):
        with engine(tiny_dir, mtp_step=mtp_step, max_model_len=40, page_size=16) as llm:
            for length in (1, 30, 39):
                result = llm.generate(prompt(length), greedy(None))[0]
                assert len(result.outputs[0].token_ids) == 40 - length
                assert result.outputs[0].finish_reason == "length"
            assert len(token_ids(llm.generate(prompt(30), greedy(500)))[0]) == 10


def test_eos_comes_from_the_generation_config(tiny_dir: Path, tmp_path: Path) -> None:
    with engine(tiny_dir, mtp_mode="none") as llm:
        plain = token_ids(llm.generate(PROMPT, greedy(NUM_TOKENS)))[0]
    eos = plain[4]
    directory = tmp_path / "model"
    shutil.copytree(tiny_dir, directory)
    config = json.loads((directory / "config.json").read_text())
    config.pop("eos_token_id")
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "generation_config.json").write_text(json.dumps({"eos_token_id": [96, eos]}))
    with engine(directory, mtp_step=3) as llm:
        out = llm.generate(PROMPT, greedy(NUM_TOKENS, ignore_eos=False))[0].outputs[0]
        assert out.token_ids == plain[: plain.index(eos) + 1]
        # As in vLLM, the stop reason of an end-of-sequence token is None.
        assert (out.finish_reason, out.stop_reason) == ("stop", None)
        assert token_ids(llm.generate(PROMPT, greedy(NUM_TOKENS)))[0] == plain
