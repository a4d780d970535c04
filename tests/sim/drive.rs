//! Drives the core and the device, and checks what must hold.

use std::collections::{HashMap, VecDeque};

use mtpcore::config::Config;
use mtpcore::ids::{RequestId, StepId};
use mtpcore::outputs::OutputBatch;
use mtpcore::request::{RejectReason, RequestSpec, Vocabulary};
use mtpcore::schedule::{Scheduler, StepStatus};
use mtpcore::step::{ResultColumns, ResultReader, plan_len};

use super::device::Device;
use super::model::{Reference, reference};
use super::rng::Rng;
use super::workload;

/// A request that has no terminal yet.
struct Open {
    expected: Reference,
    prompt: Vec<i32>,
    tokens: Vec<i32>,
    aborted: bool,
}

/// Counts of a run, for a test to see that it did what it should.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) ended: u64,
    pub(crate) rejected: u64,
    pub(crate) by_finish: [u64; 6],
    pub(crate) steps: u64,
    pub(crate) commit_first: u64,
    pub(crate) preemptions: u64,
    pub(crate) evictions: u64,
    pub(crate) hits: u64,
    pub(crate) checkpoints: u64,
    /// Tokens told in deltas.
    pub(crate) told: u64,
    /// Wrong commits that were refused.
    pub(crate) refused: u64,
}

pub(crate) struct Simulation {
    pub(crate) core: Scheduler,
    pub(crate) device: Device,
    rng: Rng,
    vocab: Vec<Vec<u8>>,
    open: HashMap<u64, Open>,
    earlier: Vec<Vec<i32>>,
    pending: VecDeque<(StepId, Vec<i32>)>,
    plan: Vec<i32>,
    batch: OutputBatch,
    pub(crate) tally: Tally,
    /// Steps between two integrity checks.
    pub(crate) check_every: u64,
    /// Whether aborts, preemptions and wrong commits are thrown in.
    pub(crate) disturb: bool,
    /// Whether requests may have stop strings, which the device knows nothing of.
    pub(crate) stop_strings: bool,
}

impl Simulation {
    pub(crate) fn new(config: Config, seed: u64) -> Self {
        let device = Device::new(&config, seed ^ 0xd1ce);
        let vocab = workload::vocabulary(config.vocab_size);
        let mut core = Scheduler::new(config).expect("the workload makes valid settings");
        core.set_vocabulary(Vocabulary::new(&vocab)).expect("one entry a token");
        Self {
            plan: vec![-1; plan_len(core.dims())],
            core,
            device,
            rng: Rng::new(seed),
            vocab,
            open: HashMap::new(),
            earlier: Vec::new(),
            pending: VecDeque::new(),
            batch: OutputBatch::default(),
            tally: Tally::default(),
            check_every: 1,
            disturb: true,
            stop_strings: true,
        }
    }

    /// Runs until `num` requests were offered and all of them ended.
    pub(crate) fn run(&mut self, num: u64) {
        let mut offered = 0;
        let mut idle = 0;
        while offered < num || !self.open.is_empty() {
            if offered < num && !self.rng.one_in(3) {
                let mut spec = workload::request(&mut self.rng, self.core.config(), &self.earlier);
                if !self.stop_strings {
                    spec.stop.clear();
                }
                self.submit(spec);
                offered += 1;
            }
            if self.disturb {
                self.disturb();
            }
            let before = self.core.counters().steps + self.tally.ended;
            self.step();
            let after = self.core.counters().steps + self.tally.ended;
            idle = if after == before { idle + 1 } else { 0 };
            assert!(idle < 1000, "no progress with {} open requests", self.open.len());
        }
        while !self.pending.is_empty() {
            self.commit();
        }
        self.finish();
    }

    pub(crate) fn submit(&mut self, spec: RequestSpec) -> Option<RequestId> {
        let max_model_len = self.core.config().max_model_len;
        match self.core.submit(spec.clone()) {
            Ok(id) => {
                let expected = reference(&spec, &self.vocab, max_model_len);
                let prompt = spec.prompt;
                let open = Open { expected, prompt, tokens: Vec::new(), aborted: false };
                self.open.insert(id.0, open);
                Some(id)
            }
            Err(reason) => {
                let known = matches!(
                    reason,
                    RejectReason::PromptTooLong { .. }
                        | RejectReason::NeedsMorePages { .. }
                        | RejectReason::QueueFull(_)
                        | RejectReason::MinTokensContext { .. }
                );
                assert!(known, "an unexpected refusal: {reason}");
                self.tally.rejected += 1;
                None
            }
        }
    }

    fn disturb(&mut self) {
        let mut ids: Vec<u64> = self.open.keys().copied().collect();
        ids.sort_unstable();
        if ids.is_empty() {
            return;
        }
        if self.rng.one_in(40) {
            let id = *self.rng.pick(&ids);
            if let Some(open) = self.open.get_mut(&id) {
                open.aborted = true;
            }
            assert!(self.core.abort(RequestId(id)));
            assert!(!self.core.abort(RequestId(id)), "a second abort has no effect");
            self.take_outputs(None);
        }
        if self.rng.one_in(30) {
            let id = *self.rng.pick(&ids);
            self.core.preempt(RequestId(id));
        }
        assert!(!self.core.abort(RequestId(u64::MAX)), "a foreign identity has no effect");
    }

