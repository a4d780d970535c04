//! Preemption by recomputation: a running request goes back to the queue with
//! its known tokens and its rank, and holds nothing.

use super::Scheduler;
use super::slots::{Held, Slot};
use crate::ids::RequestId;
use crate::request::{Place, Queued};

impl Scheduler {
    /// Asks that a running request be preempted as soon as no step in flight
    /// names it. False if it is not running.
    pub fn preempt(&mut self, id: RequestId) -> bool {
        let Some(Place::Running(req_idx)) = self.books.ledger.place(id) else { return false };
        match &mut self.slots[req_idx.index()] {
            Slot::Prefilling(prefilling) => prefilling.preempt = true,
            Slot::Decoding(decoding) => decoding.preempt = true,
            Slot::Empty | Slot::Draining(_) => return false,
        }
        self.preempt_asked = true;
        true
    }

    /// Preempts those that were asked for and are not in flight. The others sit
    /// out the next step, after which they are not.
    pub(super) fn preempt_asked(&mut self) {
        if !std::mem::take(&mut self.preempt_asked) {
            return;
        }
        let asked: Vec<u32> = self
            .running
            .iter()
            .map(|&(_, slot)| slot)
            .filter(|&slot| match &self.slots[slot as usize] {
                Slot::Prefilling(prefilling) => prefilling.preempt,
                Slot::Decoding(decoding) => decoding.preempt,
                Slot::Empty | Slot::Draining(_) => false,
            })
            .collect();
        for slot in asked {
            let in_flight = self.slots[slot as usize].held().map_or(0, Held::in_flight);
            if in_flight == 0 {
                self.preempt_slot(slot);
            } else {
                self.preempt_asked = true;
            }
        }
    }

    /// Preempts one running request that no step in flight names.
    pub(super) fn preempt_slot(&mut self, slot: u32) {
        let (request, held, checkpoints) = self.vacate(slot);
        assert_eq!(held.in_flight(), 0, "a row in flight is never preempted");
        self.release(held, checkpoints);
        self.books.counters.num_preemptions += 1;
        self.books.ledger.moved(request.id(), Place::Queued);
        self.queue.push(Queued::new(request));
    }
}
