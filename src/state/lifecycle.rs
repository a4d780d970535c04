//! The life of a state row, one type a phase.
//!
//! Every transition takes the row by value, so that a row that a step is writing
//! cannot be forked, checkpointed, preempted or migrated (there is no such method
//! on [`Verifying`]), and a row that was given up cannot be read again.

use thiserror::Error;

use super::history::{Cursor, CursorRules, ExportSource};
use super::mode::CursorError;
use super::table::StateRef;
use crate::ids::{CheckpointId, StateIdx};
use crate::prefix::{CheckpointRef, PinnedCheckpoint};

/// Owned, with content that means nothing yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Empty;

/// Holds the state after `seq_len` tokens, and no step is running it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Live {
    seq_len: u32,
    cursor: Cursor,
}

/// In one or more steps that have not committed; the fields are those of the last
/// commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verifying {
    live: Live,
    in_flight: u32,
}

/// A state row in phase `P`.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a state row has to be emptied and given back"]
pub struct StateRow<P> {
    row: StateRef,
    phase: P,
}

/// A copy of everything that a row keeps (states, records, conv window) to another
/// row, after which `cursor` holds for both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateCopy {
    /// The row read.
    pub from: StateIdx,
    /// The row written.
    pub to: StateIdx,
    /// The cursor of the copy.
    pub cursor: Cursor,
}

/// A checkpoint to be written from a live row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Export {
    /// The row read; it is not changed.
    pub from: StateIdx,
    /// The checkpoint row written.
    pub to: CheckpointId,
    /// The tokens that the checkpoint has consumed.
    pub seq_len: u32,
    /// Where in the row the state lies.
    pub source: ExportSource,
}

/// What a committed step did to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A decode row; a HOLD row ran and accepted 0.
    Decode {
        /// Rows that ran.
        query_len: u32,
        /// Rows accepted, base included.
        num_accepted: u32,
        /// Records that the device folded at the start.
        folded: u32,
    },
    /// A prefill chunk.
    Prefill {
        /// Tokens consumed.
        len: u32,
    },
}

/// A step too many; the row comes back.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("state row {} is in {limit} steps already, all that overlap_depth allows", row.id().0)]
pub struct LaunchError {
    /// The row, unchanged.
    pub row: StateRow<Verifying>,
    /// Steps that may be in flight.
    pub limit: u32,
}

/// A result that cannot be true; the row comes back, and its request has to end.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("state row {}: {error}", row.id().0)]
pub struct CommitError {
    /// The row, with the step taken off those in flight and the cursor unchanged.
    pub row: RowState,
    /// The contradiction.
    pub error: CursorError,
}

impl<P> StateRow<P> {
    /// The row in the state tensors.
    #[must_use]
    pub const fn id(&self) -> StateIdx {
        self.row.id()
    }
}

impl StateRow<Empty> {
    /// A row just taken from the table.
    pub const fn new(row: StateRef) -> Self {
        Self { row, phase: Empty }
    }

    /// The row zeroed, as before the first token.
    pub fn reset(self) -> StateRow<Live> {
        self.live(Live {
            seq_len: 0,
            cursor: Cursor { accepted: 0, history_start: 0, history_len: 0 },
        })
    }

    /// The row filled from a checkpoint of `seq_len` tokens. The cursor starts anew:
    /// a checkpoint is canonical and has no history.
    pub fn restore(self, checkpoint: &PinnedCheckpoint, seq_len: u32) -> StateRow<Live> {
        debug_assert!(checkpoint.id() != CheckpointId::NULL, "the null row is never published");
        self.live(Live { seq_len, cursor: Cursor::default() })
    }

    /// The ownership, to be given back to the table.
    pub fn into_ref(self) -> StateRef {
        self.row
    }

    fn live(self, phase: Live) -> StateRow<Live> {
        StateRow { row: self.row, phase }
    }
}

impl StateRow<Live> {
    /// Tokens that the state has consumed.
    #[must_use]
    pub const fn seq_len(&self) -> u32 {
        self.phase.seq_len
    }

    /// Where the state lies.
    #[must_use]
    pub const fn cursor(&self) -> Cursor {
        self.phase.cursor
    }

    /// The row in its first step in flight.
    pub fn launch(self) -> StateRow<Verifying> {
        StateRow { row: self.row, phase: Verifying { live: self.phase, in_flight: 1 } }
    }

