//! Rows of a step: prefill chunks with their boundaries, and decode rows.

use super::Scheduler;
use super::flight::{ArmedRecord, RowRecord, StepRecord};
use super::plan::Scratch;
use super::slots::{Decoding, Prefilling, Slot};
use crate::ids::CheckpointId;
use crate::prefix::CheckpointRef;
use crate::step::{PlanRow, PlanWriter, ROW_DECODE, ROW_PREFILL, ROW_PREFILL_FINAL};

/// What the head of a plan says of all its rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extremes {
    pub(super) max_pages: u32,
    pub(super) any_sampled: bool,
    pub(super) max_logprobs: i32,
}

impl Default for Extremes {
    fn default() -> Self {
        Self { max_pages: 0, any_sampled: false, max_logprobs: -1 }
    }
}

impl Scheduler {
    /// Divides the tokens that are left among running prompts.
    pub(super) fn choose_prefill(&self, left: &mut u32, scratch: &mut Scratch) {
        self.pick_prefill(&mut scratch.order);
        for &slot in &scratch.order {
            let Slot::Prefilling(prefilling) = &self.slots[slot as usize] else { continue };
            let remaining = prefilling.request.known_len() - prefilling.planned;
            let len = remaining.min(*left);
            if len == 0 {
                break;
            }
            *left -= len;
            scratch.chunks.push((slot, len));
        }
    }

    /// Admits from the queue while tokens are left.
    pub(super) fn choose_admissions(
        &mut self,
        writer: &mut PlanWriter<'_>,
        record: &mut StepRecord,
        left: &mut u32,
        scratch: &mut Scratch,
    ) {
        while *left > 0 {
            let Some(slot) = self.admit_head(writer, record) else { break };
            let Slot::Prefilling(prefilling) = &self.slots[slot as usize] else { break };
            // 0 when the whole prompt is cached: the row samples at once.
            let remaining = prefilling.request.known_len() - prefilling.planned;
            let len = remaining.min(*left);
            *left -= len;
            scratch.chunks.push((slot, len));
        }
    }

    /// Writes one prefill chunk; the prompt's last one begins decoding.
    pub(super) fn write_chunk(
        &mut self,
        (slot, len): (u32, u32),
        writer: &mut PlanWriter<'_>,
        record: &mut StepRecord,
        extremes: &mut Extremes,
        armed: &mut Vec<(u32, CheckpointRef)>,
    ) {
        let taken = std::mem::take(&mut self.slots[slot as usize]);
        let Slot::Prefilling(mut prefilling) = taken else {
            unreachable!("only prefilling slots are chosen for chunks")
        };
        let start = prefilling.planned;
        let end = start + len;
        self.arm_chunk(&mut prefilling, end, armed);
        let tokens = &prefilling.request.tokens()[start as usize..end as usize];
        let token_offset = writer.push_tokens(tokens);
        let is_final = end == prefilling.request.known_len();
        prefilling.planned = end;
        prefilling.last_planned = self.clock + 1;
        prefilling.held.launch(self.config.overlap_depth + 1);
        let held = &prefilling.held;
        let mut row = PlanRow {
            req_idx: held.req_idx,
            state_idx: held.state_idx(),
            kind: if is_final { ROW_PREFILL_FINAL } else { ROW_PREFILL },
            query_len: len,
            start,
            token_offset,
            num_pages: held.num_pages(),
            end_checkpoint: CheckpointId::NULL,
        };
        let mut has_end = false;
        if is_final {
            let decoding = self.begin_decode(prefilling);
            extremes.any_sampled |= decoding.sampled;
            extremes.max_logprobs = extremes.max_logprobs.max(decoding.logprobs);
            has_end = decoding.end.is_some();
            row.end_checkpoint = end_row(&decoding);
            self.slots[slot as usize] = Slot::Decoding(decoding);
        } else {
            self.slots[slot as usize] = Slot::Prefilling(prefilling);
        }
        let at = writer.push_row(row);
        record.rows.push(RowRecord {
            slot,
            kind: row.kind,
            query_len: len,
            start,
            has_end,
            armed_at: record.armed.len() as u32,
            num_armed: armed.len() as u32,
        });
        for (boundary, checkpoint) in armed.drain(..) {
            writer.push_armed(at, boundary, checkpoint.id());
            record.armed.push(ArmedRecord { boundary, checkpoint: Some(checkpoint) });
        }
        self.books.counters.prefill_tokens += u64::from(len);
    }

