//! The tree of cached pages: an arena of nodes, found by hash and compared by
//! tokens. It knows structure and holds only; what an entry is worth is decided in
//! `eviction`.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::checkpoint::Entry;
pub(super) use super::node::{NONE, Node, NodeId};
use crate::ids::Token;
use crate::pages::{PagePool, PageRef};

/// Nodes for which room is made beforehand at most.
const MAX_RESERVED: usize = 1 << 18;

/// The key of a root: two requests share a path only if both parts agree.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct RootKey {
    pub(super) identity: Arc<[u8]>,
    pub(super) salt: Arc<[u8]>,
}

#[derive(Debug)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    /// `page_size` tokens for each place in the arena.
    tokens: Vec<Token>,
    vacant: Vec<NodeId>,
    /// The first node of each bucket; a power of two of them, by the edge's hash.
    buckets: Vec<NodeId>,
    roots: FxHashMap<RootKey, NodeId>,
    root_keys: FxHashMap<NodeId, RootKey>,
    identity: Arc<[u8]>,
    page_size: u32,
    /// Tests set it to 0, so that every edge collides.
    hash_mask: u32,
    /// References of the tree to each page.
    page_refs: Vec<u32>,
    pub(super) num_pages: usize,
    /// Held nodes with a whole page.
    pub(super) num_held: usize,
}

impl Tree {
    pub(super) fn new(page_size: u32, identity: &[u8]) -> Self {
        Self {
            nodes: Vec::new(),
            tokens: Vec::new(),
            vacant: Vec::new(),
            buckets: vec![NONE; 1],
            roots: FxHashMap::default(),
            root_keys: FxHashMap::default(),
            identity: identity.into(),
            page_size,
            hash_mask: u32::MAX,
            page_refs: Vec::new(),
            num_pages: 0,
            num_held: 0,
        }
    }

    #[cfg(test)]
    pub(super) fn collide_all(&mut self) {
        self.hash_mask = 0;
    }

