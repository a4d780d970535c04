//! The draft window: a ring of the last W committed positions of a request, which
//! a drafter attends to in place.
//!
//! [`RingTable`] hands out rings when requests are admitted; [`WindowRules`] is the
//! arithmetic of their cursors. A window is laid out from its origin: the position
//! p lies in slot `(p - origin) mod W`, and `origin == valid_from` after a reset,
//! a restore and a skip, so that the visible rows are always rows `0..count` of the
//! ring. What was not restored is masked by the count and never trusted.

mod cursors;
mod table;
mod vectors;

#[cfg(test)]
mod tests;

pub use cursors::{WindowCommit, WindowCursor, WindowError, WindowRules};
pub use table::{Ring, RingIntegrityError, RingTable};
pub(crate) use vectors::window_vectors;
