//! Output deltas as flat arrays.

use numpy::{PyArray1, PyUntypedArrayMethods, ToPyArray};
use pyo3::prelude::*;

use crate::outputs::OutputBatch;

/// Columns of one length, one entry a delta; `tokens` lies back to back.
#[pyclass(name = "OutputBatch", module = "mtpcore._core", frozen, get_all)]
pub(super) struct PyOutputBatch {
    request_id: Py<PyArray1<i64>>,
    step_id: Py<PyArray1<i32>>,
    row: Py<PyArray1<i32>>,
    num_tokens: Py<PyArray1<i32>>,
    finish: Py<PyArray1<i32>>,
    num_cached: Py<PyArray1<i32>>,
    stop_bytes: Py<PyArray1<i64>>,
    tokens_offset: Py<PyArray1<i32>>,
    tokens: Py<PyArray1<i32>>,
}

#[pymethods]
impl PyOutputBatch {
    fn __len__(&self, py: Python<'_>) -> usize {
        self.request_id.bind(py).len()
    }
}

impl PyOutputBatch {
    pub(super) fn new(py: Python<'_>, batch: &OutputBatch) -> Self {
        let int = |column: &[i32]| column.to_pyarray(py).unbind();
        let long = |column: &[i64]| column.to_pyarray(py).unbind();
        Self {
            request_id: long(&batch.request_id),
            step_id: int(&batch.step_id),
            row: int(&batch.row),
            num_tokens: int(&batch.num_tokens),
            finish: int(&batch.finish),
            num_cached: int(&batch.num_cached),
            stop_bytes: long(&batch.stop_bytes),
            tokens_offset: int(&batch.tokens_offset),
            tokens: int(&batch.tokens),
        }
    }
}
