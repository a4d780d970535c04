//! A request as a caller states it, before any check.

/// How tokens are chosen. Raw values; [`Terms`](super::Terms) checks them.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingSpec {
    /// 0 is greedy.
    pub temperature: f64,
    /// Most probable tokens kept; 0 or -1 keeps all.
    pub top_k: i64,
    /// Nucleus mass kept, above 0 and at most 1.
    pub top_p: f64,
    /// Seed of the request's noise.
    pub seed: u64,
    /// Index among the samples of one prompt.
    pub sample_index: i64,
    /// Logprobs a token; -1 none.
    pub logprobs: i64,
}

impl SamplingSpec {
    /// The most probable token each time.
    #[must_use]
    pub fn greedy() -> Self {
        Self { temperature: 0.0, top_k: 0, top_p: 1.0, seed: 0, sample_index: 0, logprobs: -1 }
    }
}

/// A request. Raw values; [`Terms`](super::Terms) checks them.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestSpec {
    /// Token ids.
    pub prompt: Vec<i32>,
    /// Most tokens to emit.
    pub max_tokens: i64,
    /// Stops are ignored below this output position.
    pub min_tokens: i64,
    /// How tokens are chosen.
    pub sampling: SamplingSpec,
    /// Tokens that end the output.
    pub stop_token_ids: Vec<i64>,
    /// Byte strings that end the output when its text contains one.
    pub stop: Vec<Vec<u8>>,
    /// Lower runs first.
    pub priority: i64,
    /// Separates tenants in the prefix cache.
    pub salt: Vec<u8>,
    /// Whether cached tokens may be used.
    pub read_cache: bool,
}

impl RequestSpec {
    /// A greedy request without stops.
    #[must_use]
    pub fn greedy(prompt: Vec<i32>, max_tokens: i64) -> Self {
        Self {
            prompt,
            max_tokens,
            min_tokens: 0,
            sampling: SamplingSpec::greedy(),
            stop_token_ids: Vec::new(),
            stop: Vec::new(),
            priority: 0,
            salt: Vec::new(),
            read_cache: true,
        }
    }
}
