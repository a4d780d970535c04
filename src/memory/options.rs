//! The settings that sizes follow from.

use super::error::FitError;
use crate::config::MAX_MTP_STEP;
use crate::state::{CursorRules, StateMode};

/// Most usable pages.
pub(super) const MAX_PAGES: u64 = 1 << 26;
/// Most usable checkpoint rows.
pub(super) const MAX_CHECKPOINTS: u64 = 1 << 24;

/// Settings of an engine that decide about memory. At least one of
/// `memory_budget` and `num_pages` is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryOptions {
    /// Bytes that all pools together may take.
    pub memory_budget: Option<u64>,
    /// Usable pages; without it as many as the budget holds.
    pub num_pages: Option<u64>,
    /// Usable checkpoint rows; without it 4 a request within `checkpoint_share`,
    /// and that share of what is left over when all requests have their pages.
    pub num_checkpoints: Option<u64>,
    /// Percent of the memory that pages and checkpoints compete for.
    pub checkpoint_share: u64,
    /// Requests that may run at once.
    pub max_num_seqs: u64,
    /// Most tokens of a request, prompt and output together.
    pub max_model_len: u64,
    /// Tokens of a page.
    pub page_size: u64,
    /// Tokens of the requests that are counted; without it `max_model_len`.
    pub tokens_per_request: Option<u64>,
    /// Drafts a step.
    pub mtp_step: u64,
    /// Steps that may be planned before the oldest one commits, less one.
    pub overlap_depth: u64,
    /// How the recurrent state is stored.
    pub ssm_state_mode: StateMode,
    /// Records of a replay history; 0 in the other modes.
    pub replay_history_len: u64,
    /// Positions of a drafter's window; 0 without one.
    pub draft_window: u64,
    /// Positions of the block that such a drafter writes behind its window.
    pub draft_block: u64,
    /// Whether the prefix cache is on; without it no checkpoints are kept.
    pub enable_prefix_caching: bool,
}

impl MemoryOptions {
    /// Keys that options must have.
    pub const KEYS: [&'static str; 6] = [
        "max_num_seqs",
        "max_model_len",
        "page_size",
        "mtp_step",
        "overlap_depth",
        "ssm_state_mode",
    ];

    /// Keys that options may have.
    pub const OPTIONAL_KEYS: [&'static str; 9] = [
        "memory_budget",
        "num_pages",
        "num_checkpoints",
        "checkpoint_share",
        "tokens_per_request",
        "replay_history_len",
        "draft_window",
        "draft_block",
        "enable_prefix_caching",
    ];

    /// `checkpoint_share` where none is given, in percent.
    pub const CHECKPOINT_SHARE: u64 = 25;

    /// Rows of one request in a verification.
    #[must_use]
    pub const fn verify_width(&self) -> u64 {
        self.mtp_step + 1
    }

    /// Tokens of the requests that are counted.
    #[must_use]
    pub fn request_tokens(&self) -> u64 {
        self.tokens_per_request.unwrap_or(self.max_model_len)
    }

    /// Page-table entries of one request.
    #[must_use]
    pub const fn max_pages(&self) -> u64 {
        self.max_model_len.div_ceil(self.page_size)
    }

    /// Pages of a request of `tokens` tokens, with the slots reserved ahead of it
    /// by every step in flight and the next one.
    #[must_use]
    pub fn pages_for(&self, tokens: u64) -> u64 {
        let ahead = (self.overlap_depth + 1) * self.verify_width() + self.mtp_step;
        (tokens + ahead).div_ceil(self.page_size).min(self.max_pages())
    }

    /// Refuses settings that do not fit together.
    ///
    /// # Errors
    /// [`FitError::Setting`] naming the first bad option.
    pub fn validate(&self) -> Result<(), FitError> {
        for (key, value, low, high) in [
            ("memory_budget", self.memory_budget.unwrap_or(1), 1, 1 << 60),
            ("num_pages", self.num_pages.unwrap_or(1), 1, MAX_PAGES),
            ("num_checkpoints", self.num_checkpoints.unwrap_or(0), 0, MAX_CHECKPOINTS),
            ("checkpoint_share", self.checkpoint_share, 0, 90),
            ("max_num_seqs", self.max_num_seqs, 1, 1 << 16),
            ("max_model_len", self.max_model_len, 2, 1 << 24),
            ("page_size", self.page_size, 1, 1 << 12),
            ("tokens_per_request", self.request_tokens(), 1, self.max_model_len),
            ("mtp_step", self.mtp_step, 0, u64::from(MAX_MTP_STEP)),
            ("overlap_depth", self.overlap_depth, 0, 1),
            ("replay_history_len", self.replay_history_len, 0, 1 << 16),
            ("draft_window", self.draft_window, 0, 1 << 24),
            ("draft_block", self.draft_block, 0, 1 << 24),
        ] {
            FitError::in_range(key, value, low, high)?;
        }
        if self.draft_block > self.draft_window {
            let reason = format!(
                "{} positions are fewer than draft_block {}: raise it",
                self.draft_window, self.draft_block
            );
            return Err(FitError::setting("draft_window", reason));
        }
        self.validate_checkpoints()?;
        self.validate_mode()
    }

    fn validate_checkpoints(&self) -> Result<(), FitError> {
        let reason = match (self.enable_prefix_caching, self.num_checkpoints) {
            (true, Some(0)) => {
                "a prefix hit needs a checkpoint: give at least 1, or set \
                 enable_prefix_caching=False"
            }
            (false, Some(1..)) => {
                "without prefix caching nothing uses checkpoints: set 0, or set \
                 enable_prefix_caching=True"
            }
            _ => return Ok(()),
        };
        Err(FitError::setting("num_checkpoints", reason))
    }

    fn validate_mode(&self) -> Result<(), FitError> {
        if self.ssm_state_mode != StateMode::Replay && self.replay_history_len != 0 {
            let reason =
                format!("ssm_state_mode '{}' keeps no history: set 0", self.ssm_state_mode.name());
            return Err(FitError::setting("replay_history_len", reason));
        }
        let key = match self.ssm_state_mode {
            StateMode::Replay => "replay_history_len",
            StateMode::Native | StateMode::Compact => "ssm_state_mode",
        };
        let (width, capacity) = (self.verify_width() as u32, self.replay_history_len as u32);
        CursorRules::new(self.ssm_state_mode, width, capacity)
            .map(|_| ())
            .map_err(|error| FitError::setting(key, error.to_string()))
    }
}
