//! What the formulas need of a model.

use super::error::FitError;

/// Sizes of a model; element sizes in bytes. The model's configuration gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelShape {
    /// Layers with paged KV, the MTP head's not among them.
    pub num_attn_layers: u64,
    /// MTP layers that have KV in the same pages; 0 without the head.
    pub num_mtp_layers: u64,
    /// Key-value heads.
    pub num_kv_heads: u64,
    /// Width of an attention head.
    pub head_dim: u64,
    /// Logical recurrent layers; a looped model counts each pass.
    pub num_ssm_layers: u64,
    /// Key heads of a recurrent layer.
    pub num_k_heads: u64,
    /// Value heads of a recurrent layer.
    pub num_v_heads: u64,
    /// Key width of a state.
    pub k_dim: u64,
    /// Value width of a state.
    pub v_dim: u64,
    /// Kernel width of the causal convolution.
    pub conv_kernel: u64,
    /// Channels of the causal convolution.
    pub conv_channels: u64,
    /// Width of the hidden row.
    pub hidden: u64,
    /// Size of the vocabulary.
    pub vocab: u64,
    /// Of weights, KV, conv inputs and raw records: 2 or 4.
    pub model_elt_bytes: u64,
    /// Of the recurrent state: 2 or 4.
    pub state_elt_bytes: u64,
    /// The weights as they are stored at run time.
    pub weight_bytes: u64,
    /// Decays of a record per value head: 1 (GDN) or `k_dim` (KDA).
    pub decay_width: u64,
    /// Layers of a drafter with a window of its own; 0 without one.
    pub num_draft_layers: u64,
    /// Key-value heads of that drafter.
    pub num_draft_kv_heads: u64,
    /// Head width of that drafter.
    pub draft_head_dim: u64,
}

impl ModelShape {
    /// Keys that a shape must have.
    pub const KEYS: [&'static str; 16] = [
        "num_attn_layers",
        "num_mtp_layers",
        "num_kv_heads",
        "head_dim",
        "num_ssm_layers",
        "num_k_heads",
        "num_v_heads",
        "k_dim",
        "v_dim",
        "conv_kernel",
        "conv_channels",
        "hidden",
        "vocab",
        "model_elt_bytes",
        "state_elt_bytes",
        "weight_bytes",
    ];

    /// Keys that a shape may have; without them the decay is scalar and no drafter
    /// has a window.
    pub const OPTIONAL_KEYS: [&'static str; 4] =
        ["decay_width", "num_draft_layers", "num_draft_kv_heads", "draft_head_dim"];

    /// Refuses sizes that no model has.
    ///
    /// # Errors
    /// [`FitError::Setting`] naming the first bad key.
    pub fn validate(&self) -> Result<(), FitError> {
        const WIDTH: u64 = 1 << 24;
        const LAYERS: u64 = 1 << 12;
        for (key, value, low, high) in [
            ("num_attn_layers", self.num_attn_layers, 1, LAYERS),
            ("num_mtp_layers", self.num_mtp_layers, 0, LAYERS),
            ("num_kv_heads", self.num_kv_heads, 1, WIDTH),
            ("head_dim", self.head_dim, 1, WIDTH),
            ("num_ssm_layers", self.num_ssm_layers, 0, LAYERS),
            ("num_k_heads", self.num_k_heads, 1, WIDTH),
            ("num_v_heads", self.num_v_heads, 1, WIDTH),
            ("k_dim", self.k_dim, 1, WIDTH),
            ("v_dim", self.v_dim, 1, WIDTH),
            ("conv_kernel", self.conv_kernel, 2, WIDTH),
            ("conv_channels", self.conv_channels, 1, WIDTH),
            ("hidden", self.hidden, 1, WIDTH),
            ("vocab", self.vocab, 1, WIDTH),
            ("weight_bytes", self.weight_bytes, 0, 1 << 60),
            ("decay_width", self.decay_width, 1, WIDTH),
            ("num_draft_layers", self.num_draft_layers, 0, LAYERS),
            ("num_draft_kv_heads", self.num_draft_kv_heads, 0, WIDTH),
            ("draft_head_dim", self.draft_head_dim, 0, WIDTH),
        ] {
            FitError::in_range(key, value, low, high)?;
        }
        for (key, bytes) in
            [("model_elt_bytes", self.model_elt_bytes), ("state_elt_bytes", self.state_elt_bytes)]
        {
            if bytes != 2 && bytes != 4 {
                let reason = format!("{bytes} is neither 2 (bfloat16) nor 4 (float32)");
                return Err(FitError::setting(key, reason));
            }
        }
        if !self.num_v_heads.is_multiple_of(self.num_k_heads) {
            let reason = format!(
                "{} is not a multiple of num_k_heads {}",
                self.num_v_heads, self.num_k_heads
            );
            return Err(FitError::setting("num_v_heads", reason));
        }
        if self.decay_width != 1 && self.decay_width != self.k_dim {
            let reason = format!("{} is neither 1 nor k_dim {}", self.decay_width, self.k_dim);
            return Err(FitError::setting("decay_width", reason));
        }
        if self.num_draft_layers > 0 && self.num_draft_kv_heads * self.draft_head_dim == 0 {
            return Err(FitError::setting(
                "num_draft_layers",
                "a drafter with layers needs num_draft_kv_heads and draft_head_dim",
            ));
        }
        Ok(())
    }
}
