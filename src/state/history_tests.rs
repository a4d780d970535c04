//! Cursor functions against a device that keeps plain lists of tokens: a state is
//! the list of the tokens that it has consumed, a record is a token.

use proptest::prelude::*;
use serde_json::Value;

use super::{
    Cursor, CursorError, CursorRules, ExportSource, StateMode, boundary_rows, state_vectors,
};

/// The numbers of one decode step, wherever they come from.
struct Numbers {
    read_slot: u32,
    fold_start: u32,
    fold_count: u32,
    write_slots: Vec<u32>,
    exports: Vec<ExportSource>,
    live: ExportSource,
}

struct Device {
    mode: StateMode,
    states: Vec<Vec<u32>>,
    records: Vec<Option<u32>>,
    /// What plain decoding has consumed.
    truth: Vec<u32>,
    next: u32,
}

impl Device {
    fn new(mode: StateMode, state_slots: u32, record_slots: u32) -> Self {
        Self {
            mode,
            states: vec![Vec::new(); state_slots as usize],
            records: vec![None; record_slots as usize],
            truth: Vec::new(),
            next: 0,
        }
    }

    fn ring(&self, start: u32, count: u32) -> Vec<u32> {
        let slot = |i| ((start + i) as usize) % self.records.len();
        (0..count).map(|i| self.records[slot(i)].expect("a record never written")).collect()
    }

    fn export(&self, source: ExportSource) -> Vec<u32> {
        let mut state = self.states[source.state_slot as usize].clone();
        state.extend(self.ring(source.fold_start, source.fold_count));
        state
    }

    fn decode(&mut self, accepted: u32, numbers: &Numbers) {
        let folded = self.ring(numbers.fold_start, numbers.fold_count);
        let old_len = self.truth.len();
        let mut running = self.states[numbers.read_slot as usize].clone();
        if self.mode == StateMode::Replay {
            self.states[0].extend(&folded);
        }
        let num_slots = self.records.len();
        let folded_slots: Vec<usize> = (0..numbers.fold_count)
            .map(|i| (numbers.fold_start + i) as usize % num_slots)
            .collect();
        for (row, slot) in numbers.write_slots.iter().enumerate() {
            let token = self.next;
            self.next += 1;
            if self.mode == StateMode::Native {
                assert_eq!(running.len(), old_len + row, "a stale state was read");
                running.push(token);
                self.states[*slot as usize].clone_from(&running);
            } else {
                assert!(!folded_slots.contains(&(*slot as usize)), "read and written at once");
                self.records[*slot as usize] = Some(token);
            }
            if row < accepted as usize {
                self.truth.push(token);
            }
        }
        for (rows, source) in (1..).zip(&numbers.exports) {
            assert_eq!(self.export(*source), self.truth[..old_len + rows], "boundary {rows}");
            assert_eq!(source.conv_offset as usize, rows - 1);
        }
        if self.mode == StateMode::Compact {
            let accepted_records = self.ring(0, accepted);
            self.states[0].extend(accepted_records);
        }
        self.check_live(numbers.live);
    }

    fn prefill(&mut self, len: u32, fold_start: u32, fold_count: u32, live: ExportSource) {
        if len > 0 {
            self.truth.extend(self.next..self.next + len);
            self.next += len;
            let mut state = self.export(ExportSource { fold_start, fold_count, ..live });
            // In native the chunk starts from the accepted slot, which `check_live` saw.
            if self.mode == StateMode::Native {
                state = self.truth[..self.truth.len() - len as usize].to_vec();
            }
            state.extend(&self.truth[self.truth.len() - len as usize..]);
            self.states[0] = state;
        }
        self.check_live(live);
    }

    fn check_live(&self, live: ExportSource) {
        assert_eq!(self.export(live), self.truth);
    }
}

fn numbers(rules: CursorRules, before: Cursor, query_len: u32, accepted: u32) -> (Cursor, Numbers) {
    let begin = rules.begin(before, query_len).unwrap();
    let after = rules.accept(begin.cursor, accepted);
    assert_eq!(rules.step(before, query_len, accepted).unwrap().cursor, after);
    let numbers = Numbers {
        read_slot: rules.read_slot(before),
        fold_start: begin.fold_start,
        fold_count: begin.fold_count,
        write_slots: (0..query_len).map(|row| rules.write_slot(begin.cursor, row)).collect(),
        exports: (1..=accepted).map(|rows| rules.export_rows(begin.cursor, rows)).collect(),
        live: rules.export_live(after),
    };
    (after, numbers)
}

fn modes() -> impl Strategy<Value = CursorRules> {
    (0_usize..3, 1_u32..9, 0_u32..20)
        .prop_filter_map("compact needs drafts", |(mode, width, more)| {
            CursorRules::new(StateMode::ALL[mode], width, width + more).ok()
        })
}

