//! The scheduler: two calls a step.
//!
//! [`plan`](Scheduler::plan) writes the next step's fields and
//! [`commit`](Scheduler::commit) takes its result. At `overlap_depth` 1 a step is
//! planned before the one before it commits: the core then holds bounds and the
//! device the truth, and a row that has ended may run once more as HOLD. Whatever
//! a step in flight can touch (pages, state rows, checkpoint rows, the slot
//! itself) stays held until that step commits.
//!
//! # Order and fairness
//! Requests wait by priority, then arrival, and the head is never overtaken. Each
//! running request is planned within a bounded number of steps:
//!
//! - A decode row is picked by the time since it was last planned. While prefill
//!   work is at hand it gets at most a quarter of the token budget (or every
//!   second step, if the budget holds a single decode row), so at least
//!   `d = max(1, (N - N/4) / W)` of the `r` decode rows are planned in each of
//!   two steps. No row that becomes runnable later goes first, so a row waits at
//!   most `2 * ceil(r / d)` planned steps.
//! - A prefill row goes by rank, but one that was not planned for
//!   [`policy::PREFILL_PATIENCE`] steps goes before all others, the longest
//!   waiting first. Every second step at least one prefill token is planned, so
//!   it waits at most `2 * (PREFILL_PATIENCE + r)` planned steps.
//! - A request is preempted only for one of better rank or for itself, and only
//!   when nothing is in flight; the best-ranked request is never preempted for
//!   another, so some request always comes to its end.

mod abort;
mod admission;
mod chunks;
mod commit;
mod flight;
mod integrity;
mod laws;
mod plan;
mod policy;
mod preempt;
mod publish;
mod release;
mod reserve;
mod slots;
mod submit;

use std::collections::VecDeque;

use flight::StepRecord;
use slots::Slot;

use crate::config::Config;
use crate::error::ConfigError;
use crate::ids::StepId;
use crate::metrics::Counters;
use crate::outputs::{Deltas, OutputBatch};
use crate::pages::PagePool;
use crate::prefix::{PrefixCache, PrefixConfig};
use crate::request::{Ledger, Queue, Rank, Vocabulary};
use crate::state::{CursorRules, StateMode, StateTable};
use crate::step::{Dims, RowResult};

pub use integrity::PoolCounts;
pub use plan::{StepInfo, StepStatus};
pub use policy::PREFILL_PATIENCE;

/// The pools that requests draw from.
#[derive(Debug)]
struct Pools {
    pages: PagePool,
    cache: PrefixCache,
    states: StateTable,
}

/// What is written when something happens to a request.
#[derive(Debug, Default)]
struct Books {
    ledger: Ledger,
    outputs: Deltas,
    counters: Counters,
}

/// All requests of one engine, and all that they hold.
#[derive(Debug)]
pub struct Scheduler {
    config: Config,
    dims: Dims,
    rules: CursorRules,
    vocabulary: Option<Vocabulary>,
    pools: Pools,
    books: Books,
    queue: Queue,
    /// By `req_idx`; entry 0 is null and stays empty.
    slots: Vec<Slot>,
    free_slots: Vec<u32>,
    /// Slots of running requests by rank.
    running: Vec<(Rank, u32)>,
    /// Running requests whose prompt is not planned to its end.
    num_prefilling: usize,
    /// End checkpoints held by running requests.
    num_ends: usize,
    /// Steps planned and not committed, oldest first.
    flight: VecDeque<StepRecord>,
    spare: Vec<StepRecord>,
    /// Steps planned so far.
    clock: u64,
    /// The head of the queue did not fit, and nothing was freed since.
    admission_blocked: bool,
    /// The last step planned prefill tokens; used when a budget holds one row.
    last_was_prefill: bool,
    /// Some running request asked for preemption.
    preempt_asked: bool,
    scratch: plan::Scratch,
    /// Rows of the result that is being committed.
    results: Vec<RowResult>,
}

impl Scheduler {
    /// A scheduler with nothing to do.
    ///
    /// # Errors
    /// [`ConfigError`] naming the first bad setting.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.validate()?;
        let cache = PrefixCache::new(&PrefixConfig {
            page_size: config.page_size,
            num_checkpoints: config.num_checkpoints,
            checkpoint_bytes: config.checkpoint_bytes,
            page_bytes: config.page_bytes,
            identity: Vec::new(),
            enabled: config.enable_prefix_caching,
        });
        let rows = config.max_num_seqs;
        let rules = CursorRules::new(StateMode::Native, config.verify_width(), 0)
            .map_err(|error| ConfigError::new("mtp_step", error.to_string()))?;
        Ok(Self {
            dims: Dims::of(&config),
            rules,
            vocabulary: None,
            pools: Pools {
                pages: PagePool::new(config.num_pages, config.page_size),
                cache,
                states: StateTable::new(config.num_states),
            },
            books: Books::default(),
            queue: Queue::default(),
            slots: (0..=rows).map(|_| Slot::Empty).collect(),
            free_slots: (1..=rows).rev().collect(),
            running: Vec::with_capacity(rows as usize),
            num_prefilling: 0,
            num_ends: 0,
            flight: VecDeque::new(),
            spare: Vec::new(),
            clock: 0,
            admission_blocked: false,
            last_was_prefill: false,
            preempt_asked: false,
            scratch: plan::Scratch::default(),
            results: Vec::new(),
            config,
        })
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The sizes of the plan and result arrays.
    #[must_use]
    pub fn dims(&self) -> &Dims {
        &self.dims
    }

    /// Gives the core the bytes of every token, so that stop strings can be found.
    ///
    /// # Errors
    /// [`ConfigError`] when there are not exactly `vocab_size` tokens.
    pub fn set_vocabulary(&mut self, vocabulary: Vocabulary) -> Result<(), ConfigError> {
        let (found, wanted) = (vocabulary.len(), self.config.vocab_size);
        if found != wanted as usize {
            let reason = format!(
                "{found} token byte strings for a vocab_size of {wanted}: give one a token"
            );
            return Err(ConfigError::new("token_bytes", reason));
        }
        self.vocabulary = Some(vocabulary);
        Ok(())
    }

    /// Moves the deltas since the last call into `into`, in place of what it held.
    pub fn take_outputs(&mut self, into: &mut OutputBatch) {
        into.fill(&self.books.outputs);
        self.books.outputs.clear();
    }

    /// Counts since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters { evictions: self.pools.cache.counts().num_evicted_pages, ..self.books.counters }
    }

    /// Requests in the queue.
    #[must_use]
    pub fn num_waiting(&self) -> usize {
        self.queue.len()
    }

    /// Requests in slots.
    #[must_use]
    pub fn num_running(&self) -> usize {
        self.running.len()
    }

    /// Requests without a terminal.
    #[must_use]
    pub fn num_unfinished(&self) -> usize {
        self.books.ledger.len()
    }

    /// Steps planned and not committed, oldest first.
    pub fn in_flight(&self) -> impl Iterator<Item = StepId> {
        self.flight.iter().map(|step| step.id)
    }
}
