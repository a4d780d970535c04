//! Reads a result array, row by row.

use super::dims::Dims;
use super::result_fields::ResultView;
use crate::error::{ArrayError, ResultError};
use crate::ids::StepId;

/// What the device says of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowResult {
    /// Tokens emitted.
    pub num_accepted: i32,
    /// Target rows run.
    pub rows_run: i32,
    /// Replay records folded at the start.
    pub folded: i32,
    /// Why the request ended, 0 if it goes on.
    pub finish: i32,
    /// 1 when a value of the row was not finite.
    pub non_finite: i32,
    /// 1 when the end checkpoint was taken.
    pub end_fired: i32,
}

/// A result array of the right length.
#[derive(Debug, Clone, Copy)]
pub struct ResultReader<'a> {
    view: ResultView<'a>,
    width: usize,
}

impl<'a> ResultReader<'a> {
    /// Takes an array of [`result_len`](super::result_len) words.
    ///
    /// # Errors
    /// [`ArrayError`] when the length differs.
    pub fn new(array: &'a [i32], dims: &Dims) -> Result<Self, ArrayError> {
        Ok(Self { view: ResultView::split(array, dims)?, width: dims.verify_width })
    }

    /// Compares the array's head with the step that was planned.
    ///
    /// # Errors
    /// [`ResultError::Scalar`] naming the field that differs.
    pub fn check_head(&self, step: StepId, num_rows: usize) -> Result<(), ResultError> {
        let scalar = |field, found: i32, expected: i32| {
            if found == expected {
                return Ok(());
            }
            Err(ResultError::Scalar { field, found, expected })
        };
        scalar("step_id", self.view.step_id[0], step.0 as i32)?;
        scalar("num_rows", self.view.num_rows[0], num_rows as i32)
    }

    /// The fields of one row.
    #[inline]
    #[must_use]
    pub fn row(&self, row: usize) -> RowResult {
        RowResult {
            num_accepted: self.view.num_accepted[row],
            rows_run: self.view.rows_run[row],
            folded: self.view.folded[row],
            finish: self.view.finish[row],
            non_finite: self.view.non_finite[row],
            end_fired: self.view.end_fired[row],
        }
    }

    /// The places of one row's emitted tokens.
    #[inline]
    #[must_use]
    pub fn tokens(&self, row: usize) -> &'a [i32] {
        &self.view.tokens[row * self.width..(row + 1) * self.width]
    }

    /// Whether an armed entry's checkpoint was taken.
    #[must_use]
    pub fn fired(&self, entry: usize) -> i32 {
        self.view.fired[entry]
    }
}
