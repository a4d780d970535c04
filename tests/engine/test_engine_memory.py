"""The memory plan of an engine is what its worker really allocated, to the byte."""

from __future__ import annotations

import gc
import types
from typing import TYPE_CHECKING, Any

import pytest
import torch
from engine_cases import engine, greedy, prompt
from tiny import TinySpec, write_tiny

if TYPE_CHECKING:
    from pathlib import Path

    from mtpcore import LLM

BUDGET = 8 << 20

CASES: list[dict[str, Any]] = [
    {"mtp_step": 0},
    {"mtp_step": 3},
    {"mtp_step": 7, "page_size": 4, "max_num_seqs": 2},
    {"mtp_step": 1, "page_size": 100, "enable_prefix_caching": False},
    {"mtp_step": 3, "dtype": "bfloat16"},
    {"mtp_step": 3, "dtype": "bfloat16", "ssm_state_dtype": "bfloat16", "max_model_len": 77},
]
SPECS = {
    "tied": TinySpec(),
    "untied": TinySpec(tied=False, kernel=2, layers=("full", "linear", "linear"), kv_heads=1),
}


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("memory")
    return {name: write_tiny(root / name, spec) for name, spec in SPECS.items()}


def storages(root: object) -> dict[int, int]:
    """Bytes of every tensor storage reachable from an object, by address."""
    found: dict[int, int] = {}
    seen: set[int] = set()
    queue = [root]
    skipped = (type, types.ModuleType, types.FunctionType, types.CodeType, str, bytes)
    while queue:
        item = queue.pop()
        if id(item) in seen or isinstance(item, skipped):
            continue
        seen.add(id(item))
        if isinstance(item, torch.Tensor):
            storage = item.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
            continue
        queue += gc.get_referents(item)
    return found


def planned(llm: LLM) -> dict[str, int]:
    pools = llm.engine.resolved.memory["pools"]
    assert all(pool["bytes"] == pool["bytes_each"] * pool["count"] for pool in pools)
    return {pool["name"]: pool["bytes"] for pool in pools}


@pytest.mark.parametrize("model", SPECS)
@pytest.mark.parametrize("options", CASES, ids=lambda case: ",".join(map(str, case.values())))
def test_the_plan_is_what_is_allocated(
    directories: dict[str, Path], model: str, options: dict[str, Any]
) -> None:
    with engine(directories[model], memory_budget=BUDGET, **options) as llm:
        # A step first: nothing may be allocated late and kept.
        llm.generate([prompt(9), prompt(30)], greedy(6))
        plan, worker = planned(llm), llm.engine.worker
        pools = worker.pools
        state = pools.state
        parts = {
            "weights": storages(worker.model),
            "kv_pages": storages(pools.kv),
            "ssm_state": storages(state.ssm),
            "conv_state": storages(state.conv),
            "checkpoints": storages((state.ckpt_ssm, state.ckpt_conv, state.ckpt_hidden)),
            "workspace": storages((pools.buffers, worker._plan, worker._result, worker._results)),
        }
        for name, found in parts.items():
            if name != "workspace":
                assert sum(found.values()) == plan[name], name
        assert plan["draft_window"] == plan["host_cache"] == 0
        assert sum(plan.values()) <= BUDGET
        # Every tensor that the worker holds belongs to one part, and to one alone.
        held = storages(worker)
        named = {address: size for found in parts.values() for address, size in found.items()}
        assert sum(map(len, parts.values())) == len(named)
        assert held == named


@pytest.mark.parametrize("options", CASES[:4], ids=lambda case: ",".join(map(str, case.values())))
def test_a_page_more_would_not_fit(tiny_dir: Path, options: dict[str, Any]) -> None:
    with engine(tiny_dir, memory_budget=BUDGET, **options) as llm:
        memory = llm.engine.resolved.memory
        left = BUDGET - sum(planned(llm).values())
        assert 0 <= left < memory["sizes"]["page_bytes"]
        assert memory["budget_bytes"] == BUDGET
