//! The storage modes, and what they refuse.

use thiserror::Error;

/// Widest verification of one request, in rows.
pub const MAX_VERIFY_WIDTH: u32 = 16;

/// How the recurrent state of a request is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StateMode {
    /// T full states and the index of the accepted one.
    Native,
    /// One state and the raw records of the step in flight.
    Compact,
    /// One state and a history of records that is folded now and then.
    Replay,
}

impl StateMode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Native, Self::Compact, Self::Replay];

    /// The mode's name in options and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Compact => "compact",
            Self::Replay => "replay",
        }
    }

    /// The mode as an integer, where settings are integers.
    #[must_use]
    pub const fn code(self) -> u64 {
        self as u64
    }

    /// The mode of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// Why the rules or a step were refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CursorError {
    /// The verify width is 0 or too large.
    #[error("verify_width is {0} but must be 1..={MAX_VERIFY_WIDTH}; lower mtp_step")]
    Width(u32),
    /// The history cannot hold one step.
    #[error(
        "replay_history_len is {capacity} but a step appends up to {verify_width} records \
         (mtp_step + 1); raise replay_history_len to {verify_width} or more, or lower mtp_step"
    )]
    Capacity {
        /// L.
        capacity: u32,
        /// T.
        verify_width: u32,
    },
    /// Compact stores the records of speculation only.
    #[error("ssm_state_mode compact needs mtp_step of at least 1; use native, or raise mtp_step")]
    CompactWithoutDrafts,
    /// More rows than the verify width.
    #[error("a step ran {query_len} rows of a request whose verify_width is {verify_width}")]
    Query {
        /// Rows that ran.
        query_len: u32,
        /// T.
        verify_width: u32,
    },
    /// More accepted than ran.
    #[error("{num_accepted} rows were accepted of {query_len} that ran")]
    Accepted {
        /// A.
        num_accepted: u32,
        /// Rows that ran.
        query_len: u32,
    },
    /// Rows ran over the live state of a native row, and none of them is the new one.
    #[error("{query_len} rows ran and none was accepted, which leaves a native row without state")]
    Lost {
        /// Rows that ran.
        query_len: u32,
    },
    /// The device folded another number of records than the rules say.
    #[error("the step folded {folded} records where {expected} were due")]
    Folded {
        /// Records that the result reports.
        folded: u32,
        /// Records that the rules fold.
        expected: u32,
    },
}
