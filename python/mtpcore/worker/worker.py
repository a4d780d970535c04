"""The worker: one plan in, one result out, on tensors that it owns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..acceptance.state_acceptance import (
    ArmedBoundaries,
    Fired,
    StateAcceptance,
    StateCommitBatch,
)
from .accept import Accepted, SampleFlags, accept, sampling_of
from .allocate import Pools, allocate
from .apply import apply_pages, apply_starts
from .buffers import ACCEPTED, DONE, LAST_TOKEN, OUTPUT_LEN, SEQ_LEN, TOKENS_LEFT
from .drafter import DraftInput, MtpDrafter
from .expand import StepRows, expand
from .fields import DeviceFields, FieldTable, HostFields, Staging
from .forward import forward_target, sampling_hidden
from .host_rows import HostRows

if TYPE_CHECKING:
    from ..acceptance.logprobs import LogprobRegion
    from ..models.loader import LoadedModel
    from .allocate import WorkerConfig


@dataclass(frozen=True)
class StepResult:
    """What a step hands back: views of the result in host memory, logprobs if any row asked for
    them, and on a GPU the event after which both may be read."""

    fields: HostFields
    logprobs: LogprobRegion | None
    ready: torch.cuda.Event | None

    def wait(self) -> None:
        """Return once the result may be read: the only place where the host waits for a step."""
        if self.ready is not None:
            self.ready.synchronize()


class Worker:
    """Executes plans of one model.

    Attributes:
        pools: every tensor that a memory plan counts.
        draft_noise: drafts share the target's noise; False makes them argmax drafts, to measure
            how much the sharing is worth. The output is the same either way.
    """

    def __init__(
        self,
        model: LoadedModel,
        config: WorkerConfig,
        plan_fields: FieldTable,
        result_fields: FieldTable,
    ) -> None:
        self.config = config
        self.model = model
        self.target = model.target
        self.pools: Pools = allocate(model, config)
        self.buffers = self.pools.buffers
        self.draft_noise = True
        device = config.device
        self._plan_fields = plan_fields
        self._plan = DeviceFields(plan_fields, device)
        self._result = DeviceFields(result_fields, device)
        self._results = Staging(result_fields, config.overlap_depth + 2, device.type == "cuda")
        self._host_rows = HostRows(config.max_num_seqs)
        self._acceptance = StateAcceptance(self.pools.state)
        self.drafter: MtpDrafter | None = None
        if model.mtp is not None and config.mtp_step > 0:
            self.drafter = MtpDrafter(
                model.target,
                model.mtp,
                self.pools.kv,
                self.buffers,
                config.mtp_step,
                config.page_size,
            )

    @torch.inference_mode()
    def execute(self, plan: Tensor) -> StepResult:
        """Run one step.

        Args:
            plan: int32 host tensor laid out by the plan's field table; it may be used again for
                another plan once this step's result has been read.
        """
        host = HostFields(self._plan_fields, plan.numpy())
        rows = self.apply_plan(plan, host)
        hidden = self.forward_target(rows)
        accepted = self.accept(host, rows, hidden)
        fired = self.commit_state(host, rows, accepted, hidden)
        if self.drafter is not None and host.scalar("draft"):
            self.run_drafter(host, rows, accepted, hidden)
        self._advance_hidden(rows, accepted, hidden)
        return self.write_result(rows, accepted, fired)

    def apply_plan(self, plan: Tensor, host: HostFields) -> StepRows:
        """Copy the plan to the device, apply it, and expand it into rows."""
        self._plan.tensor.copy_(plan, non_blocking=True)
        apply_pages(host, self._plan, self.buffers, self.pools.kv)
        apply_starts(host, self._plan, self.buffers, self.pools.state, self._host_rows)
        return expand(host, self._plan, self.buffers, self.config.page_size)

    def forward_target(self, rows: StepRows) -> Tensor:
        """Hidden rows [M, H] of the step's tokens, after the final norm."""
        pools = self.pools
        return forward_target(
            self.target, rows, pools.kv, pools.state, pools.executor, self.buffers.dev_last_hidden
        )

    def accept(self, host: HostFields, rows: StepRows, hidden: Tensor) -> Accepted:
        """Sample, match and clamp."""
        req = host["row_req_idx"][: rows.num_rows]
        flags = SampleFlags(
            any_sampled=host.scalar("any_sampled") != 0,
            max_top_k=self._host_rows.max_top_k(req),
            any_bitmap=self._host_rows.any_bitmap(req),
            max_logprobs=host.scalar("max_logprobs"),
        )
        logits = self.target.logits(sampling_hidden(rows, hidden, self.buffers.dev_last_hidden))
        return accept(rows, logits, self.buffers, flags)

    def commit_state(
        self, host: HostFields, rows: StepRows, accepted: Accepted, hidden: Tensor
    ) -> Fired:
        """Export what the step reached and move every cursor."""
        num_armed = host.scalar("num_armed")
        armed = None
        if num_armed:
            names = ("armed_row", "armed_boundary", "armed_checkpoint")
            armed = ArmedBoundaries(*(self._plan.ints(name, num_armed) for name in names))
        new_len = self._new_len(rows, accepted)
        fired = self._acceptance.commit(
            StateCommitBatch(
                num_decode=rows.num_decode,
                req_idx=rows.req_idx,
                state_idx=rows.state_idx,
                hidden_base=rows.hidden_base,
                old_len=rows.old_len,
                new_len=new_len,
                num_accepted=accepted.num_accepted,
                end_checkpoint=self._plan.ints("row_end_checkpoint", rows.num_rows),
                ended=accepted.finish != 0,
                valid=accepted.finite,
                armed=armed,
                any_end_checkpoint=bool(host["row_end_checkpoint"][: rows.num_rows].any()),
            ),
            hidden,
            self.buffers.dev_last_hidden,
        )
        self._advance_cursors(rows, accepted, new_len)
        return fired

    def run_drafter(
        self, host: HostFields, rows: StepRows, accepted: Accepted, hidden: Tensor
    ) -> None:
        """Commit the drafter's entries and store the next drafts."""
        if self.drafter is None:
            return
        req = host["row_req_idx"][: rows.num_rows]
        sampling = None
        if host.scalar("any_sampled") and self.draft_noise:
            position = rows.cursors[:, OUTPUT_LEN] + accepted.num_accepted
            sampling = sampling_of(
                self.buffers, rows.req_idx, position, self._host_rows.max_top_k(req)
            )
        self.drafter.run(
            DraftInput(
                rows=rows,
                hidden=hidden,
                sampled=accepted.sampled,
                num_accepted=accepted.num_accepted,
                new_len=self._new_len(rows, accepted),
                page_bound=max(int(host["row_num_pages"][: rows.num_rows].max()), 1),
                sampling=sampling,
            )
        )

    def write_result(self, rows: StepRows, accepted: Accepted, fired: Fired) -> StepResult:
        """Fill the result on the device and copy it to the host."""
        n, result = rows.num_rows, self._result
        result["step_id"].copy_(self._plan["step_id"])
        result["num_rows"].copy_(self._plan["num_rows"])
        result["num_accepted"][:n] = accepted.num_accepted
        result["rows_run"][:n] = rows.query_len
        result["finish"][:n] = accepted.finish
        result["non_finite"][:n] = ~accepted.finite
        if fired.end is None:
            result["end_fired"][:n] = 0
        else:
            result["end_fired"][:n] = fired.end
        if fired.armed is not None:
            result["fired"][: fired.armed.shape[0]] = fired.armed
        tokens = result["tokens"].view(-1, self.config.mtp_step + 1)
        tokens[:n, : accepted.sampled.shape[1]] = accepted.sampled
        host, fields = self._results.take()
        host.copy_(result.tensor, non_blocking=True)
        logprobs = None if accepted.logprobs is None else accepted.logprobs.to_host()
        ready = None
        if result.tensor.device.type == "cuda":
            ready = torch.cuda.Event()
            ready.record(torch.cuda.current_stream(result.tensor.device))
        return StepResult(fields, logprobs, ready)

    def _new_len(self, rows: StepRows, accepted: Accepted) -> Tensor:
        """Tokens consumed after the step: int64 [n]."""
        if not rows.prefill:
            return rows.old_len + accepted.num_accepted
        consumed = torch.cat(
            (accepted.num_accepted[: rows.num_decode], rows.query_len[rows.num_decode :])
        )
        return rows.old_len + consumed

    def _advance_cursors(self, rows: StepRows, accepted: Accepted, new_len: Tensor) -> None:
        num_accepted = accepted.num_accepted
        before = rows.cursors
        last = accepted.sampled.gather(1, (num_accepted - 1).clamp(min=0)[:, None])[:, 0]
        emitted = num_accepted > 0
        cursors = before.clone()
        cursors[:, SEQ_LEN] = new_len
        cursors[:, OUTPUT_LEN] += num_accepted
        cursors[:, TOKENS_LEFT] -= num_accepted
        cursors[:, LAST_TOKEN] = torch.where(emitted, last, before[:, LAST_TOKEN])
        moved = torch.where(emitted, num_accepted - 1, before[:, ACCEPTED])
        cursors[:, ACCEPTED] = moved
        # After a prefill span the live state is slot 0.
        cursors[rows.num_decode :, ACCEPTED] = 0
        ended = (accepted.finish != 0) | ~accepted.finite
        cursors[:, DONE] = before[:, DONE] | ended
        self.buffers.cursors[rows.req_idx] = cursors

    def _advance_hidden(self, rows: StepRows, accepted: Accepted, hidden: Tensor) -> None:
        """Keep the hidden row of each request's last consumed token."""
        consumed = self._new_len(rows, accepted) - rows.old_len
        last = (rows.hidden_base + consumed - 1).clamp(min=0, max=hidden.shape[0] - 1)
        kept = self.buffers.dev_last_hidden[rows.req_idx]
        moved = torch.where((consumed > 0)[:, None], hidden[last], kept)
        self.buffers.dev_last_hidden[rows.req_idx] = moved
