//! Errors that name the setting or field, and the way out.

use crate::ids::{RequestId, StepId};

/// A setting that the core refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct ConfigError {
    /// The setting.
    pub key: &'static str,
    /// What is wrong and what to do.
    pub reason: String,
}

impl ConfigError {
    /// An error about one setting.
    pub fn new(key: &'static str, reason: impl Into<String>) -> Self {
        Self { key, reason: reason.into() }
    }
}

/// An array whose length is not that of its field table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the {table} array has {found} int32 words, its field table has {expected}: \
         allocate it from {table}_fields(config) of the same config"
)]
pub struct ArrayError {
    /// `plan` or `result`.
    pub table: &'static str,
    /// Words found.
    pub found: usize,
    /// Words expected.
    pub expected: usize,
}

impl ArrayError {
    /// Compares a length with the table's.
    ///
    /// # Errors
    /// When they differ.
    pub fn check(table: &'static str, found: usize, expected: usize) -> Result<(), Self> {
        if found == expected { Ok(()) } else { Err(Self { table, found, expected }) }
    }
}

/// A result that breaks a law; nothing of it has been applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResultError {
    /// The array does not have the table's length.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// `commit` without a step in flight.
    #[error("commit of step {}: no step is in flight", .0.0)]
    NothingInFlight(StepId),
    /// Steps commit in the order in which they were planned.
    #[error("commit of step {}: step {} is the oldest in flight and commits first", found.0, expected.0)]
    WrongStep {
        /// The step named by the caller.
        found: StepId,
        /// The oldest step in flight.
        expected: StepId,
    },
    /// A scalar differs from what the plan said.
    #[error("result field {field} is {found}, the plan of this step says {expected}")]
    Scalar {
        /// The field.
        field: &'static str,
        /// Its value.
        found: i32,
        /// The planned value.
        expected: i32,
    },
    /// A row's field breaks its law.
    #[error("result field {field} of row {row} is {found}: {law}")]
    Row {
        /// The field.
        field: &'static str,
        /// The row, or the armed entry for `fired`.
        row: usize,
        /// Its value.
        found: i32,
        /// What holds for every correct device.
        law: &'static str,
    },
}

/// Why `plan` gave no step although nothing is wrong with the request mix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The array does not have the table's length.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// Work is waiting, nothing runs and nothing fits: a broken invariant.
    #[error("{waiting} requests wait, none runs and none fits into free pools: a resource leaked")]
    Stalled {
        /// Requests in the queue.
        waiting: usize,
    },
}

/// A broken invariant: a bug of the core, never of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("broken invariant: {0}")]
pub struct IntegrityError(pub String);

/// A request that ended twice, or ended without having begun.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The request already has its one terminal.
    #[error("request {} ended a second time", .0.0)]
    SecondTerminal(RequestId),
    /// No such request was accepted.
    #[error("request {} ended but was never accepted", .0.0)]
    NeverAccepted(RequestId),
}
