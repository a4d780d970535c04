//! The second call of a step.

use super::Scheduler;
use super::flight::{RowRecord, StepRecord};
use super::publish::{publish_checkpoint, publish_pages};
use super::release::Ending;
use super::slots::{Decoding, Slot};
use crate::error::ResultError;
use crate::ids::{StepId, Token};
use crate::outputs::Delta;
use crate::request::{FinishReason, Request, StopMatch, Vocabulary};
use crate::state::Outcome;
use crate::step::{
    FINISH_LENGTH, FINISH_NONE, FINISH_STOP, ROW_DECODE, ROW_PREFILL, ResultReader, RowResult,
};

impl Scheduler {
    /// Takes the result of the oldest step in flight, an array of
    /// [`result_len`](crate::step::result_len) words.
    ///
    /// # Errors
    /// [`ResultError`] naming the field that breaks a law; nothing has changed then.
    ///
    /// # Panics
    /// If a request would get a second terminal, which is a bug.
    pub fn commit(&mut self, step: StepId, result: &[i32]) -> Result<(), ResultError> {
        let reader = ResultReader::new(result, &self.dims)?;
        let Some(record) = self.flight.front() else {
            return Err(ResultError::NothingInFlight(step));
        };
        if record.id != step {
            return Err(ResultError::WrongStep { found: step, expected: record.id });
        }
        reader.check_head(step, record.rows.len())?;
        let mut results = std::mem::take(&mut self.results);
        let checked = self.check_result(record, &reader, &mut results);
        if checked.is_ok() {
            let mut record = self.flight.pop_front().expect("it was looked at");
            for (row, &result) in results.iter().enumerate() {
                let planned = record.rows[row];
                self.commit_row(&mut record, row, &planned, result, &reader);
            }
            self.close_step(record);
        }
        self.results = results;
        checked
    }

    fn commit_row(
        &mut self,
        record: &mut StepRecord,
        row: usize,
        planned: &RowRecord,
        result: RowResult,
        reader: &ResultReader<'_>,
    ) {
        let rules = self.rules;
        let outcome = outcome_of(planned, result);
        let slot = &mut self.slots[planned.slot as usize];
        match slot {
            Slot::Empty => unreachable!("a slot in flight is held"),
            Slot::Draining(draining) => {
                draining.held.commit(rules, outcome);
                // The device may end what the host ended before.
                draining.device_done |= result.finish != FINISH_NONE;
                let drained = draining.held.in_flight() == 0;
                for entry in planned.armed() {
                    if let Some(row) = record.armed[entry].checkpoint.take() {
                        self.pools.cache.free_checkpoint(row);
                    }
                }
                if drained && let Slot::Draining(draining) = std::mem::take(slot) {
                    self.release(draining.held, draining.checkpoints);
                }
            }
            Slot::Prefilling(prefilling) => {
                prefilling.held.commit(rules, outcome);
                if result.non_finite == 0 {
                    self.commit_chunk(record, planned, reader);
                } else {
                    self.fail(record, row, planned);
                }
            }
            Slot::Decoding(decoding) => {
                decoding.held.commit(rules, outcome);
                if result.non_finite != 0 {
                    self.fail(record, row, planned);
                } else if planned.kind == ROW_PREFILL {
                    self.commit_chunk(record, planned, reader);
                } else {
                    if planned.kind != ROW_DECODE {
                        self.commit_chunk(record, planned, reader);
                    }
                    self.commit_tokens(record, row, planned, result, reader);
                }
            }
        }
    }

    /// Publishes what a prefill chunk computed.
    fn commit_chunk(
        &mut self,
        record: &mut StepRecord,
        planned: &RowRecord,
        reader: &ResultReader<'_>,
    ) {
        let (pools, books) = (&mut self.pools, &mut self.books);
        let (request, held) = match &mut self.slots[planned.slot as usize] {
            Slot::Prefilling(prefilling) => (&prefilling.request, &mut prefilling.held),
            Slot::Decoding(decoding) => (&decoding.request, &mut decoding.held),
            Slot::Empty | Slot::Draining(_) => return,
        };
        for entry in planned.armed() {
            let armed = &mut record.armed[entry];
            let Some(row) = armed.checkpoint.take() else { continue };
            if reader.fired(entry) == 1 {
                publish_checkpoint(pools, books, held, request.tokens(), armed.boundary, row);
            } else {
                pools.cache.free_checkpoint(row);
            }
        }
        let end = planned.start + planned.query_len;
        if held.publish_at <= end {
            publish_pages(pools, books, held, request.tokens(), end);
        }
    }

