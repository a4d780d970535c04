"""Every bad prompt and parameter is refused by name, and then nothing has run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from engine_cases import assert_idle, engine, greedy, prompt, token_ids

from mtpcore import LLM, SamplingParams
from mtpcore._core import RejectError
from mtpcore.config import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMIT = 64


@pytest.fixture(scope="module")
def llm(tiny_dir: Path) -> Iterator[LLM]:
    with engine(tiny_dir, max_model_len=LIMIT) as running:
        yield running


def ids(*tokens: Any) -> dict[str, Any]:
    return {"prompt_token_ids": list(tokens)}


BAD_PROMPTS: list[tuple[Any, str]] = [
    ("a text", "no tokenizer.json; give {'prompt_token_ids'"),
    ({"prompt": "a text"}, "no tokenizer.json"),
    ({"prompt": 5}, "not a text"),
    (ids(), "no tokens; give at least one"),
    (ids(*[1] * LIMIT), "shorten it to at most 63 tokens or raise max_model_len"),
    (ids(1, 97), "token 97 at index 1 is outside the vocabulary 0..97"),
    (ids(-1), "token -1 at index 0 is outside the vocabulary"),
    (ids(2**40), "outside the vocabulary"),
    (ids(True), "holds True, which is not an int"),
    (ids(1.0), "holds 1.0, which is not an int"),
    (ids("1"), "holds '1', which is not an int"),
    (ids(None), "holds None, which is not an int"),
    ({"prompt_token_ids": 5}, "not a list of ints"),
    ({"prompt_token_ids": "abc"}, "not a list of ints"),
    ({"prompt_token_ids": torch.tensor([1, 2])}, "not a list of ints"),
    ({"prompt_token_ids": np.array([[1, 2]])}, "not an int"),
    ({"prompt_token_ids": np.array([1.5])}, "not an int"),
    ({"prompt_token_ids": [1], "salt": "x"}, "neither a text nor"),
    ({}, "neither a text nor"),
    ([1, 2], "neither a text nor"),
    (None, "neither a text nor"),
    (7, "neither a text nor"),
]


@pytest.mark.parametrize(("bad", "text"), BAD_PROMPTS, ids=lambda value: str(value)[:40])
@pytest.mark.parametrize("call", ["generate", "stream"])
def test_one_bad_prompt_of_three_stops_all_before_they_run(
    llm: LLM, bad: Any, text: str, call: str
) -> None:
    steps = llm.engine.core.counters()["steps"]
    with pytest.raises((OptionError, RejectError)) as info:
        getattr(llm, call)([prompt(5), bad, prompt(7)], greedy(4))
    assert str(info.value).startswith("prompts[1]: ")
    assert text in str(info.value)
    assert llm.engine.core.counters()["steps"] == steps
    assert_idle(llm)


@pytest.mark.parametrize("prompts", [5, None, {1, 2}, iter([ids(1)]), 1.5])
def test_prompts_of_no_list_are_refused(llm: LLM, prompts: Any) -> None:
    with pytest.raises(OptionError, match="^prompts: "):
        llm.generate(prompts, greedy(4))


BAD_PARAMS: list[tuple[dict[str, Any], str]] = [
    ({"temperature": -0.1}, "at least 0"),
    ({"temperature": float("nan")}, "finite"),
    ({"temperature": float("inf")}, "finite"),
    ({"temperature": 10**400}, "beyond what a float holds"),
    ({"temperature": "0"}, "not a number"),
    ({"temperature": None}, "not a number"),
    ({"temperature": True}, "not a number"),
    ({"top_p": 0.0}, "above 0 and at most 1"),
    ({"top_p": 1.01}, "above 0 and at most 1"),
    ({"top_p": float("nan")}, "above 0 and at most 1"),
    ({"top_p": None}, "not a number"),
    ({"top_k": -2}, "0 or -1 to keep every token"),
    ({"top_k": 2.0}, "not an int"),
    ({"top_k": 2**70}, "64 bits"),
    ({"seed": -1}, "outside 0..2**64-1"),
    ({"seed": 2**64}, "outside 0..2**64-1"),
    ({"seed": 1.0}, "not an int or None"),
    ({"max_tokens": 0}, "give at least 1"),
    ({"max_tokens": 2**70}, "64 bits"),
    ({"max_tokens": "3"}, "not an int or None"),
    ({"min_tokens": -1}, "between 0 and max_tokens"),
    ({"min_tokens": 9, "max_tokens": 8}, "lower it or raise max_tokens"),
    ({"min_tokens": 60, "max_tokens": 70}, "lower it or shorten the prompt"),
    ({"stop": 5}, "not a string or a list of strings"),
    ({"stop": ["a", 5]}, "not a string or a list of strings"),
    ({"stop": b"a"}, "not a string or a list of strings"),
    ({"stop": ""}, "empty; remove it"),
    ({"stop": "a"}, "no tokenizer, so stop strings cannot be found; use stop_token_ids"),
    ({"stop": "\ud800"}, "surrogate"),
    ({"stop": "a", "detokenize": False}, "set detokenize=True or use stop_token_ids"),
    ({"stop_token_ids": 5}, "not a list of ints"),
    ({"stop_token_ids": "abc"}, "not a list of ints"),
    ({"stop_token_ids": [1.5]}, "not an int"),
    ({"stop_token_ids": [True]}, "not an int"),
    ({"stop_token_ids": [97]}, "token 97 is outside the vocabulary 0..97"),
    ({"stop_token_ids": [-1]}, "token -1 is outside the vocabulary"),
    ({"stop_token_ids": [2**70]}, "out of range"),
    ({"logprobs": -1}, "0 or more, or None"),
    ({"logprobs": 65}, "between 0 and 64"),
    ({"logprobs": True}, "not an int or None"),
    ({"ignore_eos": 1}, "not a bool"),
    ({"detokenize": None}, "not a bool"),
    ({"skip_special_tokens": "no"}, "not a bool"),
    ({"include_stop_str_in_output": 0}, "not a bool"),
    ({"n": 2}, "not built yet; submit the prompt n times"),
    ({"n": True}, "not an int"),
    ({"min_p": 0.1}, "not built yet"),
    ({"presence_penalty": 0.5}, "not built yet"),
    ({"frequency_penalty": -0.5}, "not built yet"),
    ({"repetition_penalty": 1.1}, "not built yet"),
    ({"logit_bias": {1: 2.0}}, "not built yet"),
    ({"bad_words": ["x"]}, "not built yet"),
    ({"allowed_token_ids": [1]}, "not built yet"),
    ({"prompt_logprobs": 0}, "not built yet"),
    ({"prompt_logprobs": 1}, "not built yet"),
]


@pytest.mark.parametrize(("changes", "text"), BAD_PARAMS, ids=lambda value: str(value)[:40])
def test_a_bad_parameter_is_named_and_nothing_runs(
    llm: LLM, changes: dict[str, Any], text: str
) -> None:
    steps = llm.engine.core.counters()["steps"]
    with pytest.raises((OptionError, RejectError)) as info:
        llm.generate([prompt(5)] * 3, [greedy(4), SamplingParams(**changes), greedy(4)])
    assert next(iter(changes)) in str(info.value).removeprefix("prompts[1]: ").split(": ")[0]
    assert text in str(info.value)
    assert llm.engine.core.counters()["steps"] == steps
    assert_idle(llm)


@pytest.mark.parametrize("params", [[greedy()], [greedy()] * 3, [], 5, "x", [1, 2], {"seed": 1}])
def test_parameters_that_do_not_fit_the_prompts_are_refused(llm: LLM, params: Any) -> None:
    with pytest.raises(OptionError, match="^sampling_params: "):
        llm.generate([prompt(5), prompt(6)], params)


def test_a_stop_string_with_a_special_token_is_refused(texts_dir: Path) -> None:
    with engine(texts_dir) as llm:
        with pytest.raises(OptionError, match="stop: .*name it in stop_token_ids"):
            llm.generate("text", greedy(4, stop="x<|im_end|>"))
        with pytest.raises(OptionError, match=r"prompts\[0\]: the text cannot be encoded"):
            llm.generate("half a pair \ud800", greedy(4))


def test_a_full_queue_refuses_all_or_none(tiny_dir: Path) -> None:
    with engine(tiny_dir, max_queue=3) as llm:
        with pytest.raises(RejectError, match=r"prompts\[3\]: .*max_queue"):
            llm.generate([prompt(5)] * 4, greedy(2))
        assert_idle(llm)
        assert len(llm.generate([prompt(5)] * 3, greedy(2))) == 3


def test_accepted_forms_of_a_prompt(llm: LLM) -> None:
    tokens = prompt(5)["prompt_token_ids"]
    forms = [tokens, tuple(tokens), np.array(tokens), np.array(tokens, dtype=np.uint8)]
    outs = llm.generate([{"prompt_token_ids": form} for form in forms], greedy(4))
    assert [out.prompt_token_ids for out in outs] == [tokens] * 4
    assert len(set(map(tuple, token_ids(outs)))) == 1
    one = llm.generate(prompt(5), greedy(4))
    assert token_ids(one) == token_ids(outs)[:1]
    assert llm.generate([], greedy(4)) == []
    assert list(llm.stream([], greedy(4))) == []


def test_without_parameters_the_generation_config_decides(texts_dir: Path) -> None:
    with engine(texts_dir, seed=3) as llm:
        params = llm.default_params()
        given = llm.engine.generation
        assert (params.temperature, params.top_k, params.top_p) == (
            given.temperature,
            given.top_k,
            given.top_p,
        )
        free = token_ids(llm.generate("text"))
    with engine(texts_dir, seed=3) as llm:
        assert token_ids(llm.generate("text", params)) == free


def test_a_result_tells_its_times_and_counts(llm: LLM) -> None:
    out = llm.generate(prompt(21, 8), greedy(12))[0]
    metrics = out.metrics
    assert metrics.first_token_time is not None
    assert metrics.finished_time is not None
    assert metrics.arrival_time < metrics.first_token_time <= metrics.finished_time
    speculation = metrics.speculation
    # The prefill step gives the first token, decode steps give the others.
    assert speculation.num_steps + speculation.num_accepted == 11
    assert speculation.num_drafts == sum(speculation.num_drafts_per_position)
    assert speculation.num_accepted == sum(speculation.num_accepted_per_position)
    assert (out.finished, out.num_cached_tokens, len(out.prompt_token_ids)) == (True, 0, 21)
