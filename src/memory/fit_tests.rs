use proptest::prelude::*;

use super::{FitError, Formulas, MemoryOptions, MemoryPlan, ModelShape, Sizes, fit};
use crate::state::StateMode;

pub(super) const SHAPE: ModelShape = ModelShape {
    num_attn_layers: 2,
    num_mtp_layers: 1,
    num_kv_heads: 2,
    head_dim: 16,
    num_ssm_layers: 4,
    num_k_heads: 2,
    num_v_heads: 6,
    k_dim: 8,
    v_dim: 12,
    conv_kernel: 4,
    conv_channels: 104,
    hidden: 40,
    vocab: 100,
    model_elt_bytes: 4,
    state_elt_bytes: 4,
    weight_bytes: 1_000_000,
    decay_width: 1,
    num_draft_layers: 0,
    num_draft_kv_heads: 0,
    draft_head_dim: 0,
};

pub(super) const OPTIONS: MemoryOptions = MemoryOptions {
    memory_budget: Some(10_000_000),
    num_pages: None,
    num_checkpoints: None,
    checkpoint_share: MemoryOptions::CHECKPOINT_SHARE,
    max_num_seqs: 8,
    max_model_len: 256,
    page_size: 16,
    tokens_per_request: None,
    mtp_step: 3,
    overlap_depth: 1,
    ssm_state_mode: StateMode::Native,
    replay_history_len: 0,
    draft_window: 0,
    draft_block: 0,
    enable_prefix_caching: true,
};

fn with_budget(budget: u64) -> MemoryOptions {
    MemoryOptions { memory_budget: Some(budget), ..OPTIONS }
}

/// The bytes at which `states` requests' rows, `checkpoints` and the pages of one
/// request of `max_model_len` tokens just fit.
fn exact(states: u64, checkpoints: u64) -> u64 {
    let num_pages = OPTIONS.pages_for(OPTIONS.max_model_len);
    let sizes = Sizes { num_pages, num_states: states, num_checkpoints: checkpoints };
    Formulas::new(&SHAPE, &OPTIONS).total(sizes)
}

#[test]
fn pages_of_a_request_cover_the_reserve_up_to_the_context() {
    assert_eq!(OPTIONS.pages_for(1), 1);
    assert_eq!(OPTIONS.pages_for(5), 1);
    assert_eq!(OPTIONS.pages_for(6), 2);
    assert_eq!(OPTIONS.pages_for(256), 16);
    let depth_0 = MemoryOptions { overlap_depth: 0, ..OPTIONS };
    assert_eq!(depth_0.pages_for(9), 1);
    assert_eq!(depth_0.pages_for(10), 2);
}

#[test]
fn a_budget_below_one_request_names_the_pool_and_the_bytes() {
    let least = exact(1, 1);
    assert_eq!(
        fit(&SHAPE, &with_budget(least - 1)),
        Err(FitError::OneRequest {
            pool: "kv_pages",
            budget: least - 1,
            missing: 1,
            max_model_len: 256
        })
    );
    assert_eq!(
        fit(&SHAPE, &with_budget(999_999)),
        Err(FitError::Weights { weights: 1_000_000, budget: 999_999, missing: least - 999_999 })
    );
    let only = MemoryOptions { max_num_seqs: 1, ..with_budget(least) };
    let plan = fit(&SHAPE, &only).unwrap();
    assert_eq!((plan.max_requests, plan.total_bytes), (1, least));
}

#[test]
fn rows_that_do_not_fit_tell_how_many_do() {
    let error = fit(&SHAPE, &with_budget(exact(5, 1))).unwrap_err();
    assert!(matches!(error, FitError::Rows { asked: 8, fits: 5, .. }), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("max_num_seqs: "), "{text}");
    assert!(text.contains("at most 5"), "{text}");
    let fewer = MemoryOptions { max_num_seqs: 5, ..with_budget(exact(5, 1)) };
    assert_eq!(fit(&SHAPE, &fewer).unwrap().sizes.num_states, 5);
}

