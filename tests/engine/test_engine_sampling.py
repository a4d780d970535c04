"""Sampled outputs: reproducible, independent of everything around them, and right in law."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from engine_cases import (
    VOCAB,
    engine,
    greedy,
    prompt,
    request,
    run_requests,
    sampled,
    token_ids,
)
from tiny import TinySpec
from tiny_oracle import oracle_logits, oracle_model

from mtpcore import LLM, SamplingParams

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import torch

PROMPT = prompt(9, 4)


@pytest.fixture(scope="module")
def llm(tiny_dir: Path) -> Iterator[LLM]:
    options = {"mtp_step": 3, "max_num_seqs": 32, "max_num_batched_tokens": 1024}
    with engine(tiny_dir, **options) as running:
        yield running


@pytest.fixture(scope="module")
def plain(tiny_dir: Path) -> Iterator[LLM]:
    with engine(tiny_dir, mtp_mode="none", max_num_seqs=1, overlap_depth=0) as running:
        yield running


def test_a_seed_gives_one_output_whatever_runs_beside_it(llm: LLM, plain: LLM) -> None:
    params = [sampled(seed, 12, temperature=0.9) for seed in (1, 2, 3, 2**63 + 5, 2**64 - 1)]
    alone = [token_ids(plain.generate(PROMPT, one))[0] for one in params]
    together = token_ids(llm.generate([PROMPT] * 5, params))
    backwards = token_ids(llm.generate([PROMPT] * 5, params[::-1]))[::-1]
    assert alone == together == backwards
    assert len(set(map(tuple, alone))) == 5


def test_the_same_seed_gives_the_same_tokens_in_two_requests(llm: LLM) -> None:
    first, second, other = token_ids(
        llm.generate([PROMPT] * 3, [sampled(8), sampled(8), sampled(9)])
    )
    assert first == second != other


def test_the_high_half_of_a_seed_counts(llm: LLM) -> None:
    outs = token_ids(llm.generate([PROMPT] * 2, [sampled(8), sampled(8 + 2**32)]))
    assert outs[0] != outs[1]


def test_samples_of_one_request_differ_by_their_index(llm: LLM) -> None:
    one = request(PROMPT, max_tokens=12, temperature=1.0, seed=8)
    records = run_requests(llm, (replace(one, sample_index=index) for index in (0, 1, 2, 1)))
    found = [record.token_ids() for record in records]
    assert found[0] == token_ids(llm.generate(PROMPT, sampled(8, 12)))[0]
    assert found[1] == found[3]
    assert len(set(map(tuple, found))) == 3


def test_without_a_seed_the_engines_seed_decides(tiny_dir: Path) -> None:
    free = SamplingParams(temperature=1.0, max_tokens=10, ignore_eos=True)
    outs = {}
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        with engine(tiny_dir, seed=seed) as llm:
            calls = [token_ids(llm.generate([PROMPT] * 2, free)) for _ in range(2)]
            outs[name] = [tokens for call in calls for tokens in call]
    # Requests that name no seed differ from each other, and a new engine repeats them.
    assert len(set(map(tuple, outs["a"]))) == 4
    assert outs["a"] == outs["b"] != outs["c"]


def naive_law(logits: torch.Tensor, params: SamplingParams) -> np.ndarray:
    """The processed distribution, by walking the sorted row in float64."""
    scores = (logits.double() / params.temperature).tolist()
    order = sorted(range(len(scores)), key=lambda token: (-scores[token], token))
    kept = order[: params.top_k] if params.top_k > 0 else order
    mass = np.exp([scores[token] - scores[order[0]] for token in kept])
    before = np.concatenate(([0.0], np.cumsum(mass)[:-1]))
    mass[before >= params.top_p * mass.sum()] = 0.0
    law = np.zeros(len(scores))
    law[kept] = mass / mass.sum()
    return law


def chi_square(tokens: list[int], law: np.ndarray) -> tuple[float, int]:
    """Statistic and degrees of freedom, with rare tokens put together."""
    counts = np.bincount(tokens, minlength=len(law)).astype(float)
    assert counts[law == 0].sum() == 0
    expected = law * len(tokens)
    often = expected >= 5
    found = [*counts[often], counts[~often].sum()]
    wanted = [*expected[often], expected[~often].sum()]
    cells = [(f, w) for f, w in zip(found, wanted, strict=True) if w > 0]
    return sum((f - w) ** 2 / w for f, w in cells), len(cells) - 1


LAWS: list[dict[str, Any]] = [
    {"temperature": 1.0},
    {"temperature": 0.7, "top_k": 8},
    {"temperature": 1.3, "top_p": 0.6},
    {"temperature": 0.9, "top_k": 20, "top_p": 0.8},
]
NUM_SAMPLES = 600


@pytest.mark.parametrize("changes", LAWS, ids=str)
def test_outputs_follow_the_processed_distribution(llm: LLM, changes: dict[str, Any]) -> None:
    """The first two tokens of many seeds: the first alone, the second where the first is the most
    frequent one, so that a decode step is looked at too."""
    params = [sampled(seed, 2, **changes) for seed in range(NUM_SAMPLES)]
    outs = token_ids(llm.generate([PROMPT] * NUM_SAMPLES, params))
    oracle = oracle_model(TinySpec())
    firsts = [tokens[0] for tokens in outs]
    common = int(np.bincount(firsts).argmax())
    seconds = [tokens[1] for tokens in outs if tokens[0] == common]
    assert len(seconds) >= 30
    known = PROMPT["prompt_token_ids"]
    for tokens, context in ((firsts, known), (seconds, [*known, common])):
        law = naive_law(oracle_logits(oracle, context)[-1], params[0])
        statistic, freedom = chi_square(tokens, law)
        # Wilson and Hilferty's approximation of the 99.9 % point; the seeds are fixed.
        spread = 2 / (9 * max(freedom, 1))
        assert statistic < max(freedom, 1) * (1 - spread + 3.09 * spread**0.5) ** 3
        assert len(law) == VOCAB


def test_requests_of_every_kind_share_a_step(llm: LLM, plain: LLM) -> None:
    kinds = [
        greedy(8),
        sampled(1, 8),
        sampled(2, 8, top_k=1),
        sampled(3, 8, top_k=300, top_p=0.5),
        sampled(4, 8, temperature=1e-200),
        sampled(5, 8, temperature=50.0),
        sampled(6, 8, top_p=1e-9),
        sampled(7, 8, top_k=-1),
    ]
    together = token_ids(llm.generate([PROMPT] * len(kinds), kinds))
    assert together == [token_ids(plain.generate(PROMPT, one))[0] for one in kinds]
    # One token kept, or next to no temperature, is greedy.
    assert together[2] == together[4] == together[6] == together[0]


def test_drafts_share_the_targets_noise() -> None:
    """On the bundled model at temperature 1: with the target's noise its own drafts match more
    often than as argmax drafts, and the output is the same."""
    prompts = ["The king said to his", "And it came to pass that", "In the morning they"]
    params = [sampled(seed, 32) for seed in range(3)]
    found = {}
    with engine(None, mtp_step=3) as llm:
        for shared in (True, False):
            llm.engine.worker.draft_noise = shared
            found[shared] = llm.generate(prompts, params)
    assert token_ids(found[True]) == token_ids(found[False])
    lengths = {
        shared: sum(out.metrics.speculation.num_steps for out in outs)
        for shared, outs in found.items()
    }
    assert lengths[True] < lengths[False]
