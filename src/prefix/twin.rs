//! The twin of the tree: a list of token sequences searched one by one, and the
//! running requests that lock parts of it.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::{CheckpointRef, PathRef, PinnedCheckpoint, PrefixCache, PrefixConfig, Salt};
use crate::ids::{PageId, Token};
use crate::pages::{PagePool, PageRef};

/// One cached boundary; whole pages and tails alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) salt: usize,
    pub(super) tokens: Vec<Token>,
    pub(super) page: PageId,
    pub(super) has_checkpoint: bool,
}

#[derive(Debug)]
pub(super) struct Running {
    pub(super) salt: usize,
    pub(super) tokens: Vec<Token>,
    pub(super) path: PathRef,
    pub(super) num_published: usize,
    /// Tokens of the checkpoint that is pinned, if one is.
    pub(super) pinned: Option<(usize, PinnedCheckpoint)>,
    pub(super) held: Vec<PageRef>,
}

impl Running {
    pub(super) fn end(&self, size: usize) -> &[Token] {
        &self.tokens[..self.num_published * size]
    }
}

pub(super) struct World {
    pub(super) size: usize,
    pub(super) pool: PagePool,
    pub(super) cache: PrefixCache,
    pub(super) salts: [Salt; 2],
    pub(super) known: Vec<Known>,
    pub(super) running: Vec<Running>,
    pub(super) taken: Vec<CheckpointRef>,
}

impl World {
    pub(super) fn new(size: u32, num_pages: u32, num_checkpoints: u32, collide: bool) -> Self {
        let mut cache = PrefixCache::new(&PrefixConfig {
            page_size: size,
            num_checkpoints,
            checkpoint_bytes: 100,
            page_bytes: 7,
            identity: Vec::new(),
            enabled: true,
        });
        if collide {
            cache.tree.collide_all();
        }
        Self {
            size: size as usize,
            pool: PagePool::new(num_pages, size),
            cache,
            salts: [Salt::default(), Salt::new(b"other")],
            known: Vec::new(),
            running: Vec::new(),
            taken: Vec::new(),
        }
    }

    pub(super) fn find(&mut self, salt: usize, tokens: &[Token]) -> Option<&mut Known> {
        self.known.iter_mut().find(|k| k.salt == salt && k.tokens == tokens)
    }

    /// Whether a lock or pin keeps the boundary.
    pub(super) fn is_held(&self, known: &Known) -> bool {
        self.running.iter().any(|r| {
            let pinned = r.pinned.as_ref().map_or(0, |(len, _)| *len);
            let whole = known.tokens.len().is_multiple_of(self.size);
            r.salt == known.salt
                && ((whole && r.end(self.size).starts_with(&known.tokens))
                    || known.tokens == r.tokens[..pinned])
        })
    }

    /// Whether a lock or pin keeps the checkpoint at the boundary.
    pub(super) fn is_fixed(&self, known: &Known) -> bool {
        self.running.iter().any(|r| {
            let pinned = r.pinned.as_ref().map_or(0, |(len, _)| *len);
            r.salt == known.salt
                && (known.tokens == r.end(self.size) || known.tokens == r.tokens[..pinned])
        })
    }

    pub(super) fn has_child(&self, known: &Known) -> bool {
        self.known.iter().any(|k| {
            k.salt == known.salt
                && k.tokens.len() > known.tokens.len()
                && k.tokens.starts_with(&known.tokens)
                && known.tokens.len().is_multiple_of(self.size)
        })
    }

    /// What the tree holds, by walking up from every node.
    pub(super) fn actual(&self) -> Vec<Known> {
        let tree = &self.cache.tree;
        let of_node = |id| {
            let mut edges = Vec::new();
            let mut at = id;
            while !tree.node(at).is_root() {
                edges.push(tree.edge(at));
                at = tree.node(at).parent;
            }
            let salt = self.salts.iter().position(|salt| tree.root(&salt.0) == Some(at)).unwrap();
            let node = tree.node(id);
            Known {
                salt,
                tokens: edges.into_iter().rev().flatten().copied().collect(),
                page: node.page.as_ref().unwrap().id(),
                has_checkpoint: node.checkpoint.is_some(),
            }
        };
        tree.live().filter(|id| !tree.node(*id).is_root()).map(of_node).collect()
    }

    /// After an eviction: what is left was known, and nothing held is missing.
    pub(super) fn reconcile(&mut self) -> TestCaseResult {
        let actual = self.actual();
        for entry in &actual {
            let before =
                self.known.iter().find(|k| k.salt == entry.salt && k.tokens == entry.tokens);
            let before = before.ok_or_else(|| TestCaseError::fail("an entry out of nowhere"))?;
            prop_assert_eq!(before.page, entry.page);
            prop_assert!(before.has_checkpoint || !entry.has_checkpoint);
        }
        for before in &self.known {
            let after = actual.iter().find(|k| k.salt == before.salt && k.tokens == before.tokens);
            prop_assert!(after.is_some() || !self.is_held(before), "a held path was evicted");
            let kept = after.is_some_and(|k| k.has_checkpoint);
            prop_assert!(kept || !before.has_checkpoint || !self.is_fixed(before));
        }
        self.known = actual;
        Ok(())
    }

    pub(super) fn check(&self) -> TestCaseResult {
        prop_assert_eq!(self.cache.check(&self.pool), Ok(()));
        let mut actual = self.actual();
        let mut known = self.known.clone();
        let key = |k: &Known| (k.salt, k.tokens.clone());
        actual.sort_by_key(key);
        known.sort_by_key(key);
        prop_assert_eq!(actual, known);
        let held = self.running.iter().flat_map(|r| r.held.iter().map(PageRef::id));
        prop_assert_eq!(self.pool.check(self.cache.page_references().chain(held)), Ok(()));
        let counts = self.cache.counts();
        prop_assert_eq!(counts.num_taken_checkpoints, self.taken.len());
        Ok(())
    }
}
