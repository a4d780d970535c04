"""Refused requests and settings: each text names the field and the way out."""

from __future__ import annotations

import numpy as np
import pytest
from core.device import Harness
from core.settings import BASE, REQUEST, prompt, settings, vocabulary

from mtpcore import _core

REJECTS = [
    ("empty_prompt", {"prompt": prompt(0)}, "^prompt: .* give at least one"),
    ("prompt_too_long", {"prompt": prompt(64)}, "^prompt: 64 .* max_model_len 64; shorten"),
    (
        "token_out_of_vocabulary",
        {"prompt": prompt(3) + 39},
        "^prompt: token 40 at index 1 .*encode",
    ),
    ("token_out_of_vocabulary", {"prompt": prompt(3) - 1}, "^prompt: token -1 at index 0"),
    ("max_tokens", {"max_tokens": 0}, "^max_tokens: 0 .* at least 1"),
    ("min_tokens", {"min_tokens": 9}, "^min_tokens: 9 .* max_tokens 8; lower it or raise"),
    ("min_tokens", {"min_tokens": -1}, "^min_tokens: -1 "),
    (
        "min_tokens",
        {"prompt": prompt(60), "max_tokens": 9, "min_tokens": 9},
        "^min_tokens: 9 .* max_model_len 64; lower it or shorten",
    ),
    ("temperature", {"temperature": -0.1}, r"^temperature: -0.1 must be .*\(0 is greedy\)"),
    ("temperature", {"temperature": float("nan")}, "^temperature: NaN must be"),
    ("temperature", {"temperature": float("inf")}, "^temperature: inf must be"),
    ("top_p", {"top_p": 0.0}, "^top_p: 0 must be above 0 and at most 1"),
    ("top_p", {"top_p": 1.5}, "^top_p: 1.5 must be"),
    ("top_k", {"top_k": -2}, "^top_k: -2 must be at least 1, or 0 or -1"),
    ("sample_index", {"sample_index": -1}, "^sample_index: -1 must lie in"),
    ("seed", {"seed": -1}, r"^seed: -1 is out of range; give an int in 0..2\*\*64"),
    ("max_tokens", {"max_tokens": 1 << 70}, "^max_tokens: .* out of range; give"),
    ("logprobs", {"logprobs": 65}, "^logprobs: 65 must lie between 0 and 40"),
    ("stop_token_ids", {"stop_token_ids": [40]}, r"^stop_token_ids: token 40 .* 0\.\.40; remove"),
    ("stop", {"stop": [b"a"] * 65}, "^stop: 65 strings are more than 64; give fewer"),
    ("stop", {"stop": [b"a", b""]}, "^stop: string 1 is empty; remove it"),
    ("stop", {"stop": [b"a" * 1025]}, "^stop: string 0 has 1025 bytes, more than 1024; shorten"),
    ("priority", {"priority": 1 << 31}, "^priority: 2147483648 must lie between"),
    ("salt", {"salt": b"s" * 257}, "^salt: 257 bytes are more than 256; use a shorter"),
]


@pytest.mark.parametrize(("reason", "changes", "text"), REJECTS)
def test_a_refusal_has_its_text_and_takes_nothing(reason, changes, text):
    engine = Harness()
    engine.core.set_vocabulary(vocabulary(BASE["vocab_size"]))
    given = {"prompt": prompt(4), **changes}
    with pytest.raises(_core.RejectError, match=text) as caught:
        engine.submit(given.pop("prompt"), **given)
    assert caught.value.reason == reason
    assert isinstance(caught.value, ValueError)
    engine.assert_idle()
    assert engine.launch() == "idle"


def test_refusals_that_depend_on_the_engine():
    engine = Harness(max_queue=2, num_pages=8)
    with pytest.raises(_core.RejectError, match="stop: .*no tokenizer.* use stop_token_ids"):
        engine.submit(prompt(4), stop=[b"x"])
    with pytest.raises(_core.RejectError, match="prompt and max_tokens: 41 .* 11 pages .* 8 exist"):
        engine.submit(prompt(33))
    for _ in range(2):
        engine.submit(prompt(4))
    with pytest.raises(_core.RejectError, match=r"queue is full with 2 .*max_queue") as caught:
        engine.submit(prompt(4))
    assert caught.value.reason == "queue_full"
    assert engine.core.counters()["requests_rejected"] == 3
    engine.drain()
    engine.assert_idle()


