//! The first call of a step.

use super::Scheduler;
use super::chunks::Extremes;
use super::flight::StepRecord;
use super::reserve::Reserved;
use crate::error::PlanError;
use crate::ids::StepId;
use crate::prefix::CheckpointRef;
use crate::step::{PlanHead, PlanWriter};

/// What `plan` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepStatus {
    /// A step was written: run it.
    Run,
    /// There is nothing to do.
    Idle,
    /// Commit the oldest step in flight, then plan again.
    CommitFirst,
}

/// A summary of the planned step; zeros unless the status is `Run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepInfo {
    /// What to do.
    pub status: StepStatus,
    /// Number of the step.
    pub step_id: StepId,
    /// Rows.
    pub num_rows: u32,
    /// Decode rows, which come first.
    pub num_decode_rows: u32,
    /// Decode rows times their width, plus prefill tokens.
    pub num_tokens: u32,
}

impl StepInfo {
    const fn without_step(status: StepStatus) -> Self {
        Self { status, step_id: StepId(0), num_rows: 0, num_decode_rows: 0, num_tokens: 0 }
    }
}

/// Lists that keep their memory between steps.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) picked: Vec<u32>,
    /// Those of `picked` that need more pages.
    pub(super) growing: Vec<u32>,
    pub(super) order: Vec<u32>,
    pub(super) more: Vec<u32>,
    pub(super) chunks: Vec<(u32, u32)>,
    pub(super) armed: Vec<(u32, CheckpointRef)>,
}

impl Scheduler {
    /// Writes the next step into `out`, an array of [`plan_len`](crate::step::plan_len)
    /// words.
    ///
    /// # Errors
    /// [`PlanError::Array`] for an array of another length; nothing has changed then.
    pub fn plan(&mut self, out: &mut [i32]) -> Result<StepInfo, PlanError> {
        let mut writer = PlanWriter::new(out, &self.dims)?;
        if self.flight.len() > self.config.overlap_depth as usize {
            return Ok(self.commit_first());
        }
        self.preempt_asked();
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut record = self.spare.pop().unwrap_or_default();
        let whole = (self.config.max_num_batched_tokens / self.config.verify_width()) as usize;
        let mut share = self.decode_share();
        let mut extremes = Extremes::default();
        let info = loop {
            scratch.chunks.clear();
            if !self.choose(share, &mut writer, &mut record, &mut scratch, &mut extremes) {
                break Ok(self.commit_first());
            }
            if !scratch.picked.is_empty() || !scratch.chunks.is_empty() {
                break Ok(self.write(writer, &mut record, &mut scratch, extremes));
            }
            // Prefill left its share unused; give all of it to decode.
            if share < whole {
                share = whole;
                continue;
            }
            break self.nothing_planned();
        };
        self.scratch = scratch;
        if matches!(info, Ok(StepInfo { status: StepStatus::Run, .. })) {
            self.flight.push_back(record);
        } else {
            self.spare.push(record);
        }
        info
    }

    fn commit_first(&mut self) -> StepInfo {
        self.books.counters.commit_first += 1;
        StepInfo::without_step(StepStatus::CommitFirst)
    }

    fn nothing_planned(&mut self) -> Result<StepInfo, PlanError> {
        if !self.flight.is_empty() {
            return Ok(self.commit_first());
        }
        if self.running.is_empty() && self.queue.is_empty() {
            return Ok(StepInfo::without_step(StepStatus::Idle));
        }
        Err(PlanError::Stalled { waiting: self.queue.len() + self.running.len() })
    }

    /// Chooses rows, takes what they need and writes the decode rows, which come
    /// first. False when pages are short and a commit may free some; nothing was
    /// written then.
    fn choose(
        &mut self,
        share: usize,
        writer: &mut PlanWriter<'_>,
        record: &mut StepRecord,
        scratch: &mut Scratch,
        extremes: &mut Extremes,
    ) -> bool {
        let mut preempted = false;
        let eligible = loop {
            let eligible = self.pick_decode(share, &mut scratch.picked, &mut scratch.growing);
            match self.reserve_decode(&scratch.growing) {
                Reserved::All => break eligible,
                Reserved::Preempted => preempted = true,
                Reserved::Short => return false,
            }
        };
        for &slot in &scratch.picked {
            self.write_decode(slot, writer, record, extremes);
        }
        let width = self.config.verify_width();
        let mut left = self.config.max_num_batched_tokens - scratch.picked.len() as u32 * width;
        self.choose_prefill(&mut left, scratch);
        // Pages that were just taken from a running request are not for new ones.
        if !preempted || self.running.is_empty() {
            self.choose_admissions(writer, record, &mut left, scratch);
        }
        if eligible > scratch.picked.len() && left >= width {
            self.choose_more((left / width) as usize, writer, record, scratch, extremes);
        }
        true
    }

    /// Adds decode rows within the tokens that prefill left, as far as pages allow.
    fn choose_more(
        &mut self,
        most: usize,
        writer: &mut PlanWriter<'_>,
        record: &mut StepRecord,
        scratch: &mut Scratch,
        extremes: &mut Extremes,
    ) {
        self.pick_decode(usize::MAX, &mut scratch.more, &mut scratch.growing);
        let step = self.clock + 1;
        scratch.more.retain(|&slot| self.last_planned(slot) != step);
        scratch.more.sort_unstable_by_key(|&slot| (self.last_planned(slot), slot));
        let mut added = 0;
        for &slot in &scratch.more {
            if added == most {
                break;
            }
            if self.try_reserve(slot) && self.unsent_pages(slot) <= writer.updates_left() {
                self.write_decode(slot, writer, record, extremes);
                scratch.picked.push(slot);
                added += 1;
            }
        }
    }

    fn unsent_pages(&self, slot: u32) -> usize {
        self.slots[slot as usize].held().map_or(0, |held| held.pages.len() - held.sent as usize)
    }

    fn write(
        &mut self,
        mut writer: PlanWriter<'_>,
        record: &mut StepRecord,
        scratch: &mut Scratch,
        mut extremes: Extremes,
    ) -> StepInfo {
        let width = self.config.verify_width();
        for &chunk in &scratch.chunks {
            self.write_chunk(chunk, &mut writer, record, &mut extremes, &mut scratch.armed);
        }
        self.clock += 1;
        self.books.counters.steps += 1;
        self.last_was_prefill = !scratch.chunks.is_empty();
        // The plan field is an int32.
        let step_id = StepId((self.clock & 0x7fff_ffff) as u32);
        record.id = step_id;
        let num_decode_rows = scratch.picked.len() as u32;
        let num_tokens = num_decode_rows * width + writer.num_prefill_tokens() as u32;
        writer.finish(PlanHead {
            step_id: step_id.0,
            num_decode_rows,
            verify_width: width,
            max_pages_bound: extremes.max_pages,
            any_sampled: extremes.any_sampled,
            max_logprobs: extremes.max_logprobs,
            draft: width > 1,
        });
        StepInfo {
            status: StepStatus::Run,
            step_id,
            num_rows: record.rows.len() as u32,
            num_decode_rows,
            num_tokens,
        }
    }
}
