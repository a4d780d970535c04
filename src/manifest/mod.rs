//! The segments of a page and of a checkpoint: one description for the device, the
//! host and every wire.

mod identity;
mod segment;
#[cfg(test)]
mod tests;

pub use identity::Identity;
pub use segment::{Dtype, Segment};

use crate::memory::{MemoryOptions, ModelShape};

/// What a page and a checkpoint consist of, and of whom they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Whose pages and checkpoints these are.
    pub identity: Identity,
    /// Segments of a page.
    pub page: Vec<Segment>,
    /// Segments of a checkpoint.
    pub checkpoint: Vec<Segment>,
}

impl Manifest {
    /// The manifest of a validated shape and validated options. Segments that the
    /// model lacks are left out.
    #[must_use]
    pub fn new(identity: Identity, shape: &ModelShape, options: &MemoryOptions) -> Self {
        Self { identity, page: page(shape, options), checkpoint: checkpoint(shape, options) }
    }
}

fn page(s: &ModelShape, options: &MemoryOptions) -> Vec<Segment> {
    let dtype = Dtype::of_bytes(s.model_elt_bytes);
    let kv = |name, layers: u64| {
        let shape = vec![layers, options.page_size, 2, s.num_kv_heads, s.head_dim];
        Segment::new(name, dtype, s.num_kv_heads, shape)
    };
    kept(vec![kv("attention_kv", s.num_attn_layers), kv("mtp_kv", s.num_mtp_layers)])
}

fn checkpoint(s: &ModelShape, options: &MemoryOptions) -> Vec<Segment> {
    let dtype = Dtype::of_bytes(s.model_elt_bytes);
    let state = vec![s.num_ssm_layers, s.num_v_heads, s.k_dim, s.v_dim];
    let conv = vec![s.num_ssm_layers, s.conv_kernel - 1, s.conv_channels];
    let window =
        vec![s.num_draft_layers, options.draft_window, 2, s.num_draft_kv_heads, s.draft_head_dim];
    kept(vec![
        Segment::new("ssm_state", Dtype::of_bytes(s.state_elt_bytes), s.num_v_heads, state),
        Segment::new("conv_state", dtype, s.num_k_heads, conv),
        Segment::new("draft_window", dtype, s.num_draft_kv_heads, window),
        Segment::new("last_hidden", dtype, 1, vec![s.hidden]),
    ])
}

fn kept(mut segments: Vec<Segment>) -> Vec<Segment> {
    segments.retain(|segment| segment.bytes() > 0);
    segments
}
