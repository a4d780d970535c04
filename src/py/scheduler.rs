//! The scheduler, driven by one Python thread.

use numpy::{PyReadonlyArray1, PyReadwriteArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::outputs::PyOutputBatch;
use super::{config, errors};
use crate::ids::{RequestId, StepId};
use crate::outputs::OutputBatch;
use crate::request::{RequestSpec, SamplingSpec, Vocabulary};
use crate::schedule::{Scheduler, StepStatus};

/// What `plan` did.
#[pyclass(name = "StepInfo", module = "mtpcore._core", frozen, get_all)]
pub(super) struct PyStepInfo {
    status: &'static str,
    step_id: u32,
    num_rows: u32,
    num_decode_rows: u32,
    num_tokens: u32,
}

#[pymethods]
impl PyStepInfo {
    fn __repr__(&self) -> String {
        format!(
            "StepInfo(status='{}', step_id={}, num_rows={}, num_decode_rows={}, num_tokens={})",
            self.status, self.step_id, self.num_rows, self.num_decode_rows, self.num_tokens
        )
    }
}

/// All requests of one engine, and all that they hold.
#[pyclass(name = "Scheduler", module = "mtpcore._core")]
pub(super) struct PyScheduler {
    core: Scheduler,
    outputs: OutputBatch,
}

#[pymethods]
impl PyScheduler {
    #[new]
    fn new(config: &Bound<'_, PyDict>) -> PyResult<Self> {
        let core =
            Scheduler::new(config::parse(config)?).map_err(|error| errors::config(&error))?;
        Ok(Self { core, outputs: OutputBatch::default() })
    }

    #[pyo3(signature = (
        prompt, *, max_tokens, min_tokens, temperature, top_k, top_p, seed, sample_index,
        stop_token_ids, stop, logprobs, priority, salt, read_cache = true
    ))]
    #[allow(clippy::too_many_arguments)] // The arguments are the fields of a request, by keyword.
    fn submit(
        &mut self,
        py: Python<'_>,
        prompt: PyReadonlyArray1<'_, i32>,
        max_tokens: i64,
        min_tokens: i64,
        temperature: f64,
        top_k: i64,
        top_p: f64,
        seed: u64,
        sample_index: i64,
        stop_token_ids: Vec<i64>,
        stop: Vec<Vec<u8>>,
        logprobs: i64,
        priority: i64,
        salt: Vec<u8>,
        read_cache: bool,
    ) -> PyResult<u64> {
        let spec = RequestSpec {
            prompt: prompt.as_array().to_vec(),
            max_tokens,
            min_tokens,
            sampling: SamplingSpec { temperature, top_k, top_p, seed, sample_index, logprobs },
            stop_token_ids,
            stop,
            priority,
            salt,
            read_cache,
        };
        let id = self.core.submit(spec).map_err(|reason| errors::reject(py, &reason))?;
        Ok(id.0)
    }

    fn abort(&mut self, request_id: u64) -> bool {
        self.core.abort(RequestId(request_id))
    }

    fn preempt(&mut self, request_id: u64) -> bool {
        self.core.preempt(RequestId(request_id))
    }

    fn set_vocabulary(&mut self, token_bytes: Vec<Bound<'_, PyBytes>>) -> PyResult<()> {
        let vocabulary = Vocabulary::new(token_bytes.iter().map(|bytes| bytes.as_bytes()));
        self.core.set_vocabulary(vocabulary).map_err(|error| errors::config(&error))
    }

    fn plan(&mut self, mut out: PyReadwriteArray1<'_, i32>) -> PyResult<PyStepInfo> {
        let array = out.as_slice_mut().map_err(|_| not_contiguous("plan"))?;
        let info = self.core.plan(array).map_err(|error| errors::plan(&error))?;
        Ok(PyStepInfo {
            status: match info.status {
                StepStatus::Run => "run",
                StepStatus::Idle => "idle",
                StepStatus::CommitFirst => "commit_first",
            },
            step_id: info.step_id.0,
            num_rows: info.num_rows,
            num_decode_rows: info.num_decode_rows,
            num_tokens: info.num_tokens,
        })
    }

    fn commit(&mut self, step_id: u32, result: PyReadonlyArray1<'_, i32>) -> PyResult<()> {
        let array = result.as_slice().map_err(|_| not_contiguous("result"))?;
        self.core.commit(StepId(step_id), array).map_err(|error| errors::result(&error))
    }

    fn take_outputs(&mut self, py: Python<'_>) -> PyOutputBatch {
        self.core.take_outputs(&mut self.outputs);
        PyOutputBatch::new(py, &self.outputs)
    }

    fn pools<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let entry = |pool: crate::schedule::PoolCounts| {
            let dict = PyDict::new(py);
            dict.set_item("name", pool.name)?;
            dict.set_item("total", pool.total)?;
            dict.set_item("free", pool.free)?;
            dict.set_item("used", pool.used)?;
            dict.set_item("cached", pool.cached)?;
            Ok(dict)
        };
        self.core.pools().into_iter().map(entry).collect()
    }

    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, count) in self.core.counters().entries() {
            dict.set_item(name, count)?;
        }
        Ok(dict)
    }

    fn check_integrity(&self) -> PyResult<()> {
        self.core.check_integrity().map_err(|error| errors::integrity(&error))
    }

    fn num_unfinished(&self) -> usize {
        self.core.num_unfinished()
    }

    fn num_waiting(&self) -> usize {
        self.core.num_waiting()
    }

    fn num_running(&self) -> usize {
        self.core.num_running()
    }
}

fn not_contiguous(name: &str) -> PyErr {
    PyValueError::new_err(format!("{name}: the array must be contiguous; pass it without strides"))
}
