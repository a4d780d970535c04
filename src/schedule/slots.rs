//! What a slot holds, by state of its request. A transition takes the state
//! before it by value.

use crate::ids::{ReqIdx, StateIdx};
use crate::pages::PageRef;
use crate::prefix::{CheckpointRef, PathRef};
use crate::request::Request;

/// A row of the recurrent-state pool; its one holder is its one writer.
#[derive(Debug)]
#[must_use = "a state row has to be given back"]
pub(super) struct StateRow(StateIdx);

impl StateRow {
    pub(super) fn id(&self) -> StateIdx {
        self.0
    }
}

/// The recurrent-state pool.
#[derive(Debug)]
pub(super) struct StateRows {
    free: Vec<StateIdx>,
    total: usize,
}

impl StateRows {
    pub(super) fn new(num_states: u32) -> Self {
        let free = (1..=num_states).rev().map(StateIdx).collect();
        Self { free, total: num_states as usize }
    }

    pub(super) fn try_take(&mut self) -> Option<StateRow> {
        self.free.pop().map(StateRow)
    }

    pub(super) fn free(&mut self, row: StateRow) {
        self.free.push(row.0);
    }

    pub(super) fn num_free(&self) -> usize {
        self.free.len()
    }

    pub(super) fn num_total(&self) -> usize {
        self.total
    }
}

/// What every admitted request holds until no step in flight names it.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) req_idx: ReqIdx,
    pub(super) state: StateRow,
    pub(super) pages: Vec<PageRef>,
    /// Entries of `pages` that the device's table has.
    pub(super) sent: u32,
    /// The lock on what is published; gone once the request stopped publishing.
    pub(super) path: Option<PathRef>,
    /// Pages of the path.
    pub(super) published: u32,
    /// Committed tokens at which the next page is full; `u32::MAX` when nothing
    /// is to be published.
    pub(super) publish_at: u32,
    /// Steps in flight that name this slot.
    pub(super) in_flight: u32,
}

impl Held {
    pub(super) fn num_pages(&self) -> u32 {
        self.pages.len() as u32
    }
}

/// The prompt is being computed.
#[derive(Debug)]
pub(super) struct Prefilling {
    pub(super) request: Box<Request>,
    pub(super) held: Held,
    /// Known tokens cached or planned.
    pub(super) planned: u32,
    /// Boundaries still to arm, most useful first.
    pub(super) boundaries: Vec<u32>,
    pub(super) last_planned: u64,
    pub(super) preempt: bool,
}

/// The whole prompt is planned; tokens are being emitted.
#[derive(Debug)]
pub(super) struct Decoding {
    pub(super) request: Box<Request>,
    pub(super) held: Held,
    /// Consumed tokens as far as committed: a lower bound of the device's.
    pub(super) seq_len: u32,
    /// The most tokens that the request can come to hold.
    pub(super) max_len: u32,
    pub(super) sampled: bool,
    pub(super) logprobs: i32,
    /// The row for the state at the request's end.
    pub(super) end: Option<CheckpointRef>,
    /// The row for the state at `next_boundary`, once that is in reach.
    pub(super) boundary: Option<CheckpointRef>,
    /// The next multiple of the checkpoint interval; `u32::MAX` without one.
    pub(super) next_boundary: u32,
    pub(super) last_planned: u64,
    pub(super) preempt: bool,
}

/// The request has its terminal; a step in flight still names the slot.
#[derive(Debug)]
pub(super) struct Draining {
    pub(super) held: Held,
    pub(super) checkpoints: [Option<CheckpointRef>; 2],
    /// The device ended it, so its rows in flight are HOLD.
    pub(super) device_done: bool,
}

/// One permanent row of the device buffers.
#[derive(Debug, Default)]
pub(super) enum Slot {
    #[default]
    Empty,
    Prefilling(Prefilling),
    Decoding(Decoding),
    Draining(Draining),
}

impl Slot {
    pub(super) fn held(&self) -> Option<&Held> {
        match self {
            Self::Empty => None,
            Self::Prefilling(p) => Some(&p.held),
            Self::Decoding(d) => Some(&d.held),
            Self::Draining(d) => Some(&d.held),
        }
    }

    /// The request, while it has no terminal.
    pub(super) fn request(&self) -> Option<&Request> {
        match self {
            Self::Prefilling(p) => Some(&p.request),
            Self::Decoding(d) => Some(&d.request),
            Self::Empty | Self::Draining(_) => None,
        }
    }

    /// Checkpoint rows that the slot holds.
    pub(super) fn checkpoints(&self) -> impl Iterator<Item = &CheckpointRef> {
        let rows = match self {
            Self::Empty | Self::Prefilling(_) => [None, None],
            Self::Decoding(d) => [d.end.as_ref(), d.boundary.as_ref()],
            Self::Draining(d) => [d.checkpoints[0].as_ref(), d.checkpoints[1].as_ref()],
        };
        rows.into_iter().flatten()
    }
}
