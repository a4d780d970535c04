//! The facade of the prefix cache.

use std::sync::Arc;

use super::checkpoint::{CheckpointRef, CheckpointRows, Entry, PinnedCheckpoint};
use super::eviction::Queues;
use super::tree::{NONE, NodeId, Tree};
use crate::ids::{PageId, Token};
use crate::pages::{PagePool, PageRef};

/// What separates the caches of two users of one model. Empty by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Salt(Arc<[u8]>);

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
    node: NodeId,
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
    salt: Salt,
    node: NodeId,
    generation: u32,
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

/// The tree of cached prefixes and the rows of the checkpoint pool. Pages stay in
/// the [`PagePool`], of which the tree holds references.
#[derive(Debug)]
pub struct PrefixCache {
    pub(super) tree: Tree,
    pub(super) queues: Queues,
    pub(super) rows: CheckpointRows,
    pub(super) counts: PrefixCounts,
    pub(super) page_size: u32,
    pub(super) checkpoint_bytes: u64,
    pub(super) page_bytes: u64,
    enabled: bool,
}

impl PrefixCache {
    /// An empty cache.
    #[must_use]
    pub fn new(config: &PrefixConfig) -> Self {
        Self {
            tree: Tree::new(config.page_size, &config.identity),
            queues: Queues::default(),
            rows: CheckpointRows::new(config.num_checkpoints),
            counts: PrefixCounts::default(),
            page_size: config.page_size,
            checkpoint_bytes: config.checkpoint_bytes,
            page_bytes: config.page_bytes,
            enabled: config.enabled,
        }
    }

    /// The longest boundary of `tokens` that has pages and a checkpoint. Never
    /// longer than `tokens`, and possibly all of them.
    #[must_use]
    pub fn probe(&self, salt: &Salt, tokens: &[Token]) -> Probe {
        let mut probe =
            Probe { hit_tokens: 0, leave_at: 0, salt: salt.clone(), node: NONE, generation: 0 };
        let Some(root) = self.tree.root(&salt.0) else { return probe };
        let size = self.page_size as usize;
        let mut deepest = root;
        for page in tokens.chunks_exact(size) {
            let Some(child) = self.tree.child(deepest, page) else { break };
            deepest = child;
        }
        probe.leave_at = self.tree.boundary(deepest);
        let mut at = deepest;
        let hit = loop {
            let node = self.tree.node(at);
            let rest = &tokens[node.depth as usize * size..];
            if let Some(partial) = self.tree.longest_partial(at, rest) {
                break partial;
            }
            if node.is_root() || node.checkpoint.is_some() {
                break at;
            }
            at = node.parent;
        };
        probe.hit_tokens = self.tree.boundary(hit);
        probe.node = hit;
        probe.generation = self.tree.node(hit).generation;
        probe
    }

    /// Locks what the probe found: shares its pages and pins its checkpoint.
    pub fn admit(&mut self, pool: &mut PagePool, probe: Probe) -> Hit {
        let found = self.tree.nodes.get(probe.node as usize).filter(|node| {
            node.live && node.generation == probe.generation && node.checkpoint.is_some()
        });
        let Some(parent) = found.map(|node| node.parent) else {
            let root = self.tree.root_or_new(&probe.salt.0);
            self.lock(root);
            return Hit {
                path: PathRef { node: root },
                num_tokens: 0,
                pages: Vec::new(),
                partial: None,
                checkpoint: None,
            };
        };
        let is_partial = self.tree.is_partial(probe.node);
        let end = if is_partial { parent } else { probe.node };
        self.lock(end);
        let checkpoint = self.pin(probe.node);
        let partial = is_partial
            .then(|| self.tree.node(probe.node).page.as_ref())
            .flatten()
            .map(|page| PartialPage { src: pool.share(page) });
        Hit {
            path: PathRef { node: end },
            num_tokens: self.tree.boundary(probe.node),
            pages: self.share_path(pool, end),
            partial,
            checkpoint,
        }
    }

    /// Adds a whole page behind the path, unless the tree has these tokens there
    /// already (then the page that it has stays), and moves the lock to it.
    /// `tokens` are exactly the page's.
    pub fn publish_page(
        &mut self,
        pool: &mut PagePool,
        path: PathRef,
        tokens: &[Token],
        page: &PageRef,
    ) -> PathRef {
        debug_assert_eq!(tokens.len(), self.page_size as usize, "a page is published whole");
        if !self.enabled {
            return path;
        }
        let from = path.node;
        if let Some(child) = self.tree.child(from, tokens) {
            self.lock(child);
            self.unlock(from);
            return PathRef { node: child };
        }
        let child = self.tree.insert(from, tokens, pool.share(page));
        self.queues.ticks += 1;
        let ticks = self.queues.ticks;
        let node = self.tree.node_mut(child);
        (node.locks, node.held, node.touched) = (1, 1, ticks);
        self.tree.num_held += 1;
        // The hold that the new child has on `from` takes the place of the lock.
        let above = self.tree.node_mut(from);
        above.locks -= 1;
        if above.checkpoint.is_some() {
            self.requeue(from);
        }
        PathRef { node: child }
    }

