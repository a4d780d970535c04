//! The sizes that fix the layout of the plan and result arrays.

use crate::config::Config;

/// Stop ids that travel inline with a start; more of them travel as a bitmap.
pub const INLINE_STOP_IDS: usize = 8;

/// Stop bitmaps that one step can carry.
pub const MAX_STOP_BITMAPS: usize = 2;

/// Capacities from which every field's length follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dims {
    /// Rows of a step: `max_num_seqs`.
    pub rows: usize,
    /// Tokens of a step: `max_num_batched_tokens`.
    pub tokens: usize,
    /// Rows of one request in the decode rectangle: `mtp_step + 1`.
    pub verify_width: usize,
    /// Drafts of one request.
    pub mtp_step: usize,
    /// 32-bit words of one stop bitmap.
    pub vocab_words: usize,
    /// Page-table updates of one step.
    pub page_updates: usize,
    /// Armed boundaries of one step.
    pub armed: usize,
}

impl Dims {
    /// The sizes that a valid config asks for.
    ///
    /// `page_updates` holds the growth of every row and, beside it, the whole
    /// table of one request at the context limit, so that an admission can
    /// always be written. `armed` holds the three boundaries of a prompt for
    /// every row, its boundary while decoding, and those of the interval.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let rows = config.max_num_seqs as usize;
        let tokens = config.max_num_batched_tokens as usize;
        let page = config.page_size as usize;
        let whole_table = (config.max_model_len as usize).div_ceil(page);
        let growth = (config.reserve() as usize).div_ceil(page) + 1;
        let interval = config.checkpoint_interval as usize;
        let in_interval = tokens.checked_div(interval).unwrap_or(0);
        Self {
            rows,
            tokens,
            verify_width: config.verify_width() as usize,
            mtp_step: config.mtp_step as usize,
            vocab_words: (config.vocab_size as usize).div_ceil(32),
            page_updates: rows * growth + whole_table + tokens.div_ceil(page),
            armed: 5 * rows + in_interval,
        }
    }
}
