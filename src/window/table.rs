//! The pool of rings.

use thiserror::Error;

use super::cursors::{WindowCommit, WindowCursor, WindowError, WindowRules};
use crate::ids::RingId;

/// A ring and its cursor, owned by one admitted request. Given back with
/// [`RingTable::free`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a ring has to be given back with RingTable::free"]
pub struct Ring {
    id: RingId,
    cursor: WindowCursor,
}

/// A ring with two owners, or with an owner while it is free, or lost.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("ring {ring} has {owners} owners, the free list counted as one")]
pub struct RingIntegrityError {
    /// The ring.
    pub ring: u32,
    /// Its owners.
    pub owners: u32,
}

impl Ring {
    /// The ring in the window tensors.
    #[must_use]
    pub const fn id(&self) -> RingId {
        self.id
    }

    /// Where the window lies, as of the last commit.
    #[must_use]
    pub const fn cursor(&self) -> WindowCursor {
        self.cursor
    }

    /// Fills the window from a snapshot; see [`WindowRules::restore`].
    ///
    /// # Errors
    /// More rows than positions or than the window; the ring stays as it is.
    pub fn restore(
        &mut self,
        rules: WindowRules,
        boundary: u32,
        count: u32,
    ) -> Result<(), WindowError> {
        self.cursor = rules.restore(boundary, count)?;
        Ok(())
    }

    /// Empties the window at `end`; see [`WindowRules::skip`].
    pub fn skip(&mut self, rules: WindowRules, end: u32) {
        self.cursor = rules.skip(end);
    }

    /// Commits positions; see [`WindowRules::commit`].
    ///
    /// # Errors
    /// A gap or an end before the window's; the ring stays as it is.
    pub fn commit(
        &mut self,
        rules: WindowRules,
        first: u32,
        len: u32,
    ) -> Result<WindowCommit, WindowError> {
        let commit = rules.commit(self.cursor, first, len)?;
        self.cursor = commit.cursor;
        Ok(commit)
    }

    const fn into_id(self) -> RingId {
        self.id
    }
}

/// Rings `1..=num_rings`, handed out at admission; ring 0 is null and takes the
/// writes of padding rows.
#[derive(Debug)]
pub struct RingTable {
    free: Vec<RingId>,
    num_rings: u32,
}

impl RingTable {
    /// A table of `num_rings` usable rings, all free.
    #[must_use]
    pub fn new(num_rings: u32) -> Self {
        Self { free: (1..=num_rings).rev().map(RingId).collect(), num_rings }
    }

    /// A free ring with an empty window, or `None`.
    #[must_use]
    pub fn try_take(&mut self) -> Option<Ring> {
        let id = self.free.pop()?;
        Some(Ring { id, cursor: WindowCursor::default() })
    }

    /// Gives a ring back.
    pub fn free(&mut self, ring: Ring) {
        self.free.push(ring.into_id());
    }

    /// Rings without an owner.
    #[must_use]
    pub fn num_free(&self) -> usize {
        self.free.len()
    }

    /// Usable rings.
    #[must_use]
    pub const fn num_total(&self) -> usize {
        self.num_rings as usize
    }

    /// Compares the table with the rings that someone owns, in any order.
    ///
    /// # Errors
    /// The first ring that has not exactly one owner.
    pub fn check(&self, owned: impl IntoIterator<Item = RingId>) -> Result<(), RingIntegrityError> {
        let mut owners = vec![0_u32; self.num_rings as usize + 1];
        for ring in owned.into_iter().chain(self.free.iter().copied()) {
            owners[ring.index()] += 1;
        }
        let expected = |ring: usize| u32::from(ring > 0);
        match (0..owners.len()).find(|ring| owners[*ring] != expected(*ring)) {
            Some(ring) => Err(RingIntegrityError { ring: ring as u32, owners: owners[ring] }),
            None => Ok(()),
        }
    }
}
