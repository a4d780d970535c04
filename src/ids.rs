//! Typed indices. Index 0 of every pool is null: it is never handed out, and
//! padding or HOLD rows point at it.

/// A token id.
pub type Token = u32;

/// The identity of a request, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The number of a step; steps are committed in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StepId(pub u32);

macro_rules! pool_index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// The null entry of the pool.
            pub const NULL: Self = Self(0);

            /// The index as used in a plan field.
            #[must_use]
            pub const fn as_field(self) -> i32 {
                self.0 as i32
            }

            /// The index as used to address a vector.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

pool_index!(
    /// A page of KV.
    PageId
);
pool_index!(
    /// A permanent row of the device buffers.
    ReqIdx
);
pool_index!(
    /// A row of the recurrent-state pool.
    StateIdx
);
pool_index!(
    /// A row of the checkpoint pool.
    CheckpointId
);
pool_index!(
    /// A draft-window ring.
    RingId
);