    /// A second row with the same state, and the copy that makes it so.
    pub fn fork(self, into: StateRow<Empty>) -> (Self, Self, StateCopy) {
        let copy = StateCopy { from: self.id(), to: into.id(), cursor: self.phase.cursor };
        let twin = into.live(self.phase);
        (self, twin, copy)
    }

    /// A checkpoint of the state now; the row stays as it is, pending history
    /// included.
    pub fn checkpoint(self, rules: CursorRules, into: &CheckpointRef) -> (Self, Export) {
        let export = Export {
            from: self.id(),
            to: into.id(),
            seq_len: self.phase.seq_len,
            source: rules.export_live(self.phase.cursor),
        };
        (self, export)
    }

    /// The row given up, to be recomputed or restored later.
    pub fn preempt(self) -> StateRow<Empty> {
        StateRow { row: self.row, phase: Empty }
    }

    /// The state moved to another row; state, records and cursor go together.
    pub fn migrate(self, to: StateRow<Empty>) -> (Self, StateRow<Empty>, StateCopy) {
        let (old, new, copy) = self.fork(to);
        (new, old.preempt(), copy)
    }
}

impl StateRow<Verifying> {
    /// Steps that have not committed.
    #[must_use]
    pub const fn num_in_flight(&self) -> u32 {
        self.phase.in_flight
    }

    /// Tokens consumed at the last commit; the device may be ahead.
    #[must_use]
    pub const fn committed_len(&self) -> u32 {
        self.phase.live.seq_len
    }

    /// The row in one step more, of at most `limit` (overlap depth + 1).
    ///
    /// # Errors
    /// `limit` steps are in flight already.
    pub fn launch(mut self, limit: u32) -> Result<Self, LaunchError> {
        if self.phase.in_flight >= limit {
            return Err(LaunchError { row: self, limit });
        }
        self.phase.in_flight += 1;
        Ok(self)
    }

    /// The oldest step in flight, committed: the row is live again if it was the
    /// last one.
    ///
    /// # Errors
    /// The outcome contradicts the rules.
    #[inline]
    pub fn commit(self, rules: CursorRules, outcome: Outcome) -> Result<RowState, CommitError> {
        let mut live = self.phase.live;
        let stepped = match outcome {
            Outcome::Decode { query_len, num_accepted, folded } => {
                rules.step(live.cursor, query_len, num_accepted).and_then(|begin| {
                    if begin.fold_count == folded {
                        Ok((begin.cursor, num_accepted))
                    } else {
                        Err(CursorError::Folded { folded, expected: begin.fold_count })
                    }
                })
            }
            Outcome::Prefill { len } => Ok((rules.prefill(live.cursor, len).cursor, len)),
        };
        if let Ok((cursor, consumed)) = stepped {
            live = Live { seq_len: live.seq_len + consumed, cursor };
        }
        let row = match self.phase.in_flight {
            1 => RowState::Live(StateRow { row: self.row, phase: live }),
            more => RowState::Verifying(StateRow {
                row: self.row,
                phase: Verifying { live, in_flight: more - 1 },
            }),
        };
        match stepped {
            Ok(_) => Ok(row),
            Err(error) => Err(CommitError { row, error }),
        }
    }
}

/// A row that holds a state, for those who keep one from step to step.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a state row has to be emptied and given back"]
pub enum RowState {
    /// No step is running it.
    Live(StateRow<Live>),
    /// One or more steps are.
    Verifying(StateRow<Verifying>),
}

impl RowState {
    /// The row in the state tensors.
    #[must_use]
    pub const fn id(&self) -> StateIdx {
        match self {
            Self::Live(row) => row.id(),
            Self::Verifying(row) => row.id(),
        }
    }

    /// Tokens consumed at the last commit.
    #[must_use]
    pub const fn committed_len(&self) -> u32 {
        match self {
            Self::Live(row) => row.seq_len(),
            Self::Verifying(row) => row.committed_len(),
        }
    }

    /// Steps that have not committed.
    #[must_use]
    pub const fn num_in_flight(&self) -> u32 {
        match self {
            Self::Live(_) => 0,
            Self::Verifying(row) => row.num_in_flight(),
        }
    }

    /// The row in one step more, of at most `limit` (overlap depth + 1).
    ///
    /// # Errors
    /// `limit` steps are in flight already.
    pub fn launch(self, limit: u32) -> Result<StateRow<Verifying>, LaunchError> {
        match self {
            Self::Live(row) => Ok(row.launch()),
            Self::Verifying(row) => row.launch(limit),
        }
    }
}
