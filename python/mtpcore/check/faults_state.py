"""Faults in recurrent states, checkpoints and pages, injected into a live engine's worker.

Each function patches objects that it reaches from the worker; `rows` and `host` are what the
worker's own methods pass around.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch


def after_commit(worker: Any, damage: Any) -> None:
    """Calls damage(rows, accepted) after every commit that had decode rows."""
    commit = worker.commit_state

    def patched(host: Any, rows: Any, accepted: Any, hidden: Any) -> Any:
        fired = commit(host, rows, accepted, hidden)
        if rows.num_decode:
            damage(rows, accepted)
        return fired

    worker.commit_state = patched


def rejected_rows(rows: Any, accepted: Any) -> list[tuple[int, int, int]]:
    """(state_idx, index of the live state, index of the last row that ran) where drafts fell."""
    count = rows.num_decode
    columns = (rows.state_idx[:count], accepted.num_accepted[:count], rows.query_len[:count])
    triples = zip(*(column.tolist() for column in columns), strict=True)
    return [(state, kept - 1, ran - 1) for state, kept, ran in triples if 0 < kept < ran]


def conv_not_rolled_back(engine: Any) -> None:
    state = engine.worker.pools.state

    def damage(rows: Any, accepted: Any) -> None:
        for row, live, last in rejected_rows(rows, accepted):
            window = state.conv[:, row, last : last + state.kept].clone()
            state.conv[:, row, live : live + state.kept] = window

    after_commit(engine.worker, damage)


def ssm_not_rolled_back(engine: Any) -> None:
    state = engine.worker.pools.state

    def damage(rows: Any, accepted: Any) -> None:
        for row, live, last in rejected_rows(rows, accepted):
            state.ssm[:, row, live] = state.ssm[:, row, last]

    after_commit(engine.worker, damage)


def accepted_index_not_advanced(engine: Any) -> None:
    buffers = engine.worker.buffers

    def damage(rows: Any, accepted: Any) -> None:
        buffers.dev_accepted[rows.req_idx[: rows.num_decode]] = 0

    after_commit(engine.worker, damage)


def state_not_reset_on_reuse(engine: Any) -> None:
    engine.worker.pools.state.reset = lambda state_idx: None


def state_reset_between_chunks(engine: Any) -> None:
    worker = engine.worker
    forward = worker.forward_target

    def patched(rows: Any) -> Any:
        for span in rows.ssm.prefill:
            if span.start > 0 and span.length:
                worker.pools.state.ssm[:, span.state_idx] = 0
        return forward(rows)

    worker.forward_target = patched


def checkpoint_one_token_late(engine: Any) -> None:
    worker = engine.worker
    forward = worker.forward_target

    def patched(rows: Any) -> Any:
        spans = tuple(
            replace(span, exports=tuple((min(n + 1, span.length), c) for n, c in span.exports))
            for span in rows.ssm.prefill
        )
        return forward(replace(rows, ssm=replace(rows.ssm, prefill=spans)))

    worker.forward_target = patched


def turn_checkpoint_one_token_early(engine: Any) -> None:
    state = engine.worker.pools.state
    export = state.export

    def patched(state_idx: Any, index: Any, checkpoint: Any) -> None:
        export(state_idx, (index - 1).clamp(min=0), checkpoint)

    state.export = patched


def neighbour(checkpoint: Any) -> Any:
    """Another checkpoint row, never the null one."""
    return torch.where(checkpoint > 1, checkpoint - 1, checkpoint + 1)


def restored_from_wrong_row(engine: Any) -> None:
    state = engine.worker.pools.state
    restore = state.restore

    def patched(state_idx: Any, checkpoint: Any) -> None:
        restore(state_idx, neighbour(checkpoint))

    state.restore = patched


def conv_not_restored(engine: Any) -> None:
    state = engine.worker.pools.state
    restore = state.restore

    def patched(state_idx: Any, checkpoint: Any) -> None:
        restore(state_idx, checkpoint)
        state.conv[:, state_idx] = 0

    state.restore = patched


def checkpoint_hidden_stale(engine: Any) -> None:
    state = engine.worker.pools.state
    hidden = state.get_hidden
    state.get_hidden = lambda checkpoint: hidden(neighbour(checkpoint))


def partial_page_not_copied(engine: Any) -> None:
    engine.worker.pools.kv.copy_pages = lambda source, target: None


def page_freed_early(engine: Any) -> None:
    """A page of a running request is handed to the next one that needs a page."""
    worker = engine.worker
    apply_plan = worker.apply_plan
    owner: dict[int, int] = {}

    def patched(plan: Any, host: Any) -> Any:
        for i in range(host.scalar("num_page_updates")):
            req = int(host["update_req_idx"][i])
            stolen = next((page for other, page in owner.items() if other != req), None)
            owner.setdefault(req, int(host["update_page"][i]))
            if stolen is not None:
                host["update_page"][i] = stolen
        return apply_plan(plan, host)

    worker.apply_plan = patched


def wrong_page_in_table(engine: Any) -> None:
    """The second page of a request's table repeats its first one."""
    worker = engine.worker
    apply_plan = worker.apply_plan
    first: dict[int, int] = {}

    def patched(plan: Any, host: Any) -> Any:
        for i in range(host.scalar("num_page_updates")):
            req, index = int(host["update_req_idx"][i]), int(host["update_index"][i])
            if index == 0:
                first[req] = int(host["update_page"][i])
            elif index == 1 and req in first:
                host["update_page"][i] = first[req]
        return apply_plan(plan, host)

    worker.apply_plan = patched


def kv_position_off_by_one(engine: Any) -> None:
    worker = engine.worker
    forward = worker.forward_target

    def patched(rows: Any) -> Any:
        positions = rows.attn.positions.clone()
        positions[: rows.num_decode * rows.width] += 1
        return forward(replace(rows, attn=replace(rows.attn, positions=positions)))

    worker.forward_target = patched
