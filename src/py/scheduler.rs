//! The scheduler, driven by one Python thread.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyDict;

use super::arguments::{not_contiguous, readable, request_value, writable};
use super::outputs::PyOutputBatch;
use super::{arguments, config, errors};
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
    #[allow(clippy::too_many_arguments, reason = "the fields of a request, by keyword")]
    fn submit(
        &mut self,
        py: Python<'_>,
        prompt: &Bound<'_, PyAny>,
        max_tokens: &Bound<'_, PyAny>,
        min_tokens: &Bound<'_, PyAny>,
        temperature: &Bound<'_, PyAny>,
        top_k: &Bound<'_, PyAny>,
        top_p: &Bound<'_, PyAny>,
        seed: &Bound<'_, PyAny>,
        sample_index: &Bound<'_, PyAny>,
        stop_token_ids: &Bound<'_, PyAny>,
        stop: &Bound<'_, PyAny>,
        logprobs: &Bound<'_, PyAny>,
        priority: &Bound<'_, PyAny>,
        salt: &Bound<'_, PyAny>,
        read_cache: bool,
    ) -> PyResult<u64> {
        let long = |value, name| request_value(value, name, "an int that fits 64 bits");
        let spec = RequestSpec {
            prompt: readable(prompt, "prompt")?.as_array().to_vec(),
            max_tokens: long(max_tokens, "max_tokens")?,
            min_tokens: long(min_tokens, "min_tokens")?,
            sampling: SamplingSpec {
                temperature: request_value(temperature, "temperature", "a float")?,
                top_k: long(top_k, "top_k")?,
                top_p: request_value(top_p, "top_p", "a float")?,
                seed: request_value(seed, "seed", "an int in 0..2**64")?,
                sample_index: long(sample_index, "sample_index")?,
                logprobs: long(logprobs, "logprobs")?,
            },
            stop_token_ids: request_value(stop_token_ids, "stop_token_ids", "a list of ints")?,
            stop: request_value(stop, "stop", "a list of bytes")?,
            priority: long(priority, "priority")?,
            salt: request_value(salt, "salt", "bytes")?,
            read_cache,
        };
        let id = self.core.submit(spec).map_err(|reason| errors::reject(py, &reason))?;
        Ok(id.0)
    }

    fn abort(&mut self, request_id: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(arguments::request_id(request_id)?.is_some_and(|id| self.core.abort(id)))
    }

    fn preempt(&mut self, request_id: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(arguments::request_id(request_id)?.is_some_and(|id| self.core.preempt(id)))
    }

    fn set_vocabulary(&mut self, token_bytes: Vec<PyBackedBytes>) -> PyResult<()> {
        let vocabulary = Vocabulary::new(token_bytes);
        self.core.set_vocabulary(vocabulary).map_err(|error| errors::config(&error))
    }

    fn plan(&mut self, out: &Bound<'_, PyAny>) -> PyResult<PyStepInfo> {
        let mut out = writable(out, "plan")?;
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

    fn commit(&mut self, step_id: &Bound<'_, PyAny>, result: &Bound<'_, PyAny>) -> PyResult<()> {
        let step = arguments::step_id(step_id)?;
        let result = readable(result, "result")?;
        let array = result.as_slice().map_err(|_| not_contiguous("result"))?;
        self.core.commit(step, array).map_err(|error| errors::result(&error))
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
