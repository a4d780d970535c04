//! The field tables, for the device side.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::config::parse;
use crate::step::{self, Dims, Field};

type Entry = (&'static str, usize, usize);

fn entries(fields: Vec<Field>) -> Vec<Entry> {
    fields.into_iter().map(|field| (field.name, field.offset, field.capacity)).collect()
}

/// Fields of a plan array: name, offset and capacity in int32 words.
#[pyfunction]
pub(super) fn plan_fields(config: &Bound<'_, PyDict>) -> PyResult<Vec<Entry>> {
    Ok(entries(step::plan_fields(&Dims::of(&parse(config)?))))
}

/// Fields of a result array: name, offset and capacity in int32 words.
#[pyfunction]
pub(super) fn result_fields(config: &Bound<'_, PyDict>) -> PyResult<Vec<Entry>> {
    Ok(entries(step::result_fields(&Dims::of(&parse(config)?))))
}