    /// Makes room for so many pages, once, so that no table of usual size grows in a
    /// step.
    pub(super) fn reserve(&mut self, num_pages: usize) {
        if self.nodes.capacity() == 0 {
            let num_pages = num_pages.min(MAX_RESERVED);
            self.nodes.reserve(num_pages + 1);
            self.tokens.reserve((num_pages + 1) * self.page_size as usize);
            self.rehash(num_pages);
        }
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    /// Whether the node's edge is shorter than a page.
    pub(super) fn is_partial(&self, id: NodeId) -> bool {
        (1..self.page_size).contains(&u32::from(self.node(id).len))
    }

    /// Tokens from the root to the node's end.
    pub(super) fn boundary(&self, id: NodeId) -> u32 {
        let node = self.node(id);
        let inside = if self.is_partial(id) { u32::from(node.len) } else { 0 };
        node.depth * self.page_size + inside
    }

    pub(super) fn edge(&self, id: NodeId) -> &[Token] {
        let start = id as usize * self.page_size as usize;
        &self.tokens[start..start + self.node(id).len as usize]
    }

    fn root_key(&self, salt: &Arc<[u8]>) -> RootKey {
        RootKey { identity: self.identity.clone(), salt: salt.clone() }
    }

    pub(super) fn root(&self, salt: &Arc<[u8]>) -> Option<NodeId> {
        if self.roots.is_empty() {
            return None;
        }
        self.roots.get(&self.root_key(salt)).copied()
    }

    pub(super) fn root_or_new(&mut self, salt: Arc<[u8]>) -> NodeId {
        let key = RootKey { identity: self.identity.clone(), salt };
        if let Some(root) = self.roots.get(&key) {
            return *root;
        }
        let root = self.place(NONE, 0, &[], 0, None);
        self.roots.insert(key.clone(), root);
        self.root_keys.insert(root, key);
        root
    }

    /// The child of `parent` whose edge is exactly `tokens`.
    pub(super) fn child(&self, parent: NodeId, tokens: &[Token]) -> Option<NodeId> {
        // Most often a path grows at its end, where nothing can be found.
        if self.node(parent).num_children == 0 {
            return None;
        }
        let hash = self.hash(parent, tokens);
        let mut id = self.buckets[self.bucket(hash)];
        while id != NONE {
            let node = self.node(id);
            if node.hash == hash && node.parent == parent && self.edge(id) == tokens {
                return Some(id);
            }
            id = node.next_same;
        }
        None
    }

    /// The partial child with the longest edge that `rest` begins with.
    pub(super) fn longest_partial(&self, parent: NodeId, rest: &[Token]) -> Option<NodeId> {
        let node = self.node(parent);
        if node.num_partials == 0 {
            return None;
        }
        let longest = rest.len().min(self.page_size as usize - 1);
        (1..=longest)
            .rev()
            .filter(|len| node.partial_lengths & (1 << (len % 32)) != 0)
            .find_map(|len| self.child(parent, &rest[..len]))
    }

    /// Adds a child that the caller knows to be new. It starts unheld.
    pub(super) fn insert(&mut self, parent: NodeId, tokens: &[Token], page: PageRef) -> NodeId {
        let hash = self.hash(parent, tokens);
        let partial = tokens.len() < self.page_size as usize;
        let depth = self.node(parent).depth + u32::from(!partial);
        self.count_page(&page);
        let id = self.place(parent, depth, tokens, hash, Some(page));
        if self.nodes.len() > self.buckets.len() {
            self.rehash(self.nodes.len());
        } else {
            self.link_hash(id, hash);
        }
        let above = self.node_mut(parent);
        above.num_children += 1;
        if partial {
            above.num_partials += 1;
            above.partial_lengths |= 1 << (tokens.len() % 32);
        }
        id
    }

    /// Takes a leaf that nothing holds out of the tree and returns what it kept.
    pub(super) fn remove(&mut self, id: NodeId) -> (Option<PageRef>, Option<Box<Entry>>) {
        let partial = self.is_partial(id);
        let node = self.node_mut(id);
        assert!(
            node.live && node.num_children == 0 && node.held == 0,
            "only an unheld leaf may be removed from the prefix tree"
        );
        node.live = false;
        node.generation = node.generation.wrapping_add(1);
        let (page, checkpoint) = (node.page.take(), node.checkpoint.take());
        let parent = node.parent;
        self.vacant.push(id);
        if parent == NONE {
            if let Some(key) = self.root_keys.remove(&id) {
                self.roots.remove(&key);
            }
            return (page, checkpoint);
        }
        self.unlink_hash(id);
        let above = self.node_mut(parent);
        above.num_children -= 1;
        if partial {
            above.num_partials -= 1;
            if above.num_partials == 0 {
                above.partial_lengths = 0;
            }
        }
        if let Some(page) = &page {
            let refs = &mut self.page_refs[page.id().index()];
            *refs -= 1;
            self.num_pages -= usize::from(*refs == 0);
        }
        (page, checkpoint)
    }

    /// Adds a hold to this node; true if it is the first, in which case the caller
    /// goes on with the parent.
    pub(super) fn hold(&mut self, id: NodeId) -> bool {
        let whole = self.is_whole(id);
        let node = self.node_mut(id);
        node.held += 1;
        let newly_held = node.held == 1;
        self.num_held += usize::from(newly_held && whole);
        newly_held
    }

    /// Takes a hold of this node away; true if none is left, in which case the
    /// caller goes on with the parent.
    pub(super) fn unhold(&mut self, id: NodeId) -> bool {
        let whole = self.is_whole(id);
        let node = self.node_mut(id);
        node.held -= 1;
        let unheld = node.held == 0;
        self.num_held -= usize::from(unheld && whole);
        unheld
    }

    /// Whether a holder outside the tree references the node's page.
    pub(super) fn in_use(&self, pool: &PagePool, id: NodeId) -> bool {
        self.node(id)
            .page
            .as_ref()
            .is_some_and(|page| pool.refs(page.id()) > self.page_refs[page.id().index()])
    }

    pub(super) fn live(&self) -> impl Iterator<Item = NodeId> {
        (0..self.nodes.len() as NodeId).filter(|id| self.node(*id).live)
    }

    pub(super) fn page_refs(&self) -> &[u32] {
        &self.page_refs
    }

    pub(super) fn num_nodes(&self) -> usize {
        self.nodes.len() - self.vacant.len()
    }

    fn is_whole(&self, id: NodeId) -> bool {
        u32::from(self.node(id).len) == self.page_size
    }

    fn count_page(&mut self, page: &PageRef) {
        let index = page.id().index();
        if index >= self.page_refs.len() {
            self.page_refs.resize(index + 1, 0);
        }
        self.num_pages += usize::from(self.page_refs[index] == 0);
        self.page_refs[index] += 1;
    }

    fn place(
        &mut self,
        parent: NodeId,
        depth: u32,
        edge: &[Token],
        hash: u32,
        page: Option<PageRef>,
    ) -> NodeId {
        let id = self.vacant.pop().unwrap_or(self.nodes.len() as NodeId);
        let generation = self.nodes.get(id as usize).map_or(0, |old| old.generation);
        let node = Node {
            parent,
            next_same: NONE,
            generation,
            depth,
            len: edge.len() as u16,
            num_children: 0,
            num_partials: 0,
            partial_lengths: 0,
            locks: 0,
            held: 0,
            hash,
            page,
            checkpoint: None,
            touched: 0,
            queued: 0,
            live: true,
        };
        let start = id as usize * self.page_size as usize;
        if id as usize == self.nodes.len() {
            self.nodes.push(node);
            self.tokens.resize(start + self.page_size as usize, 0);
        } else {
            self.nodes[id as usize] = node;
        }
        self.tokens[start..start + edge.len()].copy_from_slice(edge);
        id
    }

    fn bucket(&self, hash: u32) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    fn link_hash(&mut self, id: NodeId, hash: u32) {
        let bucket = self.bucket(hash);
        self.node_mut(id).next_same = std::mem::replace(&mut self.buckets[bucket], id);
    }

    fn unlink_hash(&mut self, id: NodeId) {
        let (bucket, next) = (self.bucket(self.node(id).hash), self.node(id).next_same);
        if self.buckets[bucket] == id {
            self.buckets[bucket] = next;
            return;
        }
        let mut before = self.buckets[bucket];
        while self.node(before).next_same != id {
            before = self.node(before).next_same;
        }
        self.node_mut(before).next_same = next;
    }

    /// Spreads all nodes over at least `num_nodes` buckets.
    fn rehash(&mut self, num_nodes: usize) {
        self.buckets = vec![NONE; num_nodes.next_power_of_two()];
        for id in 0..self.nodes.len() as NodeId {
            let node = self.node(id);
            if node.live && !node.is_root() {
                self.link_hash(id, node.hash);
            }
        }
    }

    /// A folded multiply over pairs of tokens: two 64-bit halves of the product are
    /// xored, so that high bits reach low ones.
    fn hash(&self, parent: NodeId, tokens: &[Token]) -> u32 {
        const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
        let fold = |hash: u64, word: u64| {
            let product = u128::from(hash ^ word) * u128::from(MULTIPLIER);
            (product as u64) ^ ((product >> 64) as u64)
        };
        let seed = (u64::from(parent) << 32) | tokens.len() as u64;
        let (pairs, odd) = tokens.as_chunks::<2>();
        let mut hash = fold(MULTIPLIER.rotate_left(17), seed);
        for [low, high] in pairs {
            hash = fold(hash.rotate_left(23), u64::from(*low) | (u64::from(*high) << 32));
        }
        for token in odd {
            hash = fold(hash.rotate_left(23), u64::from(*token));
        }
        (hash >> 32) as u32 & self.hash_mask
    }
}
