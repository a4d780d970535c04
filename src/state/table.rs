//! The pool of recurrent-state rows.

use thiserror::Error;

use crate::ids::StateIdx;

/// The ownership of one state row; a row has one owner, so this can be neither
/// copied nor shared. Given back with [`StateTable::free`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a state row has to be given back with StateTable::free"]
pub struct StateRef(StateIdx);

impl StateRef {
    const fn into_id(self) -> StateIdx {
        self.0
    }

    /// The row in the state tensors.
    #[must_use]
    pub const fn id(&self) -> StateIdx {
        self.0
    }
}

/// A broken promise of the state pool.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StateIntegrityError {
    /// A row has two owners, or an owner while it is free.
    #[error("state row {row} has two owners, or an owner while it is free")]
    TwoOwners {
        /// The row.
        row: u32,
    },
    /// A row is neither free nor owned.
    #[error("state row {row} is neither free nor owned")]
    Lost {
        /// The row.
        row: u32,
    },
}

/// Rows `1..=num_states`; row 0 is null, and HOLD rows of a step point at it.
#[derive(Debug)]
pub struct StateTable {
    free: Vec<StateIdx>,
    num_states: u32,
}

impl StateTable {
    /// A table of `num_states` usable rows, all free.
    #[must_use]
    pub fn new(num_states: u32) -> Self {
        Self { free: (1..=num_states).rev().map(StateIdx).collect(), num_states }
    }

    /// A free row, or `None`.
    #[must_use]
    pub fn try_take(&mut self) -> Option<StateRef> {
        self.free.pop().map(StateRef)
    }

    /// Gives a row back. Its content is not trusted again: a new owner resets or
    /// restores it before a step reads it.
    pub fn free(&mut self, row: StateRef) {
        self.free.push(row.into_id());
    }

    /// Rows without an owner.
    #[must_use]
    pub fn num_free(&self) -> usize {
        self.free.len()
    }

    /// Usable rows.
    #[must_use]
    pub const fn num_total(&self) -> usize {
        self.num_states as usize
    }

    /// Compares the table with the rows that someone owns, in any order.
    ///
    /// # Errors
    /// The first row with two owners or none.
    pub fn check(
        &self,
        owned: impl IntoIterator<Item = StateIdx>,
    ) -> Result<(), StateIntegrityError> {
        let mut seen = vec![false; self.num_states as usize + 1];
        for row in owned.into_iter().chain(self.free.iter().copied()) {
            if row == StateIdx::NULL || std::mem::replace(&mut seen[row.index()], true) {
                return Err(StateIntegrityError::TwoOwners { row: row.0 });
            }
        }
        match seen.iter().skip(1).position(|seen| !seen) {
            Some(at) => Err(StateIntegrityError::Lost { row: at as u32 + 1 }),
            None => Ok(()),
        }
    }
}
