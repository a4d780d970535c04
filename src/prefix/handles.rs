//! What the facade takes and gives: keys, lookups, locks and hits.

use std::sync::Arc;

#[cfg(doc)]
use super::PrefixCache;
use super::checkpoint::PinnedCheckpoint;
use super::tree::NodeId;
use crate::pages::PageRef;

/// What separates the caches of two users of one model. Empty by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Salt(pub(super) Arc<[u8]>);

impl Salt {
    /// A salt of any bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

/// How a prefix cache is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixConfig {
    /// Tokens in a page.
    pub page_size: u32,
    /// Usable rows of the checkpoint pool (row 0 comes on top).
    pub num_checkpoints: u32,
    /// Bytes of a checkpoint row, for what an entry is worth.
    pub checkpoint_bytes: u64,
    /// Bytes of a page over all layers, for what an entry is worth.
    pub page_bytes: u64,
    /// Identity of model, drafter and state mode; a part of every key.
    pub identity: Vec<u8>,
    /// False: nothing is published and every probe misses.
    pub enabled: bool,
}

/// A lock on the end of a path; the path stays cached until it is given back with
/// [`PrefixCache::release`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a path has to be released"]
pub struct PathRef {
    pub(super) node: NodeId,
}

impl PathRef {
    pub(super) const fn into_node(self) -> NodeId {
        self.node
    }
}

/// What a lookup found. It locks nothing; a probe whose entry is evicted before
/// [`PrefixCache::admit`] becomes a miss.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Tokens of the longest boundary that has pages and a checkpoint.
    pub hit_tokens: u32,
    /// The page boundary at or before the point where the tokens leave the cached
    /// path; 0 if they follow none.
    pub leave_at: u32,
    pub(super) salt: Salt,
    pub(super) node: NodeId,
    pub(super) generation: u32,
}

/// A partly filled page that a hit must copy before it writes to it.
#[derive(Debug)]
pub struct PartialPage {
    /// The page to copy from; freed once the copy has committed.
    pub src: PageRef,
}

/// What an admitted request starts with.
#[derive(Debug)]
pub struct Hit {
    /// The lock, at the last whole page of the hit.
    pub path: PathRef,
    /// Tokens that need not be computed.
    pub num_tokens: u32,
    /// The whole pages of the hit, in order.
    pub pages: Vec<PageRef>,
    /// The partly filled page behind them, if the boundary lies inside a page.
    pub partial: Option<PartialPage>,
    /// The checkpoint at the boundary; `None` exactly if the hit is empty.
    pub checkpoint: Option<PinnedCheckpoint>,
}

/// How much the cache holds, and how much it did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrefixCounts {
    /// Pages that the tree references.
    pub num_pages: usize,
    /// Upper bound of the pages that [`PrefixCache::evict_pages`] could free now:
    /// those of the tree that no lock or pin holds. It is exact unless the owner of
    /// a published page still references it.
    pub num_evictable_pages: usize,
    /// Checkpoints in the tree.
    pub num_checkpoints: usize,
    /// Free checkpoint rows.
    pub num_free_checkpoints: usize,
    /// Checkpoint rows taken and not yet published or freed.
    pub num_taken_checkpoints: usize,
    /// Nodes, roots included.
    pub num_nodes: usize,
    /// Page references evicted since the start.
    pub num_evicted_pages: u64,
    /// Checkpoints evicted since the start.
    pub num_evicted_checkpoints: u64,
    /// Checkpoints published since the start, refreshed ones not counted.
    pub num_published_checkpoints: u64,
}
