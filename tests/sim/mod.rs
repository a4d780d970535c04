//! A seeded simulator: the real core, a fake device that does what a plan says,
//! and a reference that knows nothing of scheduling.
#![allow(dead_code)] // Each test target uses a part of it.

pub mod device;
pub mod drive;
pub mod model;
pub mod rng;
pub mod workload;
