//! The states of a request, moved by value: a transition consumes the state
//! before it, so a request is in one of them only.
//!
//! ```text
//! Queued ── admit ──> Prefilling ── last chunk planned ──> Decoding
//!    ^                    │                                   │
//!    └────── preempt ─────┴───────────────┬───────────────────┘
//!                                      finish, abort
//!                                         v
//!                      Draining (while a step in flight names its slot)
//!                                         v
//!                                     slot empty
//! ```
//! The terminal is written in the [`Ledger`](super::Ledger) when the request
//! ends; what it held stays in `Draining` until no step in flight can touch it.

use super::check::Terms;
use super::queue::Rank;
use super::stop::StopMatcher;
use crate::ids::{RequestId, Token};

/// Why a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// A stop token.
    StopToken,
    /// Its token or context limit.
    Length,
    /// The caller asked for it.
    Abort,
    /// A non-finite value in one of its rows.
    Error,
    /// A stop string.
    StopString,
}

impl FinishReason {
    /// The code in an output batch.
    #[must_use]
    pub const fn code(self) -> i32 {
        match self {
            Self::StopToken => 1,
            Self::Length => 2,
            Self::Abort => 3,
            Self::Error => 4,
            Self::StopString => 5,
        }
    }
}

/// What stays the same through all states: the terms, and the known tokens.
#[derive(Debug)]
pub struct Request {
    id: RequestId,
    terms: Terms,
    tokens: Vec<Token>,
    prompt_len: u32,
    num_cached: Option<u32>,
    stop: StopMatcher,
}

impl Request {
    /// A new request.
    #[must_use]
    pub fn new(id: RequestId, mut terms: Terms) -> Self {
        let mut tokens = std::mem::take(&mut terms.prompt);
        let prompt_len = tokens.len() as u32;
        tokens.reserve(terms.max_tokens.min(1024) as usize);
        let stop = StopMatcher::new(std::mem::take(&mut terms.stop));
        Self { id, terms, tokens, prompt_len, num_cached: None, stop }
    }

    /// Its identity.
    #[must_use]
    pub fn id(&self) -> RequestId {
        self.id
    }

    /// Its place in the order of service.
    #[must_use]
    pub fn rank(&self) -> Rank {
        Rank::new(self.terms.priority, self.id)
    }

    /// Its checked values; the prompt and stop strings have moved out of them.
    #[must_use]
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Prompt and emitted tokens.
    #[must_use]
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Known tokens.
    #[must_use]
    pub fn known_len(&self) -> u32 {
        self.tokens.len() as u32
    }

    /// Prompt tokens.
    #[must_use]
    pub fn prompt_len(&self) -> u32 {
        self.prompt_len
    }

    /// Emitted tokens.
    #[must_use]
    pub fn num_emitted(&self) -> u32 {
        self.known_len() - self.prompt_len
    }

    /// Tokens that may still be emitted; the context limit is in `max_tokens`.
    #[must_use]
    pub fn tokens_left(&self) -> u32 {
        self.terms.max_tokens - self.num_emitted()
    }

    /// The most tokens that it can come to hold.
    #[must_use]
    pub fn max_len(&self) -> u32 {
        self.prompt_len + self.terms.max_tokens
    }

    /// Prompt tokens that came from the cache at first admission.
    #[must_use]
    pub fn num_cached(&self) -> u32 {
        self.num_cached.unwrap_or(0)
    }

    /// Records the hit of an admission. The first one counts; false for others.
    pub fn record_cached(&mut self, num_tokens: u32) -> bool {
        let first = self.num_cached.is_none();
        self.num_cached.get_or_insert(num_tokens);
        first
    }

    /// Appends emitted tokens.
    pub fn extend(&mut self, tokens: &[i32]) {
        self.tokens.extend(tokens.iter().map(|&token| token as Token));
    }

    /// Whether it has stop strings.
    #[must_use]
    pub fn has_stops(&self) -> bool {
        !self.stop.is_empty()
    }

    /// The search for its stop strings, if it has any.
    pub fn stop_matcher(&mut self) -> Option<&mut StopMatcher> {
        if self.stop.is_empty() { None } else { Some(&mut self.stop) }
    }
}

/// A waiting request; it holds nothing but itself.
#[derive(Debug)]
pub struct Queued(Box<Request>);

impl Queued {
    /// Puts a request in the first state, new or preempted.
    #[must_use]
    pub fn new(request: Box<Request>) -> Self {
        Self(request)
    }

    /// The request.
    #[must_use]
    pub fn request(&self) -> &Request {
        &self.0
    }

    /// Leaves the queue.
    #[must_use]
    pub fn into_request(self) -> Box<Request> {
        self.0
    }
}
