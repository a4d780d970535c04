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
    pub origin: Option<(StepId, u32)>,
    /// Why the request ended.
    pub finish: Option<FinishReason>,
    /// Prompt tokens from the cache.
    pub num_cached: u32,
    /// Bytes of output text to keep.
    pub stop_bytes: Option<u64>,
}

/// Deltas as they come, one behind the other, until they are taken as columns.
#[derive(Debug, Default)]
pub struct Deltas {
    /// Each with the place where its tokens end.
    entries: Vec<(Delta, u32)>,
    tokens: Vec<i32>,
}

impl Deltas {
    /// Appends an entry.
    #[inline]
    pub fn push(&mut self, delta: Delta, tokens: &[i32]) {
        self.tokens.extend_from_slice(tokens);
        self.entries.push((delta, self.tokens.len() as u32));
    }

    /// Forgets all entries and keeps their memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.tokens.clear();
    }
}

impl OutputBatch {
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

    /// Becomes the columns of `deltas`.
    pub fn fill(&mut self, deltas: &Deltas) {
        let entries = &deltas.entries;
        column(&mut self.request_id, entries, |(delta, _)| delta.id.0 as i64);
        column(&mut self.step_id, entries, |(delta, _)| {
            delta.origin.map_or(-1, |(step, _)| step.0 as i32)
        });
        column(&mut self.row, entries, |(delta, _)| delta.origin.map_or(-1, |(_, row)| row as i32));
        column(&mut self.finish, entries, |(delta, _)| delta.finish.map_or(0, FinishReason::code));
        column(&mut self.num_cached, entries, |(delta, _)| delta.num_cached as i32);
        column(&mut self.stop_bytes, entries, |(delta, _)| {
            delta.stop_bytes.map_or(-1, |bytes| bytes as i64)
        });
        self.num_tokens.clear();
        self.tokens_offset.clear();
        let mut start = 0;
        for (_, end) in entries {
            self.tokens_offset.push(start as i32);
            self.num_tokens.push((end - start) as i32);
            start = *end;
        }
        self.tokens.clone_from(&deltas.tokens);
    }
}

fn column<T>(into: &mut Vec<T>, entries: &[(Delta, u32)], of: impl Fn(&(Delta, u32)) -> T) {
    into.clear();
    into.extend(entries.iter().map(of));
}
