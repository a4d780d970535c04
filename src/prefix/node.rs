//! A node of the tree of cached pages.

use super::checkpoint::Entry;
use crate::pages::PageRef;

/// An index into the arena.
pub(super) type NodeId = u32;

/// No node.
pub(super) const NONE: NodeId = NodeId::MAX;

/// One cache line: walks along a path cost a line a node.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Node {
    pub(super) parent: NodeId,
    /// The next node of the same bucket.
    pub(super) next_same: NodeId,
    /// Grows whenever the place in the arena gets a new tenant.
    pub(super) generation: u32,
    /// Whole pages from the root to this node's end (to its start, if partial).
    pub(super) depth: u32,
    pub(super) num_children: u32,
    pub(super) num_partials: u32,
    /// Bit `len % 32` is set if a partial child of that length may exist.
    pub(super) partial_lengths: u32,
    /// Path references that end here.
    pub(super) locks: u32,
    /// Locks, pins and held children; only a node with none may be removed.
    pub(super) held: u32,
    pub(super) hash: u32,
    pub(super) page: Option<PageRef>,
    pub(super) checkpoint: Option<Box<Entry>>,
    /// When it was last used, in ticks.
    pub(super) touched: u64,
    /// Tokens on the edge: 0 for a root, the page size, or less for a partial node.
    pub(super) len: u16,
    /// The eviction queues in which it stands; kept by `eviction`.
    pub(super) queued: u8,
    pub(super) live: bool,
}

const _: () = assert!(size_of::<Node>() == 64);

impl Node {
    pub(super) const fn is_root(&self) -> bool {
        self.len == 0
    }
}
