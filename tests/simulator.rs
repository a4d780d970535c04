//! The real core under random work, at both depths, with tiny pools.

mod sim;

use sim::device::Acceptance;
use sim::drive::{Simulation, Tally};
use sim::rng::Rng;
use sim::workload;

fn simulate(seed: u64, num: u64) -> (Simulation, Tally) {
    let mut rng = Rng::new(seed);
    let config = workload::config(&mut rng);
    let mut simulation = Simulation::new(config, rng.next());
    simulation.device.acceptance =
        *rng.pick(&[Acceptance::All, Acceptance::None, Acceptance::Random]);
    simulation.device.fault_every = if rng.one_in(4) { 150 } else { 0 };
    simulation.run(num);
    let tally = simulation.tally;
    (simulation, tally)
}

#[test]
fn many_small_worlds() {
    let mut sum = Tally::default();
    for seed in 0..400 {
        let (_, tally) = simulate(seed, 60);
        sum.ended += tally.ended;
        sum.preemptions += tally.preemptions;
        sum.evictions += tally.evictions;
        sum.hits += tally.hits;
        sum.commit_first += tally.commit_first;
        sum.checkpoints += tally.checkpoints;
        sum.refused += tally.refused;
        for (sum, one) in sum.by_finish.iter_mut().zip(tally.by_finish) {
            *sum += one;
        }
    }
    assert!(sum.by_finish[1..].iter().all(|&count| count > 50), "{sum:?}");
    assert!(sum.preemptions > 500 && sum.evictions > 1000 && sum.hits > 5000, "{sum:?}");
    assert!(sum.commit_first > 500 && sum.checkpoints > 1000, "{sum:?}");
    assert!(sum.refused > 1000, "{sum:?}");
}

#[test]
fn what_the_device_emits_is_told_to_the_last_token() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let config = workload::config(&mut rng);
        let mut simulation = Simulation::new(config, rng.next());
        simulation.disturb = false;
        simulation.stop_strings = false;
        simulation.run(40);
        assert_eq!(simulation.device.emitted, simulation.tally.told);
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let [(_, one), (_, two)] = [simulate(7, 80), simulate(7, 80)];
    assert_eq!(format!("{one:?}"), format!("{two:?}"));
}

#[test]
#[ignore = "minutes; run in release"]
fn a_million_requests() {
    let mut ended = 0;
    let mut seed = 1_000_000;
    while ended < 1_000_000 {
        let mut rng = Rng::new(seed);
        let config = workload::config(&mut rng);
        let mut simulation = Simulation::new(config, rng.next());
        simulation.device.fault_every = if rng.one_in(4) { 500 } else { 0 };
        simulation.run(5_000);
        ended += simulation.tally.ended;
        seed += 1;
    }
}
