//! What holds for the result of every correct device, checked before anything
//! of it is applied.

use super::Scheduler;
use super::flight::{RowRecord, StepRecord};
use super::slots::Slot;
use crate::error::ResultError;
use crate::step::{
    FINISH_LENGTH, FINISH_NONE, FINISH_STOP, ROW_DECODE, ROW_PREFILL, ResultReader, RowResult,
};

impl Scheduler {
    /// Compares a step's result with what was planned and with what is known of
    /// its requests, and collects the rows.
    pub(super) fn check_result(
        &self,
        step: &StepRecord,
        reader: &ResultReader<'_>,
        into: &mut Vec<RowResult>,
    ) -> Result<(), ResultError> {
        into.clear();
        for (row, planned) in step.rows.iter().enumerate() {
            let result = reader.row(row);
            into.push(result);
            if self.goes_on(planned, result, reader.tokens(row)) {
                continue;
            }
            let law = Law { row };
            law.flag("non_finite", result.non_finite)?;
            law.flag("end_fired", result.end_fired)?;
            Self::check_counts(law, planned, result)?;
            self.check_tokens(law, reader, result.num_accepted)?;
            let reached = match &self.slots[planned.slot as usize] {
                Slot::Draining(draining) => {
                    if draining.device_done {
                        law.dead(result)?;
                        Some((u32::MAX, u32::MAX))
                    } else {
                        None
                    }
                }
                _ if result.non_finite != 0 => None,
                Slot::Decoding(decoding) if planned.kind == ROW_DECODE => {
                    Self::check_live(law, planned, reader, decoding)?;
                    let new_len = decoding.seq_len + result.num_accepted as u32;
                    Some((decoding.seq_len, new_len))
                }
                Slot::Decoding(decoding) if planned.kind != ROW_PREFILL => {
                    Self::check_live(law, planned, reader, decoding)?;
                    Some((planned.start, planned.start + planned.query_len))
                }
                Slot::Prefilling(_) | Slot::Decoding(_) => {
                    law.must(result.finish == FINISH_NONE, "finish", result.finish, INNER_CHUNK)?;
                    Some((planned.start, planned.start + planned.query_len))
                }
                Slot::Empty => unreachable!("a slot in flight is held"),
            };
            check_fired(step, planned, reader, reached)?;
        }
        Ok(())
    }

    /// Whether the row is the most common one, for which all laws hold: a decode row
    /// without a boundary whose request emits and goes on.
    #[inline]
    fn goes_on(&self, planned: &RowRecord, result: RowResult, tokens: &[i32]) -> bool {
        let RowResult { num_accepted, rows_run, folded, finish, non_finite, end_fired } = result;
        let Slot::Decoding(decoding) = &self.slots[planned.slot as usize] else { return false };
        // One known token is not consumed.
        let left = decoding.max_len.saturating_sub(decoding.seq_len + 1) as i32;
        let vocab = self.config.vocab_size;
        planned.kind == ROW_DECODE
            && planned.num_armed == 0
            && (folded | finish | non_finite | end_fired) == 0
            && (1..=rows_run).contains(&num_accepted)
            && rows_run <= left.min(planned.query_len as i32)
            && num_accepted < left
            && tokens[..num_accepted as usize].iter().all(|&token| (token as u32) < vocab)
    }

    fn check_counts(law: Law, planned: &RowRecord, result: RowResult) -> Result<(), ResultError> {
        let RowResult { num_accepted, rows_run, folded, finish, .. } = result;
        law.must(folded == 0, "folded", folded, "native mode keeps no records to fold")?;
        let query_len = planned.query_len as i32;
        law.must(
            (FINISH_NONE..=FINISH_LENGTH).contains(&finish),
            "finish",
            finish,
            "it is 0 (none), 1 (stop token) or 2 (length)",
        )?;
        if planned.kind == ROW_DECODE {
            let within = (0..=query_len).contains(&rows_run);
            law.must(within, "rows_run", rows_run, "it lies in 0..=row_query_len")?;
            let within = (0..=rows_run).contains(&num_accepted);
            return law.must(within, "num_accepted", num_accepted, "it lies in 0..=rows_run");
        }
        law.must(rows_run == query_len, "rows_run", rows_run, "a prefill row runs all its tokens")?;
        let most = i32::from(planned.kind != ROW_PREFILL);
        let within = (0..=most).contains(&num_accepted);
        law.must(within, "num_accepted", num_accepted, "a final chunk emits one token, others none")
    }

