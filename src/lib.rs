//! The core of mtpcore: every integer that decides.
//!
//! Requests, pages, the prefix tree with its checkpoints, recurrent-state and
//! draft-window cursors, and the two calls of a step, `plan` and `commit`.
//! Nothing here knows of torch, CUDA or HTTP; the `PyO3` face is `py`, behind the
//! cargo feature `python`.

pub mod config;
pub mod error;
pub mod ids;
pub mod manifest;
pub mod memory;
pub mod metrics;
pub mod outputs;
pub mod pages;
pub mod prefix;
#[cfg(feature = "python")]
mod py;
pub mod request;
pub mod schedule;
pub mod state;
pub mod step;
pub mod window;
