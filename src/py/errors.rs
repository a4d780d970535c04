//! Rust errors as Python exceptions.

use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::error;
use crate::request::RejectReason;

create_exception!(mtpcore._core, RejectError, PyValueError, "A request was refused.");
create_exception!(mtpcore._core, ResultError, PyValueError, "A result breaks a law.");
create_exception!(mtpcore._core, PlanError, PyRuntimeError, "No step could be planned.");
create_exception!(mtpcore._core, IntegrityError, PyRuntimeError, "A broken invariant.");

/// The exception for a refusal; its `reason` is the code.
pub(super) fn reject(py: Python<'_>, reason: &RejectReason) -> PyErr {
    reject_value(py, reason.code(), reason.to_string())
}

/// The exception for a value that no request can carry.
pub(super) fn reject_value(py: Python<'_>, code: &'static str, text: String) -> PyErr {
    let error = RejectError::new_err(text);
    match error.value(py).setattr("reason", code) {
        Ok(()) => error,
        Err(failed) => failed,
    }
}

pub(super) fn result(error: &error::ResultError) -> PyErr {
    ResultError::new_err(error.to_string())
}

pub(super) fn plan(error: &error::PlanError) -> PyErr {
    match error {
        error::PlanError::Array(array) => PyValueError::new_err(array.to_string()),
        error::PlanError::Stalled { .. } => PlanError::new_err(error.to_string()),
    }
}

pub(super) fn integrity(error: &error::IntegrityError) -> PyErr {
    IntegrityError::new_err(error.to_string())
}

pub(super) fn config(error: &error::ConfigError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
