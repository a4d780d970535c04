//! Test vectors of the cursor functions, for the device side.

use pyo3::prelude::*;

use crate::state;

/// JSON text with the test vectors of the state and window cursors.
#[pyfunction]
pub(super) fn state_vectors() -> String {
    state::state_vectors()
}
