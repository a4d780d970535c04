"""What a request may ask of the engine beside its sampling: order, salt, a share of the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_cases import engine, greedy, on_each_step, prompt, request, run_requests, token_ids

if TYPE_CHECKING:
    from pathlib import Path

    from mtpcore.engine.requests import RequestRecord
    from mtpcore.worker.fields import HostFields


def by_end(records: list[RequestRecord]) -> list[int]:
    """Indices in the order in which the requests ended."""
    return sorted(range(len(records)), key=lambda index: records[index].finished or 0.0)


def test_a_lower_priority_number_runs_first_and_equals_in_order(tiny_dir: Path) -> None:
    priorities = [5, 0, 5, -3, 0]
    with engine(tiny_dir, max_num_seqs=1) as llm:
        records = run_requests(
            llm, [request(prompt(7, index), priority=p) for index, p in enumerate(priorities)]
        )
        assert by_end(records) == [3, 1, 4, 0, 2]


def test_a_salt_separates_what_is_cached(tiny_dir: Path) -> None:
    with engine(tiny_dir) as llm:
        salts = [b"one", b"two", b"one", b"", b"two"]
        hits = [run_requests(llm, [request(prompt(40), salt=salt)])[0] for salt in salts]
        assert [record.num_cached for record in hits] == [0, 0, 40, 0, 40]
        assert len({tuple(record.token_ids()) for record in hits}) == 1


def test_a_long_prompt_does_not_stop_the_others(tiny_dir: Path) -> None:
    """Chunks of a prompt of 400 tokens share the steps with rows that decode."""
    options = {"max_num_batched_tokens": 24, "mtp_step": 3, "max_num_seqs": 4}
    with engine(tiny_dir, **options) as llm:
        mixed = 0

        def look(plan: HostFields) -> None:
            nonlocal mixed
            prefill, decode = plan.scalar("num_prefill_tokens"), plan.scalar("num_decode_rows")
            mixed += prefill > 0 and decode > 0

        llm.engine.transform_plan = look
        records = run_requests(
            llm, [request(prompt(5), max_tokens=40), request(prompt(400)), request(prompt(6))]
        )
        assert mixed >= 10
        assert all(record.finish_reason == "length" for record in records)


def test_no_request_starves(tiny_dir: Path) -> None:
    """A budget for two of four rows: every running row gets tokens within a few steps."""
    options = {"max_num_batched_tokens": 8, "mtp_step": 3, "max_num_seqs": 4}
    with engine(tiny_dir, **options) as llm:
        seen: dict[int, list[int]] = {}

        def count(_: int) -> None:
            for number, record in llm.engine._records.items():
                seen.setdefault(number, []).append(len(record.token_ids()))

        on_each_step(llm, count)
        outs = llm.generate([prompt(4, index) for index in range(4)], greedy(24))
        assert [len(tokens) for tokens in token_ids(outs)] == [24] * 4
        for lengths in seen.values():
            running = [length for length in lengths if length]
            waits = [running[index] == running[index + 4] for index in range(len(running) - 4)]
            assert not any(waits)
