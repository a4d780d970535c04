//! The queue: priority first, then arrival.

use std::collections::BTreeMap;

use super::lifecycle::Queued;
use crate::ids::RequestId;

/// A place in the order of service: priority, then identity, which is the
/// order of arrival. A preempted request keeps its rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank {
    priority: i32,
    id: RequestId,
}

impl Rank {
    /// The rank of a request.
    #[must_use]
    pub fn new(priority: i32, id: RequestId) -> Self {
        Self { priority, id }
    }
}

/// Waiting requests in the order in which they will be admitted. The head is
/// never overtaken, so that a large request cannot starve behind small ones.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: BTreeMap<Rank, Queued>,
}

impl Queue {
    /// Adds a request at its rank.
    ///
    /// # Panics
    /// If a request of the same identity waits already, which is a bug.
    pub fn push(&mut self, queued: Queued) {
        let twin = self.waiting.insert(queued.request().rank(), queued);
        assert!(twin.is_none(), "a rank holds the request's identity, so it is unique");
    }

    /// The request to admit next.
    #[must_use]
    pub fn head(&self) -> Option<&Queued> {
        self.waiting.first_key_value().map(|(_, queued)| queued)
    }

    /// Takes the request to admit next.
    pub fn take_head(&mut self) -> Option<Queued> {
        self.waiting.pop_first().map(|(_, queued)| queued)
    }

    /// Takes one request out of the order.
    pub fn take(&mut self, id: RequestId) -> Option<Queued> {
        let rank = *self.waiting.keys().find(|rank| rank.id == id)?;
        self.waiting.remove(&rank)
    }

    /// Waiting requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
