//! The ends of a request's stay in a slot.

use super::Scheduler;
use super::slots::{Draining, Held, Slot};
use crate::ids::{ReqIdx, RequestId, StepId};
use crate::outputs::Delta;
use crate::prefix::CheckpointRef;
use crate::request::{FinishReason, Request};

type Checkpoints = [Option<CheckpointRef>; 2];

impl Scheduler {
    /// Takes a running request out of its slot and out of the order.
    pub(super) fn vacate(&mut self, slot: u32) -> (Box<Request>, Held, Checkpoints) {
        let (request, held, checkpoints) = match std::mem::take(&mut self.slots[slot as usize]) {
            Slot::Prefilling(prefilling) => {
                self.num_prefilling -= 1;
                (prefilling.request, prefilling.held, [None, None])
            }
            Slot::Decoding(decoding) => {
                self.num_ends -= usize::from(decoding.end.is_some());
                (decoding.request, decoding.held, [decoding.end, decoding.boundary])
            }
            Slot::Empty | Slot::Draining(_) => unreachable!("only a running request is vacated"),
        };
        let rank = request.rank();
        let at = self.running.binary_search_by(|(other, _)| other.cmp(&rank));
        self.running.remove(at.expect("a running request stands in the order"));
        (request, held, checkpoints)
    }

    /// Ends a running request: its one terminal now, what it holds when no step
    /// in flight names it any more.
    pub(super) fn end(&mut self, slot: u32, ending: &Ending<'_>) {
        let (request, held, checkpoints) = self.vacate(slot);
        let delta = Delta {
            id: request.id(),
            origin: ending.origin,
            finish: Some(ending.reason),
            num_cached: request.num_cached(),
            stop_bytes: ending.stop_bytes,
        };
        self.books.outputs.push(delta, ending.tokens);
        self.close(request.id());
        if held.in_flight() == 0 {
            self.release(held, checkpoints);
        } else {
            let device_done = ending.device_done;
            self.slots[slot as usize] = Slot::Draining(Draining { held, checkpoints, device_done });
        }
    }

    /// Writes a request's one terminal; a second one is a bug.
    pub(super) fn close(&mut self, id: RequestId) {
        if let Err(error) = self.books.ledger.close(id) {
            panic!("{error}");
        }
        self.books.counters.requests_ended += 1;
    }

    /// Frees all that was held in a slot, and the slot.
    pub(super) fn release(&mut self, held: Held, checkpoints: Checkpoints) {
        let pools = &mut self.pools;
        let ReqIdx(slot) = held.req_idx;
        let (state, pages, path) = held.into_parts();
        for page in pages {
            pools.pages.free(page);
        }
        if let Some(path) = path {
            pools.cache.release(path);
        }
        for row in checkpoints.into_iter().flatten() {
            pools.cache.free_checkpoint(row);
        }
        pools.states.free(state);
        self.slots[slot as usize] = Slot::Empty;
        self.free_slots.push(slot);
        self.admission_blocked = false;
    }

    /// Counts the end checkpoints of running requests anew.
    pub(super) fn recount_ends(&mut self) {
        let has_end = |slot: &&Slot| matches!(slot, Slot::Decoding(d) if d.end.is_some());
        self.num_ends = self.slots.iter().filter(has_end).count();
    }
}

/// How a request ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending<'a> {
    pub(super) reason: FinishReason,
    /// The step and its row, if a step ended it.
    pub(super) origin: Option<(StepId, u32)>,
    /// Its last tokens.
    pub(super) tokens: &'a [i32],
    pub(super) stop_bytes: Option<u64>,
    pub(super) device_done: bool,
}
