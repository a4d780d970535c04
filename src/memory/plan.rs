//! What a fit found.

use super::formulas::{Formulas, Pool, Sizes};
use super::options::MemoryOptions;
use super::shape::ModelShape;

/// Sizes of all pools, and how many requests they carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Usable entries.
    pub sizes: Sizes,
    /// All pools, null entries included.
    pub pools: [Pool; 8],
    /// Bytes of all pools.
    pub total_bytes: u64,
    /// The pool that keeps one more request out.
    pub limiting_pool: &'static str,
    /// The setting behind it: `max_num_seqs`, `num_pages` or `memory_budget`.
    pub limiting_setting: &'static str,
    /// Requests of `tokens_per_request` tokens that fit at once.
    pub max_requests: u64,
    /// Pages of such a request, slots reserved ahead included.
    pub pages_per_request: u64,
    /// Bytes of such a request: its pages, states and device buffers. Checkpoints
    /// belong to the prefix cache and do not count.
    pub bytes_per_request: u64,
    /// Tokens whose KV all pages together hold.
    pub tokens_until_full: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Bytes of a checkpoint.
    pub checkpoint_bytes: u64,
}

impl MemoryPlan {
    pub(super) fn new(shape: &ModelShape, options: &MemoryOptions, sizes: Sizes) -> Self {
        let formulas = Formulas::new(shape, options);
        let pages_per_request = options.pages_for(options.request_tokens());
        let by_pages = sizes.num_pages / pages_per_request;
        let (limiting_pool, limiting_setting) = if by_pages < sizes.num_states {
            let by_count = options.num_pages.is_some();
            ("kv_pages", if by_count { "num_pages" } else { "memory_budget" })
        } else if formulas.state_row() > 0 {
            ("ssm_state", "max_num_seqs")
        } else {
            ("workspace", "max_num_seqs")
        };
        let page_bytes = formulas.page();
        Self {
            sizes,
            pools: formulas.pools(sizes),
            total_bytes: formulas.total(sizes),
            limiting_pool,
            limiting_setting,
            max_requests: by_pages.min(sizes.num_states),
            pages_per_request,
            bytes_per_request: pages_per_request
                .saturating_mul(page_bytes)
                .saturating_add(formulas.rows()),
            tokens_until_full: sizes.num_pages * options.page_size,
            page_bytes,
            checkpoint_bytes: formulas.checkpoint(),
        }
    }
}
