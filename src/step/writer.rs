//! Writes a plan array.
//!
//! Every write is bounds-checked by its field's slice. Row fields are zeroed
//! past the last row, so that padding is HOLD; entries of the other fields past
//! their count are left as they were.

use super::dims::{Dims, INLINE_STOP_IDS};
use super::plan_fields::PlanColumns;
use crate::error::ArrayError;
use crate::ids::{CheckpointId, PageId, ReqIdx, StateIdx, Token};

/// One row of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanRow {
    /// Permanent row of the device buffers.
    pub req_idx: ReqIdx,
    /// Row of the recurrent-state pool.
    pub state_idx: StateIdx,
    /// One of the `ROW_*` kinds.
    pub kind: i32,
    /// Decode: upper bound; prefill: exact.
    pub query_len: u32,
    /// First position.
    pub start: u32,
    /// First token in `prefill_tokens`.
    pub token_offset: u32,
    /// Valid page-table entries.
    pub num_pages: u32,
    /// Checkpoint row of the request's end.
    pub end_checkpoint: CheckpointId,
}

/// The device's per-request values at admission or resumption.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Start<'a> {
    /// Permanent row of the device buffers.
    pub req_idx: ReqIdx,
    /// Row of the recurrent-state pool.
    pub state_idx: StateIdx,
    /// Tokens taken from the prefix cache.
    pub seq_len: u32,
    /// Output position of the next token.
    pub output_len: u32,
    /// Most tokens still to emit.
    pub tokens_left: u32,
    /// Stops are ignored below this output position.
    pub min_tokens: u32,
    /// Seed of the request's noise.
    pub seed: u64,
    /// Index among its siblings.
    pub sample_index: u32,
    /// 0 is greedy.
    pub temperature: f32,
    /// Nucleus mass.
    pub top_p: f32,
    /// 0 off.
    pub top_k: u32,
    /// -1 none.
    pub logprobs: i32,
    /// All stop ids.
    pub stop_ids: &'a [Token],
}

/// A plan array being filled.
#[derive(Debug)]
pub struct PlanWriter<'a> {
    columns: PlanColumns<'a>,
    vocab_words: usize,
    rows: usize,
    prefill_tokens: usize,
    starts: usize,
    restores: usize,
    copies: usize,
    updates: usize,
    armed: usize,
    bitmaps: usize,
}

impl<'a> PlanWriter<'a> {
    /// Takes an array of [`plan_len`](super::plan_len) words.
    ///
    /// # Errors
    /// [`ArrayError`] when the length differs.
    pub fn new(array: &'a mut [i32], dims: &Dims) -> Result<Self, ArrayError> {
        Ok(Self {
            columns: PlanColumns::split(array, dims)?,
            vocab_words: dims.vocab_words,
            rows: 0,
            prefill_tokens: 0,
            starts: 0,
            restores: 0,
            copies: 0,
            updates: 0,
            armed: 0,
            bitmaps: 0,
        })
    }

    /// Appends a row and gives its index.
    #[inline]
    pub fn push_row(&mut self, row: PlanRow) -> usize {
        let at = self.rows;
        let to = &mut self.columns;
        to.row_req_idx[at] = row.req_idx.as_field();
        to.row_state_idx[at] = row.state_idx.as_field();
        to.row_kind[at] = row.kind;
        to.row_query_len[at] = row.query_len as i32;
        to.row_start[at] = row.start as i32;
        to.row_token_offset[at] = row.token_offset as i32;
        to.row_num_pages[at] = row.num_pages as i32;
        to.row_end_checkpoint[at] = row.end_checkpoint.as_field();
        self.rows += 1;
        at
    }

    /// Appends a chunk's tokens and gives their offset.
    pub fn push_tokens(&mut self, tokens: &[Token]) -> u32 {
        let offset = self.prefill_tokens;
        let to = &mut self.columns.prefill_tokens[offset..offset + tokens.len()];
        for (to, &token) in to.iter_mut().zip(tokens) {
            *to = token as i32;
        }
        self.prefill_tokens += tokens.len();
        offset as u32
    }

    /// Appends a start. More than 8 stop ids take one of the step's bitmaps.
    pub fn push_start(&mut self, start: &Start<'_>) {
        let at = self.starts;
        let bitmap = self.push_bitmap(start.stop_ids);
        let inline = if bitmap < 0 { start.stop_ids } else { &[] };
        let to = &mut self.columns;
        to.start_req_idx[at] = start.req_idx.as_field();
        to.start_state_idx[at] = start.state_idx.as_field();
        to.start_seq_len[at] = start.seq_len as i32;
        to.start_output_len[at] = start.output_len as i32;
        to.start_tokens_left[at] = start.tokens_left as i32;
        to.start_min_tokens[at] = start.min_tokens as i32;
        to.start_seed_lo[at] = start.seed as i32;
        to.start_seed_hi[at] = (start.seed >> 32) as i32;
        to.start_sample_index[at] = start.sample_index as i32;
        to.start_temperature[at] = start.temperature.to_bits() as i32;
        to.start_top_p[at] = start.top_p.to_bits() as i32;
        to.start_top_k[at] = start.top_k as i32;
        to.start_logprobs[at] = start.logprobs;
        to.start_num_stop_ids[at] = inline.len() as i32;
        to.start_stop_bitmap[at] = bitmap;
        let ids = &mut to.start_stop_ids[at * INLINE_STOP_IDS..(at + 1) * INLINE_STOP_IDS];
        ids.fill(0);
        for (to, &token) in ids.iter_mut().zip(inline) {
            *to = token as i32;
        }
        self.starts += 1;
    }

