//! Exactly one terminal per accepted request.

use rustc_hash::FxHashMap;

use crate::error::LedgerError;
use crate::ids::{ReqIdx, RequestId};

/// Where an open request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the queue.
    Queued,
    /// In a slot.
    Running(ReqIdx),
}

/// The open requests. Identities count up and are never used again, so an
/// identity that was handed out and is not open has had its terminal.
#[derive(Debug, Default)]
pub struct Ledger {
    open: FxHashMap<RequestId, Place>,
    next: u64,
}

impl Ledger {
    /// Opens a new request, in the queue.
    pub fn open(&mut self) -> RequestId {
        self.next += 1;
        let id = RequestId(self.next);
        self.open.insert(id, Place::Queued);
        id
    }

    /// Where a request is; `None` if it ended or never was.
    #[must_use]
    pub fn place(&self, id: RequestId) -> Option<Place> {
        self.open.get(&id).copied()
    }

    /// Records a move between the queue and a slot.
    ///
    /// # Panics
    /// If the request is not open: a move after the terminal is a bug.
    pub fn moved(&mut self, id: RequestId, place: Place) {
        let entry = self.open.get_mut(&id).expect("only open requests move");
        *entry = place;
    }

    /// Writes the request's one terminal.
    ///
    /// # Errors
    /// [`LedgerError`] if it has one already or was never accepted.
    pub fn close(&mut self, id: RequestId) -> Result<(), LedgerError> {
        match self.open.remove(&id) {
            Some(_) => Ok(()),
            None if id.0 >= 1 && id.0 <= self.next => Err(LedgerError::SecondTerminal(id)),
            None => Err(LedgerError::NeverAccepted(id)),
        }
    }

    /// Open requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether no request is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_terminal_is_an_error() {
        let mut ledger = Ledger::default();
        let id = ledger.open();
        assert_eq!(ledger.place(id), Some(Place::Queued));
        assert_eq!(ledger.close(id), Ok(()));
        assert_eq!(ledger.close(id), Err(LedgerError::SecondTerminal(id)));
        let foreign = RequestId(99);
        assert_eq!(ledger.close(foreign), Err(LedgerError::NeverAccepted(foreign)));
        assert_ne!(ledger.open(), id);
    }
}
