//! Flat deltas: what a commit adds to each request, in columns.

use crate::ids::{RequestId, StepId};
use crate::request::FinishReason;

/// Deltas since the last take, one entry a row that emitted or ended. The
/// columns have one length; `tokens` holds the entries' tokens back to back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputBatch {
    /// The request.
    pub request_id: Vec<i64>,
    /// The step that emitted; -1 for an end outside a step.
    pub step_id: Vec<i32>,
    /// The row of that step; -1 for an end outside a step.
    pub row: Vec<i32>,
    /// Tokens of the entry.
    pub num_tokens: Vec<i32>,
    /// 0, or the code of a [`FinishReason`].
    pub finish: Vec<i32>,
    /// Prompt tokens that came from the cache at first admission.
    pub num_cached: Vec<i32>,
    /// Bytes of output text to keep before a stop string; -1 otherwise.
    pub stop_bytes: Vec<i64>,
    /// Where the entry's tokens begin.
    pub tokens_offset: Vec<i32>,
    /// All tokens.
    pub tokens: Vec<i32>,
}

/// One entry but for its tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delta {
    /// The request.
    pub id: RequestId,
    /// The step and its row, if a step emitted it.
    pub origin: Option<(StepId, usize)>,
    /// Why the request ended.
    pub finish: Option<FinishReason>,
    /// Prompt tokens from the cache.
    pub num_cached: u32,
    /// Bytes of output text to keep.
    pub stop_bytes: Option<u64>,
}

impl OutputBatch {
    /// Appends an entry.
    pub fn push(&mut self, delta: Delta, tokens: &[i32]) {
        self.request_id.push(delta.id.0 as i64);
        self.step_id.push(delta.origin.map_or(-1, |(step, _)| step.0 as i32));
        self.row.push(delta.origin.map_or(-1, |(_, row)| row as i32));
        self.num_tokens.push(tokens.len() as i32);
        self.finish.push(delta.finish.map_or(0, FinishReason::code));
        self.num_cached.push(delta.num_cached as i32);
        self.stop_bytes.push(delta.stop_bytes.map_or(-1, |bytes| bytes as i64));
        self.tokens_offset.push(self.tokens.len() as i32);
        self.tokens.extend_from_slice(tokens);
    }

    /// Entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.request_id.len()
    }

    /// Whether nothing happened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.request_id.is_empty()
    }

    /// Empties the columns and keeps their memory.
    pub fn clear(&mut self) {
        self.request_id.clear();
        self.step_id.clear();
        self.row.clear();
        self.num_tokens.clear();
        self.finish.clear();
        self.num_cached.clear();
        self.stop_bytes.clear();
        self.tokens_offset.clear();
        self.tokens.clear();
    }
}
