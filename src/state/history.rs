//! Cursor arithmetic of the three state modes.
//!
//! T is `verify_width`, the rows of a step for one request, and A the rows it
//! accepted (the base token counts). A row runs `query_len` rows, 0 if it is HOLD.
//!
//! | mode | kept | at a step | at acceptance |
//! |---|---|---|---|
//! | native | T states | row j writes state slot j | the index moves to A - 1 |
//! | compact | one state, T records | row j writes record j | A records are folded |
//! | replay | one state, a ring of records | may fold, then appends | the length grows by A |
//!
//! In replay one ring of L + T slots holds up to L committed records from
//! `history_start` on. A row folds at the start of a step in which
//! `history_len + query_len > L`: the origin moves past the folded records, and the
//! rows of the step are written behind them, so no launch reads and writes one
//! slot.

use super::mode::{CursorError, MAX_VERIFY_WIDTH, StateMode};

/// Where the live state of a row lies. All zero after a reset, a restore or a
/// prefill chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    /// A - 1 of the last step that accepted something. In every mode the accepted
    /// conv window starts at this column; in native it is also the state slot.
    pub accepted: u32,
    /// The ring slot of the oldest committed record (replay).
    pub history_start: u32,
    /// Committed records that are not folded (replay).
    pub history_len: u32,
}

/// The start of a step for one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begin {
    /// The cursor after the fold, if there is one.
    pub cursor: Cursor,
    /// The first ring slot of the records to fold.
    pub fold_start: u32,
    /// Records to fold into the state; 0 for none.
    pub fold_count: u32,
}

/// From where a checkpoint is written: state slot `state_slot`, with `fold_count`
/// records from slot `fold_start` on applied into the destination, and the conv
/// columns from `conv_offset` on. The live row stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportSource {
    /// The state slot to start from.
    pub state_slot: u32,
    /// The first record to apply.
    pub fold_start: u32,
    /// Records to apply; 0 for none.
    pub fold_count: u32,
    /// The first conv column of the window.
    pub conv_offset: u32,
}

/// The rows of a step that lie below `boundary`: `Some(boundary - old_seq_len)` if
/// `old_seq_len < boundary <= new_seq_len`, the condition under which it fires.
#[must_use]
pub const fn boundary_rows(old_seq_len: u32, new_seq_len: u32, boundary: u32) -> Option<u32> {
    if old_seq_len < boundary && boundary <= new_seq_len {
        Some(boundary - old_seq_len)
    } else {
        None
    }
}

/// The rules of one mode at one width and capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CursorRules {
    mode: StateMode,
    verify_width: u32,
    history_capacity: u32,
}

impl CursorRules {
    /// Rules of a mode for `verify_width` rows a step and, in replay, a history of
    /// `history_capacity` records (unused in the other modes).
    ///
    /// # Errors
    /// A width outside `1..=MAX_VERIFY_WIDTH`, a history shorter than a step
    /// (replay), or a width of 1 in compact.
    pub const fn new(
        mode: StateMode,
        verify_width: u32,
        history_capacity: u32,
    ) -> Result<Self, CursorError> {
        if verify_width == 0 || verify_width > MAX_VERIFY_WIDTH {
            return Err(CursorError::Width(verify_width));
        }
        match mode {
            StateMode::Compact if verify_width == 1 => Err(CursorError::CompactWithoutDrafts),
            StateMode::Replay if history_capacity < verify_width => {
                Err(CursorError::Capacity { capacity: history_capacity, verify_width })
            }
            _ => Ok(Self { mode, verify_width, history_capacity }),
        }
    }

    /// The mode.
    #[must_use]
    pub const fn mode(&self) -> StateMode {
        self.mode
    }

    /// T.
    #[must_use]
    pub const fn verify_width(&self) -> u32 {
        self.verify_width
    }

    /// State slots of a row.
    #[must_use]
    pub const fn num_state_slots(&self) -> u32 {
        match self.mode {
            StateMode::Native => self.verify_width,
            StateMode::Compact | StateMode::Replay => 1,
        }
    }

    /// Record slots of a row: T in compact, L + T in replay.
    #[must_use]
    pub const fn num_record_slots(&self) -> u32 {
        match self.mode {
            StateMode::Native => 0,
            StateMode::Compact => self.verify_width,
            StateMode::Replay => self.history_capacity + self.verify_width,
        }
    }

    /// The state slot that a step reads.
    #[must_use]
    pub const fn read_slot(&self, cursor: Cursor) -> u32 {
        match self.mode {
            StateMode::Native => cursor.accepted,
            StateMode::Compact | StateMode::Replay => 0,
        }
    }

