"""The only way to commit: cursors, checkpoint exports and last hidden rows after a forward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class CheckpointTarget(Protocol):
    """What :class:`StateAcceptance` needs of a ``ConvSSMState``."""

    def export(self, state_idx: Tensor, index: Tensor, checkpoint: Tensor) -> None: ...

    def set_hidden(self, checkpoint: Tensor, rows: Tensor) -> None: ...


@dataclass(frozen=True)
class ArmedBoundaries:
    """Armed boundaries of one step: int64 [E] each."""

    row: Tensor
    boundary: Tensor
    checkpoint: Tensor


@dataclass(frozen=True)
class StateCommitBatch:
    """What one forward commits, in the forward's row order (decode rows, then prefill rows).

    Attributes:
        num_decode: number of decode rows.
        req_idx, state_idx: int64 [n].
        hidden_base: int64 [n], index of the row's first token in the flattened hidden rows.
        old_len, new_len: int64 [n], tokens consumed before and after this step.
        num_accepted: int64 [n], tokens emitted after clamping.
        end_checkpoint: int64 [n], checkpoint row to fill if the row ended now, 0 = none.
        ended: bool [n].
        valid: bool [n], False where the row's logits were not finite: nothing may be published.
        armed: armed boundaries, or None when there are none.
        any_end_checkpoint: host flag, some row names an end checkpoint.
    """

    num_decode: int
    req_idx: Tensor
    state_idx: Tensor
    hidden_base: Tensor
    old_len: Tensor
    new_len: Tensor
    num_accepted: Tensor
    end_checkpoint: Tensor
    ended: Tensor
    valid: Tensor
    armed: ArmedBoundaries | None
    any_end_checkpoint: bool


@dataclass(frozen=True)
class Fired:
    """Which exports happened: ``armed`` bool [E] (None without armed boundaries), ``end`` bool [n]
    (None when no row names an end checkpoint)."""

    armed: Tensor | None
    end: Tensor | None


class StateAcceptance:
    """Commits accepted tokens of one engine's requests into its states.

    A row's live state is never touched by an export; in ``native`` mode committing is moving the
    accepted index, which the worker keeps by ``req_idx``.
    """

    def __init__(self, state: CheckpointTarget) -> None:
        self._state = state

    def commit(self, batch: StateCommitBatch, hidden: Tensor, last_hidden: Tensor) -> Fired:
        """Export every checkpoint that this step reached.

        Args:
            batch: see :class:`StateCommitBatch`.
            hidden: [M, H], the forward's hidden rows after the final norm, M >= 1.
            last_hidden: [R + 1, H] by ``req_idx``, as it was before this step.

        Returns:
            Which boundaries and end checkpoints were filled.
        """
        armed = None
        if batch.armed is not None:
            armed = self._export_armed(batch, batch.armed, hidden)
        end = self._export_ends(batch, hidden, last_hidden) if batch.any_end_checkpoint else None
        return Fired(armed, end)

    def _export_armed(
        self, batch: StateCommitBatch, armed: ArmedBoundaries, hidden: Tensor
    ) -> Tensor:
        row = armed.row
        old_len = batch.old_len[row]
        index = armed.boundary - old_len - 1
        fired = (index >= 0) & (armed.boundary <= batch.new_len[row]) & batch.valid[row]
        checkpoint = torch.where(fired, armed.checkpoint, 0)
        # A prefill span exports its states inside the forward, where its chunk is cut.
        in_decode = torch.where(row < batch.num_decode, checkpoint, 0)
        if batch.num_decode > 0:
            self._export_states(batch.state_idx[row], index.clamp(min=0), in_decode)
        source = (batch.hidden_base[row] + index.clamp(min=0)).clamp(max=hidden.shape[0] - 1)
        self._set_hidden(checkpoint, hidden[source])
        return fired

    def _export_ends(self, batch: StateCommitBatch, hidden: Tensor, last_hidden: Tensor) -> Tensor:
        fired = batch.ended & batch.valid & (batch.end_checkpoint > 0)
        checkpoint = torch.where(fired, batch.end_checkpoint, 0)
        row = torch.arange(checkpoint.shape[0], device=checkpoint.device)
        consumed = batch.new_len - batch.old_len
        # After a prefill span the live state is slot 0 of the row, whatever the chunk's length.
        index = torch.where(row < batch.num_decode, consumed - 1, 0).clamp(min=0)
        self._export_states(batch.state_idx, index, checkpoint)
        last_row = (batch.hidden_base + consumed - 1).clamp(min=0, max=hidden.shape[0] - 1)
        rows = torch.where((consumed > 0)[:, None], hidden[last_row], last_hidden[batch.req_idx])
        self._set_hidden(checkpoint, rows)
        return fired

    def _export_states(self, state_idx: Tensor, index: Tensor, checkpoint: Tensor) -> None:
        if checkpoint.device.type == "cpu":
            # Reading which entries fired is free here, copying whole states to a null row is not.
            kept = checkpoint.nonzero()[:, 0]
            if kept.numel() == 0:
                return
            state_idx, index, checkpoint = state_idx[kept], index[kept], checkpoint[kept]
        self._state.export(state_idx, index, checkpoint)

    def _set_hidden(self, checkpoint: Tensor, hidden: Tensor) -> None:
        self._state.set_hidden(checkpoint, hidden)
