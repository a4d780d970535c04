"""The cursor functions' vectors, replayed against naive rows that know of no cursor."""

from __future__ import annotations

import json
from itertools import chain

import pytest
from core.naive_cursors import KEPT, NaiveRow, NaiveWindow

from mtpcore import _core

VECTORS = json.loads(_core.state_vectors())
STATE, WINDOW = VECTORS["state"], VECTORS["window"]


def name_of(case):
    return f"{case['mode']}-{case['verify_width']}-{case['history_capacity']}"


def exported(row: NaiveRow, source: dict[str, int]) -> list[int]:
    """The state that a checkpoint from `source` holds."""
    state = row.states[source["state_slot"]]
    assert state is not None
    slots, slot = [], source["fold_start"]
    for _ in range(source["fold_count"]):
        slots.append(slot)
        slot = 0 if slot + 1 >= len(row.records) else slot + 1
    return state + [row.records[slot] for slot in slots]


def check_decode(row: NaiveRow, step: dict) -> None:
    count, accepted = step["query_len"], step["num_accepted"]
    before = list(row.committed)
    if step["read_slot"] or row.mode == "native":
        assert row.states[step["read_slot"]] == before
    oldest = step["before"]["history_start"]
    folded = row.begin(count)
    assert step["fold_count"] == len(folded)
    assert step["fold_start"] == (folded[0] if folded else oldest)
    assert step["begun"] == row.cursor()
    tokens = row.draw(count)
    slots = row.run(tokens)
    assert step["write_slots"] == slots
    conv = [*row.window(before), *tokens][1:]
    assert [export["rows"] for export in step["exports"]] == list(range(1, accepted + 1))
    for export in step["exports"]:
        rows = export["rows"]
        assert exported(row, export) == before + tokens[:rows]
        at = export["conv_offset"]
        assert conv[at : at + KEPT] == row.window(before + tokens[:rows])
    row.accept(slots, tokens, accepted)


def check_prefill(row: NaiveRow, step: dict) -> None:
    oldest = step["before"]["history_start"]
    folded = row.prefill(row.draw(step["len"]))
    assert step["fold_count"] == len(folded)
    assert step["fold_start"] == (folded[0] if folded else oldest)


@pytest.mark.parametrize("case", STATE, ids=name_of)
def test_a_naive_row_goes_the_same_way(case):
    row = NaiveRow(case["mode"], case["verify_width"], case["history_capacity"])
    assert case["num_state_slots"] == len(row.states)
    assert case["num_record_slots"] == len(row.records)
    for step in case["steps"]:
        assert step["before"] == row.cursor()
        {"decode": check_decode, "prefill": check_prefill}[step["kind"]](row, step)
        assert step["after"] == row.cursor()
        live = step["live"]
        assert exported(row, live) == row.committed
        at = live["conv_offset"]
        assert row.conv[at : at + KEPT] == row.window(row.committed)
    assert len(row.committed) > 20


def test_the_cases_cover_what_they_are_for():
    assert {case["mode"] for case in STATE} == {"native", "compact", "replay"}
    steps = list(chain.from_iterable(case["steps"] for case in STATE))
    assert {"decode", "prefill"} == {step["kind"] for step in steps}
    for case in STATE:
        if case["mode"] != "replay":
            continue
        decode = [step for step in case["steps"] if step["kind"] == "decode"]
        assert any(step["fold_count"] for step in decode), "a fold"
        assert max(step["after"]["history_len"] for step in decode) <= case["history_capacity"]
        wraps = [s for s in decode if s["write_slots"] != sorted(s["write_slots"])]
        assert wraps or case["verify_width"] == 1, "a ring that turns over within a step"
        starts = {step["begun"]["history_start"] for step in decode}
        assert len(starts) > 1, "an origin that rotates"
        pending = [s for s in case["steps"] if s["kind"] == "prefill" and s["fold_count"]]
        assert pending, "a prefill with history pending"
        held = [s for s in decode if s["query_len"] == 0 and s["before"]["history_len"]]
        assert all(step["before"] == step["after"] for step in held)
    full = [
        step
        for case in STATE
        for step in case["steps"]
        if step["after"]["history_len"] == case["history_capacity"] > 0
    ]
    assert full, "a history filled to exactly its capacity"


@pytest.mark.parametrize("case", WINDOW, ids=range(len(WINDOW)))
def test_a_naive_window_shows_the_same_rows(case):
    window = NaiveWindow(case["window"])
    start = case["start"]
    window.restore(start["end"], start["end"] - start["valid_from"])
    assert start["origin"] == start["valid_from"]
    for step in case["commits"]:
        slots = dict(
            zip(range(step["write_from"], step["write_end"]), step["write_slots"], strict=True)
        )
        assert len(set(slots.values())) == len(slots), "each ring row has one writer"
        written = window.commit(step["first"], step["len"], slots)
        assert written == list(slots)
        visible = window.visible()
        assert step["after"]["end"] == window.end
        assert step["visible"] == len(visible)
        assert sorted(step["visible_slots"]) == list(range(len(visible)))
        assert [window.rows[slot] for slot in step["visible_slots"]] == visible
        assert all(position >= start["valid_from"] for position in visible)
