//! The result's field table.

use super::table::field_table;

/// `finish` of a row that goes on.
pub const FINISH_NONE: i32 = 0;
/// `finish` of a row that ended at a stop token.
pub const FINISH_STOP: i32 = 1;
/// `finish` of a row that ended at its token or context limit.
pub const FINISH_LENGTH: i32 = 2;

field_table! {
    "result", dims,
    /// The result's fields in order, for the device side.
    fields result_fields,
    /// Length of a result array in int32 words.
    len result_len,
    /// A result array split into its fields, to read.
    view ResultView,
    /// A result array split into its fields, to write.
    columns ResultColumns,
    {
        /// Number of the step.
        step_id[1],
        /// Rows of the step, as planned.
        num_rows[1],
        /// Tokens emitted, base token included; 0 for HOLD and inner chunks.
        num_accepted[dims.rows],
        /// Target rows run: decode `0..=query_len`, prefill exactly `query_len`.
        rows_run[dims.rows],
        /// Replay rows folded; 0 in native mode.
        folded[dims.rows],
        /// 0 none, 1 stop token, 2 length.
        finish[dims.rows],
        /// 1 when a logit or state of the row was not finite.
        non_finite[dims.rows],
        /// 1 when the end checkpoint was taken.
        end_fired[dims.rows],
        /// For each armed entry of the plan: 1 when its checkpoint was taken.
        fired[dims.armed],
        /// float32 bits of the drafts' scores.
        draft_scores[(dims.rows * dims.mtp_step).max(1)],
        /// Emitted tokens, `verify_width` places a row.
        tokens[dims.rows * dims.verify_width],
    }
}
