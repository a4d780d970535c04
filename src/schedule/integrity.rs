//! Invariants across all pools, computed anew.

use std::collections::HashSet;

use super::Scheduler;
use super::slots::{Decoding, Held, Slot};
use crate::error::IntegrityError;
use crate::ids::PageId;
use crate::pages::PageRef;

/// How much of a pool is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolCounts {
    /// The pool, by the name that `plan` and the server use.
    pub name: &'static str,
    /// Usable entries.
    pub total: usize,
    /// Entries that nothing holds.
    pub free: usize,
    /// Entries that a request or a step in flight holds.
    pub used: usize,
    /// Entries that the prefix cache alone holds.
    pub cached: usize,
}

/// Nothing is emitted since the last admission, so the prompt is still in flight.
fn in_prefill(decoding: &Decoding) -> bool {
    decoding.request.known_len() == decoding.seq_len
}

macro_rules! ensure {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err(IntegrityError(format!($($text)+)));
        }
    };
}

impl Scheduler {
    /// Free, used and cached entries of each pool; visits every page.
    #[must_use]
    pub fn pools(&self) -> Vec<PoolCounts> {
        let pools = &self.pools;
        let counts = pools.cache.counts();
        let used: HashSet<PageId> = self.held_pages().map(PageRef::id).collect();
        let states = &pools.states;
        vec![
            PoolCounts {
                name: "kv_pages",
                total: pools.pages.num_total(),
                free: pools.pages.num_free(),
                used: used.len(),
                cached: pools.cache.num_cached_pages(&pools.pages),
            },
            PoolCounts {
                name: "ssm_state",
                total: states.num_total(),
                free: states.num_free(),
                used: self.slots.iter().filter(|slot| slot.held().is_some()).count(),
                cached: 0,
            },
            PoolCounts {
                name: "checkpoints",
                total: self.config.num_checkpoints as usize,
                free: counts.num_free_checkpoints,
                used: self.held_checkpoints(),
                cached: counts.num_checkpoints,
            },
        ]
    }

    /// Compares every book with what is held.
    ///
    /// # Errors
    /// [`IntegrityError`] naming the first invariant that does not hold.
    pub fn check_integrity(&self) -> Result<(), IntegrityError> {
        for pool in self.pools() {
            let PoolCounts { name, total, free, used, cached } = pool;
            ensure!(
                free + used + cached == total,
                "{name}: {free} free + {used} used + {cached} cached is not {total}"
            );
        }
        let pools = &self.pools;
        let held = self.held_pages().map(PageRef::id).chain(pools.cache.page_references());
        pools.pages.check(held).map_err(|error| IntegrityError(error.to_string()))?;
        pools.cache.check(&pools.pages).map_err(|error| IntegrityError(error.to_string()))?;
        let owned = self.slots.iter().filter_map(Slot::held).map(Held::state_idx);
        pools.states.check(owned).map_err(|error| IntegrityError(error.to_string()))?;
        self.check_slots()?;
        self.check_order()
    }

    fn held_pages(&self) -> impl Iterator<Item = &PageRef> {
        let slots = self.slots.iter().filter_map(Slot::held).flat_map(|held: &Held| &held.pages);
        slots.chain(self.flight.iter().flat_map(|step| &step.sources))
    }

    fn held_checkpoints(&self) -> usize {
        let slots = self.slots.iter().flat_map(Slot::checkpoints).count();
        let armed = self.flight.iter().flat_map(|step| &step.armed);
        slots + armed.filter(|armed| armed.checkpoint.is_some()).count()
    }

    fn check_slots(&self) -> Result<(), IntegrityError> {
        let mut states = HashSet::new();
        let mut free: HashSet<u32> = self.free_slots.iter().copied().collect();
        ensure!(free.len() == self.free_slots.len(), "a slot is free twice");
        ensure!(self.slots[0].held().is_none(), "slot 0 is null but holds something");
        for (index, slot) in self.slots.iter().enumerate().skip(1) {
            let Some(held) = slot.held() else {
                ensure!(free.remove(&(index as u32)), "slot {index} is empty but not free");
                continue;
            };
            ensure!(!free.contains(&(index as u32)), "slot {index} is free but holds something");
            ensure!(held.req_idx.index() == index, "slot {index} holds another's req_idx");
            let state = held.state_idx();
            ensure!(states.insert(state), "state row {} has two writers", state.0);
            if let Slot::Decoding(decoding) = slot {
                let (bound, committed) = (decoding.seq_len, held.committed_len());
                ensure!(
                    committed == bound || (committed < bound && in_prefill(decoding)),
                    "slot {index}: {committed} tokens are committed, {bound} counted"
                );
            }
            let named =
                |step: &super::StepRecord| step.rows.iter().any(|row| row.slot as usize == index);
            let in_flight = self.flight.iter().filter(|step| named(step)).count();
            ensure!(
                in_flight == held.in_flight() as usize,
                "slot {index} counts {} steps in flight, {in_flight} name it",
                held.in_flight()
            );
            if matches!(slot, Slot::Draining(_)) {
                ensure!(in_flight > 0, "slot {index} drains though no step names it");
            }
        }
        ensure!(free.is_empty(), "a free slot does not exist");
        Ok(())
    }

    fn check_order(&self) -> Result<(), IntegrityError> {
        let is_sorted = self.running.windows(2).all(|pair| pair[0].0 < pair[1].0);
        ensure!(is_sorted, "running requests are out of order");
        for (rank, slot) in &self.running {
            let request = self.slots[*slot as usize].request();
            ensure!(
                request.is_some_and(|request| request.rank() == *rank),
                "slot {slot} stands in the order but its request does not run"
            );
        }
        let running = self.slots.iter().filter(|slot| slot.request().is_some()).count();
        ensure!(running == self.running.len(), "a running request is missing in the order");
        let open = self.books.ledger.len();
        let live = running + self.queue.len();
        ensure!(open == live, "{open} requests are open, {live} run or wait");
        let prefilling =
            self.slots.iter().filter(|slot| matches!(slot, Slot::Prefilling(_))).count();
        ensure!(prefilling == self.num_prefilling, "prefilling requests are counted wrongly");
        Ok(())
    }
}
