"""The exported field tables: names, layout, and what a planned step writes into them."""

from __future__ import annotations

import pytest
from core.device import DECODE, FINAL, Harness
from core.settings import prompt, settings

from mtpcore import _core

SHAPES = [
    {},
    {"mtp_step": 0},
    {"mtp_step": 7, "max_num_batched_tokens": 8},
    {"max_num_seqs": 1, "num_states": 1},
    {"vocab_size": 33, "page_size": 1},
    {"checkpoint_interval": 8, "overlap_depth": 0},
]
PLAN = [
    "step_id",
    "num_rows",
    "num_decode_rows",
    "num_prefill_tokens",
    "verify_width",
    "max_pages_bound",
    "num_starts",
    "num_restores",
    "num_page_copies",
    "num_page_updates",
    "num_armed",
    "num_stop_bitmaps",
    "any_sampled",
    "max_logprobs",
    "draft",
    "row_req_idx",
    "row_state_idx",
    "row_kind",
    "row_query_len",
    "row_start",
    "row_token_offset",
    "row_num_pages",
    "row_end_checkpoint",
    "prefill_tokens",
    "start_req_idx",
    "start_state_idx",
    "start_seq_len",
    "start_output_len",
    "start_tokens_left",
    "start_min_tokens",
    "start_seed_lo",
    "start_seed_hi",
    "start_sample_index",
    "start_temperature",
    "start_top_p",
    "start_top_k",
    "start_logprobs",
    "start_num_stop_ids",
    "start_stop_bitmap",
    "start_stop_ids",
    "restore_req_idx",
    "restore_state_idx",
    "restore_checkpoint",
    "copy_src_page",
    "copy_dst_page",
    "update_req_idx",
    "update_index",
    "update_page",
    "armed_row",
    "armed_boundary",
    "armed_checkpoint",
    "stop_bitmaps",
]
RESULT = [
    "step_id",
    "num_rows",
    "num_accepted",
    "rows_run",
    "folded",
    "finish",
    "non_finite",
    "end_fired",
    "fired",
    "draft_scores",
    "tokens",
]


@pytest.mark.parametrize("changes", SHAPES)
@pytest.mark.parametrize(
    ("fields", "names"), [(_core.plan_fields, PLAN), (_core.result_fields, RESULT)]
)
def test_fields_lie_back_to_back(fields, names, changes):
    table = fields(settings(**changes))
    assert {name for name, _, _ in table} == set(names)
    assert len(table) == len(names)
    offset = 0
    for name, at, capacity in table:
        assert at == offset, name
        assert capacity > 0, name
        offset += capacity


@pytest.mark.parametrize("changes", SHAPES)
def test_capacities_follow_the_config(changes):
    config = settings(**changes)
    rows, width = config["max_num_seqs"], config["mtp_step"] + 1
    plan = {name: capacity for name, _, capacity in _core.plan_fields(config)}
    result = {name: capacity for name, _, capacity in _core.result_fields(config)}
    for name, capacity in plan.items():
        if name.startswith(("row_", "restore_", "copy_")):
            assert capacity == rows, name
        if name.startswith("start_") and name != "start_stop_ids":
            assert capacity == rows, name
    assert plan["start_stop_ids"] == 8 * rows
    assert plan["prefill_tokens"] == config["max_num_batched_tokens"]
    assert plan["stop_bitmaps"] == 2 * -(-config["vocab_size"] // 32)
    assert plan["armed_row"] == plan["armed_boundary"] == plan["armed_checkpoint"]
    assert plan["update_req_idx"] == plan["update_index"] == plan["update_page"]
    assert plan["update_page"] >= -(-config["max_model_len"] // config["page_size"])
    assert result["fired"] == plan["armed_row"]
    assert result["tokens"] == rows * width
    assert result["draft_scores"] == max(rows * config["mtp_step"], 1)


def test_index_0_of_every_pool_is_null():
    engine = Harness()
    for i in range(4):
        engine.submit(prompt(9, i), max_tokens=12)
    steps = 0
    while engine.launch() != "idle":
        plan = engine.plan
        rows, pages = plan["num_rows"][0], plan["num_page_updates"][0]
        assert (plan["row_req_idx"][:rows] > 0).all()
        assert (plan["row_req_idx"][rows:] == 0).all(), "padding rows are HOLD"
        assert (plan["row_state_idx"][:rows] > 0).all()
        assert (plan["update_page"][:pages] > 0).all()
        assert plan["row_req_idx"].max() <= engine.config["max_num_seqs"]
        assert plan["row_state_idx"].max() <= engine.config["num_states"]
        assert plan["update_page"][:pages].max(initial=0) <= engine.config["num_pages"]
        armed = plan["num_armed"][0]
        assert (plan["armed_checkpoint"][:armed] > 0).all()
        kinds = plan["row_kind"][:rows].tolist()
        decode = int(plan["num_decode_rows"][0])
        assert kinds[:decode] == [DECODE] * decode and DECODE not in kinds[decode:]
        while len(engine.in_flight) > 1 or engine.core.num_unfinished() == 0:
            if not engine.in_flight:
                break
            engine.commit()
        steps += 1
    assert steps > 3
    engine.assert_idle()


def test_a_start_carries_the_request_and_its_first_chunk():
    engine = Harness()
    engine.submit(
        prompt(6),
        max_tokens=5,
        min_tokens=2,
        temperature=0.5,
        top_k=7,
        top_p=0.25,
        seed=(3 << 32) | 4,
        sample_index=2,
        logprobs=3,
        stop_token_ids=[9, 2, 9],
    )
    assert engine.launch() == "run"
    plan = engine.plan
    start = {name: plan[name][0] for name in plan.fields if name.startswith("start_")}
    assert (start["start_seed_lo"], start["start_seed_hi"]) == (4, 3)
    assert (start["start_tokens_left"], start["start_min_tokens"]) == (5, 2)
    assert (start["start_sample_index"], start["start_top_k"], start["start_logprobs"]) == (2, 7, 3)
    bits = plan["start_temperature"][:1].view("float32")[0], plan["start_top_p"][:1].view("float32")
    assert (bits[0], bits[1][0]) == (0.5, 0.25)
    assert plan["start_stop_ids"][: start["start_num_stop_ids"]].tolist() == [2, 9]
    assert (plan["any_sampled"][0], plan["max_logprobs"][0]) == (1, 3)
    assert plan["row_kind"][0] == FINAL
    assert plan["prefill_tokens"][:6].tolist() == prompt(6).tolist()


def test_more_than_eight_stop_ids_travel_as_a_bitmap():
    engine = Harness(vocab_size=70)
    stops = [0, 31, 32, 33, 40, 50, 60, 64, 69]
    engine.submit(prompt(3), stop_token_ids=stops)
    engine.launch()
    plan = engine.plan
    assert plan["start_stop_bitmap"][0] == 0 and plan["num_stop_bitmaps"][0] == 1
    words = plan["stop_bitmaps"][: plan["stop_bitmaps"].size // 2].view("uint32")
    found = [t for t in range(70) if int(words[t // 32]) >> (t % 32) & 1]
    assert found == stops
