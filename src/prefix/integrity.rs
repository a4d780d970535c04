//! The invariants of the tree, computed anew from nothing.

use thiserror::Error;

use super::cache::PrefixCache;
use super::eviction::wanted_queues;
use super::tree::NONE;
use crate::pages::PagePool;

/// A broken invariant of the prefix cache.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("prefix cache, node {node}: {what}")]
pub struct PrefixIntegrityError {
    /// The node's place in the arena.
    pub node: u32,
    /// The invariant that does not hold.
    pub what: &'static str,
}

impl PrefixCache {
    /// Checks counts, holds, queues, pages and checkpoint rows against the tree.
    /// Costs time in proportion to the cache.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check(&self, pool: &PagePool) -> Result<(), PrefixIntegrityError> {
        self.check_nodes(pool)?;
        self.check_totals()
    }

    fn check_nodes(&self, pool: &PagePool) -> Result<(), PrefixIntegrityError> {
        let tree = &self.tree;
        let mut children = vec![0_u32; tree.nodes.len()];
        let mut held_children = vec![0_u32; tree.nodes.len()];
        for id in tree.live() {
            let node = tree.node(id);
            if node.parent != NONE {
                children[node.parent as usize] += 1;
                held_children[node.parent as usize] += u32::from(node.held > 0);
            }
        }
        for id in tree.live() {
            let node = tree.node(id);
            let fail = |what| Err(PrefixIntegrityError { node: id, what });
            let pins = node.checkpoint.as_ref().map_or(0, |entry| entry.pins);
            if node.num_children != children[id as usize] {
                return fail("the number of children is wrong");
            }
            if node.held != node.locks + pins + held_children[id as usize] {
                return fail("holds are not locks, pins and held children");
            }
            if node.queued != wanted_queues(node) {
                return fail("it stands in the wrong eviction queues");
            }
            if node.is_root() {
                if node.page.is_some() || node.checkpoint.is_some() {
                    return fail("a root keeps a page or a checkpoint");
                }
                if node.num_children == 0 && node.held == 0 {
                    return fail("a root without use was kept");
                }
                continue;
            }
            if !tree.node(node.parent).live {
                return fail("its parent was removed");
            }
            if tree.child(node.parent, tree.edge(id)) != Some(id) {
                return fail("a lookup does not find it");
            }
            if tree.is_partial(id) && (node.num_children > 0 || node.checkpoint.is_none()) {
                return fail("a partial node has children or no checkpoint");
            }
            match &node.page {
                None => return fail("it has no page"),
                Some(page) if pool.refs(page.id()) < tree.page_refs()[page.id().index()] => {
                    return fail("its page has fewer references than the tree holds");
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn check_totals(&self) -> Result<(), PrefixIntegrityError> {
        let tree = &self.tree;
        let fail = |what| Err(PrefixIntegrityError { node: NONE, what });
        let mut refs = vec![0_u32; tree.page_refs().len()];
        let mut rows = vec![false; self.rows.num_rows() + 1];
        let (mut num_held, mut num_checkpoints) = (0, 0);
        let mut queued = [0_usize; 3];
        for id in tree.live() {
            let node = tree.node(id);
            if let Some(page) = &node.page {
                refs[page.id().index()] += 1;
            }
            num_held += usize::from(node.held > 0 && u32::from(node.len) == self.page_size);
            for (bit, count) in queued.iter_mut().enumerate() {
                *count += usize::from(node.queued & (1 << bit) != 0);
            }
            if let Some(entry) = &node.checkpoint {
                num_checkpoints += 1;
                let row = entry.row.id().index();
                if std::mem::replace(&mut rows[row], true) || row == 0 {
                    return fail("two checkpoints share a row, or one has the null row");
                }
            }
        }
        for row in self.rows.free_ids() {
            if std::mem::replace(&mut rows[row.index()], true) {
                return fail("a checkpoint row is free and used, or free twice");
            }
        }
        if refs != tree.page_refs() {
            return fail("the page references of the tree are counted wrongly");
        }
        if tree.num_pages != refs.iter().filter(|refs| **refs > 0).count() {
            return fail("the pages of the tree are counted wrongly");
        }
        if tree.num_held != num_held {
            return fail("the held pages are counted wrongly");
        }
        if self.counts.num_checkpoints != num_checkpoints {
            return fail("the checkpoints are counted wrongly");
        }
        if self.queues.len() != queued {
            return fail("an eviction queue names a node twice or one that is gone");
        }
        Ok(())
    }
}
