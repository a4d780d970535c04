//! Why a request is refused. `Display` is the text that the user reads.

/// A refusal, decided before a request takes anything.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RejectReason {
    /// No prompt tokens.
    #[error("prompt: it has no tokens; give at least one")]
    EmptyPrompt,
    /// No room for a single output token.
    #[error(
        "prompt: {len} tokens leave no room for output within max_model_len {max}; \
         shorten it to at most {} tokens or raise max_model_len",
        max - 1
    )]
    PromptTooLong {
        /// Prompt tokens.
        len: usize,
        /// The context limit.
        max: u32,
    },
    /// A prompt token that the model does not have.
    #[error(
        "prompt: token {token} at index {index} is outside the vocabulary 0..{vocab}; \
         encode the prompt with this model's tokenizer"
    )]
    TokenOutOfVocabulary {
        /// Place in the prompt.
        index: usize,
        /// The token.
        token: i64,
        /// Size of the vocabulary.
        vocab: u32,
    },
    /// Nothing would be emitted.
    #[error("max_tokens: {0} emits nothing; give at least 1")]
    MaxTokens(i64),
    /// `min_tokens` cannot be reached, or is negative.
    #[error(
        "min_tokens: {min} must lie between 0 and max_tokens {max}; lower it or raise max_tokens"
    )]
    MinTokens {
        /// As given.
        min: i64,
        /// `max_tokens`.
        max: i64,
    },
    /// `min_tokens` cannot be reached within the context.
    #[error(
        "min_tokens: {min} tokens after a prompt of {prompt} exceed max_model_len {max}; \
         lower it or shorten the prompt"
    )]
    MinTokensContext {
        /// As given.
        min: i64,
        /// Prompt tokens.
        prompt: usize,
        /// The context limit.
        max: u32,
    },
    /// Not a finite number at or above 0.
    #[error("temperature: {0} must be a finite number of at least 0 (0 is greedy) and at most 1e6")]
    Temperature(f64),
    /// Outside (0, 1].
    #[error("top_p: {0} must be above 0 and at most 1 (1 keeps every token)")]
    TopP(f64),
    /// Below -1.
    #[error("top_k: {0} must be at least 1, or 0 or -1 to keep every token")]
    TopK(i64),
    /// Outside 0..2^31.
    #[error("sample_index: {0} must lie in 0..2147483648")]
    SampleIndex(i64),
    /// More than the engine returns.
    #[error("logprobs: {given} must lie between 0 and {max}, or be absent")]
    Logprobs {
        /// As given.
        given: i64,
        /// The most.
        max: u32,
    },
    /// A stop token that the model does not have.
    #[error("stop_token_ids: token {token} is outside the vocabulary 0..{vocab}; remove it")]
    StopTokenOutOfVocabulary {
        /// The token.
        token: i64,
        /// Size of the vocabulary.
        vocab: u32,
    },
    /// Too many stop strings.
    #[error(
        "stop: {given} strings are more than {max}; give fewer, or name single tokens in stop_token_ids"
    )]
    TooManyStops {
        /// As given.
        given: usize,
        /// The most.
        max: usize,
    },
    /// It would match everywhere.
    #[error("stop: string {index} is empty; remove it")]
    EmptyStop {
        /// Place in the list.
        index: usize,
    },
    /// A stop string longer than the tail that is kept.
    #[error("stop: string {index} has {len} bytes, more than {max}; shorten it")]
    StopTooLong {
        /// Place in the list.
        index: usize,
        /// Its length.
        len: usize,
        /// The most.
        max: usize,
    },
    /// Stop strings are found on token bytes.
    #[error(
        "stop: this engine has no tokenizer, so stop strings cannot be found; use stop_token_ids"
    )]
    StopWithoutVocabulary,
    /// Outside int32.
    #[error("priority: {0} must lie between -2147483648 and 2147483647")]
    Priority(i64),
    /// The salt would bloat the key.
    #[error("salt: {len} bytes are more than {max}; use a shorter one")]
    SaltTooLong {
        /// Its length.
        len: usize,
        /// The most.
        max: usize,
    },
    /// It could never run.
    #[error(
        "prompt and max_tokens: {tokens} tokens need {needed} pages of KV, but only {total} exist; \
         shorten the prompt, lower max_tokens or raise memory_budget"
    )]
    NeedsMorePages {
        /// Tokens at most.
        tokens: u32,
        /// Pages for them.
        needed: u32,
        /// Pages of the pool.
        total: u32,
    },
    /// The queue is at its limit.
    #[error("the queue is full with {0} waiting requests (max_queue); try again later")]
    QueueFull(u32),
}

impl RejectReason {
    /// A short code for programs, stable across versions.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::EmptyPrompt => "empty_prompt",
            Self::PromptTooLong { .. } => "prompt_too_long",
            Self::TokenOutOfVocabulary { .. } => "token_out_of_vocabulary",
            Self::MaxTokens(_) => "max_tokens",
            Self::MinTokens { .. } | Self::MinTokensContext { .. } => "min_tokens",
            Self::Temperature(_) => "temperature",
            Self::TopP(_) => "top_p",
            Self::TopK(_) => "top_k",
            Self::SampleIndex(_) => "sample_index",
            Self::Logprobs { .. } => "logprobs",
            Self::StopTokenOutOfVocabulary { .. } => "stop_token_ids",
            Self::TooManyStops { .. }
            | Self::EmptyStop { .. }
            | Self::StopTooLong { .. }
            | Self::StopWithoutVocabulary => "stop",
            Self::Priority(_) => "priority",
            Self::SaltTooLong { .. } => "salt",
            Self::NeedsMorePages { .. } => "needs_more_pages",
            Self::QueueFull(_) => "queue_full",
        }
    }
}