    /// The start of a step of `query_len` rows; HOLD (0 rows) changes nothing.
    ///
    /// # Errors
    /// `query_len` beyond the verify width.
    pub const fn begin(&self, cursor: Cursor, query_len: u32) -> Result<Begin, CursorError> {
        if query_len > self.verify_width {
            return Err(CursorError::Query { query_len, verify_width: self.verify_width });
        }
        let overflows = matches!(self.mode, StateMode::Replay)
            && query_len > 0
            && cursor.history_len + query_len > self.history_capacity;
        Ok(if overflows { self.fold_all(cursor) } else { Self::keep(cursor) })
    }

    /// The slot that row `row` of a step writes, by the cursor after
    /// [`begin`](Self::begin): a state slot in native, else a record slot.
    #[must_use]
    pub const fn write_slot(&self, begun: Cursor, row: u32) -> u32 {
        match self.mode {
            StateMode::Native | StateMode::Compact => row,
            StateMode::Replay => {
                (begun.history_start + begun.history_len + row) % self.num_record_slots()
            }
        }
    }

    /// The cursor after a step whose start gave `begun` and that accepted
    /// `num_accepted` rows; with 0 (a row that ran nothing) it stays.
    #[must_use]
    pub const fn accept(&self, begun: Cursor, num_accepted: u32) -> Cursor {
        if num_accepted == 0 {
            return begun;
        }
        let appended = match self.mode {
            StateMode::Native | StateMode::Compact => 0,
            StateMode::Replay => num_accepted,
        };
        Cursor {
            accepted: num_accepted - 1,
            history_start: begun.history_start,
            history_len: begun.history_len + appended,
        }
    }

    /// A whole step: its start and its acceptance. The cursor of the result is the
    /// one after acceptance.
    ///
    /// # Errors
    /// `query_len` beyond the verify width; more accepted than ran; in native, rows
    /// that ran with none accepted, since they wrote over the state they read.
    pub const fn step(
        &self,
        cursor: Cursor,
        query_len: u32,
        num_accepted: u32,
    ) -> Result<Begin, CursorError> {
        if num_accepted > query_len {
            return Err(CursorError::Accepted { num_accepted, query_len });
        }
        if num_accepted == 0 && query_len > 0 && matches!(self.mode, StateMode::Native) {
            return Err(CursorError::Lost { query_len });
        }
        match self.begin(cursor, query_len) {
            Err(error) => Err(error),
            Ok(begin) => Ok(Begin { cursor: self.accept(begin.cursor, num_accepted), ..begin }),
        }
    }

    /// A prefill chunk of `len` tokens: pending history is folded first, and the
    /// live state is then in slot 0 with the conv window at column 0. A chunk of no
    /// tokens changes nothing.
    #[must_use]
    pub const fn prefill(&self, cursor: Cursor, len: u32) -> Begin {
        if len == 0 {
            return Self::keep(cursor);
        }
        let begin = self.fold_all(cursor);
        Begin { cursor: Cursor { accepted: 0, ..begin.cursor }, ..begin }
    }

    /// The source of a checkpoint after `rows` rows of a step (1..=A), by the cursor
    /// after [`begin`](Self::begin).
    #[must_use]
    pub const fn export_rows(&self, begun: Cursor, rows: u32) -> ExportSource {
        let last = rows - 1;
        let (state_slot, fold_start, fold_count) = match self.mode {
            StateMode::Native => (last, 0, 0),
            StateMode::Compact => (0, 0, rows),
            StateMode::Replay => (0, begun.history_start, begun.history_len + rows),
        };
        ExportSource { state_slot, fold_start, fold_count, conv_offset: last }
    }

    /// The source of a checkpoint of a row that no step is running.
    #[must_use]
    pub const fn export_live(&self, cursor: Cursor) -> ExportSource {
        ExportSource {
            state_slot: self.read_slot(cursor),
            fold_start: cursor.history_start,
            fold_count: cursor.history_len,
            conv_offset: cursor.accepted,
        }
    }

    const fn keep(cursor: Cursor) -> Begin {
        Begin { cursor, fold_start: cursor.history_start, fold_count: 0 }
    }

    const fn fold_all(&self, cursor: Cursor) -> Begin {
        let slots = self.num_record_slots();
        let origin = cursor.history_start + cursor.history_len;
        Begin {
            cursor: Cursor {
                accepted: cursor.accepted,
                history_start: if slots == 0 { 0 } else { origin % slots },
                history_len: 0,
            },
            fold_start: cursor.history_start,
            fold_count: cursor.history_len,
        }
    }
}
