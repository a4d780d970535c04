//! Cursor arithmetic of the draft window.

use std::ops::Range;

use thiserror::Error;

/// The state of one request's window. Positions are absolute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WindowCursor {
    /// The position of slot 0.
    pub origin: u32,
    /// One past the last committed position.
    pub end: u32,
    /// The first position whose row was written or restored.
    pub valid_from: u32,
}

/// A commit: the cursor after it and the positions whose rows it writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowCommit {
    /// The cursor after the commit.
    pub cursor: WindowCursor,
    /// The positions to write; at most W, so each slot has one writer.
    pub writes: Range<u32>,
}

/// Why the rules or a commit were refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WindowError {
    /// No window.
    #[error("mtp_window_size is 0; give at least the drafter's block size ({block})")]
    Empty {
        /// Rows of the drafter's block.
        block: u32,
    },
    /// A window that a block does not fit.
    #[error(
        "mtp_window_size is {window}, less than the drafter's block of {block} rows; \
         give at least {block}, or lower mtp_step"
    )]
    BelowBlock {
        /// W.
        window: u32,
        /// Rows of the drafter's block.
        block: u32,
    },
    /// Positions were left out.
    #[error("a commit starts at position {first} but the window ends at {end}; skip to it first")]
    Gap {
        /// The first position of the commit.
        first: u32,
        /// The window's end.
        end: u32,
    },
    /// The commit ends before the window does.
    #[error("a commit ends at position {new_end}, before the window's end {end}")]
    Backwards {
        /// One past the last position of the commit.
        new_end: u32,
        /// The window's end.
        end: u32,
    },
    /// More rows than a snapshot can have.
    #[error("{count} rows cannot be restored at {boundary} into a window of {window}")]
    Restore {
        /// Rows.
        count: u32,
        /// Tokens at the boundary.
        boundary: u32,
        /// W.
        window: u32,
    },
}

/// The rules of a window of W rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowRules {
    window: u32,
}

impl WindowRules {
    /// Rules for `window` rows and a drafter that writes `block` rows behind them.
    ///
    /// # Errors
    /// A window of 0 rows or smaller than the block.
    pub const fn new(window: u32, block: u32) -> Result<Self, WindowError> {
        if window == 0 {
            return Err(WindowError::Empty { block });
        }
        if window < block {
            return Err(WindowError::BelowBlock { window, block });
        }
        Ok(Self { window })
    }

    /// W.
    #[must_use]
    pub const fn window(&self) -> u32 {
        self.window
    }

    /// The window before the first token.
    #[must_use]
    pub const fn reset(&self) -> WindowCursor {
        self.skip(0)
    }

    /// The window emptied, with everything before `end` masked: after steps that
    /// ran no drafter, and at a boundary without a snapshot.
    #[must_use]
    pub const fn skip(&self, end: u32) -> WindowCursor {
        WindowCursor { origin: end, end, valid_from: end }
    }

    /// The window after a snapshot of the last `count` positions before `boundary`
    /// was laid at rows `0..count`.
    ///
    /// # Errors
    /// More rows than positions or than the window.
    pub const fn restore(&self, boundary: u32, count: u32) -> Result<WindowCursor, WindowError> {
        if count > boundary || count > self.window {
            return Err(WindowError::Restore { count, boundary, window: self.window });
        }
        let valid_from = boundary - count;
        Ok(WindowCursor { origin: valid_from, end: boundary, valid_from })
    }

    /// Visible rows: rows `0..count` of the ring.
    #[must_use]
    pub const fn visible(&self, cursor: WindowCursor) -> u32 {
        let valid = cursor.end - cursor.valid_from;
        if valid < self.window { valid } else { self.window }
    }

    /// The positions of the visible rows.
    #[must_use]
    pub const fn positions(&self, cursor: WindowCursor) -> Range<u32> {
        cursor.end - self.visible(cursor)..cursor.end
    }

    /// The ring row of a position at or after the origin.
    #[must_use]
    pub const fn slot(&self, cursor: WindowCursor, position: u32) -> u32 {
        (position - cursor.origin) % self.window
    }

    /// Commits positions `first..first + len`. Positions before the window's end are
    /// written again with the same content; of a chunk longer than the window only
    /// the last W are written.
    ///
    /// # Errors
    /// A gap before `first`, or an end before the window's.
    pub const fn commit(
        &self,
        cursor: WindowCursor,
        first: u32,
        len: u32,
    ) -> Result<WindowCommit, WindowError> {
        let new_end = first + len;
        if first > cursor.end {
            return Err(WindowError::Gap { first, end: cursor.end });
        }
        if new_end < cursor.end {
            return Err(WindowError::Backwards { new_end, end: cursor.end });
        }
        let mut from = if first > cursor.valid_from { first } else { cursor.valid_from };
        if new_end > self.window && new_end - self.window > from {
            from = new_end - self.window;
        }
        let cursor = WindowCursor { end: new_end, ..cursor };
        Ok(WindowCommit { cursor, writes: from..new_end })
    }
}
