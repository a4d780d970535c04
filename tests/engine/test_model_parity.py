"""Logits of random small models equal those of transformers, however they are computed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
import torch
from tiny import TinySpec, write_tiny
from tiny_driver import Driver
from tiny_oracle import oracle_logits, oracle_model
from torch import Tensor

from mtpcore.models import LoadedModel, load_model

if TYPE_CHECKING:
    from pathlib import Path

BOUND = 1e-4
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
SPECS = {
    "r2": TinySpec(),
    "r1-k3-untied": TinySpec(v_heads=2, kernel=3, tied=False, seed=1),
    "r3-k2-wrapper": TinySpec(v_heads=6, kernel=2, prefix="model.language_model.", seed=2),
    "bare-prefix-untied": TinySpec(prefix="language_model.model.", tied=False, seed=3),
    "yarn": TinySpec(rope=YARN, rotary=0.5, seed=4),
    "yarn-factor": TinySpec(rope={**YARN, "attention_factor": 1.3, "truncate": False}, seed=5),
    "full-rotary-gqa1": TinySpec(rotary=1.0, heads=3, kv_heads=3, k_dim=12, v_dim=8, seed=6),
    "gqa3-two-full": TinySpec(heads=6, layers=("full", "linear", "linear", "full"), seed=7),
}
LENGTHS = (0, 75, 40, 66)


class Case:
    """A model, three sequences and the oracle's logits of them."""

    def __init__(self, spec: TinySpec, directory: Path) -> None:
        self.model: LoadedModel = load_model(write_tiny(directory, spec), "float32")
        oracle = oracle_model(spec)
        rng = random.Random(spec.seed)
        self.tokens = [[rng.randrange(spec.vocab) for _ in range(n)] for n in LENGTHS]
        self.wanted = [oracle_logits(oracle, t) if t else torch.zeros(0) for t in self.tokens]

    def check(self, request: int, start: int, hidden: Tensor) -> None:
        logits = self.model.target.logits(hidden)
        assert logits.dtype == torch.float32
        want = self.wanted[request][start : start + len(hidden)]
        error = (logits - want).abs().max().item()
        assert error <= BOUND, f"request {request}, {start} + {len(hidden)}: {error:.1e}"


@pytest.fixture(scope="module", params=SPECS, ids=str)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(SPECS[request.param], tmp_path_factory.mktemp("model"))


def test_one_span(case: Case) -> None:
    driver = Driver(case.model, 3)
    for request in (1, 2, 3):
        case.check(request, 0, driver.run_whole(request, case.tokens[request]))


def test_one_token_at_a_time_for_several_requests(case: Case) -> None:
    driver = Driver(case.model, 3, mtp_step=0)
    for position in range(max(LENGTHS)):
        decode = [(r, [case.tokens[r][position]]) for r in (3, 1, 2) if position < LENGTHS[r]]
        for (request, _), hidden in zip(decode, driver.step(decode=decode)[0], strict=True):
            case.check(request, position, hidden)
            driver.accept(request, 1)


def test_random_chunks_of_several_requests(case: Case) -> None:
    driver, rng = Driver(case.model, 3, seed=1), random.Random(1)
    while any(driver.length[r] < LENGTHS[r] for r in (1, 2, 3)):
        prefill = []
        for r in rng.sample((1, 2, 3), 3):
            at = driver.length[r]
            prefill.append((r, case.tokens[r][at : at + rng.choice((0, 1, 2, 7, 20))]))
        starts = [driver.length[r] for r, _ in prefill]
        if sum(len(tokens) for _, tokens in prefill):
            hiddens = driver.step(prefill=prefill)[1]
            for (request, tokens), start, hidden in zip(prefill, starts, hiddens, strict=True):
                if tokens:
                    case.check(request, start, hidden)


@pytest.mark.parametrize("mtp_step", [3, 7])
def test_ragged_verify_steps_with_rollback_mixed_with_prefill(case: Case, mtp_step: int) -> None:
    """Drafts beyond the accepted ones are wrong tokens; rows also stand still (HOLD) at times."""
    driver, rng = Driver(case.model, 3, mtp_step=mtp_step, seed=2), random.Random(mtp_step)
    vocab = case.model.config.vocab_size
    prompt = {1: 5, 2: 3, 3: 30}
    while any(driver.length[r] < LENGTHS[r] for r in (1, 2, 3)):
        decode, prefill, right = [], [], []
        for r in rng.sample((1, 2, 3), 3):
            at, tokens = driver.length[r], case.tokens[r]
            if at < prompt[r]:
                prefill.append((r, tokens[at : min(prompt[r], at + rng.choice((1, 3, 9)))]))
                continue
            row = tokens[at : at + rng.randrange(mtp_step + 2)]
            kept = rng.randrange(1, len(row) + 1) if row else 0
            wrong = [(token + 1) % vocab for token in row[kept:]]
            decode.append((r, row[:kept] + wrong))
            right.append(kept)
        starts = [driver.length[r] for r, _ in prefill]
        if not prefill and not any(right):
            continue
        rows, spans = driver.step(decode, prefill, width=mtp_step + 1)
        for (request, _), kept, hidden in zip(decode, right, rows, strict=True):
            if kept:
                case.check(request, driver.length[request], hidden[:kept])
                driver.accept(request, rng.randrange(1, kept + 1))
        for (request, _), start, hidden in zip(prefill, starts, spans, strict=True):
            case.check(request, start, hidden)
