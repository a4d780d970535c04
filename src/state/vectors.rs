//! Shared test vectors of the cursor functions, as JSON.

use serde_json::{Value, json};

use super::history::{Begin, Cursor, CursorRules, ExportSource};
use super::mode::StateMode;
use crate::window::window_vectors;

/// Mode, T, L.
const CONFIGS: &[(StateMode, u32, u32)] = &[
    (StateMode::Native, 1, 0),
    (StateMode::Native, 4, 0),
    (StateMode::Native, 8, 0),
    (StateMode::Compact, 2, 0),
    (StateMode::Compact, 4, 0),
    (StateMode::Replay, 1, 1),
    (StateMode::Replay, 1, 4),
    (StateMode::Replay, 3, 3),
    (StateMode::Replay, 4, 8),
    (StateMode::Replay, 3, 16),
    (StateMode::Replay, 8, 11),
];

/// A step as the script has it; both are cut to the width.
enum Step {
    /// Rows that run, rows accepted.
    Decode(u32, u32),
    Prefill(u32),
}

/// Full widths with every acceptance, widths below T, HOLD rows between them, rows
/// that ran and accepted nothing (1 in native, where 0 is illegal), and prefill
/// chunks with history pending. It runs twice, so that rings turn over and every
/// start slot occurs.
const SCRIPT: &[Step] = &[
    Step::Prefill(5),
    Step::Decode(99, 99),
    Step::Decode(99, 1),
    Step::Decode(0, 0),
    Step::Decode(99, 2),
    Step::Decode(1, 1),
    Step::Decode(99, 0),
    Step::Decode(99, 3),
    Step::Decode(2, 1),
    Step::Decode(2, 2),
    Step::Decode(0, 0),
    Step::Decode(99, 99),
    Step::Decode(3, 2),
    Step::Decode(99, 99),
    Step::Decode(99, 4),
    Step::Decode(1, 1),
    Step::Decode(99, 5),
    Step::Prefill(3),
    Step::Decode(99, 2),
    Step::Prefill(0),
    Step::Decode(99, 99),
    Step::Decode(1, 1),
    Step::Decode(1, 1),
];

fn cursor_json(cursor: Cursor) -> Value {
    json!({
        "accepted": cursor.accepted,
        "history_start": cursor.history_start,
        "history_len": cursor.history_len,
    })
}

fn export_json(rows: u32, source: ExportSource) -> Value {
    json!({
        "rows": rows,
        "state_slot": source.state_slot,
        "fold_start": source.fold_start,
        "fold_count": source.fold_count,
        "conv_offset": source.conv_offset,
    })
}

fn decode_json(
    rules: CursorRules,
    before: Cursor,
    query_len: u32,
    accepted: u32,
) -> (Cursor, Value) {
    let Begin { cursor: begun, fold_start, fold_count } =
        rules.begin(before, query_len).expect("the script is cut to the width");
    let after = rules.accept(begun, accepted);
    let writes: Vec<u32> = (0..query_len).map(|row| rules.write_slot(begun, row)).collect();
    let exports: Vec<Value> =
        (1..=accepted).map(|rows| export_json(rows, rules.export_rows(begun, rows))).collect();
    let step = json!({
        "kind": "decode",
        "query_len": query_len,
        "num_accepted": accepted,
        "before": cursor_json(before),
        "read_slot": rules.read_slot(before),
        "fold_start": fold_start,
        "fold_count": fold_count,
        "begun": cursor_json(begun),
        "write_slots": writes,
        "exports": exports,
        "after": cursor_json(after),
        "live": export_json(0, rules.export_live(after)),
    });
    (after, step)
}

fn prefill_json(rules: CursorRules, before: Cursor, len: u32) -> (Cursor, Value) {
    let Begin { cursor: after, fold_start, fold_count } = rules.prefill(before, len);
    let step = json!({
        "kind": "prefill",
        "len": len,
        "before": cursor_json(before),
        "read_slot": rules.read_slot(before),
        "fold_start": fold_start,
        "fold_count": fold_count,
        "after": cursor_json(after),
        "live": export_json(0, rules.export_live(after)),
    });
    (after, step)
}

fn case_json((mode, verify_width, capacity): &(StateMode, u32, u32)) -> Value {
    let rules = CursorRules::new(*mode, *verify_width, *capacity)
        .expect("the configurations are legal ones");
    let mut cursor = Cursor::default();
    let mut steps = Vec::new();
    for step in SCRIPT.iter().chain(SCRIPT) {
        let (after, json) = match step {
            Step::Decode(query_len, accepted) => {
                let query_len = *query_len.min(verify_width);
                let native = u32::from(*mode == StateMode::Native);
                let accepted = (*accepted).max(native).min(query_len);
                decode_json(rules, cursor, query_len, accepted)
            }
            Step::Prefill(len) => prefill_json(rules, cursor, *len),
        };
        cursor = after;
        steps.push(json);
    }
    json!({
        "mode": mode.name(),
        "verify_width": verify_width,
        "history_capacity": capacity,
        "num_state_slots": rules.num_state_slots(),
        "num_record_slots": rules.num_record_slots(),
        "steps": steps,
    })
}

/// Test vectors of all cursor functions: `state` has one case per mode, width and
/// capacity, with `steps` in order (the cursor before and after, what is folded,
/// which slots are written, and the source of a checkpoint after each accepted
/// row); `window` has the cases of the draft window.
#[must_use]
pub fn state_vectors() -> String {
    let state: Vec<Value> = CONFIGS.iter().map(case_json).collect();
    json!({"version": 1, "state": state, "window": window_vectors()}).to_string()
}
