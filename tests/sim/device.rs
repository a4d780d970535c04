//! A fake device: it does what a plan says, as a worker would, and knows nothing
//! of the core. Garbage is written wherever a real drafter may write scratch.

use std::collections::HashSet;

use mtpcore::config::Config;
use mtpcore::step::{Dims, PlanView, ROW_DECODE, ROW_PREFILL_FINAL, ResultColumns, result_len};

use super::model::{START, Terms, attend, consume};
use super::rng::Rng;

const STARTED: &str = "a row's request was started in this step or before";

/// How many drafts agree with the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acceptance {
    All,
    None,
    Random,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Checkpoint {
    state: u64,
    seq_len: u32,
}

#[derive(Debug, Clone)]
struct Request {
    terms: Terms,
    seq_len: u32,
    last_token: u32,
    output_len: u32,
    tokens_left: u32,
    last_hidden: u64,
    done: bool,
    drafts: Vec<u32>,
}

pub(crate) struct Device {
    config: Config,
    dims: Dims,
    rng: Rng,
    pub(crate) acceptance: Acceptance,
    /// One row in this many is flagged non-finite; 0 none.
    pub(crate) fault_every: u32,
    page_tables: Vec<Vec<u32>>,
    kv: Vec<u64>,
    /// `verify_width` states a row, and the accepted one.
    states: Vec<(Vec<u64>, usize)>,
    checkpoints: Vec<Checkpoint>,
    requests: Vec<Option<Request>>,
    /// Tokens that each row of the last step emitted.
    pub(crate) emitted: u64,
}

impl Device {
    pub(crate) fn new(config: &Config, seed: u64) -> Self {
        let rows = config.max_num_seqs as usize + 1;
        let pages = config.pages_for(config.max_model_len) as usize;
        let width = config.verify_width() as usize;
        Self {
            dims: Dims::of(config),
            rng: Rng::new(seed),
            acceptance: Acceptance::Random,
            fault_every: 0,
            page_tables: vec![vec![0; pages]; rows],
            kv: vec![0; (config.num_pages as usize + 1) * config.page_size as usize],
            states: vec![(vec![0; width], 0); config.num_states as usize + 1],
            checkpoints: vec![Checkpoint::default(); config.num_checkpoints as usize + 1],
            requests: vec![None; rows],
            emitted: 0,
            config: config.clone(),
        }
    }

    /// Runs one step and gives its result array.
    pub(crate) fn run(&mut self, plan: &[i32]) -> Vec<i32> {
        let dims = self.dims;
        let plan = PlanView::split(plan, &dims).expect("a whole plan array");
        let mut result = vec![0; result_len(&dims)];
        let mut to = ResultColumns::split(&mut result, &dims).expect("a whole result array");
        self.apply(&plan);
        self.check_owners(&plan);
        to.step_id[0] = plan.step_id[0];
        to.num_rows[0] = plan.num_rows[0];
        for row in 0..plan.num_rows[0] as usize {
            if plan.row_kind[row] == ROW_DECODE {
                self.decode(&plan, row, &mut to);
            } else {
                self.prefill(&plan, row, &mut to);
            }
            if self.fault_every > 0 && self.rng.one_in(self.fault_every) {
                to.non_finite[row] = 1;
            }
        }
        result
    }

    fn apply(&mut self, plan: &PlanView<'_>) {
        for i in 0..plan.num_page_updates[0] as usize {
            let row = &mut self.page_tables[plan.update_req_idx[i] as usize];
            row[plan.update_index[i] as usize] = plan.update_page[i] as u32;
        }
        let size = self.config.page_size as usize;
        for i in 0..plan.num_page_copies[0] as usize {
            let (src, dst) = (plan.copy_src_page[i] as usize, plan.copy_dst_page[i] as usize);
            self.kv.copy_within(src * size..(src + 1) * size, dst * size);
        }
        for i in 0..plan.num_starts[0] as usize {
            self.start(plan, i);
        }
        for i in 0..plan.num_restores[0] as usize {
            let checkpoint = self.checkpoints[plan.restore_checkpoint[i] as usize];
            let state = &mut self.states[plan.restore_state_idx[i] as usize];
            state.0[0] = checkpoint.state;
            let request = self.requests[plan.restore_req_idx[i] as usize].as_mut();
            let request = request.expect("a restore comes with a start");
            assert_eq!(request.seq_len, checkpoint.seq_len, "restored at another boundary");
            request.last_hidden = checkpoint.state;
        }
    }