proptest! {
    #[test]
    fn every_mode_follows_plain_decoding(
        rules in modes(),
        steps in prop::collection::vec((0_u32..9, 0_u32..9, 0_u32..10), 1..60),
        start in 0_u32..40,
    ) {
        let capacity = rules.num_record_slots() - rules.verify_width().min(rules.num_record_slots());
        let mut device =
            Device::new(rules.mode(), rules.num_state_slots(), rules.num_record_slots());
        let replays = rules.mode() == StateMode::Replay;
        let history_start = if replays { start % rules.num_record_slots() } else { 0 };
        let mut cursor = Cursor { history_start, ..Cursor::default() };
        for (query_len, accepted, kind) in steps {
            if kind == 0 {
                let before = cursor;
                let begin = rules.prefill(before, query_len);
                cursor = begin.cursor;
                let live = rules.export_live(cursor);
                device.prefill(query_len, begin.fold_start, begin.fold_count, live);
                continue;
            }
            let query_len = query_len.min(rules.verify_width());
            let native = u32::from(rules.mode() == StateMode::Native);
            let accepted = accepted.max(native).min(query_len);
            let folds_due = replays && query_len > 0 && cursor.history_len + query_len > capacity;
            let (after, numbers) = numbers(rules, cursor, query_len, accepted);
            prop_assert_eq!(numbers.fold_count, if folds_due { cursor.history_len } else { 0 });
            if query_len == 0 {
                prop_assert_eq!(after, cursor, "HOLD changes nothing");
            }
            device.decode(accepted, &numbers);
            cursor = after;
            prop_assert!(!replays || cursor.history_len <= capacity);
        }
    }

    #[test]
    fn a_boundary_fires_in_one_step_only(lens in prop::collection::vec(0_u32..9, 1..20), b in 1_u32..99) {
        let mut old = 0;
        let mut fired = 0;
        for len in lens {
            if let Some(rows) = boundary_rows(old, old + len, b) {
                prop_assert!(rows >= 1 && rows <= len && old + rows == b);
                fired += 1;
            }
            old += len;
        }
        prop_assert_eq!(fired, u32::from(b <= old));
    }
}

fn number(value: &Value, key: &str) -> u32 {
    value[key].as_u64().unwrap() as u32
}

fn source(value: &Value) -> ExportSource {
    ExportSource {
        state_slot: number(value, "state_slot"),
        fold_start: number(value, "fold_start"),
        fold_count: number(value, "fold_count"),
        conv_offset: number(value, "conv_offset"),
    }
}

#[test]
fn the_vectors_hold_for_the_device() {
    let vectors: Value = serde_json::from_str(&state_vectors()).unwrap();
    let (mut folds, mut wraps, mut holds, mut nothing, mut narrow) = (0, 0, 0, 0, 0);
    for case in vectors["state"].as_array().unwrap() {
        let mode = StateMode::parse(case["mode"].as_str().unwrap()).unwrap();
        let width = number(case, "verify_width");
        let mut device =
            Device::new(mode, number(case, "num_state_slots"), number(case, "num_record_slots"));
        for step in case["steps"].as_array().unwrap() {
            let (fold_start, fold_count) = (number(step, "fold_start"), number(step, "fold_count"));
            let live = source(&step["live"]);
            if step["kind"] == "prefill" {
                device.prefill(number(step, "len"), fold_start, fold_count, live);
                continue;
            }
            let list = |key: &str| step[key].as_array().unwrap().clone();
            let write_slots: Vec<u32> =
                list("write_slots").iter().map(|n| n.as_u64().unwrap() as u32).collect();
            let (query_len, accepted) = (number(step, "query_len"), number(step, "num_accepted"));
            folds += u32::from(fold_count > 0);
            wraps += u32::from(write_slots.windows(2).any(|pair| pair[1] < pair[0]));
            holds += u32::from(query_len == 0);
            nothing += u32::from(query_len > 0 && accepted == 0);
            narrow += u32::from(query_len > 0 && query_len < width);
            let exports = list("exports").iter().map(source).collect();
            let read_slot = number(step, "read_slot");
            device.decode(
                accepted,
                &Numbers { read_slot, fold_start, fold_count, write_slots, exports, live },
            );
        }
    }
    for (name, count) in [
        ("folds", folds),
        ("wraps", wraps),
        ("HOLD rows", holds),
        ("A = 0", nothing),
        ("narrow rows", narrow),
    ] {
        assert!(count > 3, "the vectors have {count} {name}");
    }
}

#[test]
fn illegal_rules_and_steps_are_refused() {
    let new = CursorRules::new;
    assert_eq!(new(StateMode::Native, 0, 0), Err(CursorError::Width(0)));
    assert_eq!(new(StateMode::Native, 17, 0), Err(CursorError::Width(17)));
    assert_eq!(new(StateMode::Compact, 1, 0), Err(CursorError::CompactWithoutDrafts));
    let below = CursorError::Capacity { capacity: 3, verify_width: 4 };
    assert_eq!(new(StateMode::Replay, 4, 3), Err(below));
    assert!(below.to_string().contains("replay_history_len"));
    let rules = new(StateMode::Replay, 4, 4).unwrap();
    let cursor = Cursor::default();
    assert_eq!(rules.begin(cursor, 5), Err(CursorError::Query { query_len: 5, verify_width: 4 }));
    let too_many = CursorError::Accepted { num_accepted: 3, query_len: 2 };
    assert_eq!(rules.step(cursor, 2, 3), Err(too_many));
    let native = new(StateMode::Native, 4, 0).unwrap();
    assert_eq!(native.step(cursor, 2, 0), Err(CursorError::Lost { query_len: 2 }));
    assert_eq!(native.step(cursor, 0, 0).unwrap().cursor, cursor);
}

#[test]
fn the_functions_work_at_compile_time() {
    const RULES: Result<CursorRules, CursorError> = CursorRules::new(StateMode::Replay, 4, 8);
    const ROWS: Option<u32> = boundary_rows(10, 13, 12);
    assert_eq!(RULES.unwrap().num_record_slots(), 12);
    assert_eq!(ROWS, Some(2));
}
