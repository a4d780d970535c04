//! The plan's field table.

use super::dims::{INLINE_STOP_IDS, MAX_STOP_BITMAPS};
use super::table::field_table;

/// `row_kind` of a decode row.
pub const ROW_DECODE: i32 = 0;
/// `row_kind` of a prefill chunk that is not the prompt's last.
pub const ROW_PREFILL: i32 = 1;
/// `row_kind` of a prompt's last chunk, which samples one token.
pub const ROW_PREFILL_FINAL: i32 = 2;

field_table! {
    "plan", dims,
    /// The plan's fields in order, for the device side.
    fields plan_fields,
    /// Length of a plan array in int32 words.
    len plan_len,
    /// A plan array split into its fields, to read.
    view PlanView,
    /// A plan array split into its fields, to write.
    columns PlanColumns,
    {
        /// Number of the step; steps run and commit in this order.
        step_id[1],
        /// Rows of the step, one a request.
        num_rows[1],
        /// Decode rows; they come first.
        num_decode_rows[1],
        /// Tokens of all prefill chunks.
        num_prefill_tokens[1],
        /// Width of the decode rectangle.
        verify_width[1],
        /// Most page-table entries of any decode row of this step.
        max_pages_bound[1],
        /// Requests admitted or resumed in this step.
        num_starts[1],
        /// Starts that restore a checkpoint.
        num_restores[1],
        /// Whole pages to copy.
        num_page_copies[1],
        /// Page-table entries to write.
        num_page_updates[1],
        /// Armed boundaries.
        num_armed[1],
        /// Stop bitmaps used.
        num_stop_bitmaps[1],
        /// 1 when any row of the step has temperature above 0.
        any_sampled[1],
        /// Most logprobs that a row of this step asks for; -1 none.
        max_logprobs[1],
        /// 1 when the drafter runs.
        draft[1],
        /// Permanent row of the device buffers.
        row_req_idx[dims.rows],
        /// Row of the recurrent-state pool.
        row_state_idx[dims.rows],
        /// 0 decode, 1 prefill, 2 prefill and sample.
        row_kind[dims.rows],
        /// Decode: upper bound with the base token; prefill: exact.
        row_query_len[dims.rows],
        /// Prefill: exact first position; decode: committed lower bound.
        row_start[dims.rows],
        /// Prefill: first token in `prefill_tokens`.
        row_token_offset[dims.rows],
        /// Valid page-table entries.
        row_num_pages[dims.rows],
        /// Checkpoint row to fill if the request ends in this step; 0 none.
        row_end_checkpoint[dims.rows],
        /// The prefill chunks, back to back.
        prefill_tokens[dims.tokens],
        /// Permanent row of the device buffers.
        start_req_idx[dims.rows],
        /// State row, zeroed unless a restore names it.
        start_state_idx[dims.rows],
        /// Tokens taken from the prefix cache.
        start_seq_len[dims.rows],
        /// Output position of the first token to sample.
        start_output_len[dims.rows],
        /// Most tokens still to emit.
        start_tokens_left[dims.rows],
        /// Stops are ignored below this output position.
        start_min_tokens[dims.rows],
        /// Low word of the seed.
        start_seed_lo[dims.rows],
        /// High word of the seed.
        start_seed_hi[dims.rows],
        /// Index of the sample among the request's siblings.
        start_sample_index[dims.rows],
        /// float32 bits; 0 is greedy.
        start_temperature[dims.rows],
        /// float32 bits.
        start_top_p[dims.rows],
        /// 0 off.
        start_top_k[dims.rows],
        /// -1 none.
        start_logprobs[dims.rows],
        /// Inline stop ids used.
        start_num_stop_ids[dims.rows],
        /// Index of the stop bitmap; -1 none.
        start_stop_bitmap[dims.rows],
        /// Inline stop ids, 8 a start.
        start_stop_ids[dims.rows * INLINE_STOP_IDS],
        /// Permanent row of the device buffers.
        restore_req_idx[dims.rows],
        /// State row to fill.
        restore_state_idx[dims.rows],
        /// Checkpoint row to read.
        restore_checkpoint[dims.rows],
        /// Page to read.
        copy_src_page[dims.rows],
        /// Page to write.
        copy_dst_page[dims.rows],
        /// Row of the page table.
        update_req_idx[dims.page_updates],
        /// Entry of that row.
        update_index[dims.page_updates],
        /// Its new page.
        update_page[dims.page_updates],
        /// Row of this step.
        armed_row[dims.armed],
        /// Token count at which the checkpoint is taken.
        armed_boundary[dims.armed],
        /// Checkpoint row to fill.
        armed_checkpoint[dims.armed],
        /// Bit t of word t/32 marks token t as a stop.
        stop_bitmaps[MAX_STOP_BITMAPS * dims.vocab_words],
    }
}