    /// Adds the checkpoint at `tail` tokens behind the path's end. A tail of 0
    /// tokens (then `page` is `None`) is the path's end itself; a longer one, below
    /// a page, keeps a reference to the partly filled `page`. If an equal checkpoint
    /// is there it counts as used now, and `row` is freed.
    pub fn publish_checkpoint(
        &mut self,
        pool: &mut PagePool,
        path: &PathRef,
        tail: &[Token],
        page: Option<&PageRef>,
        row: CheckpointRef,
    ) {
        debug_assert!(tail.len() < self.page_size as usize, "the tail is less than a page");
        debug_assert_eq!(tail.is_empty(), page.is_none(), "a page is kept for a tail only");
        let at_root = self.tree.node(path.node).is_root();
        let id = match page {
            _ if !self.enabled => None,
            Some(page) => Some(
                self.tree
                    .child(path.node, tail)
                    .unwrap_or_else(|| self.tree.insert(path.node, tail, pool.share(page))),
            ),
            None if at_root => None,
            None => Some(path.node),
        };
        let Some(id) = id else { return self.rows.free(row) };
        if self.tree.node(id).checkpoint.is_some() {
            self.rows.free(row);
        } else {
            self.dequeue(id);
            self.tree.node_mut(id).checkpoint =
                Some(Entry { row, pins: 0, base: 0, priority: 0 });
            self.counts.num_checkpoints += 1;
            self.counts.num_published_checkpoints += 1;
        }
        self.touch(id);
    }

    /// Gives a row back that was taken and not published.
    pub fn free_checkpoint(&mut self, row: CheckpointRef) {
        self.rows.free(row);
    }

    /// Gives a pin back, once the step that read the checkpoint has committed.
    pub fn unpin(&mut self, pinned: PinnedCheckpoint) {
        let PinnedCheckpoint { node, .. } = pinned;
        if let Some(entry) = &mut self.tree.node_mut(node).checkpoint {
            entry.pins -= 1;
        }
        self.requeue(node);
        self.unhold(node);
    }

    /// Unlocks the path. Its owner frees its own references to the pages first or in
    /// the same commit: a page that is referenced is not evicted.
    pub fn release(&mut self, path: PathRef) {
        let PathRef { node } = path;
        self.queues.ticks += 1;
        let ticks = self.queues.ticks;
        // Locked, so it stands in no queue whose key `touched` is.
        self.tree.node_mut(node).touched = ticks;
        self.unlock(node);
    }

    /// What the cache holds now.
    #[must_use]
    pub fn counts(&self) -> PrefixCounts {
        let num_free = self.rows.num_free();
        PrefixCounts {
            num_pages: self.tree.num_pages,
            num_evictable_pages: self.tree.num_pages.saturating_sub(self.tree.num_held),
            num_free_checkpoints: num_free,
            num_taken_checkpoints: self.rows.num_rows() - num_free - self.counts.num_checkpoints,
            num_nodes: self.tree.num_nodes(),
            ..self.counts
        }
    }

    /// Pages that nobody but the tree references; visits every page.
    #[must_use]
    pub fn num_cached_pages(&self, pool: &PagePool) -> usize {
        let refs = self.tree.tree_refs().iter().enumerate();
        refs.filter(|(id, refs)| **refs > 0 && pool.refs(PageId(*id as u32)) == **refs).count()
    }

    /// Every reference that the tree holds, for [`PagePool::check`].
    pub fn page_references(&self) -> impl Iterator<Item = PageId> {
        self.tree.live().filter_map(|id| self.tree.node(id).page.as_ref().map(PageRef::id))
    }

    fn share_path(&self, pool: &mut PagePool, end: NodeId) -> Vec<PageRef> {
        let mut pages = Vec::with_capacity(self.tree.node(end).depth as usize);
        let mut at = end;
        while let Some(page) = &self.tree.node(at).page {
            pages.push(pool.share(page));
            at = self.tree.node(at).parent;
        }
        pages.reverse();
        pages
    }

    fn pin(&mut self, id: NodeId) -> Option<PinnedCheckpoint> {
        self.touch(id);
        let entry = self.tree.node_mut(id).checkpoint.as_mut()?;
        entry.pins += 1;
        let row = entry.row.id();
        self.hold(id);
        self.requeue(id);
        Some(PinnedCheckpoint { node: id, row })
    }

    fn lock(&mut self, id: NodeId) {
        self.tree.node_mut(id).locks += 1;
        self.hold(id);
        self.requeue(id);
    }

    fn unlock(&mut self, id: NodeId) {
        self.tree.node_mut(id).locks -= 1;
        if self.tree.node(id).checkpoint.is_some() {
            self.requeue(id);
        }
        self.unhold(id);
    }

    fn hold(&mut self, id: NodeId) {
        let mut at = id;
        while at != NONE && self.tree.hold(at) {
            self.requeue(at);
            at = self.tree.node(at).parent;
        }
    }

    fn unhold(&mut self, id: NodeId) {
        let mut at = id;
        while at != NONE && self.tree.unhold(at) {
            let parent = self.tree.node(at).parent;
            self.requeue(at);
            at = parent;
        }
    }
}
