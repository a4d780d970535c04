//! From the queue into a slot: everything that a request needs to run its prompt
//! to the end is taken here, or nothing is.

use super::Scheduler;
use super::flight::StepRecord;
use super::slots::{Held, Prefilling, Slot};
use crate::ids::{ReqIdx, StateIdx};
use crate::prefix::{Hit, Placement, Salt, place};
use crate::request::{Place, Request};
use crate::state::StateRow;
use crate::step::{INLINE_STOP_IDS, PlanWriter, Start};

impl Scheduler {
    /// Admits the head of the queue, if it fits, and writes its start. Gives its
    /// slot; the caller plans its first chunk in the same step.
    pub(super) fn admit_head(
        &mut self,
        writer: &mut PlanWriter<'_>,
        record: &mut StepRecord,
    ) -> Option<u32> {
        let next = self.queue.head()?.request();
        if self.admission_blocked || self.free_slots.is_empty() {
            return None;
        }
        let wants_bitmap = next.terms().stop_token_ids.len() > INLINE_STOP_IDS;
        if wants_bitmap && writer.bitmaps_left() == 0 {
            return None;
        }
        let reach = (next.known_len() + self.config.reserve()).min(next.max_len());
        let needed = self.config.pages_for(reach) as usize;
        if writer.updates_left() < needed || self.pools.states.num_free() == 0 {
            return None;
        }
        let alone = self.running.is_empty() && self.flight.is_empty();
        let read = self.config.enable_prefix_caching && next.terms().read_cache;
        // A hit locks pages beside the ones it shares; a lone request that does not
        // fit with its hit fits without it, since then everything cached may go.
        let (hit, leave_at) = match self.try_hit(needed, read) {
            Some(found) => found,
            None if read && alone => self.try_hit(needed, false)?,
            None => {
                self.admission_blocked = true;
                return None;
            }
        };
        let state = self.pools.states.try_take().expect("one was counted free");
        let request = self.queue.take_head().expect("its head was looked at").into_request();
        let slot = self.free_slots.pop().expect("one was seen free");
        let req_idx = ReqIdx(slot);
        let state = StateRow::new(state);
        let state_idx = state.id();
        writer.push_start(&start_of(&request, req_idx, state_idx, hit.num_tokens));
        let Hit { path, num_tokens, mut pages, partial, checkpoint } = hit;
        let num_shared = pages.len() as u32;
        while pages.len() < needed {
            pages.push(self.pools.pages.try_take().expect("as many were made free"));
        }
        let state = match checkpoint {
            Some(pinned) => {
                writer.push_restore(req_idx, state_idx, pinned.id());
                let restored = state.restore(&pinned, num_tokens);
                record.pins.push(pinned);
                restored
            }
            None => state.reset(),
        };
        if let Some(partial) = partial {
            writer.push_copy(partial.src.id(), pages[num_shared as usize].id());
            record.sources.push(partial.src);
        }
        for (index, page) in pages.iter().enumerate() {
            writer.push_update(req_idx, index as u32, page.id());
        }
        let caching = self.config.enable_prefix_caching;
        let page_size = self.config.page_size;
        let mut held = Held::new(req_idx, state, pages, path, num_shared);
        let mut boundaries = Vec::new();
        if caching {
            held.publish_at = (num_shared + 1) * page_size;
            let query = Placement {
                prompt_len: request.known_len(),
                hit_tokens: num_tokens,
                leave_at,
                page_size,
                interval: self.config.checkpoint_interval,
            };
            place(&query, &mut boundaries);
        }
        self.enter(slot, request, held, num_tokens, boundaries);
        Some(slot)
    }

    /// Looks the head up, locks what is found, and makes room for the rest of its
    /// pages and for a page of growth of every running request. `None` gives all
    /// back.
    fn try_hit(&mut self, needed: usize, read: bool) -> Option<(Hit, u32)> {
        let request = self.queue.head()?.request();
        let salt = Salt::new(&request.terms().salt);
        let pools = &mut self.pools;
        let known = pools.cache.probe(&salt, request.tokens());
        let leave_at = known.leave_at;
        let probe = if read { known } else { pools.cache.probe(&salt, &[]) };
        let hit = pools.cache.admit(&mut pools.pages, probe);
        let missing = needed - hit.pages.len();
        let headroom = self.running.len();
        let free = pools.pages.num_free();
        let available = free + pools.cache.counts().num_evictable_pages;
        if available >= missing + headroom {
            if free < missing {
                pools.cache.evict_pages(&mut pools.pages, missing);
            }
            if pools.pages.num_free() >= missing {
                return Some((hit, leave_at));
            }
        }
        for page in hit.pages.into_iter().chain(hit.partial.map(|partial| partial.src)) {
            pools.pages.free(page);
        }
        if let Some(pinned) = hit.checkpoint {
            pools.cache.unpin(pinned);
        }
        pools.cache.release(hit.path);
        None
    }

    fn enter(
        &mut self,
        slot: u32,
        mut request: Box<Request>,
        held: Held,
        num_cached: u32,
        boundaries: Vec<u32>,
    ) {
        if request.record_cached(num_cached) {
            self.books.counters.prefix_query_tokens += u64::from(request.prompt_len());
            self.books.counters.prefix_hit_tokens += u64::from(num_cached);
        }
        let rank = request.rank();
        self.books.ledger.moved(request.id(), Place::Running(held.req_idx));
        let at = self.running.partition_point(|(other, _)| *other < rank);
        self.running.insert(at, (rank, slot));
        self.num_prefilling += 1;
        self.slots[slot as usize] = Slot::Prefilling(Prefilling {
            request,
            held,
            planned: num_cached,
            boundaries,
            last_planned: self.clock,
            preempt: false,
        });
    }
}

fn start_of(request: &Request, req_idx: ReqIdx, state_idx: StateIdx, seq_len: u32) -> Start<'_> {
    let terms = request.terms();
    Start {
        req_idx,
        state_idx,
        seq_len,
        output_len: request.num_emitted(),
        tokens_left: request.tokens_left(),
        min_tokens: terms.min_tokens,
        seed: terms.seed,
        sample_index: terms.sample_index,
        temperature: terms.temperature,
        top_p: terms.top_p,
        top_k: terms.top_k,
        logprobs: terms.logprobs,
        stop_ids: &terms.stop_token_ids,
    }
}
