"""Export of live states to checkpoint rows."""

from __future__ import annotations

import torch

from mtpcore.kernels.checkpoint import export_rows


def test_masked_entries_leave_the_other_rows_alone() -> None:
    source = torch.arange(2 * 5 * 3, dtype=torch.float32).view(2, 5, 3)
    target = torch.full((2, 4, 3), float("nan"))
    before = source.clone()
    export_rows(source, torch.tensor([4, 1, 2]), target, torch.tensor([3, 0, 1]))
    assert torch.equal(target[:, 3], source[:, 4])
    assert torch.equal(target[:, 1], source[:, 2])
    assert target[:, 2].isnan().all()
    assert torch.equal(source, before)


def test_rows_may_come_from_a_strided_view() -> None:
    """Windows of the conv state overlap, so that no copy of them is made before the export."""
    source = torch.arange(12.0).view(1, 12, 1).unfold(1, 3, 1).transpose(2, 3)
    target = torch.zeros(1, 3, 3, 1)
    export_rows(source, torch.tensor([0, 7]), target, torch.tensor([2, 1]))
    assert target[0, :, :, 0].tolist() == [[0, 0, 0], [7, 8, 9], [0, 1, 2]]
