//! Requests: what users ask for, why they are refused, and the one line of
//! states that each goes through: queued, prefilling, decoding, finished.

mod check;
mod ledger;
mod lifecycle;
mod queue;
mod reject;
mod spec;
mod stop;
mod vocabulary;

pub use check::{MAX_LOGPROBS, MAX_SALT_BYTES, MAX_STOP_BYTES, MAX_STOP_STRINGS, Terms};
pub use ledger::{Ledger, Place};
pub use lifecycle::{FinishReason, Queued, Request};
pub use queue::{Queue, Rank};
pub use reject::RejectReason;
pub use spec::{RequestSpec, SamplingSpec};
pub use stop::{StopMatch, StopMatcher};
pub use vocabulary::Vocabulary;