    /// Takes rows for the boundaries that a chunk reaches, the most useful first,
    /// and leaves them in ascending order.
    fn arm_chunk(
        &mut self,
        prefilling: &mut Prefilling,
        end: u32,
        armed: &mut Vec<(u32, CheckpointRef)>,
    ) {
        if prefilling.boundaries.is_empty() {
            return;
        }
        let pools = &mut self.pools;
        prefilling.boundaries.retain(|&boundary| {
            if boundary > end {
                return true;
            }
            match pools.cache.try_take_checkpoint(&mut pools.pages) {
                Some(row) => armed.push((boundary, row)),
                None => self.books.counters.checkpoints_skipped += 1,
            }
            false
        });
        armed.sort_unstable_by_key(|(boundary, _)| *boundary);
    }

    fn begin_decode(&mut self, prefilling: Prefilling) -> Decoding {
        self.num_prefilling -= 1;
        let Prefilling { request, held, planned, last_planned, preempt, .. } = prefilling;
        let caching = self.config.enable_prefix_caching;
        let mut end = None;
        // End rows are held for the whole of a request's life; half of the pool is
        // left to the boundaries of prompts.
        if caching && self.num_ends < self.config.num_checkpoints as usize / 2 {
            end = self.pools.cache.try_take_checkpoint(&mut self.pools.pages);
            self.num_ends += usize::from(end.is_some());
        }
        let interval = self.config.checkpoint_interval;
        let next_boundary = match planned.checked_div(interval) {
            Some(passed) if caching => (passed + 1) * interval,
            _ => u32::MAX,
        };
        Decoding {
            seq_len: planned,
            max_len: request.max_len(),
            // What the admission reserved is compared anew by the first decode row.
            grow_at: 0,
            has_stops: request.has_stops(),
            sampled: request.terms().temperature > 0.0,
            logprobs: request.terms().logprobs,
            request,
            held,
            end,
            boundary: None,
            next_boundary,
            last_planned,
            preempt,
        }
    }

    /// Writes one decode row, with the page-table entries that the device lacks.
    pub(super) fn write_decode(
        &mut self,
        slot: u32,
        writer: &mut PlanWriter<'_>,
        record: &mut StepRecord,
        extremes: &mut Extremes,
    ) {
        let width = self.config.verify_width();
        let Slot::Decoding(decoding) = &mut self.slots[slot as usize] else {
            unreachable!("only decoding slots are picked for decode rows")
        };
        decoding.last_planned = self.clock + 1;
        let held = &mut decoding.held;
        let reach = decoding.seq_len + (held.in_flight() + 1) * width;
        held.launch(self.config.overlap_depth + 1);
        let num_pages = held.num_pages();
        if held.sent < num_pages {
            for (index, page) in held.pages.iter().enumerate().skip(held.sent as usize) {
                writer.push_update(held.req_idx, index as u32, page.id());
            }
            held.sent = num_pages;
        }
        extremes.max_pages = extremes.max_pages.max(num_pages);
        extremes.any_sampled |= decoding.sampled;
        extremes.max_logprobs = extremes.max_logprobs.max(decoding.logprobs);
        let at = writer.push_row(PlanRow {
            req_idx: decoding.held.req_idx,
            state_idx: decoding.held.state_idx(),
            kind: ROW_DECODE,
            query_len: width,
            start: decoding.seq_len,
            token_offset: 0,
            num_pages,
            end_checkpoint: end_row(decoding),
        });
        let armed_at = record.armed.len() as u32;
        let mut num_armed = 0;
        if decoding.next_boundary <= reach {
            if decoding.boundary.is_none() {
                let pools = &mut self.pools;
                decoding.boundary = pools.cache.try_take_checkpoint(&mut pools.pages);
            }
            if let Some(row) = &decoding.boundary {
                writer.push_armed(at, decoding.next_boundary, row.id());
                let boundary = decoding.next_boundary;
                record.armed.push(ArmedRecord { boundary, checkpoint: None });
                num_armed = 1;
            }
        }
        record.rows.push(RowRecord {
            slot,
            kind: ROW_DECODE,
            query_len: width,
            start: decoding.seq_len,
            has_end: decoding.end.is_some(),
            armed_at,
            num_armed,
        });
    }
}

fn end_row(decoding: &Decoding) -> CheckpointId {
    decoding.end.as_ref().map_or(CheckpointId::NULL, CheckpointRef::id)
}
