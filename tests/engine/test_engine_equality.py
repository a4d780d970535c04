"""Speculation, batching, chunking, caching, overlap and preemption never change a token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from engine_cases import (
    ScriptedDrafts,
    engine,
    greedy,
    num_drafts_accepted,
    on_each_step,
    prompt,
    sampled,
    token_ids,
)
from tiny import TinySpec
from tiny_oracle import oracle_logits, oracle_model

if TYPE_CHECKING:
    from pathlib import Path

    from mtpcore import LLM, SamplingParams

LENGTHS = (1, 5, 16, 33, 64, 70)
PROMPTS = [prompt(length) for length in LENGTHS]
NUM_TOKENS = 16


def params_of(index: int) -> SamplingParams:
    """Every other request is greedy; seeds are there for the scripted drafts."""
    if index % 2 == 0:
        return greedy(NUM_TOKENS, seed=100 + index)
    filters = ({}, {"top_k": 12}, {"top_p": 0.8, "temperature": 0.7})[index // 2]
    return sampled(100 + index, NUM_TOKENS, **filters)


PARAMS = [params_of(index) for index in range(len(PROMPTS))]


@pytest.fixture(scope="module")
def plain(tiny_dir: Path) -> list[list[int]]:
    """Plain decoding: one request at a time, no drafts, no cache, no overlap."""
    options = {"mtp_mode": "none", "overlap_depth": 0, "enable_prefix_caching": False}
    with engine(tiny_dir, **options) as llm:
        return [
            token_ids(llm.generate(one, params))[0]
            for one, params in zip(PROMPTS, PARAMS, strict=True)
        ]


def script(llm: LLM, plain: list[list[int]], accuracy: float) -> None:
    seeds = [params.seed for params in PARAMS if params.seed is not None]
    ScriptedDrafts(llm, dict(zip(seeds, plain, strict=True)), accuracy)


def test_plain_greedy_tokens_are_the_oracles(plain: list[list[int]]) -> None:
    oracle = oracle_model(TinySpec())
    for index in range(0, len(PROMPTS), 2):
        tokens = PROMPTS[index]["prompt_token_ids"] + plain[index]
        logits = oracle_logits(oracle, tokens[:-1])
        assert logits[-NUM_TOKENS:].argmax(1).tolist() == plain[index]


# Budgets of 3, 5 and 9 tokens lie below max_num_seqs * verify_width.
CASES = [
    {"mtp_step": 0},
    {"mtp_step": 0, "max_num_batched_tokens": 3, "page_size": 4},
    {"mtp_step": 1, "overlap_depth": 0, "page_size": 8, "max_num_batched_tokens": 40},
    {"mtp_step": 1, "max_num_batched_tokens": 5, "page_size": 4},
    {"mtp_step": 3, "max_num_batched_tokens": 9, "page_size": 4},
    {"mtp_step": 3, "overlap_depth": 0, "enable_prefix_caching": False},
    {"mtp_step": 3, "max_num_seqs": 2, "page_size": 1},
    {"mtp_step": 7, "max_num_batched_tokens": 9, "overlap_depth": 0},
    {"mtp_step": 7, "max_num_batched_tokens": 33, "page_size": 8, "checkpoint_interval": 8},
]


@pytest.mark.parametrize("options", CASES, ids=lambda case: ",".join(map(str, case.values())))
def test_a_batch_gives_the_tokens_of_plain_decoding(
    tiny_dir: Path, plain: list[list[int]], options: dict[str, Any]
) -> None:
    with engine(tiny_dir, **options) as llm:
        drafts = options["mtp_step"] > 0
        if drafts:
            script(llm, plain, 0.75)
        first = llm.generate(PROMPTS, PARAMS)
        assert token_ids(first) == plain
        again = llm.generate(PROMPTS[::-1], PARAMS[::-1])
        assert token_ids(again)[::-1] == plain
        if drafts:
            # Some are right and some are wrong, so the lengths in between are run too.
            verified = sum(out.metrics.speculation.num_drafts for out in first)
            assert 0 < num_drafts_accepted(first) < verified
        hits = [out.num_cached_tokens for out in again][::-1]
        cached = options.get("enable_prefix_caching", True)
        assert hits == (list(LENGTHS) if cached else [0] * len(LENGTHS))


def test_the_models_own_drafts_change_nothing(tiny_dir: Path, plain: list[list[int]]) -> None:
    with engine(tiny_dir, mtp_step=3) as llm:
        assert token_ids(llm.generate(PROMPTS, PARAMS)) == plain
        llm.engine.worker.draft_noise = False
        assert token_ids(llm.generate(PROMPTS, PARAMS)) == plain


def test_seven_drafts_of_a_request_alone_change_nothing(
    tiny_dir: Path, plain: list[list[int]]
) -> None:
    with engine(tiny_dir, mtp_step=7, max_num_seqs=1) as llm:
        for index in (1, 4):
            alone = llm.generate(PROMPTS[index], PARAMS[index])
            assert token_ids(alone) == [plain[index]]


@pytest.mark.parametrize(
    "options",
    [
        {"mtp_step": 0, "overlap_depth": 0},
        {"mtp_step": 3, "page_size": 4},
        {"mtp_step": 3, "overlap_depth": 0, "enable_prefix_caching": False},
        {"mtp_step": 7, "max_num_batched_tokens": 20, "page_size": 8},
    ],
    ids=lambda case: ",".join(map(str, case.values())),
)
def test_preempted_requests_give_the_same_tokens(
    tiny_dir: Path, plain: list[list[int]], options: dict[str, Any]
) -> None:
    with engine(tiny_dir, **options) as llm:
        core = llm.engine.core
        if options["mtp_step"]:
            script(llm, plain, 0.75)

        def preempt_all(step: int) -> None:
            if step % 3 == 0:
                for request_id in llm.engine.unfinished_ids():
                    core.preempt(request_id)

        on_each_step(llm, preempt_all)
        assert token_ids(llm.generate(PROMPTS, PARAMS)) == plain
        assert core.counters()["num_preemptions"] >= len(PROMPTS)


def test_too_few_pages_for_all_give_the_same_tokens(tiny_dir: Path) -> None:
    prompts = [prompt(6, seed) for seed in range(5)]
    params = [greedy(44), *(sampled(seed, 44) for seed in range(4))]
    with engine(tiny_dir, mtp_mode="none", max_num_seqs=5) as llm:
        plain = token_ids(llm.generate(prompts, params))
    options = {"memory_budget": 660_000, "page_size": 4, "max_model_len": 96, "mtp_step": 3}
    with engine(tiny_dir, **options) as llm:
        # Any two of them fit to their ends, four do not.
        assert 2 * 13 + 8 < llm.engine.resolved.core_config["num_pages"] < 4 * 12
        assert token_ids(llm.generate(prompts, params)) == plain
        assert llm.engine.core.counters()["num_preemptions"] > 0
