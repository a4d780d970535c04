//! The pool of pages with its reference counts.

use thiserror::Error;

use super::PageRef;
use crate::ids::PageId;

/// A broken promise of the page pool.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PageIntegrityError {
    /// References in the pool's books and references that someone holds differ:
    /// a leak if the books say more, a forged reference if they say less.
    #[error("page {page}: {counted} references on the books but {held} held")]
    Count {
        /// The page's index.
        page: u32,
        /// References that the pool counts.
        counted: u32,
        /// References that the holders named.
        held: u32,
    },
    /// A page stands in the free list twice, or while it is referenced.
    #[error("page {page} is in the free list while it is referenced or twice")]
    FreeList {
        /// The page's index.
        page: u32,
    },
    /// A page is neither free nor referenced.
    #[error("page {page} is neither free nor referenced")]
    Lost {
        /// The page's index.
        page: u32,
    },
}

/// All pages of KV, by reference count. Pages `1..=num_pages` are usable, page 0
/// is null. Freed pages are used again last in, first out.
#[derive(Debug)]
pub struct PagePool {
    refs: Vec<u32>,
    free: Vec<PageId>,
    page_size: u32,
}

impl PagePool {
    /// A pool of `num_pages` usable pages of `page_size` tokens each.
    ///
    /// # Panics
    /// If `page_size` is 0; the configuration is validated before.
    #[must_use]
    pub fn new(num_pages: u32, page_size: u32) -> Self {
        assert!(page_size > 0, "page_size must be at least 1");
        Self {
            refs: vec![0; num_pages as usize + 1],
            free: (1..=num_pages).rev().map(PageId).collect(),
            page_size,
        }
    }

    /// Tokens in a page.
    #[must_use]
    pub const fn page_size(&self) -> u32 {
        self.page_size
    }

    /// A free page with one reference, or `None` if none is free.
    #[must_use]
    pub fn try_take(&mut self) -> Option<PageRef> {
        let id = self.free.pop()?;
        self.refs[id.index()] = 1;
        Some(PageRef::new(id))
    }

    /// One more reference to the page.
    pub fn share(&mut self, page: &PageRef) -> PageRef {
        self.refs[page.id().index()] += 1;
        PageRef::new(page.id())
    }

    /// Gives a reference back; the page is free once its last one is.
    pub fn free(&mut self, page: PageRef) {
        let id = page.into_id();
        let refs = &mut self.refs[id.index()];
        *refs -= 1;
        if *refs == 0 {
            self.free.push(id);
        }
    }

    /// Pages that nobody references.
    #[must_use]
    pub fn num_free(&self) -> usize {
        self.free.len()
    }

    /// Usable pages, free or not.
    #[must_use]
    pub fn num_total(&self) -> usize {
        self.refs.len() - 1
    }

    /// References to the page now; 0 if it is free.
    #[must_use]
    pub fn refs(&self, page: PageId) -> u32 {
        self.refs[page.index()]
    }

    /// Compares the books with `held`, which names every reference that anyone
    /// holds, in any order.
    ///
    /// # Errors
    /// The first page whose count or free-list entry is wrong.
    pub fn check(&self, held: impl IntoIterator<Item = PageId>) -> Result<(), PageIntegrityError> {
        let mut found = vec![0_u32; self.refs.len()];
        for id in held {
            found[id.index()] += 1;
        }
        let mut is_free = vec![false; self.refs.len()];
        for id in &self.free {
            if is_free[id.index()] || self.refs[id.index()] != 0 || *id == PageId::NULL {
                return Err(PageIntegrityError::FreeList { page: id.0 });
            }
            is_free[id.index()] = true;
        }
        for page in 0..self.refs.len() {
            if self.refs[page] != found[page] {
                return Err(PageIntegrityError::Count {
                    page: page as u32,
                    counted: self.refs[page],
                    held: found[page],
                });
            }
            if page > 0 && self.refs[page] == 0 && !is_free[page] {
                return Err(PageIntegrityError::Lost { page: page as u32 });
            }
        }
        Ok(())
    }
}
