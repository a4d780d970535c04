"""Runs the recurrent ops of a forward in the storage mode of its states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..kernels import conv1d, gated_delta
from .modes import check_mode

if TYPE_CHECKING:
    from .conv_ssm_state import ConvSSMState
    from .forward import SSMForward


class SSMExecutor:
    """Turns a forward's description into runs; holds no state of its own."""

    def __init__(self, mode: str = "native") -> None:
        """ValueError if the mode cannot run."""
        check_mode(mode)
        self.mode = mode

    def begin(self, forward: SSMForward, state: ConvSSMState) -> SSMRun:
        """Prepare the indices that all layers of the forward share."""
        if state.mode != self.mode:
            raise ValueError(
                f"states are kept in mode {state.mode!r}, the executor runs {self.mode!r}"
            )
        if forward.width > state.depth:
            raise ValueError(
                f"a step of width {forward.width} does not fit {state.depth} states a row; "
                "raise mtp_step"
            )
        if not forward.num_decode:
            return SSMRun(forward, state, None, None)
        # HOLD rows may point at the null row: it has to be finite whatever was masked into it.
        state.ssm[:, 0, 0].zero_()
        state.conv[:, 0].zero_()
        index, live, length = forward.dec_state_idx, forward.dec_accepted, forward.dec_query_len
        rows = gated_delta.StepRows.build(index, live, length, forward.width, state.depth)
        windows = conv1d.ConvRows.build(
            index, live, length, forward.width, state.shape.conv_kernel, state.conv.shape[2]
        )
        return SSMRun(forward, state, rows, windows)


@dataclass(frozen=True)
class SSMRun:
    """One forward in native mode: every verify row writes its own state slot."""

    forward: SSMForward
    state: ConvSSMState
    rows: gated_delta.StepRows | None
    windows: conv1d.ConvRows | None

    def _rectangle(self, x: Tensor) -> Tensor:
        """The decode rows of x [M, ...] as [D, W, ...]."""
        size = (self.forward.num_decode, self.forward.width)
        decode = x[: size[0] * size[1]] if self.forward.prefill else x
        return decode.unflatten(0, size)

    def conv(self, slot: int, x: Tensor, weight: Tensor) -> Tensor:
        """Convolution and silu of raw inputs x [M, C] in layer slot `slot`; weight [K, C]."""
        pool = self.state.conv[slot]
        forward, outs = self.forward, []
        if self.windows is not None:
            out = conv1d.step(self._rectangle(x), weight, pool, self.windows)
            outs.append(out.flatten(0, 1))
        kept = self.state.kept
        for span in forward.prefill:
            if not span.length:
                continue
            window = pool[span.state_idx, :kept]
            out, padded = conv1d.prefill(x[span.offset : span.offset + span.length], weight, window)
            for count, row in span.exports:
                self.state.ckpt_conv[slot, row].copy_(padded[count : count + kept])
            window.copy_(padded[span.length :])
            outs.append(out)
        return outs[0] if len(outs) == 1 else torch.cat(outs)

    def core(self, slot: int, qk: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
        """Gated delta rule in layer slot `slot`; all float32.

        qk: [M, 2, Hk, dk], v: [M, Hv, dv], g, beta: [M, Hv]. Returns [M, Hv, dv].
        """
        pool = self.state.ssm[slot]
        forward, outs = self.forward, []
        if self.rows is not None:
            rows = [self._rectangle(x) for x in (qk, v, g, beta)]
            out = gated_delta.step(rows[0], rows[1], rows[2], rows[3], pool, self.rows)
            outs.append(out.flatten(0, 1))
        for span in forward.prefill:
            if not span.length:
                continue
            part = [x[span.offset : span.offset + span.length] for x in (qk, v, g, beta)]
            live = pool[span.state_idx, 0]
            cuts = tuple(count for count, _ in span.exports)
            out, states = gated_delta.prefill(
                part[0], part[1], part[2], part[3], live.float(), cuts
            )
            for (_, row), exported in zip(span.exports, states, strict=False):
                self.state.ckpt_ssm[slot, row].copy_(exported)
            live.copy_(states[-1])
            outs.append(out)
        return outs[0] if len(outs) == 1 else torch.cat(outs)
