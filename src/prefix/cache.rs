//! The facade of the prefix cache.

use super::checkpoint::{CheckpointRef, CheckpointRows, Entry, PinnedCheckpoint};
use super::eviction::Queues;
use super::handles::{Hit, PartialPage, PathRef, PrefixConfig, PrefixCounts, Probe, Salt};
use super::tree::{NONE, NodeId, Tree};
use crate::ids::{PageId, Token};
use crate::pages::{PagePool, PageRef};

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
        let Some(root) = self.tree.root(&salt.0) else {
            return probe;
        };
        let size = self.page_size as usize;
        let mut deepest = root;
        for page in tokens.chunks_exact(size) {
            let Some(child) = self.tree.child(deepest, page) else {
                break;
            };
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
        self.tree.reserve(pool.num_total());
        let Probe { salt, node: found, generation, .. } = probe;
        let entry =
            self.tree.nodes.get(found as usize).filter(|node| {
                node.live && node.generation == generation && node.checkpoint.is_some()
            });
        let Some(parent) = entry.map(|node| node.parent) else {
            let root = self.tree.root_or_new(salt.0);
            self.lock(root);
            return Hit {
                path: PathRef { node: root },
                num_tokens: 0,
                pages: Vec::new(),
                partial: None,
                checkpoint: None,
            };
        };
        let is_partial = self.tree.is_partial(found);
        let end = if is_partial { parent } else { found };
        self.lock(end);
        let checkpoint = self.pin(found);
        let partial = is_partial
            .then(|| self.tree.node(found).page.as_ref())
            .flatten()
            .map(|page| PartialPage { src: pool.share(page) });
        Hit {
            path: PathRef { node: end },
            num_tokens: self.tree.boundary(found),
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
        let from = path.into_node();
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
        let Some(id) = id else {
            return self.rows.free(row);
        };
        if self.tree.node(id).checkpoint.is_some() {
            self.rows.free(row);
        } else {
            self.dequeue(id);
            self.tree.node_mut(id).checkpoint =
                Some(Box::new(Entry { row, pins: 0, base: 0, priority: 0 }));
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
        let node = pinned.into_node();
        if let Some(entry) = &mut self.tree.node_mut(node).checkpoint {
            entry.pins -= 1;
        }
        self.requeue(node);
        self.unhold(node);
    }

    /// Unlocks the path. Its owner frees its own references to the pages first or in
    /// the same commit: a page that is referenced is not evicted.
    pub fn release(&mut self, path: PathRef) {
        let node = path.into_node();
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
        let refs = self.tree.page_refs().iter().enumerate();
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
