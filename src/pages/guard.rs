//! The linear reference to a page.

use std::num::NonZeroU32;

use crate::ids::PageId;

/// One reference to a page. Only [`PagePool`](super::PagePool) makes one and only
/// [`PagePool::free`](super::PagePool::free) takes it back; one that is dropped
/// elsewhere is a leak, which the integrity check of the pool reports.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a page reference has to be given back with PagePool::free"]
pub struct PageRef(NonZeroU32);

impl PageRef {
    pub(super) const fn new(id: PageId) -> Self {
        Self(NonZeroU32::new(id.0).expect("the null page is never handed out"))
    }

    pub(super) const fn into_id(self) -> PageId {
        self.id()
    }

    /// The page's index in the KV tensors.
    #[must_use]
    pub const fn id(&self) -> PageId {
        PageId(self.0.get())
    }
}
