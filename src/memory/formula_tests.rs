use super::fit_tests::{OPTIONS, SHAPE};
use super::{Formulas, MemoryOptions, ModelShape, Sizes};
use crate::state::StateMode;

/// One layer and one head of KDA, K = V = 128, in bfloat16.
const KDA: ModelShape = ModelShape {
    num_ssm_layers: 1,
    num_k_heads: 1,
    num_v_heads: 1,
    k_dim: 128,
    v_dim: 128,
    model_elt_bytes: 2,
    state_elt_bytes: 2,
    decay_width: 128,
    ..SHAPE
};

fn state_row(shape: &ModelShape, mode: StateMode, width: u64, history: u64) -> u64 {
    let options = MemoryOptions {
        ssm_state_mode: mode,
        mtp_step: width - 1,
        replay_history_len: history,
        ..OPTIONS
    };
    options.validate().unwrap();
    Formulas::new(shape, &options).state_row()
}

#[test]
fn published_bytes_of_kda_at_width_3() {
    assert_eq!(state_row(&KDA, StateMode::Native, 3, 0), 96 * 1024);
    assert_eq!(state_row(&KDA, StateMode::Compact, 3, 0), 35_852);
}

#[test]
fn a_single_ring_of_raw_records_is_near_half_of_the_double_ring() {
    let replay = state_row(&KDA, StateMode::Replay, 3, 16);
    assert_eq!(replay, 128 * 128 * 2 + (16 + 3) * 1028 + 8);
    assert!(replay <= 52 * 1024);
    assert!(replay < state_row(&KDA, StateMode::Native, 3, 0));
}

#[test]
fn published_bytes_of_48_gdn_layers() {
    let mib = 1 << 20;
    let shape =
        ModelShape { num_ssm_layers: 48, num_k_heads: 4, num_v_heads: 12, decay_width: 1, ..KDA };
    assert_eq!(Formulas::new(&shape, &OPTIONS).state(), 18 * mib);
    assert_eq!(state_row(&shape, StateMode::Native, 4, 0), 72 * mib);
}

#[test]
fn published_bytes_of_34_kda_layers_with_8_heads() {
    let half_mib = 1 << 19;
    for (state_elt_bytes, state, native) in [(4, 34, 102), (2, 17, 51)] {
        let shape = ModelShape {
            num_ssm_layers: 34,
            num_k_heads: 8,
            num_v_heads: 8,
            state_elt_bytes,
            ..KDA
        };
        assert_eq!(Formulas::new(&shape, &OPTIONS).state(), state * half_mib);
        assert_eq!(state_row(&shape, StateMode::Native, 3, 0), native * half_mib);
    }
}

#[test]
fn keys_of_a_record_count_once_per_key_head() {
    let shape = ModelShape { num_k_heads: 2, num_v_heads: 6, decay_width: 1, ..KDA };
    let keys = 2 * 128 * 2;
    let values = 6 * 128 * 2;
    let decay_and_beta = 6 * (4 + 4);
    assert_eq!(Formulas::new(&shape, &OPTIONS).record(), keys + values + decay_and_beta);
}

#[test]
fn pools_count_their_null_entries() {
    let formulas = Formulas::new(&SHAPE, &OPTIONS);
    let pools = formulas.pools(Sizes { num_pages: 10, num_states: 3, num_checkpoints: 5 });
    let rows: Vec<_> = pools.iter().map(|pool| (pool.name, pool.bytes_each, pool.count)).collect();
    let page = 16 * (2 + 1) * 2 * 2 * 16 * 4;
    let state = 4 * 6 * 8 * 12 * 4;
    let conv = 4 * 104 * 4;
    let request = 8 * (7 + 4 + 8 + 3 + 16) + 4 * (2 + 4) + 40 * 4;
    assert_eq!(
        rows,
        [
            ("weights", 1_000_000, 1),
            ("kv_pages", page, 11),
            ("ssm_state", 4 * state, 4),
            ("conv_state", (3 + 3) * conv, 4),
            ("draft_window", 0, 0),
            ("checkpoints", state + 3 * conv + 40 * 4, 6),
            ("host_cache", 0, 0),
            ("workspace", request, 4),
        ]
    );
    assert!(pools.iter().all(|pool| pool.bytes == pool.bytes_each * pool.count));
}

#[test]
fn a_draft_window_counts_in_its_ring_and_its_checkpoint() {
    let shape =
        ModelShape { num_draft_layers: 5, num_draft_kv_heads: 2, draft_head_dim: 8, ..SHAPE };
    let options = MemoryOptions { draft_window: 64, draft_block: 16, ..OPTIONS };
    let formulas = Formulas::new(&shape, &options);
    let position = 5 * 2 * 2 * 8 * 4;
    assert_eq!(formulas.draft_ring(), (64 + 16) * position);
    let without = Formulas::new(&SHAPE, &options).checkpoint();
    assert_eq!(formulas.checkpoint(), without + 64 * position);
    let sizes = Sizes { num_pages: 1, num_states: 3, num_checkpoints: 0 };
    assert_eq!(formulas.pools(sizes)[4].count, 4);
}

#[test]
fn sizes_beyond_64_bits_saturate() {
    let wide = 1 << 24;
    let shape = ModelShape { num_v_heads: wide, k_dim: wide, v_dim: wide, ..SHAPE };
    assert_eq!(Formulas::new(&shape, &OPTIONS).state(), u64::MAX);
}
