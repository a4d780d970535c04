"""The slow path against transformers, and its noise and sampling against the engine's."""

from __future__ import annotations

import importlib.resources
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from mtpcore.acceptance.noise import gumbel_noise
from mtpcore.acceptance.process import process
from mtpcore.check.naive import trunk
from mtpcore.check.noise import gumbel
from mtpcore.check.sampling import Sampling, _kept, choose
from mtpcore.check.slow_path import SlowPath, plain_length

BUNDLED = Path(str(importlib.resources.files("mtpcore").joinpath("bundled")))
PROMPT = tuple(range(300, 340))


@pytest.fixture(scope="module")
def slow() -> SlowPath:
    return SlowPath(BUNDLED)


def test_logits_equal_transformers(slow: SlowPath) -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(BUNDLED, dtype=torch.float32)
    ids = torch.randint(0, 4000, (90,), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = model(ids[None]).logits[0]
        hidden = trunk(ids, slow.weights, slow.config)
    logits = F.linear(hidden, slow.weights["lm_head.weight"])
    assert (logits - expected).abs().max() <= 1e-4


@pytest.mark.parametrize("seed", [0, 1, -7, 2**63 - 1, 1 << 40])
@pytest.mark.parametrize("position", [0, 3, 70_000])
def test_noise_equals_the_engines(seed: int, position: int) -> None:
    words = [torch.tensor([seed & 0xFFFFFFFF]), torch.tensor([seed >> 32 & 0xFFFFFFFF])]
    engine = gumbel_noise(*words, torch.tensor([0]), torch.tensor([position]), 4096)[0]
    assert np.abs(engine.double().numpy() - gumbel(seed, 0, position, 4096)).max() < 1e-5


def test_noise_is_standard_gumbel() -> None:
    sample = np.concatenate([gumbel(5, 0, position, 4096) for position in range(50)])
    assert abs(sample.mean() - 0.5772) < 0.01
    assert abs(sample.var() - np.pi**2 / 6) < 0.03


@pytest.mark.parametrize(("top_k", "top_p"), [(0, 0.9), (40, 1.0), (40, 0.95), (3, 0.5), (0, 1.0)])
def test_kept_tokens_equal_the_engines(top_k: int, top_p: float) -> None:
    logits = torch.randn(6, 500, generator=torch.Generator().manual_seed(2)) * 3
    scores = process(
        logits,
        torch.full((6,), 0.7),
        torch.full((6,), top_k),
        torch.full((6,), top_p),
        top_k if top_k else 0,
    )
    for row, engine in zip(logits.double().numpy(), scores, strict=True):
        keep, _ = _kept(row / 0.7, Sampling(0.7, top_k, top_p))
        assert (keep == torch.isfinite(engine).numpy()).all()


def test_a_near_tie_is_excused_and_a_clear_choice_is_not() -> None:
    row = np.array([1.0, 2.0, 2.0 - 5e-5, 0.0])
    assert choose(row, Sampling(), 0).excused == {1, 2}
    assert choose(row - np.array([0, 0, 1e-3, 0]), Sampling(), 0).excused == {1}


def test_guess_and_verify_is_token_by_token_decoding(slow: SlowPath) -> None:
    for sampling in (Sampling(max_tokens=8), Sampling(0.8, 40, 0.95, seed=3, max_tokens=8)):
        plain = list(PROMPT)
        with torch.no_grad():
            for position in range(8):
                hidden = trunk(torch.tensor(plain), slow.weights, slow.config)[-1:]
                row = F.linear(hidden, slow.weights["lm_head.weight"])[0].double().numpy()
                plain.append(choose(row, sampling, position).token)
        expected = tuple(plain[len(PROMPT) :])
        wrong = (*expected[:3], expected[3] ^ 1, *expected[4:])
        assert slow.decode(PROMPT, sampling) == expected
        assert SlowPath(BUNDLED).decode(PROMPT, sampling, guess=wrong) == expected
        assert slow.verify(PROMPT, wrong, sampling).first_difference() == 3


def test_drafts_do_not_depend_on_what_follows(slow: SlowPath) -> None:
    sampling = Sampling(max_tokens=6)
    output = slow.decode(PROMPT, sampling)
    whole = slow.drafts(slow.verify(PROMPT, output, sampling), sampling, 3)
    fresh = SlowPath(BUNDLED)
    part = fresh.drafts(fresh.verify(PROMPT, output[:2], sampling), sampling, 3)
    start = len(PROMPT)
    for s in (start, start + 1):
        assert [c.token for c in whole[s]] == [c.token for c in part[s]]


def test_plain_length() -> None:
    sampling = Sampling(max_tokens=5, min_tokens=2, stop_token_ids=(9,))
    assert plain_length((9, 1, 9), sampling) == 3
    assert plain_length((9, 9), sampling) is None
    assert plain_length((1, 2, 3, 4, 5), sampling) == 5
