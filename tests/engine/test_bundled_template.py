"""The bundled chat template: ChatML, renderings that stay prefixes, a turn that ends."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from mtpcore import LLM, SamplingParams

DIRECTORY = Path(str(files("mtpcore") / "bundled"))
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
CALL = {"function": {"name": "look", "arguments": {"where": "hall", "times": 2}}}
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "You are a reader of old books."},
    {"role": "user", "content": "  Tell me a story.\n"},
    {"role": "assistant", "content": "Once\n\n", "reasoning_content": "short"},
    {"role": "user", "content": [{"type": "text", "text": "Go "}, {"type": "text", "text": "on."}]},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "nobody"},
    {"role": "assistant", "content": "They lived.", "tool_calls": [CALL, CALL]},
    {"role": "user", "content": "And then?"},
    {"role": "assistant", "content": "They died."},
]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(DIRECTORY)


def render(tokenizer: Any, messages: list[dict[str, Any]], **more: Any) -> str:
    return tokenizer.apply_chat_template(messages, tokenize=False, **more)


def test_renders_chatml(tokenizer: Any) -> None:
    assert render(tokenizer, TALK[:2], add_generation_prompt=True) == (
        "<|im_start|>system\nYou are a reader of old books.<|im_end|>\n"
        "<|im_start|>user\n  Tell me a story.\n<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize("tools", [None, TOOLS], ids=["plain", "tools"])
def test_a_longer_talk_begins_with_the_shorter(tokenizer: Any, tools: Any) -> None:
    whole = render(tokenizer, TALK, tools=tools)
    for count in range(1, len(TALK)):
        part = render(tokenizer, TALK[:count], tools=tools)
        assert part and whole.startswith(part)
        if TALK[count]["role"] == "assistant":
            asked = render(tokenizer, TALK[:count], tools=tools, add_generation_prompt=True)
            assert len(asked) > len(part) and whole.startswith(asked)


def test_tokens_keep_the_prefix_too(tokenizer: Any) -> None:
    whole = tokenizer(render(tokenizer, TALK)).input_ids
    for count in range(1, len(TALK)):
        part = tokenizer(render(tokenizer, TALK[:count])).input_ids
        assert whole[: len(part)] == part


def test_what_it_cannot_say_is_refused(tokenizer: Any) -> None:
    from jinja2.exceptions import TemplateError

    for bad in (
        [{"role": "narrator", "content": "x"}],
        [TALK[1], TALK[0]],
        [{"role": "user", "content": [{"type": "image", "image": "x"}]}],
    ):
        with pytest.raises(TemplateError):
            render(tokenizer, bad)


def test_a_turn_of_the_model_ends_by_itself(tokenizer: Any) -> None:
    """The conversations it was trained on taught it to end its turn; text alone would not."""
    talk = [{"role": "user", "content": "Tell me a story."}]
    prompt = {
        "prompt_token_ids": tokenizer(render(tokenizer, talk, add_generation_prompt=True)).input_ids
    }
    params = [SamplingParams(temperature=0.8, seed=seed, max_tokens=32) for seed in range(4)]
    with LLM(mtp_step=3, device="cpu") as llm:
        outs = [out.outputs[0] for out in llm.generate([prompt] * len(params), params)]
    ended = [out for out in outs if out.finish_reason == "stop"]
    assert len(ended) >= 2
    for out in ended:
        assert len(out.token_ids) < 32
        assert "<|im_end|>" not in out.text
