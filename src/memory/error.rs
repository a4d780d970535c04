//! Why nothing fits, and the way out.

/// A shape, an option or a budget that cannot be served. Its text names the
/// setting, the bytes and the way out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// A value that no budget could make right.
    #[error("{key}: {reason}")]
    Setting {
        /// The key of the shape or the option.
        key: &'static str,
        /// What is wrong and what to do.
        reason: String,
    },
    /// The weights alone are larger than the budget.
    #[error(
        "memory_budget: the pool weights takes {weights} bytes and the budget is {budget}, \
         {missing} bytes short of the weights and one request: raise memory_budget, or choose \
         a smaller model or dtype"
    )]
    Weights {
        /// Bytes of the weights.
        weights: u64,
        /// The budget.
        budget: u64,
        /// What the budget lacks for the weights and one request.
        missing: u64,
    },
    /// The weights fit, one request of `max_model_len` tokens beside them does not.
    #[error(
        "memory_budget: {budget} bytes do not hold the weights and one request of max_model_len \
         = {max_model_len} tokens; the pool {pool} does not fit, {missing} bytes are missing: \
         raise memory_budget, or lower max_model_len"
    )]
    OneRequest {
        /// The first pool that does not fit.
        pool: &'static str,
        /// The budget.
        budget: u64,
        /// What the budget lacks.
        missing: u64,
        /// The setting.
        max_model_len: u64,
    },
    /// One request fits, the rows of `max_num_seqs` requests do not.
    #[error(
        "max_num_seqs: rows of {asked} requests do not fit the memory_budget of {budget} bytes, \
         {fits} do; the pool {pool} does not fit, {missing} bytes are missing: set max_num_seqs \
         to at most {fits}, or raise memory_budget"
    )]
    Rows {
        /// The first pool that does not fit.
        pool: &'static str,
        /// The setting.
        asked: u64,
        /// Requests whose rows fit.
        fits: u64,
        /// The budget.
        budget: u64,
        /// What the budget lacks.
        missing: u64,
    },
    /// The rows fit, the checkpoints asked for do not.
    #[error(
        "num_checkpoints: the pool checkpoints does not hold {asked} rows within the \
         memory_budget of {budget} bytes, {missing} bytes are missing: set num_checkpoints to \
         at most {fits}, or raise memory_budget"
    )]
    Checkpoints {
        /// The setting.
        asked: u64,
        /// Checkpoints that fit.
        fits: u64,
        /// The budget.
        budget: u64,
        /// What the budget lacks.
        missing: u64,
    },
    /// The pages asked for do not fit.
    #[error(
        "num_pages: with {asked} pages all pools together exceed the memory_budget of {budget} \
         bytes by {missing} bytes: lower num_pages, num_checkpoints or max_num_seqs, or raise \
         memory_budget"
    )]
    Pages {
        /// The setting.
        asked: u64,
        /// The budget.
        budget: u64,
        /// What the budget lacks.
        missing: u64,
    },
}

impl FitError {
    /// An error about one key.
    pub(super) fn setting(key: &'static str, reason: impl Into<String>) -> Self {
        Self::Setting { key, reason: reason.into() }
    }

    /// Refuses a value outside `low..=high`.
    pub(super) fn in_range(key: &'static str, value: u64, low: u64, high: u64) -> Result<(), Self> {
        if (low..=high).contains(&value) {
            return Ok(());
        }
        Err(Self::setting(key, format!("{value} is outside {low}..={high}")))
    }
}
