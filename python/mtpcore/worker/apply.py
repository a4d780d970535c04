"""Applying a plan to the device: page-table updates, page copies, starts and restores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .buffers import MAX_STOP_IDS, NO_DRAFT, RequestBuffers

if TYPE_CHECKING:
    from ..layers.paged_kv import PagedKV
    from ..state.conv_ssm_state import ConvSSMState
    from .fields import DeviceFields, HostFields
    from .host_rows import HostRows


def apply_pages(host: HostFields, plan: DeviceFields, buffers: RequestBuffers, kv: PagedKV) -> None:
    """Write new page-table entries, then copy the partly filled pages of prefix hits."""
    num_updates = host.scalar("num_page_updates")
    if num_updates:
        req = plan.ints("update_req_idx", num_updates)
        index = plan.ints("update_index", num_updates)
        buffers.dev_page_table[req, index] = plan.ints("update_page", num_updates)
    num_copies = host.scalar("num_page_copies")
    if num_copies:
        kv.copy_pages(
            plan.ints("copy_src_page", num_copies), plan.ints("copy_dst_page", num_copies)
        )


def apply_starts(
    host: HostFields,
    plan: DeviceFields,
    buffers: RequestBuffers,
    state: ConvSSMState,
    host_rows: HostRows,
) -> None:
    """Set every buffer of the requests that are admitted or resumed in this step.

    A start without a restore begins from zero states and a zero last hidden row; a start with
    one begins exactly where its checkpoint was taken.
    """
    count = host.scalar("num_starts")
    if count == 0:
        return
    req = plan.ints("start_req_idx", count)
    zero = torch.zeros_like(req)
    columns = (
        plan.ints("start_seq_len", count),
        plan.ints("start_output_len", count),
        plan.ints("start_tokens_left", count),
        plan.ints("start_min_tokens", count),
        zero,
        zero,
        zero,
    )
    buffers.cursors[req] = torch.stack(columns, dim=1)
    sampling = ("start_seed_lo", "start_seed_hi", "start_sample_index", "start_top_k")
    buffers.sampling[req] = torch.stack([plan.ints(name, count) for name in sampling], dim=1)
    floats = ("start_temperature", "start_top_p")
    buffers.sampling_floats[req] = torch.stack([plan.floats(name, count) for name in floats], dim=1)
    _apply_stop_ids(host, plan, buffers, host_rows, count)
    # An indexed assignment of a Python number would copy it from the host and wait for that.
    buffers.dev_drafts.index_fill_(0, req, NO_DRAFT)
    buffers.dev_last_hidden.index_fill_(0, req, 0)
    state.reset(plan.ints("start_state_idx", count))
    num_restores = host.scalar("num_restores")
    if num_restores:
        checkpoint = plan.ints("restore_checkpoint", num_restores)
        state.restore(plan.ints("restore_state_idx", num_restores), checkpoint)
        restored = plan.ints("restore_req_idx", num_restores)
        buffers.dev_last_hidden[restored] = state.get_hidden(checkpoint)
    host_rows.start(host, count)


def _apply_stop_ids(
    host: HostFields,
    plan: DeviceFields,
    buffers: RequestBuffers,
    host_rows: HostRows,
    count: int,
) -> None:
    req = plan.ints("start_req_idx", count)
    num_ids = plan.ints("start_num_stop_ids", count)
    ids = plan.ints("start_stop_ids", count * MAX_STOP_IDS).view(count, MAX_STOP_IDS)
    used = torch.arange(MAX_STOP_IDS, device=ids.device)[None, :] < num_ids[:, None]
    buffers.stop_ids[req] = torch.where(used, ids, -1)
    stale = host_rows.any_bitmap(host["start_req_idx"][:count])
    if host.scalar("num_stop_bitmaps") == 0 and not stale:
        return
    words = buffers.sizes.bitmap_words
    bitmaps = plan["stop_bitmaps"].view(-1, words)
    index = plan.ints("start_stop_bitmap", count)
    rows = bitmaps[index.clamp(min=0)]
    buffers.stop_bitmap[req] = torch.where((index >= 0)[:, None], rows, 0)
