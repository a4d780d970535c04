//! Bytes: what every pool takes, and what fits into a budget.
//!
//! The formulas stand in [`Formulas`] alone and equal the storage of the tensors
//! that a worker allocates, null entries included. [`fit`] turns a budget into
//! counts and says which pool limits.

mod error;
mod fit;
mod formulas;
mod options;
mod plan;
mod shape;

#[cfg(test)]
mod fit_tests;
#[cfg(test)]
mod formula_tests;

pub use error::FitError;
pub use fit::fit;
pub use formulas::{Formulas, Pool, Sizes};
pub use options::MemoryOptions;
pub use plan::MemoryPlan;
pub use shape::ModelShape;