#[test]
fn checkpoints_that_do_not_fit_tell_how_many_do() {
    let options = MemoryOptions { num_checkpoints: Some(40), ..with_budget(exact(8, 30)) };
    let error = fit(&SHAPE, &options).unwrap_err();
    assert!(matches!(error, FitError::Checkpoints { asked: 40, fits: 30, .. }), "{error}");
    let fewer = MemoryOptions { num_checkpoints: Some(30), ..options };
    assert_eq!(fit(&SHAPE, &fewer).unwrap().sizes.num_checkpoints, 30);
}

#[test]
fn explicit_pages_are_taken_and_held_against_a_budget() {
    let options = MemoryOptions { num_pages: Some(20), memory_budget: None, ..OPTIONS };
    let plan = fit(&SHAPE, &options).unwrap();
    assert_eq!(plan.sizes, Sizes { num_pages: 20, num_states: 8, num_checkpoints: 32 });
    assert_eq!((plan.limiting_pool, plan.limiting_setting), ("kv_pages", "num_pages"));
    assert_eq!((plan.max_requests, plan.tokens_until_full), (1, 320));
    let tight = MemoryOptions { memory_budget: Some(plan.total_bytes - 1), ..options };
    let budget = plan.total_bytes - 1;
    assert_eq!(fit(&SHAPE, &tight), Err(FitError::Pages { asked: 20, budget, missing: 1 }));
}

#[test]
fn ample_memory_is_limited_by_the_rows_and_gives_four_checkpoints_each() {
    let plan = fit(&SHAPE, &with_budget(50_000_000)).unwrap();
    assert_eq!((plan.limiting_pool, plan.limiting_setting), ("ssm_state", "max_num_seqs"));
    assert_eq!(plan.max_requests, 8);
    assert!(plan.sizes.num_checkpoints > 4 * 8);
    let off = MemoryOptions { enable_prefix_caching: false, ..with_budget(50_000_000) };
    assert_eq!(fit(&SHAPE, &off).unwrap().sizes.num_checkpoints, 0);
}

