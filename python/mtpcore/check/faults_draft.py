"""Faults in sampling, limits and the drafter, injected into a live engine's worker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch


def after_starts(worker: Any, damage: Any) -> None:
    """Calls damage(req_idx) after every plan that starts requests, with their int64 indices."""
    apply_plan = worker.apply_plan

    def patched(plan: Any, host: Any) -> Any:
        rows = apply_plan(plan, host)
        count = host.scalar("num_starts")
        if count:
            damage(torch.from_numpy(host["start_req_idx"][:count].astype("int64")))
        return rows

    worker.apply_plan = patched


def around_drafter(worker: Any, patched: Any) -> None:
    """Replaces run_drafter by patched(original, host, rows, accepted, hidden)."""
    original = worker.run_drafter
    worker.run_drafter = lambda *arguments: patched(original, *arguments)


def noise_position_off_by_one(engine: Any) -> None:
    worker = engine.worker
    accept = worker.accept

    def patched(host: Any, rows: Any, hidden: Any) -> Any:
        cursors = rows.cursors.clone()
        # The column of the output length; every other cursor stays.
        column = worker.buffers.dev_output_len.storage_offset()
        cursors[:, column] += 1
        return accept(host, replace(rows, cursors=cursors), hidden)

    worker.accept = patched


def seed_ignored(engine: Any) -> None:
    buffers = engine.worker.buffers
    apply_plan = engine.worker.apply_plan

    def patched(plan: Any, host: Any) -> Any:
        rows = apply_plan(plan, host)
        buffers.sampling[:, :2] = 0
        return rows

    engine.worker.apply_plan = patched


def resumed_noise_restarts(engine: Any) -> None:
    """A request that comes back after a preemption samples as if it had emitted nothing."""
    worker = engine.worker
    apply_plan = worker.apply_plan

    def patched(plan: Any, host: Any) -> Any:
        host["start_output_len"][: host.scalar("num_starts")] = 0
        return apply_plan(plan, host)

    worker.apply_plan = patched


def stop_clamp_skipped(engine: Any) -> None:
    buffers = engine.worker.buffers

    def damage(req_idx: Any) -> None:
        buffers.stop_ids[req_idx] = -1

    after_starts(engine.worker, damage)


def length_clamp_late(engine: Any) -> None:
    worker = engine.worker
    apply_plan = worker.apply_plan

    def patched(plan: Any, host: Any) -> Any:
        host["start_tokens_left"][: host.scalar("num_starts")] += 1
        return apply_plan(plan, host)

    worker.apply_plan = patched


def drafts_kept_from_last_round(engine: Any) -> None:
    buffers = engine.worker.buffers

    def patched(original: Any, host: Any, rows: Any, accepted: Any, hidden: Any) -> None:
        before = buffers.dev_drafts[rows.req_idx[: rows.num_decode]].clone()
        original(host, rows, accepted, hidden)
        if rows.num_decode:
            buffers.dev_drafts[rows.req_idx[: rows.num_decode]] = before

    around_drafter(engine.worker, patched)


def drafts_kept_from_last_request(engine: Any) -> None:
    """Prefill leaves the drafts of the row's last owner in place."""
    buffers = engine.worker.buffers
    kept = buffers.dev_drafts.clone()

    def patched(original: Any, host: Any, rows: Any, accepted: Any, hidden: Any) -> None:
        original(host, rows, accepted, hidden)
        started = rows.req_idx[rows.num_decode :]
        stale = kept[started]
        buffers.dev_drafts[started] = torch.where(stale >= 0, stale, buffers.dev_drafts[started])
        running = rows.req_idx[: rows.num_decode]
        kept[running] = buffers.dev_drafts[running]

    around_drafter(engine.worker, patched)


def stale_mtp_slot(engine: Any) -> None:
    """Accepted positions keep the head's entries that were drafted, not those of true rows."""
    worker = engine.worker
    buffers, kv = worker.buffers, worker.pools.kv

    def patched(original: Any, host: Any, rows: Any, accepted: Any, hidden: Any) -> None:
        count = rows.num_decode
        columns = (rows.req_idx[:count], rows.old_len[:count], accepted.num_accepted[:count])
        slots = [
            int(buffers.dev_page_table[req, position // kv.page_size]) * kv.page_size
            + position % kv.page_size
            for req, old_len, emitted in zip(*(c.tolist() for c in columns), strict=True)
            for position in range(old_len + 1, old_len + emitted)
        ]
        layer = kv.layers[-1].flatten(0, 1)
        before = layer[slots].clone()
        original(host, rows, accepted, hidden)
        layer[slots] = before

    around_drafter(worker, patched)


def draft_hidden_one_token_late(engine: Any) -> None:
    """The head reads the hidden row of the token itself instead of the one before it."""

    def patched(original: Any, host: Any, rows: Any, accepted: Any, hidden: Any) -> None:
        original(host, rows, accepted, torch.roll(hidden, -1, 0))

    around_drafter(engine.worker, patched)
