//! Test vectors of the window cursors.

use serde_json::{Value, json};

use super::cursors::{WindowCursor, WindowRules};

/// W, the restored `(boundary, count)`, and commits `(first, len)`.
type Case = (u32, (u32, u32), &'static [(u32, u32)]);

/// Windows with the commits `(first, len)` that follow a start `(boundary, count)`:
/// one token at a time around the end, chunks longer than the window, rows written
/// again, and restored windows that are full, short and empty.
const CASES: &[Case] = &[
    (4, (0, 0), &[(0, 0), (0, 1), (1, 2), (3, 1), (4, 1), (5, 3), (8, 4)]),
    (4, (0, 0), &[(0, 9), (9, 1), (9, 3), (12, 17), (29, 2)]),
    (4, (7, 4), &[(7, 1), (8, 4), (11, 2), (13, 5)]),
    (5, (12, 2), &[(12, 2), (13, 2), (15, 1), (16, 11), (27, 3)]),
    (5, (9, 0), &[(9, 1), (9, 2), (11, 0), (11, 6), (17, 1)]),
    (1, (3, 1), &[(3, 1), (4, 3), (6, 2)]),
    (8, (20, 8), &[(19, 2), (21, 4), (25, 4), (29, 4), (33, 4)]),
];

fn cursor_json(cursor: WindowCursor) -> Value {
    json!({"origin": cursor.origin, "end": cursor.end, "valid_from": cursor.valid_from})
}

/// One entry a case: `window`, the restored `start`, and for each commit its input,
/// the written positions with their slots, the cursor after it, the visible count
/// and the slots of the visible positions in order of position.
pub(crate) fn window_vectors() -> Value {
    let case = |(window, (boundary, count), commits): &Case| {
        let rules = WindowRules::new(*window, 1).expect("the cases have windows of at least 1");
        let start = rules.restore(*boundary, *count).expect("the cases restore what fits");
        let mut cursor = start;
        let mut steps = Vec::new();
        for (first, len) in *commits {
            let commit = rules
                .commit(cursor, *first, *len)
                .expect("the cases commit without gaps and never backwards");
            let after = commit.cursor;
            let slots = |range: std::ops::Range<u32>| -> Vec<u32> {
                range.map(|position| rules.slot(after, position)).collect()
            };
            steps.push(json!({
                "first": first,
                "len": len,
                "before": cursor_json(cursor),
                "write_from": commit.writes.start,
                "write_end": commit.writes.end,
                "write_slots": slots(commit.writes.clone()),
                "after": cursor_json(after),
                "visible": rules.visible(after),
                "visible_slots": slots(rules.positions(after)),
            }));
            cursor = after;
        }
        json!({"window": window, "start": cursor_json(start), "commits": steps})
    };
    Value::Array(CASES.iter().map(case).collect())
}
