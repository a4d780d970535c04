//! The rows of the checkpoint pool, and the linear values that stand for them.

use std::num::NonZeroU32;

use super::tree::NodeId;
use crate::ids::CheckpointId;

/// A row of the checkpoint pool that its holder may have written. It is given
/// away by publishing it or by
/// [`free_checkpoint`](super::PrefixCache::free_checkpoint).
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a checkpoint row has to be published or freed"]
pub struct CheckpointRef(NonZeroU32);

impl CheckpointRef {
    const fn new(id: CheckpointId) -> Self {
        Self(NonZeroU32::new(id.0).expect("the null row is never handed out"))
    }

    const fn into_id(self) -> CheckpointId {
        self.id()
    }

    /// The row in the checkpoint tensors.
    #[must_use]
    pub const fn id(&self) -> CheckpointId {
        CheckpointId(self.0.get())
    }
}

/// A checkpoint that a hit is going to read; it stays where it is until it is
/// given back with [`unpin`](super::PrefixCache::unpin).
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a pinned checkpoint has to be unpinned"]
pub struct PinnedCheckpoint {
    pub(super) node: NodeId,
    pub(super) row: CheckpointId,
}

impl PinnedCheckpoint {
    pub(super) const fn into_node(self) -> NodeId {
        self.node
    }

    /// The row in the checkpoint tensors.
    #[must_use]
    pub const fn id(&self) -> CheckpointId {
        self.row
    }
}

/// A checkpoint that hangs on a node of the tree.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) row: CheckpointRef,
    /// Hits that have not read it yet.
    pub(super) pins: u32,
    /// The eviction clock when the entry was last used.
    pub(super) base: u64,
    /// `base` plus the compute saved per byte; see `eviction`.
    pub(super) priority: u64,
}

/// Rows `1..=num_rows` of the checkpoint pool; row 0 is null.
#[derive(Debug)]
pub(super) struct CheckpointRows {
    free: Vec<CheckpointId>,
    num_rows: u32,
}

impl CheckpointRows {
    pub(super) fn new(num_rows: u32) -> Self {
        Self { free: (1..=num_rows).rev().map(CheckpointId).collect(), num_rows }
    }

    pub(super) fn try_take(&mut self) -> Option<CheckpointRef> {
        self.free.pop().map(CheckpointRef::new)
    }

    pub(super) fn free(&mut self, row: CheckpointRef) {
        self.free.push(row.into_id());
    }

    pub(super) fn num_free(&self) -> usize {
        self.free.len()
    }

    pub(super) const fn num_rows(&self) -> usize {
        self.num_rows as usize
    }

    pub(super) fn free_ids(&self) -> &[CheckpointId] {
        &self.free
    }
}
