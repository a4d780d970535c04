//! What goes first when room is needed.
//!
//! A variant of GreedyDual-Size: an entry's priority is the clock at its last use
//! (the clock is the highest priority that was ever evicted, so it stands for
//! recency) plus the compute that its checkpoint saves per byte that it holds:
//! tokens since the nearest checkpoint above it, over the bytes of the checkpoint
//! and of the pages of that stretch. Pages with no checkpoint at or below them
//! come before all others, the longest unused first. Pages leave the tree leaf
//! first, and nothing locked, pinned or in use leaves it at all.
//!
//! A stretch changes when the checkpoint above it goes, so a priority is computed
//! anew when its entry is about to be evicted and the entry is put back if it
//! turned out to be worth more.

use std::collections::BTreeSet;

use super::cache::PrefixCache;
use super::checkpoint::CheckpointRef;
use super::tree::{Node, NodeId};
use crate::pages::PagePool;

/// Stands in `Queues::checkpoints`.
const CHECKPOINT: u8 = 1;
/// Stands in `Queues::leaves`.
const LEAF: u8 = 2;
/// Stands in `Queues::bare`.
const BARE: u8 = 4;

/// Tokens per byte are kept as fixed-point numbers with this many fraction bits.
const FRACTION_BITS: u32 = 40;

type ValueKey = (u64, u64, NodeId);

#[derive(Debug, Default)]
pub(super) struct Queues {
    /// Every checkpoint that may go: neither pinned nor at the end of a locked path.
    checkpoints: BTreeSet<ValueKey>,
    /// Those of them that are unheld leaves, so that their page goes with them.
    leaves: BTreeSet<ValueKey>,
    /// Unheld leaves without a checkpoint.
    bare: BTreeSet<(u64, NodeId)>,
    pub(super) clock: u64,
    pub(super) ticks: u64,
}

impl Queues {
    fn set(&mut self, id: NodeId, node: &mut Node, wanted: u8) {
        let changed = node.queued ^ wanted;
        if changed == 0 {
            return;
        }
        let priority = node.checkpoint.as_ref().map_or(0, |entry| entry.priority);
        let key = (priority, node.touched, id);
        for (bit, queue) in [(CHECKPOINT, &mut self.checkpoints), (LEAF, &mut self.leaves)] {
            if changed & bit != 0 {
                if wanted & bit != 0 {
                    queue.insert(key);
                } else {
                    queue.remove(&key);
                }
            }
        }
        if changed & BARE != 0 {
            let key = (node.touched, id);
            if wanted & BARE != 0 {
                self.bare.insert(key);
            } else {
                self.bare.remove(&key);
            }
        }
        node.queued = wanted;
    }

    pub(super) fn len(&self) -> [usize; 3] {
        [self.checkpoints.len(), self.leaves.len(), self.bare.len()]
    }
}

/// The queues in which a node belongs by its state.
pub(super) fn wanted_queues(node: &Node) -> u8 {
    let free_leaf = node.num_children == 0 && node.held == 0;
    match &node.checkpoint {
        _ if node.is_root() => 0,
        Some(entry) if entry.pins > 0 || node.locks > 0 => 0,
        Some(_) if free_leaf => CHECKPOINT | LEAF,
        Some(_) => CHECKPOINT,
        None if free_leaf => BARE,
        None => 0,
    }
}

impl PrefixCache {
    /// A checkpoint row to write, evicting the least valuable checkpoint that is
    /// neither pinned nor locked if none is free. The pages that only the evicted
    /// one made useful go with it, as far as nothing else holds them.
    #[must_use]
    pub fn try_take_checkpoint(&mut self, pool: &mut PagePool) -> Option<CheckpointRef> {
        if let Some(row) = self.rows.try_take() {
            return Some(row);
        }
        let id = loop {
            let (_, _, id) = *self.queues.checkpoints.first()?;
            if self.is_priority_current(id) {
                break id;
            }
        };
        self.advance_clock(id);
        self.dequeue(id);
        let entry = self.tree.node_mut(id).checkpoint.take()?;
        self.counts.num_checkpoints -= 1;
        self.counts.num_evicted_checkpoints += 1;
        if self.tree.is_partial(id) {
            let parent = self.tree.node(id).parent;
            self.remove(pool, id);
            self.prune(pool, parent);
        } else {
            self.prune(pool, id);
        }
        Some(entry.row)
    }

