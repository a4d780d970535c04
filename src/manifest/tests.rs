use super::{Identity, Manifest};
use crate::memory::{Formulas, MemoryOptions, ModelShape};
use crate::state::StateMode;

fn identity(model: &str, drafter: &str) -> Identity {
    Identity { model: model.into(), drafter: drafter.into(), mode: StateMode::Native }
}

const SHAPE: ModelShape = ModelShape {
    num_attn_layers: 3,
    num_mtp_layers: 1,
    num_kv_heads: 2,
    head_dim: 16,
    num_ssm_layers: 5,
    num_k_heads: 2,
    num_v_heads: 6,
    k_dim: 8,
    v_dim: 12,
    conv_kernel: 4,
    conv_channels: 104,
    hidden: 40,
    vocab: 77,
    model_elt_bytes: 2,
    state_elt_bytes: 4,
    weight_bytes: 1000,
    decay_width: 1,
    num_draft_layers: 2,
    num_draft_kv_heads: 3,
    draft_head_dim: 4,
};

const OPTIONS: MemoryOptions = MemoryOptions {
    memory_budget: None,
    num_pages: Some(8),
    num_checkpoints: None,
    checkpoint_share: 25,
    max_num_seqs: 2,
    max_model_len: 64,
    page_size: 16,
    tokens_per_request: None,
    mtp_step: 2,
    overlap_depth: 1,
    ssm_state_mode: StateMode::Native,
    replay_history_len: 0,
    draft_window: 32,
    draft_block: 8,
    enable_prefix_caching: true,
};

fn bytes(segments: &[super::Segment]) -> u64 {
    segments.iter().map(super::Segment::bytes).sum()
}

#[test]
fn segments_sum_to_the_formulas() {
    let without_drafter = ModelShape { num_draft_layers: 0, num_mtp_layers: 0, ..SHAPE };
    let half_state = ModelShape { state_elt_bytes: 2, model_elt_bytes: 4, ..SHAPE };
    for shape in [SHAPE, without_drafter, half_state] {
        let manifest = Manifest::new(identity("m", ""), &shape, &OPTIONS);
        let formulas = Formulas::new(&shape, &OPTIONS);
        assert_eq!(bytes(&manifest.page), formulas.page());
        assert_eq!(bytes(&manifest.checkpoint), formulas.checkpoint());
    }
}

#[test]
fn absent_parts_have_no_segment() {
    let names = |shape: &ModelShape| {
        let manifest = Manifest::new(identity("m", ""), shape, &OPTIONS);
        let all = manifest.page.iter().chain(&manifest.checkpoint);
        all.map(|segment| segment.name).collect::<Vec<_>>()
    };
    let all = ["attention_kv", "mtp_kv", "ssm_state", "conv_state", "draft_window", "last_hidden"];
    assert_eq!(names(&SHAPE), all);
    let plain = ModelShape { num_draft_layers: 0, num_mtp_layers: 0, ..SHAPE };
    assert_eq!(names(&plain), ["attention_kv", "ssm_state", "conv_state", "last_hidden"]);
}

#[test]
fn every_part_of_an_identity_changes_its_bytes() {
    let base = identity("ab", "c").to_bytes();
    assert_ne!(base, identity("a", "bc").to_bytes());
    assert_ne!(base, identity("ab", "").to_bytes());
    let compact = Identity { mode: StateMode::Compact, ..identity("ab", "c") };
    assert_ne!(base, compact.to_bytes());
}
