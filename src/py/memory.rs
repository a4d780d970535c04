//! Memory plans for the device side.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use crate::memory::{self, MemoryOptions, MemoryPlan, ModelShape};
use crate::state::StateMode;

/// Sizes every pool of a model within a budget.
///
/// `shape` is what a model's configuration gives; `options` holds the settings that
/// decide about memory, None standing for a setting that is not given. A `ValueError`
/// names the key that is unknown, missing or wrong, or the pool that does not fit.
#[pyfunction]
pub(super) fn memory_plan<'py>(
    shape: &Bound<'py, PyDict>,
    options: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyDict>> {
    let read = Settings::new(shape, "shape", &ModelShape::KEYS, &ModelShape::OPTIONAL_KEYS)?;
    let shape = read_shape(&read)?;
    let read =
        Settings::new(options, "option", &MemoryOptions::KEYS, &MemoryOptions::OPTIONAL_KEYS)?;
    let options = read_options(&read)?;
    let plan =
        memory::fit(&shape, &options).map_err(|error| PyValueError::new_err(error.to_string()))?;
    as_dict(read.dict.py(), &plan, options.memory_budget)
}

fn read_shape(read: &Settings<'_, '_>) -> PyResult<ModelShape> {
    Ok(ModelShape {
        num_attn_layers: read.int("num_attn_layers")?,
        num_mtp_layers: read.int("num_mtp_layers")?,
        num_kv_heads: read.int("num_kv_heads")?,
        head_dim: read.int("head_dim")?,
        num_ssm_layers: read.int("num_ssm_layers")?,
        num_k_heads: read.int("num_k_heads")?,
        num_v_heads: read.int("num_v_heads")?,
        k_dim: read.int("k_dim")?,
        v_dim: read.int("v_dim")?,
        conv_kernel: read.int("conv_kernel")?,
        conv_channels: read.int("conv_channels")?,
        hidden: read.int("hidden")?,
        vocab: read.int("vocab")?,
        model_elt_bytes: read.int("model_elt_bytes")?,
        state_elt_bytes: read.int("state_elt_bytes")?,
        weight_bytes: read.int("weight_bytes")?,
        decay_width: read.optional("decay_width")?.unwrap_or(1),
        num_draft_layers: read.optional("num_draft_layers")?.unwrap_or(0),
        num_draft_kv_heads: read.optional("num_draft_kv_heads")?.unwrap_or(0),
        draft_head_dim: read.optional("draft_head_dim")?.unwrap_or(0),
    })
}

fn read_options(read: &Settings<'_, '_>) -> PyResult<MemoryOptions> {
    Ok(MemoryOptions {
        memory_budget: read.optional("memory_budget")?,
        num_pages: read.optional("num_pages")?,
        num_checkpoints: read.optional("num_checkpoints")?,
        checkpoint_share: read
            .optional("checkpoint_share")?
            .unwrap_or(MemoryOptions::CHECKPOINT_SHARE),
        max_num_seqs: read.int("max_num_seqs")?,
        max_model_len: read.int("max_model_len")?,
        page_size: read.int("page_size")?,
        tokens_per_request: read.optional("tokens_per_request")?,
        mtp_step: read.int("mtp_step")?,
        overlap_depth: read.int("overlap_depth")?,
        ssm_state_mode: read.mode("ssm_state_mode")?,
        replay_history_len: read.optional("replay_history_len")?.unwrap_or(0),
        draft_window: read.optional("draft_window")?.unwrap_or(0),
        draft_block: read.optional("draft_block")?.unwrap_or(0),
        enable_prefix_caching: read.boolean("enable_prefix_caching")?.unwrap_or(true),
    })
}

fn as_dict<'py>(
    py: Python<'py>,
    plan: &MemoryPlan,
    budget: Option<u64>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut pools = Vec::with_capacity(plan.pools.len());
    for pool in &plan.pools {
        let dict = PyDict::new(py);
        dict.set_item("name", pool.name)?;
        dict.set_item("bytes_each", pool.bytes_each)?;
        dict.set_item("count", pool.count)?;
        dict.set_item("bytes", pool.bytes)?;
        pools.push(dict);
    }
    let sizes = PyDict::new(py);
    sizes.set_item("num_pages", plan.sizes.num_pages)?;
    sizes.set_item("num_states", plan.sizes.num_states)?;
    sizes.set_item("num_checkpoints", plan.sizes.num_checkpoints)?;
    sizes.set_item("page_bytes", plan.page_bytes)?;
    sizes.set_item("checkpoint_bytes", plan.checkpoint_bytes)?;
    let dict = PyDict::new(py);
    dict.set_item("budget_bytes", budget)?;
    dict.set_item("total_bytes", plan.total_bytes)?;
    dict.set_item("pools", pools)?;
    dict.set_item("sizes", sizes)?;
    dict.set_item("limiting_pool", plan.limiting_pool)?;
    dict.set_item("limiting_setting", plan.limiting_setting)?;
    dict.set_item("max_requests", plan.max_requests)?;
    dict.set_item("pages_per_request", plan.pages_per_request)?;
    dict.set_item("bytes_per_request", plan.bytes_per_request)?;
    dict.set_item("tokens_until_full", plan.tokens_until_full)?;
    Ok(dict)
}

/// A dict whose keys are all known.
struct Settings<'a, 'py> {
    dict: &'a Bound<'py, PyDict>,
    kind: &'static str,
}

impl<'a, 'py> Settings<'a, 'py> {
    fn new(
        dict: &'a Bound<'py, PyDict>,
        kind: &'static str,
        keys: &[&str],
        optional: &[&str],
    ) -> PyResult<Self> {
        for key in dict.keys() {
            let name: String = key
                .extract()
                .map_err(|_| PyValueError::new_err(format!("{kind} keys must be str")))?;
            if !keys.contains(&name.as_str()) && !optional.contains(&name.as_str()) {
                let known = [keys, optional].concat().join(", ");
                let text = format!("{name}: unknown {kind} key; known are {known}");
                return Err(PyValueError::new_err(text));
            }
        }
        Ok(Self { dict, kind })
    }

    fn given(&self, key: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.dict.get_item(key)?.filter(|value| !value.is_none()))
    }

    fn optional(&self, key: &str) -> PyResult<Option<u64>> {
        let Some(value) = self.given(key)? else {
            return Ok(None);
        };
        let number = if value.is_instance_of::<PyBool>() { None } else { value.extract().ok() };
        number.map(Some).ok_or_else(|| bad(key, "a non-negative int below 2**64"))
    }

    fn int(&self, key: &str) -> PyResult<u64> {
        self.optional(key)?.ok_or_else(|| self.missing(key))
    }

    fn boolean(&self, key: &str) -> PyResult<Option<bool>> {
        let Some(value) = self.given(key)? else {
            return Ok(None);
        };
        value.extract().map(Some).map_err(|_| bad(key, "a bool"))
    }

    fn mode(&self, key: &str) -> PyResult<StateMode> {
        let value = self.given(key)?.ok_or_else(|| self.missing(key))?;
        let name: Option<String> = value.extract().ok();
        name.as_deref()
            .and_then(StateMode::parse)
            .ok_or_else(|| bad(key, &StateMode::ALL.map(StateMode::name).join(", ")))
    }

    fn missing(&self, key: &str) -> PyErr {
        PyValueError::new_err(format!("{key}: {} key is missing", self.kind))
    }
}

fn bad(key: &str, wanted: &str) -> PyErr {
    PyValueError::new_err(format!("{key}: must be {wanted}"))
}
