//! Who is planned next: shares of the token budget, and the order within each.

use super::Scheduler;
use super::slots::Slot;

/// Steps after which a prefill row goes before those of better rank.
pub const PREFILL_PATIENCE: u64 = 32;

impl Scheduler {
    /// Decode rows that this step may plan.
    ///
    /// All that fit, unless prefill work is at hand: then a quarter of the budget
    /// (at least a token) is left for it, or every second step if the budget holds
    /// no more than one row.
    pub(super) fn decode_share(&self) -> usize {
        let budget = self.config.max_num_batched_tokens;
        let width = self.config.verify_width();
        let may_admit = !self.queue.is_empty()
            && !self.admission_blocked
            && !self.free_slots.is_empty()
            && self.pools.states.num_free() > 0;
        if self.num_prefilling == 0 && !may_admit {
            return (budget / width) as usize;
        }
        if budget == width {
            return usize::from(self.last_was_prefill);
        }
        let left = (budget / 4).clamp(1, budget - width);
        ((budget - left) / width) as usize
    }

    /// Fills `picked` with the slots of at most `most` decode rows, those first
    /// that were planned longest ago, and `growing` with those of them that need more
    /// pages. Gives the number of all that could run.
    pub(super) fn pick_decode(
        &self,
        most: usize,
        picked: &mut Vec<u32>,
        growing: &mut Vec<u32>,
    ) -> usize {
        picked.clear();
        growing.clear();
        for &(_, slot) in &self.running {
            if let Slot::Decoding(decoding) = &self.slots[slot as usize]
                && !decoding.preempt
            {
                picked.push(slot);
                if decoding.seq_len >= decoding.grow_at {
                    growing.push(slot);
                }
            }
        }
        let eligible = picked.len();
        if eligible > most {
            picked.select_nth_unstable_by_key(most, |&slot| (self.last_planned(slot), slot));
            picked.truncate(most);
            growing.clone_from(picked);
        }
        eligible
    }

    /// Fills `order` with the slots of prefill rows in the order in which they take
    /// tokens.
    pub(super) fn pick_prefill(&self, order: &mut Vec<u32>) {
        order.clear();
        if self.num_prefilling == 0 {
            return;
        }
        for &(_, slot) in &self.running {
            if let Slot::Prefilling(prefilling) = &self.slots[slot as usize]
                && !prefilling.preempt
            {
                order.push(slot);
            }
        }
        // The sort is stable, so rank decides among those that are not overdue.
        order.sort_by_key(|&slot| {
            let last = self.last_planned(slot);
            if self.clock.saturating_sub(last) > PREFILL_PATIENCE { last } else { u64::MAX }
        });
    }

    pub(super) fn last_planned(&self, slot: u32) -> u64 {
        match &self.slots[slot as usize] {
            Slot::Prefilling(prefilling) => prefilling.last_planned,
            Slot::Decoding(decoding) => decoding.last_planned,
            Slot::Empty | Slot::Draining(_) => u64::MAX,
        }
    }
}
