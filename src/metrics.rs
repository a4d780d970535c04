//! Counters of the core since it started.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Monotonic counts.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Counters { $($(#[$doc])* pub $name: u64,)* }

        impl Counters {
            /// Every counter with its name.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }
    };
}

counters! {
    /// Steps planned.
    steps,
    /// Requests accepted.
    requests_accepted,
    /// Requests refused.
    requests_rejected,
    /// Requests that ended, whatever the reason.
    requests_ended,
    /// Requests aborted.
    requests_aborted,
    /// Requests ended by a non-finite row.
    requests_failed,
    /// Running requests put back to be recomputed.
    num_preemptions,
    /// Tokens emitted.
    tokens_emitted,
    /// Prompt tokens planned to be computed.
    prefill_tokens,
    /// Decode rows committed that ran.
    decode_rows,
    /// Drafts offered to the target in those rows.
    drafts_verified,
    /// Drafts accepted.
    drafts_accepted,
    /// Prompt tokens taken from the prefix cache.
    prefix_hit_tokens,
    /// Prompt tokens looked up in the prefix cache.
    prefix_query_tokens,
    /// Checkpoints handed to the prefix cache.
    checkpoints_published,
    /// Boundaries left without a checkpoint because none could be had.
    checkpoints_skipped,
    /// Pages handed to the prefix cache.
    pages_published,
    /// Cached pages evicted.
    evictions,
    /// Times that `plan` asked for a commit first.
    commit_first,
}
