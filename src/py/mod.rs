//! The `PyO3` face: arrays and numbers in, arrays and numbers out.
//!
//! `plan` and `commit` keep the GIL: a thread that lets it go may wait a whole
//! decode step to get it back.

mod arguments;
mod config;
mod errors;
mod fields;
mod memory;
mod outputs;
mod scheduler;
mod vectors;

use pyo3::prelude::*;

/// The compiled core.
#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use super::errors::{IntegrityError, PlanError, RejectError, ResultError};
    #[pymodule_export]
    use super::fields::{plan_fields, result_fields};
    #[pymodule_export]
    use super::memory::memory_plan;
    #[pymodule_export]
    use super::outputs::PyOutputBatch;
    #[pymodule_export]
    use super::scheduler::{PyScheduler, PyStepInfo};
    #[pymodule_export]
    use super::vectors::state_vectors;

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python fixes the name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
