//! Requests enter.

use super::Scheduler;
use crate::ids::RequestId;
use crate::request::{Queued, RejectReason, Request, RequestSpec, Terms};

impl Scheduler {
    /// Checks a request and puts it in the queue.
    ///
    /// # Errors
    /// [`RejectReason`]: nothing was taken and nothing changed.
    pub fn submit(&mut self, spec: RequestSpec) -> Result<RequestId, RejectReason> {
        let checked = Terms::check(spec, &self.config, self.vocabulary.is_some());
        let terms = match checked {
            Ok(_) if self.queue.len() >= self.config.max_queue as usize => {
                Err(RejectReason::QueueFull(self.config.max_queue))
            }
            checked => checked,
        }
        .inspect_err(|_| self.books.counters.requests_rejected += 1)?;
        let id = self.books.ledger.open();
        self.books.counters.requests_accepted += 1;
        self.queue.push(Queued::new(Box::new(Request::new(id, terms))));
        // It may have become the head, and a head that fits.
        self.admission_blocked = false;
        Ok(id)
    }
}
