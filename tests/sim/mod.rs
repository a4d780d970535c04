//! A seeded simulator: the real core, a fake device that does what a plan says,
//! and a reference that knows nothing of scheduling.

pub(crate) mod device;
pub(crate) mod drive;
pub(crate) mod model;
pub(crate) mod rng;
pub(crate) mod workload;
