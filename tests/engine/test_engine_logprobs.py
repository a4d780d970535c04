"""Reported log-probabilities are those of the model before temperature and filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from engine_cases import VOCAB, ScriptedDrafts, engine, greedy, prompt, sampled, token_ids
from tiny import TinySpec
from tiny_oracle import oracle_logits, oracle_model

if TYPE_CHECKING:
    from pathlib import Path

    from mtpcore import LLM
    from mtpcore.api import CompletionOutput, Logprob, RequestOutput

LENGTHS = (1, 9, 33, 40)
PROMPTS = [prompt(length, 3) for length in LENGTHS]
NUM_TOKENS = 10
PARAMS = [
    greedy(NUM_TOKENS, seed=50, logprobs=5),
    sampled(51, NUM_TOKENS, logprobs=0),
    sampled(52, NUM_TOKENS, temperature=0.6, top_k=20, top_p=0.9, logprobs=3),
    sampled(53, NUM_TOKENS, temperature=1.5, logprobs=64),
]


@pytest.fixture(scope="module")
def plain(tiny_dir: Path) -> list[RequestOutput]:
    with engine(tiny_dir, mtp_mode="none", overlap_depth=0, enable_prefix_caching=False) as llm:
        return [llm.generate(one, params)[0] for one, params in zip(PROMPTS, PARAMS, strict=True)]


def rows(output: RequestOutput) -> list[dict[int, Logprob]]:
    completion = output.outputs[0]
    assert completion.logprobs is not None
    return completion.logprobs


def test_values_and_ranks_are_the_oracles(plain: list[RequestOutput]) -> None:
    oracle = oracle_model(TinySpec())
    for output, params in zip(plain, PARAMS, strict=True):
        tokens = output.outputs[0].token_ids
        logits = oracle_logits(oracle, output.prompt_token_ids + tokens[:-1])[-NUM_TOKENS:]
        expected = torch.log_softmax(logits.double(), 1)
        wanted = params.logprobs
        assert wanted is not None
        for token, row, values in zip(tokens, rows(output), expected, strict=True):
            # The sampled token first, then the most likely ones in order, none twice.
            assert next(iter(row)) == token
            order = values.argsort(descending=True).tolist()
            assert list(row)[1:] == [top for top in order[:wanted] if top != token]
            for reported, entry in row.items():
                assert abs(entry.logprob - float(values[reported])) < 1e-4
                assert entry.rank == 1 + order.index(reported)
                assert entry.decoded_token is None
        total = sum(row[token].logprob for token, row in zip(tokens, rows(output), strict=True))
        assert output.outputs[0].cumulative_logprob == pytest.approx(total, abs=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"mtp_step": 0},
        {"mtp_step": 3},
        {"mtp_step": 3, "overlap_depth": 0, "max_num_batched_tokens": 9},
        {"mtp_step": 7, "max_num_batched_tokens": 20, "page_size": 4},
    ],
    ids=lambda case: ",".join(map(str, case.values())),
)
def test_they_are_the_same_in_a_batch_with_speculation(
    tiny_dir: Path, plain: list[RequestOutput], options: dict[str, Any]
) -> None:
    with engine(tiny_dir, **options) as llm:
        if options["mtp_step"]:
            known = {
                params.seed or 0: token_ids([out])[0]
                for params, out in zip(PARAMS, plain, strict=True)
            }
            ScriptedDrafts(llm, known, 0.8)
        # The first pass misses the cache and the second one hits it.
        for _ in range(2):
            for got, expected in zip(llm.generate(PROMPTS, PARAMS), plain, strict=True):
                same_rows(got.outputs[0], expected.outputs[0])


def same_rows(got: CompletionOutput, expected: CompletionOutput) -> None:
    assert got.token_ids == expected.token_ids
    assert got.logprobs is not None
    assert expected.logprobs is not None
    for row, other in zip(got.logprobs, expected.logprobs, strict=True):
        assert list(row) == list(other)
        for token, entry in row.items():
            assert entry.rank == other[token].rank
            assert abs(entry.logprob - other[token].logprob) < 1e-4


def test_only_who_asks_gets_them(tiny_dir: Path) -> None:
    with engine(tiny_dir) as llm:
        params = [greedy(4), greedy(4, logprobs=0), greedy(4, logprobs=2)]
        outs = [out.outputs[0] for out in llm.generate([PROMPTS[1]] * 3, params)]
        assert outs[0].logprobs is None
        assert outs[0].cumulative_logprob is None
        assert [len(row) for row in outs[1].logprobs or []] == [1] * 4
        # Greedily the sampled token is the first of the two.
        assert [len(row) for row in outs[2].logprobs or []] == [2] * 4


def test_their_texts_are_the_tokens(texts_dir: Path) -> None:
    with engine(texts_dir) as llm:
        assert_texts(llm)


def assert_texts(llm: LLM) -> None:
    tokenizer = llm.engine.tokenizer
    assert tokenizer is not None
    for row in rows(llm.generate("Some text", greedy(4, logprobs=VOCAB % 10))[0]):
        for token, entry in row.items():
            assert entry.decoded_token == tokenizer.token_bytes[token].decode("utf-8", "replace")
