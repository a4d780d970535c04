"""Resources and lifecycle of the conv and SSM states of one model, and of their checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..kernels.checkpoint import export_rows
from .modes import check_mode, slots_per_row
from .zeros import zeros

if TYPE_CHECKING:
    from .shape import StateShape


class ConvSSMState:
    """States by logical recurrent layer L; row 0 of every pool is null.

    ssm [L, num_states + 1, T, Hv, dk, dv] in `ssm_dtype`, T = mtp_step + 1 in native mode;
    conv [L, num_states + 1, K - 1 + mtp_step, channels] raw inputs in `dtype`: the accepted window
    of a row is columns a .. a + K - 2, a the accepted index. Checkpoints, C of them:
    ckpt_ssm [L, C + 1, Hv, dk, dv], ckpt_conv [L, C + 1, K - 1, channels], ckpt_hidden
    [C + 1, hidden].
    A row that was reset, restored or prefilled is live in slot 0.
    """

    def __init__(
        self,
        shape: StateShape,
        num_states: int,
        num_checkpoints: int,
        mode: str = "native",
        mtp_step: int = 0,
        dtype: torch.dtype = torch.float32,
        ssm_dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        """The two counts leave out the null row. ValueError names a bad setting."""
        check_mode(mode)
        if num_states < 1:
            raise ValueError(
                f"num_states is {num_states}; a model with recurrent state needs at least 1"
            )
        if num_checkpoints < 0:
            raise ValueError(f"num_checkpoints is {num_checkpoints}; it must be 0 or more")
        if mtp_step < 0:
            raise ValueError(f"mtp_step is {mtp_step}; it must be 0 or more")
        if ssm_dtype not in (torch.float32, torch.bfloat16):
            raise ValueError(
                f"ssm_state_dtype {ssm_dtype} is not supported; use float32 or bfloat16"
            )
        self.shape = shape
        self.mode = mode
        self.depth = slots_per_row(mode, mtp_step)
        self.kept = shape.conv_kernel - 1
        matrix = (shape.num_v_heads, shape.k_dim, shape.v_dim)
        layers, rows, saved = shape.num_layers, num_states + 1, num_checkpoints + 1

        def pool(*size: int, of: torch.dtype = dtype) -> Tensor:
            return zeros(size, of, device)

        self.ssm = pool(layers, rows, self.depth, *matrix, of=ssm_dtype)
        self.conv = pool(layers, rows, self.kept + mtp_step, shape.conv_channels)
        self.ckpt_ssm = pool(layers, saved, *matrix, of=ssm_dtype)
        self.ckpt_conv = pool(layers, saved, self.kept, shape.conv_channels)
        self.ckpt_hidden = pool(saved, shape.hidden)

    def num_bytes(self) -> dict[str, int]:
        """Storage bytes by pool name."""
        saved = (self.ckpt_ssm, self.ckpt_conv, self.ckpt_hidden)
        return {
            "ssm_state": self.ssm.untyped_storage().nbytes(),
            "conv_state": self.conv.untyped_storage().nbytes(),
            "checkpoints": sum(t.untyped_storage().nbytes() for t in saved),
        }

    def reset(self, state_idx: Tensor) -> None:
        """Empty the rows `state_idx` (int64 [n]): zeros, every slot and column."""
        self.ssm.index_fill_(1, state_idx, 0)
        self.conv.index_fill_(1, state_idx, 0)

    def restore(self, state_idx: Tensor, checkpoint: Tensor) -> None:
        """Load checkpoint rows into slot 0 of state rows (int64 [n] each); the rest is zeroed."""
        self.reset(state_idx)
        self.ssm[:, state_idx, 0] = self.ckpt_ssm[:, checkpoint]
        self.conv[:, state_idx, : self.kept] = self.ckpt_conv[:, checkpoint]

    def export(self, state_idx: Tensor, index: Tensor, checkpoint: Tensor) -> None:
        """Save slot `index` of rows `state_idx` to rows `checkpoint` (int64 [n] each; 0 = masked).

        The live state stays as it is. The hidden row is saved by `set_hidden`.
        """
        export_rows(
            self.ssm.flatten(1, 2), state_idx * self.depth + index, self.ckpt_ssm, checkpoint
        )
        columns = self.conv.shape[2]
        windows = self.conv.flatten(1, 2).unfold(1, self.kept, 1).transpose(2, 3)
        export_rows(windows, state_idx * columns + index, self.ckpt_conv, checkpoint)

    def set_hidden(self, checkpoint: Tensor, rows: Tensor) -> None:
        """rows [n, hidden], after the final norm; checkpoint int64 [n], 0 = masked."""
        self.ckpt_hidden.index_copy_(0, checkpoint, rows.to(self.ckpt_hidden.dtype))

    def get_hidden(self, checkpoint: Tensor) -> Tensor:
        """[n, hidden] of the checkpoint rows (int64 [n])."""
        return self.ckpt_hidden.index_select(0, checkpoint)
