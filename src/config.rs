//! Settings of the core, validated once.

use crate::error::ConfigError;

/// The largest `mtp_step`.
pub const MAX_MTP_STEP: u32 = 7;

/// Every number that the core's behaviour depends on. Counts of pools are
/// usable entries: the null entry 0 is beside them.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Requests that may run at once.
    pub max_num_seqs: u32,
    /// Tokens of one step: decode rows times `verify_width`, plus prefill tokens.
    pub max_num_batched_tokens: u32,
    /// Tokens of a page.
    pub page_size: u32,
    /// Usable pages.
    pub num_pages: u32,
    /// Usable recurrent-state rows.
    pub num_states: u32,
    /// Usable checkpoint rows.
    pub num_checkpoints: u32,
    /// Draft-window rings; 0 while no drafter needs one.
    pub num_rings: u32,
    /// Positions of a draft-window ring; 0 without rings.
    pub window: u32,
    /// Most tokens of a request, prompt and output together.
    pub max_model_len: u32,
    /// Token ids are below this.
    pub vocab_size: u32,
    /// Drafts a step.
    pub mtp_step: u32,
    /// Steps that may be planned before the oldest one commits, less one.
    pub overlap_depth: u32,
    /// Whether prompts are looked up in, and outputs added to, the prefix cache.
    pub enable_prefix_caching: bool,
    /// Tokens between the coarse checkpoints of a long sequence; 0 none.
    pub checkpoint_interval: u32,
    /// Requests that may wait.
    pub max_queue: u32,
    /// Bytes of one page, to weigh evictions.
    pub page_bytes: u64,
    /// Bytes of one checkpoint, to weigh evictions.
    pub checkpoint_bytes: u64,
}

impl Config {
    /// Rows of one request in the decode rectangle.
    #[must_use]
    pub const fn verify_width(&self) -> u32 {
        self.mtp_step + 1
    }

    /// Slots reserved past the last committed token of a decode row: every
    /// step in flight and the next one may write `verify_width` of them, and
    /// the drafter's scratch reaches `mtp_step` further.
    #[must_use]
    pub const fn reserve(&self) -> u32 {
        (self.overlap_depth + 1) * self.verify_width() + self.mtp_step
    }

    /// Pages that hold `tokens` slots.
    #[must_use]
    pub const fn pages_for(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.page_size)
    }

    /// Refuses settings that do not fit together.
    ///
    /// # Errors
    /// [`ConfigError`] naming the first bad setting and the way out.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let err = |key, reason: String| Err(ConfigError::new(key, reason));
        in_range("max_num_seqs", self.max_num_seqs, 1, 1 << 16)?;
        in_range("max_num_batched_tokens", self.max_num_batched_tokens, 1, 1 << 22)?;
        in_range("page_size", self.page_size, 1, 1 << 12)?;
        in_range("num_pages", self.num_pages, 1, 1 << 26)?;
        in_range("num_states", self.num_states, 1, 1 << 20)?;
        in_range("num_checkpoints", self.num_checkpoints, 0, 1 << 24)?;
        in_range("max_model_len", self.max_model_len, 2, 1 << 24)?;
        in_range("vocab_size", self.vocab_size, 1, 1 << 24)?;
        in_range("mtp_step", self.mtp_step, 0, MAX_MTP_STEP)?;
        in_range("overlap_depth", self.overlap_depth, 0, 1)?;
        in_range("max_queue", self.max_queue, 1, 1 << 24)?;
        if self.max_num_batched_tokens < self.verify_width() {
            return err(
                "max_num_batched_tokens",
                format!(
                    "{} tokens cannot hold one decode row of mtp_step + 1 = {} tokens: \
                     raise it or lower mtp_step",
                    self.max_num_batched_tokens,
                    self.verify_width()
                ),
            );
        }
        if self.enable_prefix_caching && self.num_checkpoints == 0 {
            return err(
                "num_checkpoints",
                "a prefix hit needs a checkpoint: give at least 1, or set \
                 enable_prefix_caching=False"
                    .into(),
            );
        }
        if !self.checkpoint_interval.is_multiple_of(self.page_size) {
            return err(
                "checkpoint_interval",
                format!(
                    "{} is not a multiple of page_size {}: use one, or 0 for none",
                    self.checkpoint_interval, self.page_size
                ),
            );
        }
        if self.num_rings != 0 || self.window != 0 {
            return err(
                "num_rings",
                "draft-window rings need a windowed drafter, which this version lacks: \
                 set num_rings and window to 0"
                    .into(),
            );
        }
        Ok(())
    }
}

fn in_range(key: &'static str, value: u32, low: u32, high: u32) -> Result<(), ConfigError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::new(key, format!("{value} is outside {low}..={high}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn small() -> Config {
        Config {
            max_num_seqs: 4,
            max_num_batched_tokens: 16,
            page_size: 4,
            num_pages: 32,
            num_states: 4,
            num_checkpoints: 8,
            num_rings: 0,
            window: 0,
            max_model_len: 64,
            vocab_size: 8,
            mtp_step: 3,
            overlap_depth: 1,
            enable_prefix_caching: true,
            checkpoint_interval: 0,
            max_queue: 16,
            page_bytes: 1024,
            checkpoint_bytes: 4096,
        }
    }

    type Spoil = fn(&mut Config);

    #[test]
    fn each_refusal_names_its_setting() {
        assert_eq!(small().validate(), Ok(()));
        let cases: [(&str, Spoil); 9] = [
            ("max_num_seqs", |c| c.max_num_seqs = 0),
            ("max_num_batched_tokens", |c| c.max_num_batched_tokens = 3),
            ("page_size", |c| c.page_size = 0),
            ("num_checkpoints", |c| c.num_checkpoints = 0),
            ("checkpoint_interval", |c| c.checkpoint_interval = 6),
            ("num_rings", |c| c.num_rings = 2),
            ("mtp_step", |c| c.mtp_step = 8),
            ("overlap_depth", |c| c.overlap_depth = 2),
            ("max_model_len", |c| c.max_model_len = 1),
        ];
        for (key, spoil) in cases {
            let mut config = small();
            spoil(&mut config);
            assert_eq!(config.validate().unwrap_err().key, key);
        }
    }

    #[test]
    fn a_budget_below_the_whole_rectangle_is_legal() {
        let mut config = small();
        config.max_num_batched_tokens = 4;
        assert_eq!(config.validate(), Ok(()));
    }
}
