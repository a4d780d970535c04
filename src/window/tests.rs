use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::Value;

use super::{RingTable, WindowCursor, WindowError, WindowRules, window_vectors};
use crate::ids::RingId;

/// A ring in memory: row by row the position whose content it has.
struct Memory {
    rows: Vec<Option<u32>>,
}

impl Memory {
    fn write(&mut self, positions: impl Iterator<Item = u32>, slots: impl Iterator<Item = u32>) {
        let mut written = BTreeSet::new();
        for (position, slot) in positions.zip(slots) {
            assert!(written.insert(slot), "slot {slot} has two writers");
            self.rows[slot as usize] = Some(position);
        }
    }

    fn visible(&self, count: u32) -> BTreeSet<u32> {
        self.rows[..count as usize].iter().map(|row| row.expect("a row never written")).collect()
    }
}

/// The positions that a window of `window` rows must show: the naive list.
fn last(valid: &[u32], window: u32) -> BTreeSet<u32> {
    valid.iter().rev().take(window as usize).copied().collect()
}

proptest! {
    #[test]
    fn the_ring_shows_the_last_valid_positions(
        window in 1_u32..9,
        boundary in 0_u32..20,
        count in 0_u32..9,
        commits in prop::collection::vec((0_u32..20, 0_u32..4), 0..30),
        skips in prop::collection::vec(any::<bool>(), 30),
    ) {
        let rules = WindowRules::new(window, 1).unwrap();
        let count = count.min(window).min(boundary);
        let mut ring = RingTable::new(1).try_take().unwrap();
        ring.restore(rules, boundary, count).unwrap();
        let mut valid: Vec<u32> = (boundary - count..boundary).collect();
        let mut memory = Memory { rows: vec![None; window as usize] };
        memory.write(boundary - count..boundary, 0..count);
        for ((len, again), skip) in commits.into_iter().zip(skips) {
            let end = ring.cursor().end;
            if skip && len > 15 {
                ring.skip(rules, end + len);
                valid.clear();
            } else {
                let first = end.saturating_sub(again);
                let len = len + (end - first);
                let commit = ring.commit(rules, first, len).unwrap();
                let slots = commit.writes.clone().map(|p| rules.slot(commit.cursor, p));
                memory.write(commit.writes.clone(), slots);
                valid.extend(end..first + len);
            }
            let cursor = ring.cursor();
            prop_assert_eq!(cursor.origin, cursor.valid_from);
            let visible = rules.visible(cursor);
            prop_assert_eq!(memory.visible(visible), last(&valid, window));
            prop_assert_eq!(rules.positions(cursor).collect::<BTreeSet<_>>(), last(&valid, window));
        }
    }
}

fn number(value: &Value, key: &str) -> u32 {
    value[key].as_u64().unwrap() as u32
}

fn numbers(value: &Value, key: &str) -> Vec<u32> {
    value[key].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect()
}

#[test]
fn the_vectors_hold_for_a_ring_in_memory() {
    let vectors = window_vectors();
    let (mut wrapped, mut longer) = (0, 0);
    for case in vectors.as_array().unwrap() {
        let window = number(case, "window");
        let (from, end) = (number(&case["start"], "valid_from"), number(&case["start"], "end"));
        let mut memory = Memory { rows: vec![None; window as usize] };
        memory.write(from..end, 0..end - from);
        let mut valid: Vec<u32> = (from..end).collect();
        for commit in case["commits"].as_array().unwrap() {
            let (first, len) = (number(commit, "first"), number(commit, "len"));
            let writes = number(commit, "write_from")..number(commit, "write_end");
            let slots = numbers(commit, "write_slots");
            wrapped += usize::from(slots.windows(2).any(|pair| pair[1] < pair[0]));
            longer += usize::from(len > window);
            memory.write(writes, slots.into_iter());
            let known = valid.last().map_or(end, |last| last + 1);
            valid.extend(known..first + len);
            let shown = memory.visible(number(commit, "visible"));
            assert_eq!(shown, last(&valid, window), "{commit}");
            let in_order: Vec<u32> = numbers(commit, "visible_slots")
                .into_iter()
                .map(|slot| memory.rows[slot as usize].unwrap())
                .collect();
            assert_eq!(in_order, shown.into_iter().collect::<Vec<_>>());
        }
    }
    assert!(wrapped > 3 && longer > 3, "the cases cover neither wrapping nor long chunks");
}

#[test]
fn bad_windows_and_commits_are_refused() {
    assert_eq!(WindowRules::new(0, 4), Err(WindowError::Empty { block: 4 }));
    assert_eq!(WindowRules::new(3, 4), Err(WindowError::BelowBlock { window: 3, block: 4 }));
    let rules = WindowRules::new(4, 4).unwrap();
    let cursor = rules.restore(6, 4).unwrap();
    assert_eq!(rules.commit(cursor, 7, 1), Err(WindowError::Gap { first: 7, end: 6 }));
    assert_eq!(rules.commit(cursor, 4, 1), Err(WindowError::Backwards { new_end: 5, end: 6 }));
    assert!(rules.restore(9, 5).is_err() && rules.restore(2, 3).is_err());
}

#[test]
fn a_ring_used_again_shows_nothing_of_its_last_owner() {
    let rules = WindowRules::new(4, 1).unwrap();
    let mut table = RingTable::new(1);
    let mut ring = table.try_take().unwrap();
    ring.commit(rules, 0, 6).unwrap();
    table.free(ring);
    let ring = table.try_take().unwrap();
    assert_eq!((ring.cursor(), rules.visible(ring.cursor())), (WindowCursor::default(), 0));
    assert!(table.try_take().is_none());
    assert_eq!(table.check([ring.id()]), Ok(()));
    assert!(table.check([]).is_err() && table.check([ring.id(), ring.id()]).is_err());
    assert!(table.check([ring.id(), RingId::NULL]).is_err());
    table.free(ring);
    assert_eq!((table.num_free(), table.num_total()), (1, 1));
}