    fn push_bitmap(&mut self, stop_ids: &[Token]) -> i32 {
        if stop_ids.len() <= INLINE_STOP_IDS {
            return -1;
        }
        let at = self.bitmaps;
        let words = &mut self.columns.stop_bitmaps[at * self.vocab_words..][..self.vocab_words];
        words.fill(0);
        for &token in stop_ids {
            words[token as usize / 32] |= (1_u32 << (token % 32)) as i32;
        }
        self.bitmaps += 1;
        at as i32
    }

    /// Appends a restore of a checkpoint.
    pub fn push_restore(&mut self, req_idx: ReqIdx, state_idx: StateIdx, from: CheckpointId) {
        let at = self.restores;
        self.columns.restore_req_idx[at] = req_idx.as_field();
        self.columns.restore_state_idx[at] = state_idx.as_field();
        self.columns.restore_checkpoint[at] = from.as_field();
        self.restores += 1;
    }

    /// Appends a copy of a whole page.
    pub fn push_copy(&mut self, src: PageId, dst: PageId) {
        let at = self.copies;
        self.columns.copy_src_page[at] = src.as_field();
        self.columns.copy_dst_page[at] = dst.as_field();
        self.copies += 1;
    }

    /// Page-table updates that still fit.
    #[must_use]
    pub fn updates_left(&self) -> usize {
        self.columns.update_page.len() - self.updates
    }

    /// Appends a page-table update.
    pub fn push_update(&mut self, req_idx: ReqIdx, index: u32, page: PageId) {
        let at = self.updates;
        self.columns.update_req_idx[at] = req_idx.as_field();
        self.columns.update_index[at] = index as i32;
        self.columns.update_page[at] = page.as_field();
        self.updates += 1;
    }

    /// Armed boundaries that still fit.
    #[must_use]
    pub fn armed_left(&self) -> usize {
        self.columns.armed_row.len() - self.armed
    }

    /// Appends an armed boundary and gives its entry.
    pub fn push_armed(&mut self, row: usize, boundary: u32, checkpoint: CheckpointId) -> usize {
        let at = self.armed;
        self.columns.armed_row[at] = row as i32;
        self.columns.armed_boundary[at] = boundary as i32;
        self.columns.armed_checkpoint[at] = checkpoint.as_field();
        self.armed += 1;
        at
    }

    /// Stop bitmaps that still fit.
    #[must_use]
    pub fn bitmaps_left(&self) -> usize {
        super::dims::MAX_STOP_BITMAPS - self.bitmaps
    }

    /// Rows written so far.
    #[must_use]
    pub fn num_rows(&self) -> usize {
        self.rows
    }

    /// Prefill tokens written so far.
    #[must_use]
    pub fn num_prefill_tokens(&self) -> usize {
        self.prefill_tokens
    }

    /// Writes the counts and clears the rows past the last one.
    pub fn finish(self, head: PlanHead) {
        let rows = self.rows;
        let to = self.columns;
        to.step_id[0] = head.step_id as i32;
        to.num_rows[0] = rows as i32;
        to.num_decode_rows[0] = head.num_decode_rows as i32;
        to.num_prefill_tokens[0] = self.prefill_tokens as i32;
        to.verify_width[0] = head.verify_width as i32;
        to.max_pages_bound[0] = head.max_pages_bound as i32;
        to.num_starts[0] = self.starts as i32;
        to.num_restores[0] = self.restores as i32;
        to.num_page_copies[0] = self.copies as i32;
        to.num_page_updates[0] = self.updates as i32;
        to.num_armed[0] = self.armed as i32;
        to.num_stop_bitmaps[0] = self.bitmaps as i32;
        to.any_sampled[0] = i32::from(head.any_sampled);
        to.max_logprobs[0] = head.max_logprobs;
        to.draft[0] = i32::from(head.draft);
        for column in [
            to.row_req_idx,
            to.row_state_idx,
            to.row_kind,
            to.row_query_len,
            to.row_start,
            to.row_token_offset,
            to.row_num_pages,
            to.row_end_checkpoint,
        ] {
            column[rows..].fill(0);
        }
    }
}

/// Scalars of a plan that do not follow from what was pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanHead {
    /// Number of the step.
    pub step_id: u32,
    /// Decode rows.
    pub num_decode_rows: u32,
    /// Width of the decode rectangle.
    pub verify_width: u32,
    /// Most page-table entries of any decode row.
    pub max_pages_bound: u32,
    /// Whether any row samples.
    pub any_sampled: bool,
    /// Most logprobs asked for.
    pub max_logprobs: i32,
    /// Whether the drafter runs.
    pub draft: bool,
}
