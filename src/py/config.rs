//! A config from a Python dict: every key known, none missing.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use crate::config::Config;

const KEYS: [&str; 19] = [
    "max_num_seqs",
    "max_num_batched_tokens",
    "page_size",
    "num_pages",
    "num_states",
    "num_checkpoints",
    "num_rings",
    "window",
    "max_model_len",
    "vocab_size",
    "mtp_step",
    "overlap_depth",
    "enable_prefix_caching",
    "checkpoint_interval",
    "max_queue",
    "state_mode",
    "replay_history_len",
    "page_bytes",
    "checkpoint_bytes",
];

/// Reads and validates the dict; a `ValueError` names the key.
pub(super) fn parse(dict: &Bound<'_, PyDict>) -> PyResult<Config> {
    for key in dict.keys() {
        let name: String = key
            .extract()
            .map_err(|_| PyValueError::new_err(format!("{key}: a setting's name must be a str")))?;
        if !KEYS.contains(&name.as_str()) {
            let known = KEYS.join(", ");
            return Err(PyValueError::new_err(format!(
                "{name}: unknown setting; known are {known}"
            )));
        }
    }
    let int = |key| integer(dict, key);
    let config = Config {
        max_num_seqs: int("max_num_seqs")?,
        max_num_batched_tokens: int("max_num_batched_tokens")?,
        page_size: int("page_size")?,
        num_pages: int("num_pages")?,
        num_states: int("num_states")?,
        num_checkpoints: int("num_checkpoints")?,
        num_rings: int("num_rings")?,
        window: int("window")?,
        max_model_len: int("max_model_len")?,
        vocab_size: int("vocab_size")?,
        mtp_step: int("mtp_step")?,
        overlap_depth: int("overlap_depth")?,
        enable_prefix_caching: boolean(dict, "enable_prefix_caching")?,
        checkpoint_interval: int("checkpoint_interval")?,
        max_queue: int("max_queue")?,
        page_bytes: integer(dict, "page_bytes")?,
        checkpoint_bytes: integer(dict, "checkpoint_bytes")?,
    };
    let mode: String =
        item(dict, "state_mode")?.extract().map_err(|_| bad("state_mode", "a str"))?;
    if mode != "native" {
        return Err(PyValueError::new_err(format!(
            "state_mode: '{mode}' does not run yet; set 'native'"
        )));
    }
    if integer::<u32>(dict, "replay_history_len")? != 0 {
        return Err(PyValueError::new_err(
            "replay_history_len: state_mode 'native' keeps no history; set 0",
        ));
    }
    config.validate().map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(config)
}

fn item<'py>(dict: &Bound<'py, PyDict>, key: &str) -> PyResult<Bound<'py, PyAny>> {
    dict.get_item(key)?.ok_or_else(|| PyValueError::new_err(format!("{key}: setting is missing")))
}

fn bad(key: &str, wanted: &str) -> PyErr {
    PyValueError::new_err(format!("{key}: must be {wanted}"))
}

fn integer<T>(dict: &Bound<'_, PyDict>, key: &str) -> PyResult<T>
where
    T: TryFrom<u64>,
{
    let value = item(dict, key)?;
    let wanted = "a non-negative int within range";
    if value.is_instance_of::<PyBool>() {
        return Err(bad(key, wanted));
    }
    let number: u64 = value.extract().map_err(|_| bad(key, wanted))?;
    T::try_from(number).map_err(|_| bad(key, wanted))
}

fn boolean(dict: &Bound<'_, PyDict>, key: &str) -> PyResult<bool> {
    item(dict, key)?.extract().map_err(|_| bad(key, "a bool"))
}