/// A setting and the edit that makes it bad.
type Spoiled<T> = (&'static str, fn(&mut T));

#[test]
fn each_refusal_names_its_setting() {
    let options: [Spoiled<MemoryOptions>; 13] = [
        ("memory_budget", |o| o.memory_budget = None),
        ("memory_budget", |o| o.memory_budget = Some(0)),
        ("num_pages", |o| o.num_pages = Some(0)),
        ("num_checkpoints", |o| o.num_checkpoints = Some(0)),
        ("checkpoint_share", |o| o.checkpoint_share = 91),
        ("max_num_seqs", |o| o.max_num_seqs = 0),
        ("tokens_per_request", |o| o.tokens_per_request = Some(257)),
        ("mtp_step", |o| o.mtp_step = 8),
        ("overlap_depth", |o| o.overlap_depth = 2),
        ("replay_history_len", |o| o.replay_history_len = 8),
        ("replay_history_len", |o| {
            o.ssm_state_mode = StateMode::Replay;
            o.replay_history_len = 3;
        }),
        ("ssm_state_mode", |o| {
            o.ssm_state_mode = StateMode::Compact;
            o.mtp_step = 0;
        }),
        ("draft_window", |o| o.draft_block = 4),
    ];
    for (setting, spoil) in options {
        let mut options = OPTIONS;
        spoil(&mut options);
        assert_names(fit(&SHAPE, &options), setting);
    }
    let shapes: [Spoiled<ModelShape>; 5] = [
        ("num_attn_layers", |s| s.num_attn_layers = 0),
        ("state_elt_bytes", |s| s.state_elt_bytes = 3),
        ("num_v_heads", |s| s.num_v_heads = 3),
        ("decay_width", |s| s.decay_width = 2),
        ("num_draft_layers", |s| s.num_draft_layers = 1),
    ];
    for (key, spoil) in shapes {
        let mut shape = SHAPE;
        spoil(&mut shape);
        assert_names(fit(&shape, &OPTIONS), key);
    }
}

fn assert_names(result: Result<MemoryPlan, FitError>, setting: &str) {
    match result {
        Err(FitError::Setting { key, .. }) => assert_eq!(key, setting),
        other => panic!("{setting}: {other:?}"),
    }
}

fn modes() -> impl Strategy<Value = (StateMode, u64, u64)> {
    prop_oneof![
        (0u64..8).prop_map(|step| (StateMode::Native, step, 0)),
        (1u64..8).prop_map(|step| (StateMode::Compact, step, 0)),
        (0u64..8, 0u64..32).prop_map(|(step, more)| (StateMode::Replay, step, step + 1 + more)),
    ]
}

prop_compose! {
    fn settings()(
        (mode, mtp_step, history) in modes(),
        budget in 900_000u64..40_000_000,
        checkpoints in proptest::option::of(1u64..64),
        share in 0u64..=90,
        seqs in 1u64..40,
        (len, tokens) in (2u64..2000).prop_flat_map(|len| (Just(len), 1..=len)),
        page_size in 1u64..40,
        overlap_depth in 0u64..2,
        caching in any::<bool>(),
    ) -> MemoryOptions {
        MemoryOptions {
            memory_budget: Some(budget),
            num_pages: None,
            num_checkpoints: if caching { checkpoints } else { None },
            checkpoint_share: share,
            max_num_seqs: seqs,
            max_model_len: len,
            page_size,
            tokens_per_request: Some(tokens),
            mtp_step,
            overlap_depth,
            ssm_state_mode: mode,
            replay_history_len: history,
            enable_prefix_caching: caching,
            ..OPTIONS
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_fit_stays_within_the_budget_and_one_more_request_would_not(options in settings()) {
        let budget = options.memory_budget.unwrap();
        let formulas = Formulas::new(&SHAPE, &options);
        let plan = match fit(&SHAPE, &options) {
            Ok(plan) => plan,
            Err(FitError::Setting { key, reason }) => panic!("{key}: {reason}"),
            Err(_) => {
                let least = Sizes {
                    num_pages: options.pages_for(options.max_model_len),
                    num_states: options.max_num_seqs,
                    num_checkpoints: options
                        .num_checkpoints
                        .unwrap_or(u64::from(options.enable_prefix_caching)),
                };
                prop_assert!(formulas.total(least) > budget);
                return Ok(());
            }
        };
        prop_assert_eq!(plan.total_bytes, plan.pools.iter().map(|pool| pool.bytes).sum::<u64>());
        prop_assert!(plan.total_bytes <= budget);
        prop_assert!(plan.max_requests >= 1);
        prop_assert!(plan.sizes.num_pages >= options.pages_for(options.max_model_len));
        let more = Sizes { num_pages: plan.sizes.num_pages + 1, ..plan.sizes };
        prop_assert!(formulas.total(more) > budget);
        if plan.max_requests == options.max_num_seqs {
            prop_assert_eq!(plan.limiting_setting, "max_num_seqs");
        } else {
            prop_assert_eq!(plan.limiting_pool, "kv_pages");
            let num_pages = (plan.max_requests + 1) * plan.pages_per_request;
            let one_more = Sizes { num_pages, ..plan.sizes };
            prop_assert!(formulas.total(one_more) > budget);
        }
    }

    #[test]
    fn the_bytes_missing_are_the_least_that_help(options in settings()) {
        let missing = match fit(&SHAPE, &options) {
            Ok(_) => return Ok(()),
            Err(
                FitError::Weights { missing, .. }
                | FitError::OneRequest { missing, .. }
                | FitError::Rows { missing, .. }
                | FitError::Checkpoints { missing, .. },
            ) => missing,
            Err(error) => panic!("{error}"),
        };
        let raised = |more: u64| MemoryOptions {
            memory_budget: options.memory_budget.map(|budget| budget + more),
            max_num_seqs: 1,
            num_checkpoints: options.num_checkpoints.map(|_| 1),
            ..options
        };
        prop_assert!(fit(&SHAPE, &raised(missing)).is_ok());
    }
}
