//! What a slot holds, by state of its request. A transition takes the state
//! before it by value.

use crate::ids::{ReqIdx, StateIdx};
use crate::pages::PageRef;
use crate::prefix::{CheckpointRef, PathRef};
use crate::request::Request;
use crate::state::{CommitError, CursorRules, Live, Outcome, RowState, StateRef, StateRow};

/// What every admitted request holds until no step in flight names it.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) req_idx: ReqIdx,
    /// Taken and put back by each transition; never absent between them.
    state: Option<RowState>,
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
}

impl Held {
    /// What an admission took. `num_shared` pages of the path are published.
    pub(super) fn new(
        req_idx: ReqIdx,
        state: StateRow<Live>,
        pages: Vec<PageRef>,
        path: PathRef,
        num_shared: u32,
    ) -> Self {
        Self {
            req_idx,
            state: Some(RowState::Live(state)),
            sent: pages.len() as u32,
            pages,
            path: Some(path),
            published: num_shared,
            publish_at: u32::MAX,
        }
    }

    fn state(&self) -> &RowState {
        self.state.as_ref().expect(STATE_IS_THERE)
    }

    /// The row in the state tensors.
    pub(super) fn state_idx(&self) -> StateIdx {
        self.state().id()
    }

    /// Steps in flight that name this slot.
    pub(super) fn in_flight(&self) -> u32 {
        self.state().num_in_flight()
    }

    /// Tokens that committed steps have consumed.
    pub(super) fn committed_len(&self) -> u32 {
        self.state().committed_len()
    }

    /// Names the slot in one step more.
    pub(super) fn launch(&mut self, limit: u32) {
        let state = self.state.take().expect(STATE_IS_THERE);
        let launched = state.launch(limit).expect("plan keeps within overlap_depth + 1 steps");
        self.state = Some(RowState::Verifying(launched));
    }

    /// Commits the oldest step that names the slot. What a request emits after its
    /// end is not trusted, so an outcome that breaks the rules only ends the step;
    /// a live row's was checked before.
    pub(super) fn commit(&mut self, rules: CursorRules, outcome: Outcome) {
        let Some(RowState::Verifying(state)) = self.state.take() else {
            unreachable!("a row of a step in flight is verifying")
        };
        let (Ok(state) | Err(CommitError { row: state, .. })) = state.commit(rules, outcome);
        self.state = Some(state);
    }

    /// Gives everything up.
    pub(super) fn into_parts(self) -> (StateRef, Vec<PageRef>, Option<PathRef>) {
        let Some(RowState::Live(state)) = self.state else {
            unreachable!("a row in flight is never given up")
        };
        (state.preempt().into_ref(), self.pages, self.path)
    }

    pub(super) fn num_pages(&self) -> u32 {
        self.pages.len() as u32
    }
}

const STATE_IS_THERE: &str = "a slot holds its state row between transitions";

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
    /// Committed tokens from which the reserved slots need one page more.
    pub(super) grow_at: u32,
    pub(super) sampled: bool,
    /// The request has stop strings to look for.
    pub(super) has_stops: bool,
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