    fn check_tokens(
        &self,
        law: Law,
        reader: &ResultReader<'_>,
        num_accepted: i32,
    ) -> Result<(), ResultError> {
        let vocab = self.config.vocab_size;
        for &token in &reader.tokens(law.row)[..num_accepted as usize] {
            let known = u32::try_from(token).is_ok_and(|token| token < vocab);
            law.must(known, "tokens", token, "emitted tokens lie in 0..vocab_size")?;
        }
        Ok(())
    }

    /// Laws of a row whose request goes on as far as the host knows.
    fn check_live(
        law: Law,
        planned: &RowRecord,
        reader: &ResultReader<'_>,
        decoding: &super::slots::Decoding,
    ) -> Result<(), ResultError> {
        let RowResult { num_accepted, rows_run, finish, end_fired, .. } = reader.row(law.row);
        law.must(num_accepted >= 1, "num_accepted", num_accepted, "a live row emits a token")?;
        let request = &decoding.request;
        let left = request.tokens_left() as i32;
        if planned.kind == ROW_DECODE {
            law.must(rows_run <= left, "rows_run", rows_run, "no row runs past max_tokens")?;
        }
        law.must(num_accepted <= left, "num_accepted", num_accepted, "it stays within max_tokens")?;
        let at_limit = num_accepted == left;
        let length_told = match finish {
            FINISH_NONE => !at_limit,
            FINISH_LENGTH => at_limit,
            _ => true,
        };
        law.must(
            length_told,
            "finish",
            finish,
            "it is 2 exactly when the last token allowed came",
        )?;
        if finish == FINISH_STOP {
            let last = reader.tokens(law.row)[num_accepted as usize - 1] as u32;
            let position = request.num_emitted() + num_accepted as u32 - 1;
            let terms = request.terms();
            let stops = terms.stop_token_ids.binary_search(&last).is_ok();
            let law_text = "a stop ends with a stop token at or past min_tokens";
            law.must(stops && position >= terms.min_tokens, "finish", finish, law_text)?;
        }
        let fires = finish != FINISH_NONE && planned.has_end;
        let law_text = "it is 1 exactly when the row ended and has an end checkpoint";
        law.must(end_fired == i32::from(fires), "end_fired", end_fired, law_text)
    }
}

/// A boundary fires in the step that goes from below it to it or past it, if the
/// row's way is known.
fn check_fired(
    step: &StepRecord,
    planned: &RowRecord,
    reader: &ResultReader<'_>,
    reached: Option<(u32, u32)>,
) -> Result<(), ResultError> {
    for entry in planned.armed() {
        let law = Law { row: entry };
        let fired = reader.fired(entry);
        law.flag("fired", fired)?;
        let Some((old, new)) = reached else { continue };
        let boundary = step.armed[entry].boundary;
        let expected = i32::from(old < boundary && boundary <= new);
        let text = "a boundary fires in the step that reaches it, and in no other";
        law.must(fired == expected, "fired", fired, text)?;
    }
    Ok(())
}

const INNER_CHUNK: &str = "a chunk that samples nothing cannot end its request";

#[derive(Debug, Clone, Copy)]
struct Law {
    row: usize,
}

impl Law {
    fn must(
        self,
        holds: bool,
        field: &'static str,
        found: i32,
        law: &'static str,
    ) -> Result<(), ResultError> {
        if holds { Ok(()) } else { Err(ResultError::Row { field, row: self.row, found, law }) }
    }

    fn flag(self, field: &'static str, found: i32) -> Result<(), ResultError> {
        self.must(found == 0 || found == 1, field, found, "it is 0 or 1")
    }

    /// A row that the device ended runs as HOLD.
    fn dead(self, result: RowResult) -> Result<(), ResultError> {
        let law = "the request ended in an earlier step, so this row is HOLD";
        self.must(result.rows_run == 0, "rows_run", result.rows_run, law)?;
        self.must(result.num_accepted == 0, "num_accepted", result.num_accepted, law)?;
        self.must(result.finish == FINISH_NONE, "finish", result.finish, law)?;
        self.must(result.end_fired == 0, "end_fired", result.end_fired, law)
    }
}
