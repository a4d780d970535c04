"""What a commit exports, and that nothing else is touched."""

from __future__ import annotations

from dataclasses import replace

import torch

from mtpcore.acceptance.state_acceptance import (
    ArmedBoundaries,
    StateAcceptance,
    StateCommitBatch,
)


class FakeState:
    """Records what is exported; row 0 is the null checkpoint."""

    def __init__(self) -> None:
        self.exported: dict[int, tuple[int, int]] = {}
        self.hidden: dict[int, float] = {}

    def export(
        self, state_idx: torch.Tensor, index: torch.Tensor, checkpoint: torch.Tensor
    ) -> None:
        for row, slot, target in zip(
            state_idx.tolist(), index.tolist(), checkpoint.tolist(), strict=True
        ):
            if target:
                self.exported[target] = (row, slot)

    def set_hidden(self, checkpoint: torch.Tensor, rows: torch.Tensor) -> None:
        for target, value in zip(checkpoint.tolist(), rows[:, 0].tolist(), strict=True):
            if target:
                self.hidden[target] = value


# Two decode rows of width 4, one prefill row of 6 tokens, one wholly cached row.
HIDDEN = torch.arange(14.0)[:, None]
LAST_HIDDEN = 100 + torch.arange(9.0)[:, None]
BATCH = StateCommitBatch(
    num_decode=2,
    req_idx=torch.tensor([1, 2, 5, 8]),
    state_idx=torch.tensor([3, 4, 6, 7]),
    hidden_base=torch.tensor([0, 4, 8, 14]),
    old_len=torch.tensor([10, 20, 30, 40]),
    new_len=torch.tensor([13, 21, 36, 40]),
    num_accepted=torch.tensor([3, 1, 1, 1]),
    end_checkpoint=torch.tensor([0, 0, 0, 0]),
    ended=torch.tensor([False, False, False, False]),
    valid=torch.tensor([True, True, True, True]),
    armed=None,
    any_end_checkpoint=False,
)


def commit(batch: StateCommitBatch) -> tuple[FakeState, list[bool] | None, list[bool] | None]:
    state = FakeState()
    fired = StateAcceptance(state).commit(batch, HIDDEN, LAST_HIDDEN)
    armed = None if fired.armed is None else fired.armed.tolist()
    return state, armed, None if fired.end is None else fired.end.tolist()


def armed(*entries: tuple[int, int, int]) -> ArmedBoundaries:
    return ArmedBoundaries(*(torch.tensor(column) for column in zip(*entries, strict=True)))


def test_a_boundary_fires_strictly_behind_the_old_and_up_to_the_new_length() -> None:
    entries = armed((0, 10, 1), (0, 11, 2), (0, 13, 3), (0, 14, 4), (1, 21, 5))
    state, fired, _ = commit(replace(BATCH, armed=entries))
    assert fired == [False, True, True, False, True]
    # The state after b tokens is slot b - old - 1, and its hidden row that of position b - 1.
    assert state.exported == {2: (3, 0), 3: (3, 2), 5: (4, 0)}
    assert state.hidden == {2: 0.0, 3: 2.0, 5: 4.0}


def test_a_prefill_boundary_sets_the_hidden_row_alone() -> None:
    state, fired, _ = commit(replace(BATCH, armed=armed((2, 32, 1), (2, 36, 2), (2, 37, 3))))
    assert fired == [True, True, False]
    assert state.exported == {}
    assert state.hidden == {1: 9.0, 2: 13.0}


def test_ends_export_the_live_state() -> None:
    batch = replace(
        BATCH,
        end_checkpoint=torch.tensor([1, 2, 3, 4]),
        ended=torch.tensor([True, False, True, True]),
        any_end_checkpoint=True,
    )
    state, _, end = commit(batch)
    assert end == [True, False, True, True]
    assert state.exported == {1: (3, 2), 3: (6, 0), 4: (7, 0)}
    # A wholly cached prompt has no hidden row in this step; its last one is kept by req_idx.
    assert state.hidden == {1: 2.0, 3: 13.0, 4: 108.0}


def test_a_row_that_is_not_finite_publishes_nothing() -> None:
    batch = replace(
        BATCH,
        armed=armed((0, 11, 1), (1, 21, 2)),
        end_checkpoint=torch.tensor([3, 4, 0, 0]),
        ended=torch.tensor([True, True, False, False]),
        valid=torch.tensor([False, True, True, True]),
        any_end_checkpoint=True,
    )
    state, fired, end = commit(batch)
    assert fired == [False, True]
    assert end == [False, True, False, False]
    assert set(state.exported) == {2, 4}
