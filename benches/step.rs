//! `step/plan_commit/{rows}`: one plan and one commit together.
//!
//! Steady state at overlap depth 1: verify width 4, mean acceptance 2.5, prompts of
//! 128 and outputs of 256 tokens; requests that end are replaced, pages and
//! checkpoints are published, and the pool is full of cached pages to evict.
#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

#[path = "support/device.rs"]
mod device;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use device::Device;
use mtpcore::config::Config;
use mtpcore::ids::StepId;
use mtpcore::outputs::OutputBatch;
use mtpcore::request::RequestSpec;
use mtpcore::schedule::{Scheduler, StepStatus};
use mtpcore::step::plan_len;

const PROMPT: u64 = 128;
const OUTPUT: i64 = 256;

fn config(rows: u32) -> Config {
    Config {
        max_num_seqs: rows,
        max_num_batched_tokens: 4 * rows + 1024,
        page_size: 16,
        num_pages: 28 * rows + 64,
        num_states: rows,
        num_checkpoints: 4 * rows + 16,
        num_rings: 0,
        window: 0,
        max_model_len: 1024,
        vocab_size: 32_000,
        mtp_step: 3,
        overlap_depth: 1,
        enable_prefix_caching: true,
        checkpoint_interval: 0,
        max_queue: 2 * rows,
        page_bytes: 1 << 16,
        checkpoint_bytes: 1 << 20,
    }
}

struct Engine {
    core: Scheduler,
    device: Device,
    plan: Vec<i32>,
    pending: VecDeque<(StepId, Vec<i32>)>,
    spare: Vec<Vec<i32>>,
    outputs: OutputBatch,
}

impl Engine {
    fn new(rows: u32) -> Self {
        let core = Scheduler::new(config(rows)).expect("the config is valid");
        let mut engine = Self {
            device: Device::new(*core.dims()),
            plan: vec![0; plan_len(core.dims())],
            core,
            pending: VecDeque::new(),
            spare: Vec::new(),
            outputs: OutputBatch::default(),
        };
        // Requests join one by one, so that their ends are spread over time.
        let mut wanted = 0;
        while wanted < rows as usize {
            wanted += (rows as usize).div_ceil(128);
            engine.refill(wanted.min(rows as usize));
            engine.step();
        }
        for _ in 0..600 {
            engine.refill(rows as usize);
            engine.step();
        }
        engine
    }

    fn refill(&mut self, rows: usize) {
        while self.core.num_unfinished() < rows {
            let prompt = (0..PROMPT).map(|_| (self.device.random() % 30_000) as i32).collect();
            self.core.submit(RequestSpec::greedy(prompt, OUTPUT)).expect("it fits");
        }
    }

    /// Plans one step and commits the one before it; gives the time of the two.
    fn step(&mut self) -> Duration {
        let start = Instant::now();
        let info = self.core.plan(&mut self.plan).expect("a plan");
        let mut time = start.elapsed();
        if info.status == StepStatus::Run {
            let mut result = self.spare.pop().unwrap_or_else(|| self.device.result());
            self.device.run(&self.plan, &mut result);
            self.pending.push_back((info.step_id, result));
        }
        if self.pending.len() > 1 || info.status != StepStatus::Run {
            let (step, result) = self.pending.pop_front().expect("a step in flight");
            let start = Instant::now();
            self.core.commit(step, &result).expect("a lawful result");
            time += start.elapsed();
            self.spare.push(result);
        }
        self.core.take_outputs(&mut self.outputs);
        time
    }
}

fn plan_commit(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("step/plan_commit");
    for rows in [1_u32, 64, 256, 1024] {
        let mut engine = Engine::new(rows);
        group.throughput(Throughput::Elements(u64::from(rows)));
        group.bench_function(BenchmarkId::from_parameter(rows), |bencher| {
            bencher.iter_custom(|steps| {
                let mut time = Duration::ZERO;
                for _ in 0..steps {
                    engine.refill(rows as usize);
                    time += engine.step();
                }
                time
            });
        });
        engine.core.check_integrity().expect("invariants hold after the bench");
    }
    group.finish();
}

criterion_group!(benches, plan_commit);
criterion_main!(benches);