    fn start(&mut self, plan: &PlanView<'_>, i: usize) {
        let words = self.dims.vocab_words;
        let vocab = self.config.vocab_size;
        let stops = if plan.start_stop_bitmap[i] >= 0 {
            let bitmap = &plan.stop_bitmaps[plan.start_stop_bitmap[i] as usize * words..][..words];
            (0..vocab).filter(|t| bitmap[*t as usize / 32] >> (t % 32) & 1 == 1).collect()
        } else {
            let ids = &plan.start_stop_ids[i * 8..][..plan.start_num_stop_ids[i] as usize];
            ids.iter().map(|&token| token as u32).collect()
        };
        let low = u64::from(plan.start_seed_lo[i] as u32);
        let high = u64::from(plan.start_seed_hi[i] as u32);
        let state = &mut self.states[plan.start_state_idx[i] as usize];
        state.0.fill(0xdead);
        *state = (std::mem::take(&mut state.0), 0);
        state.0[0] = START;
        self.requests[plan.start_req_idx[i] as usize] = Some(Request {
            terms: Terms {
                seed: low | (high << 32),
                sample_index: plan.start_sample_index[i] as u32,
                temperature: plan.start_temperature[i] as u32,
                stops,
                min_tokens: plan.start_min_tokens[i] as u32,
                vocab,
            },
            seq_len: plan.start_seq_len[i] as u32,
            last_token: 0,
            output_len: plan.start_output_len[i] as u32,
            tokens_left: plan.start_tokens_left[i] as u32,
            last_hidden: START,
            done: false,
            drafts: vec![0; self.dims.mtp_step],
        });
    }

    /// No two rows of a step share a slot, a state row, or a page that one writes.
    fn check_owners(&self, plan: &PlanView<'_>) {
        let (mut slots, mut states, mut written) = (HashSet::new(), HashSet::new(), HashSet::new());
        let size = self.config.page_size;
        for row in 0..plan.num_rows[0] as usize {
            let req = plan.row_req_idx[row] as usize;
            assert!(req != 0 && slots.insert(req), "two rows of one request");
            let state = plan.row_state_idx[row];
            assert!(state != 0 && states.insert(state), "two writers of one state");
            let request = self.requests[req].as_ref().expect(STARTED);
            if request.done {
                continue;
            }
            let first = request.seq_len / size;
            for index in first..plan.row_num_pages[row] as u32 {
                let page = self.page_tables[req][index as usize];
                assert!(page != 0 && written.insert(page), "two rows write page {page}");
            }
        }
        let rest = &plan.row_req_idx[plan.num_rows[0] as usize..];
        assert!(rest.iter().all(|&req| req == 0), "padding rows are HOLD");
    }

    fn slot(&self, req: usize, position: u32) -> usize {
        let size = self.config.page_size;
        let page = self.page_tables[req][(position / size) as usize];
        (page * size + position % size) as usize
    }

    fn attention(&self, req: usize, seq_len: u32) -> u64 {
        (0..seq_len).fold(0, |sum: u64, p| sum.wrapping_add(attend(self.kv[self.slot(req, p)])))
    }

    fn write_kv(&mut self, req: usize, position: u32, state: u64, num_pages: i32) {
        assert!((position / self.config.page_size) < num_pages as u32, "a row without a page");
        let slot = self.slot(req, position);
        self.kv[slot] = state;
    }

    fn decode(&mut self, plan: &PlanView<'_>, row: usize, to: &mut ResultColumns<'_>) {
        let req = plan.row_req_idx[row] as usize;
        let mut request = self.requests[req].take().expect(STARTED);
        let old = request.seq_len;
        assert!(plan.row_start[row] as u32 <= old, "row_start is a lower bound");
        let bound = plan.row_query_len[row].min(request.tokens_left as i32);
        let rows_run = if request.done { 0 } else { bound as usize };
        if rows_run == 0 {
            self.requests[req] = Some(request);
            return;
        }
        let state_idx = plan.row_state_idx[row] as usize;
        let mut state = self.states[state_idx].0[self.states[state_idx].1];
        assert_eq!(state, request.last_hidden, "the live state is not the last hidden row's");
        let mut attention = self.attention(req, old);
        let mut sampled = Vec::new();
        for j in 0..rows_run {
            let token = if j == 0 { request.last_token } else { request.drafts[j - 1] };
            state = consume(state, token);
            attention = attention.wrapping_add(attend(state));
            self.write_kv(req, old + j as u32, state, plan.row_num_pages[row]);
            self.states[state_idx].0[j] = state;
            sampled.push(request.terms.sample(state, attention, request.output_len + j as u32));
        }
        let mut accepted = 1;
        while accepted < rows_run && request.drafts[accepted - 1] == sampled[accepted - 1] {
            accepted += 1;
        }
        let first = request.output_len;
        let at = |j: &usize| request.terms.stops_at(sampled[*j], first + *j as u32);
        let stop = (0..accepted).find(at);
        accepted = stop.map_or(accepted, |j| j + 1);
        self.states[state_idx].1 = accepted - 1;
        request.seq_len = old + accepted as u32;
        request.last_hidden = self.states[state_idx].0[accepted - 1];
        self.export(plan, row, old, request.seq_len, state_idx, to);
        to.rows_run[row] = rows_run as i32;
        self.emit(plan, row, &sampled[..accepted], stop.is_some(), request, to);
    }

