//! The prefix cache: what earlier requests computed, found again by tokens.
//!
//! A hybrid model resumes at a boundary only if its KV pages **and** a checkpoint
//! of its recurrent state exist there, so a hit is the longest boundary that has
//! both; pages without a checkpoint at or below them are worth little and go
//! first. The tree's unit is one page of tokens; a boundary inside a page is a
//! node with a shorter edge that keeps the partly filled page and is always a
//! leaf. Lookups may hash, but tokens are always compared, and the root of a path
//! is chosen by the identity of the model and the salt of the request.
//!
//! The way of a request: [`probe`](PrefixCache::probe) (pure) →
//! [`admit`](PrefixCache::admit) (locks the path, shares the pages, pins the
//! checkpoint) → [`publish_page`](PrefixCache::publish_page) and
//! [`publish_checkpoint`](PrefixCache::publish_checkpoint) as they are computed →
//! [`release`](PrefixCache::release). Locks, pins and taken checkpoint rows are
//! linear values: they cannot be copied and are consumed when given back.
//!
//! Evictions happen only inside [`try_take_checkpoint`](PrefixCache::try_take_checkpoint)
//! and [`evict_pages`](PrefixCache::evict_pages). Admit before evicting: a hit
//! that is locked cannot be lost to the room that is made for the rest of it.

mod cache;
mod checkpoint;
mod eviction;
mod handles;
mod integrity;
mod node;
mod placement;
mod tree;

#[cfg(test)]
mod eviction_tests;
#[cfg(test)]
mod placement_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod twin;
#[cfg(test)]
mod twin_tests;

pub use cache::PrefixCache;
pub use checkpoint::{CheckpointRef, PinnedCheckpoint};
pub use handles::{Hit, PartialPage, PathRef, PrefixConfig, PrefixCounts, Probe, Salt};
pub use integrity::PrefixIntegrityError;
pub use placement::{Placement, place};
