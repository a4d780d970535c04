//! Python values as Rust ones; every refusal names the argument and what it takes.

use numpy::{
    PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadwriteArray1, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;

use super::errors;
use crate::ids::{RequestId, StepId};

/// A value of a request, by the name of its argument. One that overflows its type
/// is a refusal of the request.
pub(super) fn request_value<'a, 'py, T>(
    value: &'a Bound<'py, PyAny>,
    name: &'static str,
    wanted: &str,
) -> PyResult<T>
where
    T: FromPyObject<'a, 'py>,
{
    value.extract().map_err(|error: T::Error| {
        if error.into().is_instance_of::<PyOverflowError>(value.py()) {
            let text = format!("{name}: {value} is out of range; give {wanted}");
            return errors::reject_value(value.py(), name, text);
        }
        wrong_type(value, name, wanted)
    })
}

/// The number of a step.
pub(super) fn step_id(value: &Bound<'_, PyAny>) -> PyResult<StepId> {
    const WANTED: &str = "the step_id that plan gave";
    value.extract().map(StepId).map_err(|error| {
        if error.is_instance_of::<PyOverflowError>(value.py()) {
            PyValueError::new_err(format!("step_id: {value} is out of range; give {WANTED}"))
        } else {
            wrong_type(value, "step_id", WANTED)
        }
    })
}

/// The identity of a request; `None` for an int that no request can have.
pub(super) fn request_id(value: &Bound<'_, PyAny>) -> PyResult<Option<RequestId>> {
    match value.extract::<u64>() {
        Ok(id) => Ok(Some(RequestId(id))),
        Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => Ok(None),
        Err(_) => Err(wrong_type(value, "request_id", "the int that submit returned")),
    }
}

/// An array to read.
pub(super) fn readable<'py>(
    value: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<PyReadonlyArray1<'py, i32>> {
    int32(value, name)?.try_readonly().map_err(|_| PyValueError::new_err(in_use(name)))
}

/// An array to write.
pub(super) fn writable<'py>(
    value: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<PyReadwriteArray1<'py, i32>> {
    int32(value, name)?.try_readwrite().map_err(|error| match error {
        numpy::BorrowError::NotWriteable => {
            PyValueError::new_err(format!("{name}: the array is read-only; pass a writable one"))
        }
        _ => PyValueError::new_err(in_use(name)),
    })
}

/// The error about an array with strides.
pub(super) fn not_contiguous(name: &str) -> PyErr {
    PyValueError::new_err(format!(
        "{name}: the array is not contiguous; pass numpy.ascontiguousarray of it, or allocate it \
         as one"
    ))
}

fn int32<'a, 'py>(
    value: &'a Bound<'py, PyAny>,
    name: &str,
) -> PyResult<&'a Bound<'py, PyArray1<i32>>> {
    value.cast::<PyArray1<i32>>().map_err(|_| {
        let found = match value.cast::<PyUntypedArray>() {
            Ok(array) => format!("{} of {} dimensions", array.dtype(), array.ndim()),
            Err(_) => type_name(value),
        };
        PyTypeError::new_err(format!(
            "{name}: {found} found; give a one-dimensional numpy array of int32"
        ))
    })
}

fn in_use(name: &str) -> String {
    format!("{name}: the array is being read or written elsewhere; pass one of its own")
}

fn wrong_type(value: &Bound<'_, PyAny>, name: &str, wanted: &str) -> PyErr {
    PyTypeError::new_err(format!("{name}: {} found; give {wanted}", type_name(value)))
}

fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "another type".into(), |name| name.to_string())
}