    /// Appends sampled tokens, ends the request at its limits, and drafts.
    fn emit(
        &mut self,
        plan: &PlanView<'_>,
        row: usize,
        sampled: &[u32],
        stopped: bool,
        mut request: Request,
        to: &mut ResultColumns<'_>,
    ) {
        let width = self.dims.verify_width;
        for (place, &token) in to.tokens[row * width..].iter_mut().zip(sampled) {
            *place = token as i32;
        }
        let num = sampled.len() as u32;
        self.emitted += u64::from(num);
        to.num_accepted[row] = num as i32;
        request.output_len += num;
        request.tokens_left -= num;
        request.last_token = sampled[sampled.len() - 1];
        if stopped || request.tokens_left == 0 {
            to.finish[row] = if stopped { 1 } else { 2 };
            request.done = true;
            let end = plan.row_end_checkpoint[row] as usize;
            if end != 0 {
                let (state, seq_len) = (request.last_hidden, request.seq_len);
                self.checkpoints[end] = Checkpoint { state, seq_len };
                to.end_fired[row] = 1;
            }
        }
        let req = plan.row_req_idx[row] as usize;
        self.draft(req, &mut request, plan.row_num_pages[row]);
        self.requests[req] = Some(request);
    }

    fn draft(&mut self, req: usize, request: &mut Request, num_pages: i32) {
        let mut state = request.last_hidden;
        let mut attention = self.attention(req, request.seq_len);
        let mut token = request.last_token;
        for j in 0..self.dims.mtp_step {
            state = consume(state, token);
            attention = attention.wrapping_add(attend(state));
            token = request.terms.sample(state, attention, request.output_len + j as u32);
            let right = match self.acceptance {
                Acceptance::All => true,
                Acceptance::None => false,
                Acceptance::Random => !self.rng.one_in(3),
            };
            let wrong = (token + 1) % self.config.vocab_size;
            request.drafts[j] = if right { token } else { wrong };
            let position = request.seq_len + j as u32;
            if position / self.config.page_size < num_pages as u32 {
                let slot = self.slot(req, position);
                self.kv[slot] = self.rng.next();
            }
        }
    }

    fn prefill(&mut self, plan: &PlanView<'_>, row: usize, to: &mut ResultColumns<'_>) {
        let req = plan.row_req_idx[row] as usize;
        let mut request = self.requests[req].take().expect(STARTED);
        assert_eq!(plan.row_start[row] as u32, request.seq_len, "row_start of a chunk is exact");
        let state_idx = plan.row_state_idx[row] as usize;
        let len = plan.row_query_len[row] as usize;
        let tokens = &plan.prefill_tokens[plan.row_token_offset[row] as usize..][..len];
        let mut state = self.states[state_idx].0[self.states[state_idx].1];
        for &token in tokens {
            state = consume(state, token as u32);
            self.write_kv(req, request.seq_len, state, plan.row_num_pages[row]);
            request.seq_len += 1;
            self.export_prefill(plan, row, request.seq_len, state, to);
        }
        if len > 0 {
            self.states[state_idx].0[0] = state;
            self.states[state_idx].1 = 0;
            request.last_hidden = state;
        }
        to.rows_run[row] = len as i32;
        if plan.row_kind[row] != ROW_PREFILL_FINAL {
            self.requests[req] = Some(request);
            return;
        }
        let attention = self.attention(req, request.seq_len);
        let token = request.terms.sample(request.last_hidden, attention, request.output_len);
        let stopped = request.terms.stops_at(token, request.output_len);
        self.emit(plan, row, &[token], stopped, request, to);
    }

    fn export(
        &mut self,
        plan: &PlanView<'_>,
        row: usize,
        old: u32,
        new: u32,
        state_idx: usize,
        to: &mut ResultColumns<'_>,
    ) {
        for entry in 0..plan.num_armed[0] as usize {
            let boundary = plan.armed_boundary[entry] as u32;
            if plan.armed_row[entry] as usize == row && old < boundary && boundary <= new {
                let state = self.states[state_idx].0[(boundary - old - 1) as usize];
                let checkpoint = plan.armed_checkpoint[entry] as usize;
                self.checkpoints[checkpoint] = Checkpoint { state, seq_len: boundary };
                to.fired[entry] = 1;
            }
        }
    }

    fn export_prefill(
        &mut self,
        plan: &PlanView<'_>,
        row: usize,
        seq_len: u32,
        state: u64,
        to: &mut ResultColumns<'_>,
    ) {
        for entry in 0..plan.num_armed[0] as usize {
            let here = plan.armed_boundary[entry] as u32 == seq_len;
            if here && plan.armed_row[entry] as usize == row {
                let checkpoint = plan.armed_checkpoint[entry] as usize;
                self.checkpoints[checkpoint] = Checkpoint { state, seq_len };
                to.fired[entry] = 1;
            }
        }
    }
}
