//! Recurrent state of the requests: who owns a row, in which phase it is, and
//! where in it the live state lies.
//!
//! [`StateTable`] hands out rows, [`StateRow`] moves one through its life by
//! transitions that consume it (empty → live → verifying → live), and
//! [`CursorRules`] is the arithmetic of the cursors in all three storage modes:
//! pure functions on small values, exported as test vectors
//! ([`state_vectors`]) for the code that computes them on the device.

mod history;
mod lifecycle;
mod mode;
mod table;
mod vectors;

#[cfg(test)]
mod history_tests;
#[cfg(test)]
mod lifecycle_tests;

pub use history::{Begin, Cursor, CursorRules, ExportSource, boundary_rows};
pub use lifecycle::{
    CommitError, Empty, Export, LaunchError, Live, Outcome, RowState, StateCopy, StateRow,
    Verifying,
};
pub use mode::{CursorError, MAX_VERIFY_WIDTH, StateMode};
pub use table::{StateIntegrityError, StateRef, StateTable};
pub use vectors::state_vectors;
