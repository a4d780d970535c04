"""What the prefix cache saves, by counts: requests submitted one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from engine_cases import engine, greedy, on_each_step, prompt, sampled, token_ids

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mtpcore import LLM, SamplingParams
    from mtpcore.api import RequestOutput

PAGE = 16


def ids(length: int, seed: int) -> list[int]:
    return prompt(length, seed)["prompt_token_ids"]


def run(llm: LLM, tokens: list[int], params: SamplingParams | None = None) -> RequestOutput:
    return llm.generate({"prompt_token_ids": tokens}, params or greedy(12))[0]


def prefilled(llm: LLM) -> int:
    """Prompt tokens computed so far."""
    return llm.engine.core.counters()["prefill_tokens"]


@pytest.fixture(scope="module", params=[(0, 0), (0, 1), (3, 0), (3, 1)], ids=str)
def llm(tiny_dir: Path, request: pytest.FixtureRequest) -> Iterator[LLM]:
    mtp_step, depth = request.param
    options = {"page_size": PAGE, "mtp_step": mtp_step, "overlap_depth": depth}
    with engine(tiny_dir, **options) as running:
        yield running


@pytest.mark.parametrize("length", [1, 2, PAGE - 1, PAGE, PAGE + 1, 50])
def test_the_same_prompt_again_computes_nothing(llm: LLM, length: int) -> None:
    tokens = ids(length, 1)
    first = run(llm, tokens)
    assert first.num_cached_tokens == 0
    before = prefilled(llm)
    again = run(llm, tokens)
    assert again.num_cached_tokens == length
    assert prefilled(llm) == before
    assert token_ids([again]) == token_ids([first])
    other = run(llm, tokens, sampled(3, 6))
    assert prefilled(llm) == before
    assert other.num_cached_tokens == length


@pytest.mark.parametrize("shared", [100, 96])
def test_the_third_sibling_hits_all_whole_pages_of_the_beginning(llm: LLM, shared: int) -> None:
    beginning = ids(shared, 2)
    # The tails differ in their first token, or they would share more than the beginning.
    prompts = [[*beginning, tail, *ids(20 + tail, 3)] for tail in (10, 11, 12, 13)]
    hits = []
    for tokens in prompts:
        before = prefilled(llm)
        out = run(llm, tokens)
        hits.append(out.num_cached_tokens)
        assert prefilled(llm) - before == len(tokens) - out.num_cached_tokens
    whole = shared // PAGE * PAGE
    assert hits == [0, 0, whole, whole]


def test_a_second_turn_hits_the_first_but_its_last_sampled_token(llm: LLM) -> None:
    for length, num_tokens in ((21, 12), (30, 3), (PAGE, 1), (5, 40)):
        first = run(llm, ids(length, 4), greedy(num_tokens))
        turn = ids(length, 4) + first.outputs[0].token_ids
        before = prefilled(llm)
        second = run(llm, turn + ids(9, 5))
        assert second.num_cached_tokens == len(turn) - 1
        assert prefilled(llm) - before == 10


def test_a_turn_that_stops_at_a_token_is_hit_too(llm: LLM) -> None:
    tokens = ids(23, 6)
    stop = run(llm, tokens, greedy(12)).outputs[0].token_ids[7]
    first = run(llm, tokens, greedy(12, stop_token_ids=[stop]))
    assert first.outputs[0].finish_reason == "stop"
    turn = tokens + first.outputs[0].token_ids
    assert run(llm, turn + ids(9, 7)).num_cached_tokens == len(turn) - 1


def test_a_long_prompt_is_hit_at_a_coarse_boundary(tiny_dir: Path) -> None:
    options = {"page_size": PAGE, "checkpoint_interval": 64, "mtp_step": 3}
    with engine(tiny_dir, **options) as llm:
        tokens = ids(200, 8)
        run(llm, tokens)
        # It leaves inside the fourth stretch; three boundaries lie before it.
        sibling = run(llm, tokens[:150] + [(tokens[150] + 1) % 97] + ids(20, 9))
        assert sibling.num_cached_tokens == 128


def test_nothing_is_cached_when_it_is_off(tiny_dir: Path) -> None:
    with engine(tiny_dir, enable_prefix_caching=False) as llm:
        for _ in range(2):
            assert run(llm, ids(50, 1)).num_cached_tokens == 0
        assert prefilled(llm) == 100
        assert [pool["cached"] for pool in llm.engine.core.pools()] == [0, 0, 0]


def test_an_aborted_prefill_leaves_what_it_computed(tiny_dir: Path) -> None:
    options = {"page_size": PAGE, "max_num_batched_tokens": 32, "checkpoint_interval": 32}
    with engine(tiny_dir, **options) as llm:
        tokens = ids(200, 10)
        step = llm.engine.step

        def abort_after(count: int) -> None:
            if count == 4:
                llm.engine.abort(tuple(llm.engine._records.values()))

        on_each_step(llm, abort_after)
        assert run(llm, tokens).outputs[0].finish_reason == "abort"
        llm.engine.step = step  # type: ignore[method-assign]
        assert run(llm, tokens).num_cached_tokens in (64, 96, 128)


def dialogue(llm: LLM, params: SamplingParams) -> list[RequestOutput]:
    """A prompt, the same again, two siblings that leave it, the first's next turn."""
    tokens = ids(70, 11)
    first = run(llm, tokens, params)
    siblings = [tokens[:53] + [tail] + ids(20, tail) for tail in (14, 15)]
    outs = [first, *(run(llm, one, params) for one in (tokens, *siblings))]
    return [*outs, run(llm, tokens + first.outputs[0].token_ids + ids(10, 13), params)]


def test_speculation_costs_no_hits_and_the_cache_no_acceptance() -> None:
    """On the bundled model, whose drafts are worth something."""
    params = sampled(5, 24, temperature=0.7)
    outs = {}
    for mtp_step, caching in ((0, True), (3, True), (3, False)):
        with engine(None, mtp_step=mtp_step, enable_prefix_caching=caching) as llm:
            outs[mtp_step, caching] = dialogue(llm, params)
    plain, cached, uncached = outs[0, True], outs[3, True], outs[3, False]
    assert token_ids(plain) == token_ids(cached) == token_ids(uncached)
    hits = [out.num_cached_tokens for out in cached]
    assert hits == [out.num_cached_tokens for out in plain]
    assert hits == [0, 70, 0, 48, 93]
    for hit, miss in zip(cached, uncached, strict=True):
        assert hit.metrics.speculation == miss.metrics.speculation
    assert sum(out.metrics.speculation.num_accepted for out in cached) > 10
