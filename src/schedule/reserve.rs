//! Pages for the slots that a decode row may write.

use super::Scheduler;
use super::slots::{Decoding, Slot};

/// How a reservation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reserved {
    /// Every row has its pages.
    All,
    /// A request was preempted: pick anew.
    Preempted,
    /// Short while steps are in flight, whose commits may free pages.
    Short,
}

impl Scheduler {
    /// Pages that a decode row needs: up to `reserve` slots past its last
    /// committed token, and none past the last token that it can hold.
    fn decode_pages(&self, decoding: &Decoding) -> u32 {
        let reach = decoding.seq_len + self.config.reserve();
        self.config.pages_for(reach.min(decoding.max_len))
    }

    /// Reserves for all rows that need pages. A page of a row in flight never counts as
    /// free, and no such row is preempted: when short with steps in flight, the
    /// caller is told to commit first.
    pub(super) fn reserve_decode(&mut self, growing: &[u32]) -> Reserved {
        for &slot in growing {
            while !self.try_reserve(slot) {
                if !self.flight.is_empty() {
                    return Reserved::Short;
                }
                let &(_, worst) = self.running.last().expect("the growing row is running");
                if worst != slot || self.running.len() > 1 {
                    self.preempt_slot(worst);
                    return Reserved::Preempted;
                }
                if !self.stop_publishing(slot) {
                    self.preempt_slot(slot);
                    return Reserved::Preempted;
                }
            }
        }
        Reserved::All
    }

    /// Reserves for one row from free pages, then from evictable ones.
    pub(super) fn try_reserve(&mut self, slot: u32) -> bool {
        let Slot::Decoding(decoding) = &self.slots[slot as usize] else { return true };
        let needed = self.decode_pages(decoding);
        let missing = needed.saturating_sub(decoding.held.num_pages()) as usize;
        let pools = &mut self.pools;
        if pools.pages.num_free() < missing {
            pools.cache.evict_pages(&mut pools.pages, missing);
            if pools.pages.num_free() < missing {
                return false;
            }
        }
        let Slot::Decoding(decoding) = &mut self.slots[slot as usize] else { return true };
        for _ in 0..missing {
            let page = pools.pages.try_take().expect("as many were counted free");
            decoding.held.pages.push(page);
        }
        let slots = decoding.held.num_pages() * self.config.page_size;
        decoding.grow_at = if slots >= decoding.max_len {
            u32::MAX
        } else {
            (slots + 1).saturating_sub(self.config.reserve())
        };
        true
    }

    /// Gives up the lock on what a lone request published. Where another request
    /// had published the same tokens, the tree holds copies of its pages, which
    /// the lock kept from eviction. False if there was no lock.
    fn stop_publishing(&mut self, slot: u32) -> bool {
        let Slot::Decoding(decoding) = &mut self.slots[slot as usize] else { return false };
        let Some(path) = decoding.held.path.take() else { return false };
        decoding.held.publish_at = u32::MAX;
        decoding.next_boundary = u32::MAX;
        self.pools.cache.release(path);
        for row in [decoding.end.take(), decoding.boundary.take()].into_iter().flatten() {
            self.pools.cache.free_checkpoint(row);
        }
        self.recount_ends();
        true
    }
}
