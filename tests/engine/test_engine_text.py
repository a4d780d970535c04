"""Text of an output: stop strings, incomplete characters, special tokens, and streaming."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from engine_cases import ScriptedDrafts, ScriptedModel, engine, greedy, prompt, token_ids

from mtpcore.api import bundled_model_dir

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mtpcore import LLM, SamplingParams
    from mtpcore.api import CompletionOutput, RequestOutput, StreamDelta
    from mtpcore.engine.tokenizer import TextTokenizer

STORY = "She said: «déjà vu», 42 € and no more… — then left.\n日本語 text 🙂🙃 end"
PROMPT = prompt(9)
PLAIN, MARKED, ENDED = 1, 2, 3


@pytest.fixture(scope="module")
def special() -> dict[str, int]:
    config = json.loads((bundled_model_dir() / "tokenizer_config.json").read_text())
    return {entry["content"]: int(key) for key, entry in config["added_tokens_decoder"].items()}


@pytest.fixture(scope="module", params=[0, 1], ids=["depth0", "depth1"])
def llm(texts_dir: Path, special: dict[str, int], request: pytest.FixtureRequest) -> Iterator[LLM]:
    """Says STORY (seed PLAIN), STORY with special tokens in it, or STORY and end-of-sequence."""
    with engine(texts_dir, mtp_step=3, overlap_depth=request.param, max_num_seqs=16) as running:
        story = text_tokenizer(running).encode(STORY)
        mark, end = special["<|im_start|>"], special["<|im_end|>"]
        head, middle, tail = (
            text_tokenizer(running).encode(text) for text in (STORY[:8], STORY[8:24], STORY[24:])
        )
        marked = [mark, *head, mark, *middle, mark, mark, *tail]
        scripts = {PLAIN: story, MARKED: marked, ENDED: [*story, end]}
        ScriptedModel(running, scripts)
        ScriptedDrafts(running, scripts, 0.85)
        running.scripts = scripts  # type: ignore[attr-defined]
        yield running


def text_tokenizer(llm: LLM) -> TextTokenizer:
    assert llm.engine.tokenizer is not None
    return llm.engine.tokenizer


def script(llm: LLM, seed: int) -> list[int]:
    return llm.scripts[seed]  # type: ignore[attr-defined]


def says(llm: LLM, seed: int = PLAIN, **changes: Any) -> SamplingParams:
    return greedy(**{"max_tokens": len(script(llm, seed)), "seed": seed, **changes})


def both_ways(llm: LLM, params: list[SamplingParams]) -> list[CompletionOutput]:
    """Outputs of generate, after those of stream were found to be the same, field by field."""
    whole = llm.generate([PROMPT] * len(params), params)
    deltas: dict[int, list[StreamDelta]] = {index: [] for index in range(len(params))}
    for delta in llm.stream([PROMPT] * len(params), params):
        deltas[delta.index].append(delta)
    for index, parts in deltas.items():
        assert [part.finished for part in parts] == [False] * (len(parts) - 1) + [True]
        result = parts[-1].result
        assert result is not None
        assert shape(result) == shape(whole[index])
        assert "".join(part.text for part in parts) == result.outputs[0].text
        assert sum((part.token_ids for part in parts), []) == result.outputs[0].token_ids
    return [output.outputs[0] for output in whole]


def shape(output: RequestOutput) -> tuple[Any, ...]:
    return (output.prompt, output.prompt_token_ids, output.finished, output.outputs)


def shortest_with(llm: LLM, stop: str, seed: int = PLAIN) -> list[int]:
    """The tokens up to the one that completes a stop string."""
    tokenizer, tokens = text_tokenizer(llm), script(llm, seed)
    table = tokenizer.text_bytes()
    for count in range(1, len(tokens) + 1):
        if stop.encode() in b"".join(table[token] for token in tokens[:count]):
            return tokens[:count]
    raise AssertionError(f"{stop!r} is not in the text")


def test_a_streamed_text_is_the_whole_text(llm: LLM) -> None:
    tokens = script(llm, PLAIN)
    # The vocabulary cuts some of the characters into bytes.
    assert any("\ufffd" in text_tokenizer(llm).decode_token(token) for token in tokens)
    out = both_ways(llm, [says(llm)])[0]
    assert (out.text, out.token_ids, out.finish_reason) == (STORY, tokens, "length")
    texts = [delta.text for delta in llm.stream(PROMPT, says(llm))]
    assert len(texts) > 5
    assert not any("\ufffd" in text for text in texts)


def test_an_output_that_ends_inside_a_character_says_so(llm: LLM) -> None:
    tokens = script(llm, PLAIN)
    table = text_tokenizer(llm).token_bytes
    for count in range(1, len(tokens)):
        data = b"".join(table[token] for token in tokens[:count])
        if data.decode("utf-8", "ignore").encode() != data:
            break
    outs = both_ways(llm, [says(llm, max_tokens=count), says(llm, max_tokens=count + 1)])
    assert [out.text for out in outs] == [
        b"".join(table[token] for token in tokens[:n]).decode("utf-8", "replace")
        for n in (count, count + 1)
    ]
    assert outs[0].text.endswith("\ufffd")


STOPS = ["S", "aid:", ": «d", "é", "éjà v", "», 42", "€", "re… —", "— th", "left.\n日", "語", "🙂"]
STOPS += ["🙂🙃", "🙃 en", "end", "d", STORY, STORY[3:40], "\n"]


@pytest.mark.parametrize("keep", [False, True], ids=["cut", "kept"])
def test_a_stop_string_is_cut_exactly(llm: LLM, keep: bool) -> None:
    given = [says(llm, stop=stop, include_stop_str_in_output=keep) for stop in STOPS]
    for stop, out in zip(STOPS, both_ways(llm, given), strict=True):
        at = STORY.index(stop)
        assert out.text == STORY[: at + len(stop) * keep], stop
        assert out.token_ids == shortest_with(llm, stop), stop
        assert (out.finish_reason, out.stop_reason) == ("stop", stop)


def test_the_stop_string_that_ends_first_counts(llm: LLM) -> None:
    cases = {
        ("left", "vu", "text"): "vu",
        ("déjà vu», 42", "vu"): "vu",
        ("42 €", "2 €", " €"): "42 €",
        ("and no", "and", "an"): "an",
        ("nowhere", "end"): "end",
    }
    given = [says(llm, stop=list(stops)) for stops in cases]
    for first, out in zip(cases.values(), both_ways(llm, given), strict=True):
        assert (out.stop_reason, out.text) == (first, STORY[: STORY.index(first)])


def test_a_stop_string_that_never_comes_takes_nothing_away(llm: LLM) -> None:
    outs = both_ways(llm, [says(llm, stop=stop) for stop in ("end!", "xyz", "d" * 40)])
    assert [(out.text, out.finish_reason) for out in outs] == [(STORY, "length")] * 3


def test_min_tokens_lets_stop_strings_pass(llm: LLM) -> None:
    early = len(shortest_with(llm, "a"))
    params = [says(llm, stop="a", min_tokens=count) for count in (early - 1, early)]
    first, later = both_ways(llm, params)
    assert first.text == STORY[: STORY.index("a")]
    assert later.text == STORY[: STORY.index("a", STORY.index("a") + 1)]
    assert len(later.token_ids) > early


def test_special_tokens_are_outside_the_text_in_which_stops_are_found(llm: LLM) -> None:
    tokens, table = script(llm, MARKED), text_tokenizer(llm).token_bytes
    whole = b"".join(table[token] for token in tokens).decode()
    assert whole.replace("<|im_start|>", "") == STORY
    hidden, shown = both_ways(
        llm, [says(llm, MARKED), says(llm, MARKED, skip_special_tokens=False)]
    )
    assert (hidden.text, shown.text) == (STORY, whole)
    # This stop string spans the place of a special token, so no text holds it whole.
    at = whole.index("<|im_start|>", 1)
    stop = STORY[at - 12 - 2 : at - 12 + 3]
    for keep in (False, True):
        changes = {"stop": stop, "include_stop_str_in_output": keep}
        hidden, shown = both_ways(
            llm,
            [says(llm, MARKED, **changes), says(llm, MARKED, skip_special_tokens=False, **changes)],
        )
        assert hidden.text == STORY[: at - 14 + 5 * keep]
        assert shown.text == whole[: at - 2 + (5 + 12) * keep]
        assert hidden.stop_reason == shown.stop_reason == stop


def test_a_special_token_before_a_stop_string_stays(llm: LLM) -> None:
    table = text_tokenizer(llm).token_bytes
    whole = b"".join(table[token] for token in script(llm, MARKED)).decode()
    at = whole.index("<|im_start|>", 1)
    stop = whole[at + 12 : at + 16]
    out = both_ways(llm, [says(llm, MARKED, stop=stop, skip_special_tokens=False)])[0]
    assert out.text == whole[: at + 12]


def test_a_stop_token_adds_no_text_unless_asked(llm: LLM, special: dict[str, int]) -> None:
    end = special["<|im_end|>"]
    changes = {"skip_special_tokens": False, "max_tokens": 200}
    given = [
        says(llm, ENDED, ignore_eos=False, **changes),
        says(llm, ENDED, ignore_eos=False, include_stop_str_in_output=True, **changes),
        says(llm, ENDED, stop_token_ids=[end], **changes),
        says(llm, ENDED, stop_token_ids=[script(llm, ENDED)[3]], include_stop_str_in_output=True),
    ]
    outs = both_ways(llm, given)
    assert [out.text for out in outs[:3]] == [STORY, STORY + "<|im_end|>", STORY]
    assert [out.stop_reason for out in outs[:3]] == [None, None, end]
    assert all(out.token_ids == script(llm, ENDED) for out in outs[:3])
    assert outs[3].text == b"".join(
        text_tokenizer(llm).token_bytes[token] for token in script(llm, ENDED)[:4]
    ).decode("utf-8", "replace")


def test_without_detokenize_there_are_tokens_alone(llm: LLM) -> None:
    out = both_ways(llm, [says(llm, detokenize=False)])[0]
    assert (out.text, out.token_ids) == ("", script(llm, PLAIN))


def test_a_text_prompt_is_encoded_and_kept(llm: LLM) -> None:
    outs = llm.generate([STORY, {"prompt_token_ids": script(llm, PLAIN)}], says(llm, max_tokens=3))
    assert outs[0].prompt == STORY
    assert outs[1].prompt is None
    assert outs[0].prompt_token_ids == outs[1].prompt_token_ids == script(llm, PLAIN)
    assert token_ids(outs)[0] == token_ids(outs)[1]