    /// Appends emitted tokens, publishes what they completed, and ends the request
    /// if it ended on the device or at a stop string.
    fn commit_tokens(
        &mut self,
        record: &StepRecord,
        row: usize,
        planned: &RowRecord,
        result: RowResult,
        reader: &ResultReader<'_>,
    ) {
        let (pools, books) = (&mut self.pools, &mut self.books);
        let Slot::Decoding(decoding) = &mut self.slots[planned.slot as usize] else { return };
        let accepted = &reader.tokens(row)[..result.num_accepted as usize];
        let found = if decoding.has_stops {
            find_stop(&mut decoding.request, self.vocabulary.as_ref(), accepted, result)
        } else {
            None
        };
        let kept = found.as_ref().map_or(accepted.len(), |(kept, _)| *kept);
        decoding.request.extend(&accepted[..kept]);
        let known = decoding.request.known_len();
        books.counters.tokens_emitted += kept as u64;
        if planned.kind == ROW_DECODE {
            decoding.seq_len += result.num_accepted as u32;
            books.counters.decode_rows += 1;
            books.counters.drafts_verified += (result.rows_run - 1) as u64;
            books.counters.drafts_accepted += (result.num_accepted - 1) as u64;
            let valid = decoding.seq_len.min(known);
            for entry in planned.armed() {
                let boundary = record.armed[entry].boundary;
                if reader.fired(entry) == 1
                    && boundary <= valid
                    && let Some(row) = decoding.boundary.take()
                {
                    let tokens = decoding.request.tokens();
                    publish_checkpoint(pools, books, &mut decoding.held, tokens, boundary, row);
                }
            }
            while decoding.next_boundary <= decoding.seq_len {
                decoding.next_boundary += self.config.checkpoint_interval;
            }
            if decoding.held.publish_at <= valid {
                publish_pages(pools, books, &mut decoding.held, decoding.request.tokens(), valid);
            }
        }
        let reason = match (&found, result.finish) {
            (Some(_), _) => Some(FinishReason::StopString),
            (None, FINISH_STOP) => Some(FinishReason::StopToken),
            (None, FINISH_LENGTH) => Some(FinishReason::Length),
            _ => None,
        };
        let Some(reason) = reason else {
            let delta = Delta {
                id: decoding.request.id(),
                origin: Some((record.id, row as u32)),
                finish: None,
                num_cached: decoding.request.num_cached(),
                stop_bytes: None,
            };
            books.outputs.push(delta, &accepted[..kept]);
            return;
        };
        // After a stop string the device's state lies past the text that is kept.
        if result.end_fired == 1 && found.is_none() {
            publish_end(pools, books, decoding, &mut self.num_ends);
        }
        let ending = Ending {
            reason,
            origin: Some((record.id, row as u32)),
            tokens: &accepted[..kept],
            stop_bytes: found.map(|(_, at)| at.start),
            device_done: result.finish != FINISH_NONE,
        };
        self.end(planned.slot, &ending);
    }

    /// Ends a request with a non-finite row; nothing of that row is published.
    fn fail(&mut self, record: &mut StepRecord, row: usize, planned: &RowRecord) {
        for entry in planned.armed() {
            if let Some(row) = record.armed[entry].checkpoint.take() {
                self.pools.cache.free_checkpoint(row);
            }
        }
        self.books.counters.requests_failed += 1;
        let ending = Ending {
            reason: FinishReason::Error,
            origin: Some((record.id, row as u32)),
            tokens: &[],
            stop_bytes: None,
            device_done: false,
        };
        self.end(planned.slot, &ending);
    }

    /// Gives back what the step alone held.
    fn close_step(&mut self, mut record: StepRecord) {
        let pools = &mut self.pools;
        self.admission_blocked &= record.pins.is_empty() && record.sources.is_empty();
        for pinned in record.pins.drain(..) {
            pools.cache.unpin(pinned);
        }
        for page in record.sources.drain(..) {
            pools.pages.free(page);
        }
        debug_assert!(record.armed.iter().all(|armed| armed.checkpoint.is_none()));
        record.rows.clear();
        record.armed.clear();
        self.spare.push(record);
    }
}

/// What the row's state went through.
fn outcome_of(planned: &RowRecord, result: RowResult) -> Outcome {
    if planned.kind == ROW_DECODE {
        Outcome::Decode {
            query_len: result.rows_run as u32,
            num_accepted: result.num_accepted as u32,
            folded: result.folded as u32,
        }
    } else {
        Outcome::Prefill { len: planned.query_len }
    }
}

/// Publishes the state at a turn's end: all of it but the last sampled token.
fn publish_end(
    pools: &mut super::Pools,
    books: &mut super::Books,
    decoding: &mut Decoding,
    num_ends: &mut usize,
) {
    let Some(row) = decoding.end.take() else { return };
    *num_ends -= 1;
    let boundary = decoding.seq_len;
    let tokens = decoding.request.tokens();
    publish_checkpoint(pools, books, &mut decoding.held, tokens, boundary, row);
}

/// Looks for a stop string in newly accepted tokens; gives the tokens to keep,
/// the completing one with them, and the match. A stop token adds no text.
fn find_stop(
    request: &mut Request,
    vocabulary: Option<&Vocabulary>,
    accepted: &[i32],
    result: RowResult,
) -> Option<(usize, StopMatch)> {
    let (mut position, min_tokens) = (request.num_emitted(), request.terms().min_tokens);
    let matcher = request.stop_matcher()?;
    let vocabulary = vocabulary?;
    let num_text = accepted.len() - usize::from(result.finish == FINISH_STOP);
    for (index, &token) in accepted[..num_text].iter().enumerate() {
        let bytes = vocabulary.token(token as Token);
        if let Some(found) = matcher.push(bytes, position >= min_tokens) {
            return Some((index + 1, found));
        }
        position += 1;
    }
    None
}