WRONG_TYPES = [
    ("max_tokens", "8"),
    ("temperature", "hot"),
    ("stop_token_ids", 3),
    ("stop", ["text"]),
    ("salt", "text"),
]


@pytest.mark.parametrize(("name", "value"), WRONG_TYPES)
def test_a_wrong_type_names_its_argument(name, value):
    with pytest.raises(TypeError, match=f"^{name}: .* found; give"):
        Harness().submit(prompt(4), **{name: value})


CONFIG = [
    ({"colour": 1}, "^colour: unknown setting; known are max_num_seqs"),
    ({3: 1}, "^3: a setting's name must be a str"),
    ({"max_num_seqs": "4"}, "^max_num_seqs: must be"),
    ({"max_num_seqs": True}, "^max_num_seqs: must be"),
    ({"max_num_seqs": -1}, "^max_num_seqs: must be"),
    ({"max_num_seqs": 0}, r"^max_num_seqs: 0 is outside 1\.\.=65536"),
    ({"page_size": 1.5}, "^page_size: must be"),
    ({"num_pages": 1 << 33}, "^num_pages: must be"),
    ({"num_states": 0}, "^num_states: 0 is outside"),
    ({"mtp_step": 8}, r"^mtp_step: 8 is outside 0\.\.=7"),
    ({"overlap_depth": 2}, r"^overlap_depth: 2 is outside 0\.\.=1"),
    ({"max_model_len": 1}, "^max_model_len: 1 is outside"),
    ({"vocab_size": 0}, "^vocab_size: 0 is outside"),
    ({"enable_prefix_caching": 1}, "^enable_prefix_caching: must be a bool"),
    ({"num_checkpoints": 0}, "^num_checkpoints: .* enable_prefix_caching=False"),
    ({"max_num_batched_tokens": 3}, "^max_num_batched_tokens: 3 .* raise it or lower mtp_step"),
    ({"checkpoint_interval": 6}, "^checkpoint_interval: 6 is not a multiple of page_size 4"),
    ({"num_rings": 1}, "^num_rings: .* set num_rings and window to 0"),
    ({"state_mode": "compact"}, "^state_mode: 'compact' does not run yet; set 'native'"),
    ({"state_mode": 1}, "^state_mode: must be a str"),
    ({"replay_history_len": 4}, "^replay_history_len: .* set 0"),
]


@pytest.mark.parametrize(("changes", "text"), CONFIG)
@pytest.mark.parametrize(
    "make", [_core.Scheduler, _core.plan_fields, _core.result_fields], ids=lambda f: f.__name__
)
def test_a_bad_setting_is_named(make, changes, text):
    with pytest.raises(ValueError, match=text):
        make({**BASE, **changes})


@pytest.mark.parametrize("key", sorted(BASE))
def test_a_missing_setting_is_named(key):
    config = {name: value for name, value in BASE.items() if name != key}
    with pytest.raises(ValueError, match=f"^{key}: setting is missing"):
        _core.Scheduler(config)


def test_a_budget_below_the_rectangle_is_legal():
    engine = Harness(max_num_batched_tokens=4)
    for i in range(4):
        engine.submit(prompt(5, i))
    engine.drain()
    engine.assert_idle()
    assert all(len(out.tokens) == 8 for out in engine.out.values())


def test_the_vocabulary_must_be_whole():
    core = _core.Scheduler(settings())
    with pytest.raises(ValueError, match="^token_bytes: 1 .* vocab_size of 40"):
        core.set_vocabulary([b"x"])
    with pytest.raises(TypeError):
        core.set_vocabulary(["x"] * 40)  # type: ignore[list-item]
    with pytest.raises(_core.RejectError, match="^stop: this engine has no tokenizer"):
        core.submit(np.array([1], np.int32), **{**REQUEST, "stop": [b"x"]})