    /// Evicts the least valuable leaves until `want` pages are free in the pool or
    /// nothing more may go. Returns the number of pages that became free.
    pub fn evict_pages(&mut self, pool: &mut PagePool, want: usize) -> usize {
        let before = pool.num_free();
        let mut in_use = Vec::new();
        while pool.num_free() < want {
            let bare = self.queues.bare.first().map(|(_, id)| *id);
            let Some(id) = bare.or_else(|| self.queues.leaves.first().map(|(_, _, id)| *id)) else {
                break;
            };
            if bare.is_none() && !self.is_priority_current(id) {
                continue;
            }
            self.dequeue(id);
            if self.tree.in_use(pool, id) {
                in_use.push(id);
                continue;
            }
            if bare.is_none() {
                self.advance_clock(id);
            }
            let parent = self.tree.node(id).parent;
            self.remove(pool, id);
            if bare.is_none() {
                self.prune(pool, parent);
            } else {
                self.requeue(parent);
            }
        }
        for id in in_use {
            self.requeue(id);
        }
        pool.num_free() - before
    }

    /// Marks the entry as used now.
    pub(super) fn touch(&mut self, id: NodeId) {
        self.dequeue(id);
        let value = self.value(id);
        let clock = self.queues.clock;
        self.queues.ticks += 1;
        let ticks = self.queues.ticks;
        let node = self.tree.node_mut(id);
        node.touched = ticks;
        if let Some(entry) = &mut node.checkpoint {
            entry.base = clock;
            entry.priority = clock.saturating_add(value);
        }
        self.requeue(id);
    }

    pub(super) fn dequeue(&mut self, id: NodeId) {
        self.queues.set(id, &mut self.tree.nodes[id as usize], 0);
    }

    /// Puts the node into the queues where it belongs; a root with nothing left
    /// goes at once.
    pub(super) fn requeue(&mut self, id: NodeId) {
        let node = &mut self.tree.nodes[id as usize];
        if node.is_root() {
            if node.num_children == 0 && node.held == 0 {
                self.tree.remove(id);
            }
            return;
        }
        let wanted = wanted_queues(node);
        self.queues.set(id, node, wanted);
    }

    /// Removes an unheld leaf with all that it keeps. Its parent may belong into
    /// other queues then.
    fn remove(&mut self, pool: &mut PagePool, id: NodeId) {
        self.dequeue(id);
        let (page, entry) = self.tree.remove(id);
        if let Some(page) = page {
            pool.free(page);
            self.counts.num_evicted_pages += 1;
        }
        if let Some(entry) = entry {
            self.rows.free(entry.row);
            self.counts.num_checkpoints -= 1;
            self.counts.num_evicted_checkpoints += 1;
        }
    }

    /// Frees upwards from `id` what no checkpoint makes useful any more, and puts the
    /// first node that stays into its queues.
    fn prune(&mut self, pool: &mut PagePool, id: NodeId) {
        let mut at = id;
        loop {
            let node = self.tree.node(at);
            if wanted_queues(node) != BARE || self.tree.in_use(pool, at) {
                return self.requeue(at);
            }
            let parent = node.parent;
            self.remove(pool, at);
            at = parent;
        }
    }

    fn advance_clock(&mut self, id: NodeId) {
        let priority = self.tree.node(id).checkpoint.as_ref().map_or(0, |e| e.priority);
        self.queues.clock = self.queues.clock.max(priority);
    }

    /// Computes the priority anew; false if it changed, in which case the entry
    /// stands at another place of the queues now.
    fn is_priority_current(&mut self, id: NodeId) -> bool {
        let value = self.value(id);
        let Some(entry) = &self.tree.node(id).checkpoint else {
            return true;
        };
        let priority = entry.base.saturating_add(value);
        if priority == entry.priority {
            return true;
        }
        self.dequeue(id);
        if let Some(entry) = &mut self.tree.node_mut(id).checkpoint {
            entry.priority = priority;
        }
        self.requeue(id);
        false
    }

    /// Tokens saved per byte held.
    fn value(&self, id: NodeId) -> u64 {
        let node = self.tree.node(id);
        let mut above = self.tree.node(node.parent);
        while above.checkpoint.is_none() && !above.is_root() {
            above = self.tree.node(above.parent);
        }
        let tokens = self.tree.boundary(id) - above.depth * self.page_size;
        let pages = u64::from(tokens.div_ceil(self.page_size));
        let bytes = (self.checkpoint_bytes + pages * self.page_bytes).max(1);
        let value = (u128::from(tokens) << FRACTION_BITS) / u128::from(bytes);
        u64::try_from(value).unwrap_or(u64::MAX)
    }
}
