//! The byte formulas of every pool.
//!
//! Sums and products saturate: a size beyond 64 bits exceeds every budget.

use super::options::MemoryOptions;
use super::shape::ModelShape;
use crate::state::StateMode;

/// Bytes of an int64, as which the request buffers hold their integers.
const INT64: u64 = 8;
/// Bytes of a float32 or an int32.
const WORD: u64 = 4;
/// int64 values of a request buffer row besides drafts and page table: 7 cursors,
/// 4 sampling integers, 8 stop ids.
const REQUEST_INTS: u64 = 7 + 4 + 8;
/// float32 values of a request buffer row: temperature and `top_p`.
const REQUEST_FLOATS: u64 = 2;
/// Two int32 cursors of a request's replay history: its start and its length.
const HISTORY_CURSORS: u64 = 2 * WORD;

fn product(factors: &[u64]) -> u64 {
    factors.iter().fold(1, |sum, &factor| sum.saturating_mul(factor))
}

fn sum(terms: &[u64]) -> u64 {
    terms.iter().fold(0, |sum, &term| sum.saturating_add(term))
}

/// Usable entries of the pools; the null entries come on top.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Pages.
    pub num_pages: u64,
    /// Recurrent-state rows, equal to the requests that may run at once.
    pub num_states: u64,
    /// Checkpoint rows.
    pub num_checkpoints: u64,
}

/// One pool: `count` entries of `bytes_each`, the null entry among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// Its name.
    pub name: &'static str,
    /// Bytes of an entry.
    pub bytes_each: u64,
    /// Entries.
    pub count: u64,
    /// All bytes.
    pub bytes: u64,
}

impl Pool {
    const fn new(name: &'static str, bytes_each: u64, count: u64) -> Self {
        Self { name, bytes_each, count, bytes: bytes_each.saturating_mul(count) }
    }
}

/// Bytes of one entry of each pool, for one model and one set of options.
#[derive(Debug, Clone, Copy)]
pub struct Formulas<'a> {
    shape: &'a ModelShape,
    options: &'a MemoryOptions,
}

impl<'a> Formulas<'a> {
    /// The formulas of a validated shape and validated options.
    #[must_use]
    pub const fn new(shape: &'a ModelShape, options: &'a MemoryOptions) -> Self {
        Self { shape, options }
    }

    /// A page: keys and values of `page_size` tokens in every layer, the MTP head's too.
    #[must_use]
    pub fn page(&self) -> u64 {
        let s = self.shape;
        let layers = s.num_attn_layers + s.num_mtp_layers;
        let token = product(&[2, s.num_kv_heads, s.head_dim, s.model_elt_bytes]);
        product(&[layers, self.options.page_size, token])
    }

    /// One full recurrent state of all layers.
    #[must_use]
    pub fn state(&self) -> u64 {
        let s = self.shape;
        product(&[s.num_ssm_layers, s.num_v_heads, s.k_dim, s.v_dim, s.state_elt_bytes])
    }

    /// The raw record of one token in all layers: keys, once per key head, and values
    /// in the model's dtype; decay and beta in float32 per value head.
    #[must_use]
    pub fn record(&self) -> u64 {
        let s = self.shape;
        let keys = product(&[s.num_k_heads, s.k_dim, s.model_elt_bytes]);
        let values = product(&[s.num_v_heads, s.v_dim, s.model_elt_bytes]);
        let gates = product(&[s.num_v_heads, s.decay_width + 1, WORD]);
        product(&[s.num_ssm_layers, sum(&[keys, values, gates])])
    }

    /// The recurrent state of a request. Native: T states. Compact: one state and T
    /// records. Replay: one state, a ring of L + T records, so that no launch reads
    /// and writes the same slot, and the two cursors of the ring.
    #[must_use]
    pub fn state_row(&self) -> u64 {
        if self.shape.num_ssm_layers == 0 {
            return 0;
        }
        let width = self.options.verify_width();
        match self.options.ssm_state_mode {
            StateMode::Native => product(&[width, self.state()]),
            StateMode::Compact => sum(&[self.state(), product(&[width, self.record()])]),
            StateMode::Replay => {
                let ring = product(&[self.options.replay_history_len + width, self.record()]);
                sum(&[self.state(), ring, HISTORY_CURSORS])
            }
        }
    }

    fn conv_columns(&self, columns: u64) -> u64 {
        let s = self.shape;
        product(&[s.num_ssm_layers, columns, s.conv_channels, s.model_elt_bytes])
    }

    /// The conv state of a request: the last `conv_kernel - 1` raw inputs and one
    /// more column for each draft.
    #[must_use]
    pub fn conv_row(&self) -> u64 {
        self.conv_columns(self.shape.conv_kernel - 1 + self.options.mtp_step)
    }

    fn draft_positions(&self, positions: u64) -> u64 {
        let s = self.shape;
        let heads = product(&[s.num_draft_kv_heads, s.draft_head_dim, s.model_elt_bytes]);
        product(&[s.num_draft_layers, positions, 2, heads])
    }

    /// The draft window of a request: the committed positions and one block.
    #[must_use]
    pub fn draft_ring(&self) -> u64 {
        self.draft_positions(self.options.draft_window + self.options.draft_block)
    }

    /// A checkpoint: one state, the accepted conv window, the committed draft window
    /// and the last hidden row.
    #[must_use]
    pub fn checkpoint(&self) -> u64 {
        sum(&[
            self.state(),
            self.conv_columns(self.shape.conv_kernel - 1),
            self.draft_positions(self.options.draft_window),
            product(&[self.shape.hidden, self.shape.model_elt_bytes]),
        ])
    }

    /// The device buffers of a request: cursors, sampling settings, stop ids, stop
    /// bitmap, drafts, last hidden row and page table.
    #[must_use]
    pub fn request_buffers(&self) -> u64 {
        let drafts = self.options.mtp_step.max(1);
        sum(&[
            product(&[REQUEST_INTS + drafts + self.options.max_pages(), INT64]),
            product(&[REQUEST_FLOATS + self.shape.vocab.div_ceil(32), WORD]),
            product(&[self.shape.hidden, self.shape.model_elt_bytes]),
        ])
    }

    /// What each running request takes besides its pages.
    #[must_use]
    pub fn rows(&self) -> u64 {
        sum(&[self.state_row(), self.conv_row(), self.draft_ring(), self.request_buffers()])
    }

    /// All pools of these sizes.
    #[must_use]
    pub fn pools(&self, sizes: Sizes) -> [Pool; 8] {
        let rows = sizes.num_states + 1;
        let ring = self.draft_ring();
        [
            Pool::new("weights", self.shape.weight_bytes, 1),
            Pool::new("kv_pages", self.page(), sizes.num_pages + 1),
            Pool::new("ssm_state", self.state_row(), rows),
            Pool::new("conv_state", self.conv_row(), rows),
            Pool::new("draft_window", ring, if ring == 0 { 0 } else { rows }),
            Pool::new("checkpoints", self.checkpoint(), sizes.num_checkpoints + 1),
            Pool::new("host_cache", 0, 0),
            Pool::new("workspace", self.request_buffers(), rows),
        ]
    }

    /// Bytes of all pools of these sizes.
    #[must_use]
    pub fn total(&self, sizes: Sizes) -> u64 {
        self.pools(sizes).iter().fold(0, |sum, pool| sum.saturating_add(pool.bytes))
    }
}
