//! A step between its plan and its commit.

use crate::ids::StepId;
use crate::pages::PageRef;
use crate::prefix::{CheckpointRef, PinnedCheckpoint};

/// One planned row.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowRecord {
    pub(super) slot: u32,
    /// One of the `ROW_*` kinds.
    pub(super) kind: i32,
    pub(super) query_len: u32,
    /// Prefill: first position.
    pub(super) start: u32,
    pub(super) has_end: bool,
    /// First armed entry of the row, and how many.
    pub(super) armed_at: u32,
    pub(super) num_armed: u32,
}

impl RowRecord {
    /// The row's entries among the armed ones of its step.
    pub(super) fn armed(&self) -> std::ops::Range<usize> {
        let first = self.armed_at as usize;
        first..first + self.num_armed as usize
    }
}

/// One armed boundary. A prefill chunk's row is owned here, for it is armed in
/// this step only; a decode row's stays with the slot, which arms it until it fires.
#[derive(Debug)]
pub(super) struct ArmedRecord {
    pub(super) boundary: u32,
    pub(super) checkpoint: Option<CheckpointRef>,
}

/// All that a step in flight holds, and what its result is compared with.
#[derive(Debug, Default)]
pub(super) struct StepRecord {
    pub(super) id: StepId,
    pub(super) rows: Vec<RowRecord>,
    pub(super) armed: Vec<ArmedRecord>,
    /// Checkpoints that the step restores.
    pub(super) pins: Vec<PinnedCheckpoint>,
    /// Pages that the step copies from.
    pub(super) sources: Vec<PageRef>,
}
