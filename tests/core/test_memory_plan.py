"""The memory plan's bytes are the storage bytes of what a worker allocates, to the byte."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from mtpcore import _core
from mtpcore.layers.paged_kv import PagedKV
from mtpcore.state import ConvSSMState
from mtpcore.state.shape import StateShape
from mtpcore.worker.buffers import BufferSizes, RequestBuffers

MIB = 1 << 20
GDN: dict[str, Any] = {
    "num_attn_layers": 2,
    "num_mtp_layers": 1,
    "num_kv_heads": 2,
    "head_dim": 64,
    "num_ssm_layers": 6,
    "num_k_heads": 4,
    "num_v_heads": 4,
    "k_dim": 32,
    "v_dim": 32,
    "conv_kernel": 4,
    "conv_channels": 384,
    "hidden": 256,
    "vocab": 4096,
    "model_elt_bytes": 4,
    "state_elt_bytes": 4,
    "weight_bytes": 4 * MIB,
}
OPTIONS: dict[str, Any] = {
    "memory_budget": 256 * MIB,
    "max_num_seqs": 8,
    "max_model_len": 1024,
    "page_size": 16,
    "mtp_step": 3,
    "overlap_depth": 1,
    "ssm_state_mode": "native",
}
DTYPES = {2: torch.bfloat16, 4: torch.float32}


def plan(shape: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    return _core.memory_plan({**GDN, **(shape or {})}, {**OPTIONS, **options})


def pools(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {pool["name"]: pool for pool in found["pools"]}


def random_case(rng: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    k_heads, ratio = rng.randint(1, 4), rng.randint(1, 3)
    k_dim, v_dim = rng.randint(3, 40), rng.randint(3, 40)
    shape = {
        "num_attn_layers": rng.randint(1, 5),
        "num_mtp_layers": rng.randint(0, 1),
        "num_kv_heads": rng.randint(1, 3),
        "head_dim": rng.randint(1, 70),
        "num_ssm_layers": rng.choice([0, 1, 3, 8]),
        "num_k_heads": k_heads,
        "num_v_heads": k_heads * ratio,
        "k_dim": k_dim,
        "v_dim": v_dim,
        "conv_kernel": rng.randint(2, 4),
        "conv_channels": 2 * k_heads * k_dim + k_heads * ratio * v_dim,
        "hidden": rng.randint(5, 300),
        "vocab": rng.randint(31, 5000),
        "model_elt_bytes": rng.choice([2, 4]),
        "state_elt_bytes": rng.choice([2, 4]),
        "weight_bytes": rng.randint(0, 1 << 22),
    }
    max_model_len = rng.randint(2, 900)
    options = {
        "memory_budget": None,
        "num_pages": rng.randint(1, 300),
        "max_num_seqs": rng.randint(1, 20),
        "max_model_len": max_model_len,
        "page_size": rng.choice([1, 4, 16, 48]),
        "mtp_step": rng.randint(0, 7),
        "overlap_depth": rng.randint(0, 1),
        "ssm_state_mode": "native",
        "enable_prefix_caching": rng.random() < 0.7,
    }
    if rng.random() < 0.5:
        options["memory_budget"], options["num_pages"] = rng.randint(400, 600) * MIB, None
    return shape, options


def allocated(shape: dict[str, Any], options: dict[str, Any], sizes: dict[str, int]):
    """Storage bytes by pool, from the tensors themselves; none of them takes memory."""
    model, device = DTYPES[shape["model_elt_bytes"]], torch.device("meta")
    kv = PagedKV(
        shape["num_attn_layers"] + shape["num_mtp_layers"],
        sizes["num_pages"] + 1,
        options["page_size"],
        shape["num_kv_heads"],
        shape["head_dim"],
        model,
        device,
    )
    state = ConvSSMState(
        StateShape(
            num_layers=shape["num_ssm_layers"],
            num_v_heads=shape["num_v_heads"],
            k_dim=shape["k_dim"],
            v_dim=shape["v_dim"],
            conv_kernel=shape["conv_kernel"],
            conv_channels=shape["conv_channels"],
            hidden=shape["hidden"],
        ),
        num_states=sizes["num_states"],
        num_checkpoints=sizes["num_checkpoints"],
        mtp_step=options["mtp_step"],
        dtype=model,
        ssm_dtype=DTYPES[shape["state_elt_bytes"]],
        device=device,
    )
    buffers = RequestBuffers(
        BufferSizes(
            max_num_seqs=options["max_num_seqs"],
            max_pages=-(-options["max_model_len"] // options["page_size"]),
            mtp_step=options["mtp_step"],
            hidden_size=shape["hidden"],
            vocab_size=shape["vocab"],
        ),
        model,
        device,
    )
    return {
        "kv_pages": kv.num_bytes(),
        **state.num_bytes(),
        "workspace": buffers.storage_bytes(),
    }


@pytest.mark.parametrize("seed", range(40))
def test_bytes_are_those_of_the_tensors(seed):
    shape, options = random_case(random.Random(seed))
    found = _core.memory_plan(shape, options)
    by_name = pools(found)
    assert {name: by_name[name]["bytes"] for name in allocated(shape, options, found["sizes"])} == (
        allocated(shape, options, found["sizes"])
    )
    assert by_name["weights"]["bytes"] == shape["weight_bytes"]
    assert by_name["draft_window"]["bytes"] == by_name["host_cache"]["bytes"] == 0
    assert found["total_bytes"] == sum(pool["bytes"] for pool in found["pools"])
    for pool in found["pools"]:
        assert pool["bytes"] == pool["bytes_each"] * pool["count"], pool
    sizes = found["sizes"]
    assert by_name["kv_pages"]["count"] == sizes["num_pages"] + 1
    assert by_name["ssm_state"]["count"] == sizes["num_states"] + 1 == options["max_num_seqs"] + 1
    assert sizes["page_bytes"] == by_name["kv_pages"]["bytes_each"]
    assert sizes["checkpoint_bytes"] == by_name["checkpoints"]["bytes_each"]


KDA = {
    "num_ssm_layers": 1,
    "num_k_heads": 1,
    "num_v_heads": 1,
    "k_dim": 128,
    "v_dim": 128,
    "decay_width": 128,
    "model_elt_bytes": 2,
    "state_elt_bytes": 2,
}
# One layer and value head, K = V = 128, bfloat16, mtp_step 2. A record is 2K + 2V raw bytes, 4K of
# decay and 4 of beta = 1,028; compact keeps T of them, replay L + T and two int32 cursors.
ROWS = [
    ("native", 0, 3 * 32_768),
    ("compact", 0, 32_768 + 3 * 1_028),
    ("replay", 3, 32_768 + 6 * 1_028 + 8),
    ("replay", 16, 32_768 + 19 * 1_028 + 8),
    ("replay", 32, 32_768 + 35 * 1_028 + 8),
]


@pytest.mark.parametrize(("mode", "history", "each"), ROWS)
def test_a_row_of_each_mode_has_the_published_figure(mode, history, each):
    found = plan(KDA, mtp_step=2, ssm_state_mode=mode, replay_history_len=history)
    row = pools(found)["ssm_state"]["bytes_each"]
    assert row == each
    if (mode, history) == ("replay", 16):
        assert row <= 52 * 1024


def test_states_of_a_large_model_have_the_published_figures():
    # 48 recurrent layers, 12 value heads over 4 key heads, 128 x 128, bfloat16.
    shape = {**KDA, "num_ssm_layers": 48, "num_k_heads": 4, "num_v_heads": 12, "decay_width": 1}
    budget = 64 << 30
    native = plan(shape, mtp_step=3, memory_budget=budget)
    assert pools(native)["ssm_state"]["bytes_each"] == 72 * MIB
    compact = plan(shape, mtp_step=3, memory_budget=budget, ssm_state_mode="compact")
    record = 48 * (4 * 128 * 2 + 12 * 128 * 2 + 12 * 2 * 4)
    assert pools(compact)["ssm_state"]["bytes_each"] == 18 * MIB + 4 * record
    # GLM-class: 34 layers of 8 heads, float32 states: 17 MiB each, 51 with two drafts.
    shape = {**KDA, "num_ssm_layers": 34, "num_k_heads": 8, "num_v_heads": 8, "state_elt_bytes": 4}
    native = plan(shape, mtp_step=2, memory_budget=budget)
    assert pools(native)["ssm_state"]["bytes_each"] == 51 * MIB


@pytest.mark.parametrize("seed", range(40))
def test_a_budget_is_used_up_and_never_exceeded(seed):
    rng = random.Random(seed)
    budget = rng.randint(40, 400) * MIB + rng.randint(0, MIB)
    options = {
        "memory_budget": budget,
        "max_num_seqs": rng.randint(1, 24),
        "max_model_len": rng.randint(64, 4096),
        "mtp_step": rng.randint(0, 5),
        "checkpoint_share": rng.choice([0, 25, 60]),
    }
    options["tokens_per_request"] = rng.randint(1, options["max_model_len"])
    found = plan(**options)
    sizes = found["sizes"]
    assert found["total_bytes"] <= budget == found["budget_bytes"]
    assert found["total_bytes"] + sizes["page_bytes"] > budget, "one more page would not fit"
    # One request more fits neither the pages nor the rows.
    ahead = 2 * (options["mtp_step"] + 1) + options["mtp_step"]
    whole = -(-options["max_model_len"] // 16)
    pages = min(-(-(options["tokens_per_request"] + ahead) // 16), whole)
    assert found["pages_per_request"] == pages
    by_pages = (found["max_requests"] + 1) * pages > sizes["num_pages"]
    by_rows = found["max_requests"] == options["max_num_seqs"]
    assert found["max_requests"] >= 1 and (by_pages or by_rows)
    expected = "kv_pages" if by_pages and not by_rows else "ssm_state"
    assert found["limiting_pool"] == expected


LIMITS = [
    ({}, {"memory_budget": 30 * MIB, "max_num_seqs": 8}, "kv_pages", "memory_budget"),
    ({}, {"num_pages": 100, "max_num_seqs": 8}, "kv_pages", "num_pages"),
    ({}, {"max_num_seqs": 2}, "ssm_state", "max_num_seqs"),
    ({"num_ssm_layers": 0}, {"max_num_seqs": 2}, "workspace", "max_num_seqs"),
]


@pytest.mark.parametrize(("shape", "options", "pool", "setting"), LIMITS)
def test_the_pool_that_keeps_one_more_out_is_named(shape, options, pool, setting):
    found = plan(shape, **options)
    assert (found["limiting_pool"], found["limiting_setting"]) == (pool, setting)


REFUSALS = [
    ({"weight_bytes": 1 << 30}, {}, "^memory_budget: the pool weights takes 1073741824 .*raise"),
    ({}, {"memory_budget": 5 * MIB}, "^memory_budget: .* pool .* does not fit.* lower max_model"),
    ({}, {"max_num_seqs": 4096}, "^max_num_seqs: .* the pool ssm_state .* at most"),
    ({}, {"num_checkpoints": 9999}, "^num_checkpoints: the pool checkpoints .* at most"),
    ({}, {"num_pages": 1 << 20}, "^num_pages: with 1048576 pages .* lower num_pages"),
    ({"num_ssm_layers": 0, "vocab": 1 << 20}, {"max_num_seqs": 9999}, "the pool workspace"),
    ({}, {"ssm_state_mode": "compact", "mtp_step": 0}, "^ssm_state_mode: "),
    ({}, {"ssm_state_mode": "replay", "replay_history_len": 3}, "^replay_history_len: "),
    ({}, {"replay_history_len": 16}, "^replay_history_len: .* set 0"),
    ({}, {"ssm_state_mode": "lazy"}, "^ssm_state_mode: must be native, compact, replay"),
    ({}, {"colour": 1}, "^colour: unknown option key; known are"),
    ({"colour": 1}, {}, "^colour: unknown shape key; known are"),
    ({}, {"page_size": 0}, r"^page_size: 0 is outside 1\.\.=4096"),
    ({}, {"page_size": True}, "^page_size: must be"),
    ({}, {"max_num_seqs": None}, "^max_num_seqs: option key is missing"),
    ({}, {"memory_budget": None}, "^memory_budget: neither memory_budget nor num_pages"),
    ({"model_elt_bytes": 8}, {}, "^model_elt_bytes: 8 is neither 2"),
    ({"num_v_heads": 6}, {}, "^num_v_heads: 6 is not a multiple of num_k_heads 4"),
    ({}, {"enable_prefix_caching": False, "num_checkpoints": 3}, "^num_checkpoints: .* set 0"),
]


@pytest.mark.parametrize(("shape", "options", "text"), REFUSALS)
def test_what_cannot_be_is_refused_by_name(shape, options, text):
    with pytest.raises(ValueError, match=text):
        plan(shape, **options)