    /// One plan and, as the depth or chance has it, commits.
    pub(crate) fn step(&mut self) -> StepStatus {
        let info = self.core.plan(&mut self.plan).expect("nothing leaks, so something fits");
        match info.status {
            StepStatus::Run => {
                let result = self.device.run(&self.plan);
                self.pending.push_back((info.step_id, result));
                let budget = self.core.config().max_num_batched_tokens;
                assert!(info.num_tokens <= budget, "a step over budget");
                assert!(info.num_rows > 0);
                self.tally.steps += 1;
            }
            StepStatus::CommitFirst => {
                assert!(!self.pending.is_empty(), "commit_first with nothing in flight");
                self.commit();
            }
            StepStatus::Idle => {
                assert!(self.pending.is_empty(), "idle with a step in flight");
            }
        }
        let depth = self.core.config().overlap_depth as usize;
        if self.pending.len() > depth || (!self.pending.is_empty() && self.rng.one_in(8)) {
            self.commit();
        }
        if self.tally.steps.is_multiple_of(self.check_every) {
            self.core.check_integrity().expect("every invariant holds");
        }
        info.status
    }

    fn commit(&mut self) {
        let (step, result) = self.pending.pop_front().expect("a step is in flight");
        if self.disturb && self.rng.one_in(10) {
            self.commit_wrongly(step, &result);
        }
        self.core.commit(step, &result).expect("the device obeys the laws");
        if self.disturb && self.rng.one_in(10) {
            assert!(self.core.commit(step, &result).is_err(), "a step commits once");
        }
        self.take_outputs(Some(&result));
    }

    /// Results that no device gives are refused and change nothing: the right one
    /// commits after them.
    fn commit_wrongly(&mut self, step: StepId, right: &[i32]) {
        let mut wrong = right.to_vec();
        let mut id = step;
        match self.rng.range(0, 4) {
            0 => id = StepId(step.0 + 1),
            1 => drop(wrong.pop()),
            kind => {
                let dims = self.core.dims();
                let width = dims.verify_width as i32;
                let to = ResultColumns::split(&mut wrong, dims).expect("a whole array");
                let row = self.rng.range(0, to.num_rows[0] as u32 - 1) as usize;
                match kind {
                    2 => to.num_accepted[row] = width + 1,
                    3 => to.num_accepted[row] = -1,
                    _ => to.rows_run[row] = -1,
                }
            }
        }
        assert!(self.core.commit(id, &wrong).is_err(), "a wrong result was taken");
        self.core.check_integrity().expect("a refusal changes nothing");
        self.tally.refused += 1;
    }

    fn take_outputs(&mut self, result: Option<&[i32]>) {
        let mut batch = std::mem::take(&mut self.batch);
        self.core.take_outputs(&mut batch);
        for entry in 0..batch.len() {
            let first = batch.tokens_offset[entry] as usize;
            let tokens = &batch.tokens[first..first + batch.num_tokens[entry] as usize];
            if let (Some(result), true) = (result, batch.row[entry] >= 0) {
                let reader = ResultReader::new(result, self.core.dims())
                    .expect("the device fills a whole array");
                let row = reader.row(batch.row[entry] as usize);
                let exact = batch.finish[entry] != 5 && row.non_finite == 0;
                let same = tokens.len() == row.num_accepted as usize;
                assert!(!exact || same, "emitted is not num_accepted");
            }
            self.take_delta(&batch, entry, tokens);
        }
        self.batch = batch;
    }

    fn take_delta(&mut self, batch: &OutputBatch, entry: usize, tokens: &[i32]) {
        let id = batch.request_id[entry] as u64;
        let open = self.open.get_mut(&id).expect("a delta after the terminal");
        open.tokens.extend_from_slice(tokens);
        self.tally.told += tokens.len() as u64;
        let (got, expected) = (&open.tokens, &open.expected);
        let is_prefix = expected.tokens.starts_with(got);
        assert!(is_prefix, "request {id} said {got:?} for {:?}", expected.tokens);
        let finish = batch.finish[entry];
        if finish == 0 {
            assert!(got.len() < expected.tokens.len(), "request {id} went on past its end");
            return;
        }
        match finish {
            3 => assert!(open.aborted),
            4 => assert!(self.device.fault_every > 0),
            _ => {
                assert_eq!(got, &expected.tokens, "request {id}");
                assert_eq!(finish, expected.finish, "request {id}");
                assert_eq!(batch.stop_bytes[entry], expected.stop_bytes, "request {id}");
            }
        }
        self.tally.ended += 1;
        self.tally.by_finish[finish as usize] += 1;
        let open = self.open.remove(&id).expect("it was just read");
        let mut text = open.prompt;
        text.extend(open.tokens);
        if self.earlier.len() < 8 {
            self.earlier.push(text);
        } else {
            let at = self.rng.range(0, 7) as usize;
            self.earlier[at] = text;
        }
    }

    /// Nothing is open: everything is free or cached.
    fn finish(&mut self) {
        self.core.check_integrity().expect("every invariant holds");
        assert_eq!(self.core.num_unfinished(), 0);
        for pool in self.core.pools() {
            assert_eq!(pool.used, 0, "{} leaks", pool.name);
        }
        let counters = self.core.counters();
        assert_eq!(counters.tokens_emitted, self.tally.told, "emitted tokens that were not told");
        self.tally.commit_first = counters.commit_first;
        self.tally.preemptions = counters.num_preemptions;
        self.tally.evictions = counters.evictions;
        self.tally.hits = counters.prefix_hit_tokens;
        self.tally.checkpoints = counters.checkpoints_published;
    }
}
