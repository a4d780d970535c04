//! Abort at any point.

use super::Scheduler;
use super::release::Ending;
use crate::ids::RequestId;
use crate::outputs::Delta;
use crate::request::{FinishReason, Place};

impl Scheduler {
    /// Ends a request wherever it is. False if it is unknown or has ended. Steps
    /// in flight that name it run to their end; what they emit for it is dropped.
    ///
    /// # Panics
    /// If the books disagree with the queue, which is a bug.
    pub fn abort(&mut self, id: RequestId) -> bool {
        match self.books.ledger.place(id) {
            None => return false,
            Some(Place::Queued) => {
                let queued = self.queue.take(id).expect("the ledger says that it waits");
                let request = queued.into_request();
                let delta = Delta {
                    id,
                    origin: None,
                    finish: Some(FinishReason::Abort),
                    num_cached: request.num_cached(),
                    stop_bytes: None,
                };
                self.books.outputs.push(delta, &[]);
                self.close(id);
                self.admission_blocked = false;
            }
            Some(Place::Running(req_idx)) => {
                let ending = Ending {
                    reason: FinishReason::Abort,
                    origin: None,
                    tokens: &[],
                    stop_bytes: None,
                    device_done: false,
                };
                self.end(req_idx.0, &ending);
            }
        }
        self.books.counters.requests_aborted += 1;
        true
    }
}
