//! Pages of KV: who holds one is a matter of types.
//!
//! A page is held through [`PageRef`], which can be neither copied nor cloned:
//! one more holder is made by [`PagePool::share`], and one holder less by
//! [`PagePool::free`], which consumes the reference. A page returns to the free
//! list with its last reference. Page 0 is null and never handed out.

mod guard;
mod pool;
#[cfg(test)]
mod tests;

pub use guard::PageRef;
pub use pool::{PageIntegrityError, PagePool};
