use super::{
    CursorError, CursorRules, ExportSource, Outcome, RowState, StateIntegrityError, StateMode,
    StateRow, StateTable,
};
use crate::ids::{StateIdx, Token};
use crate::pages::PagePool;
use crate::prefix::{PrefixCache, PrefixConfig, Salt};

fn rules(mode: StateMode) -> CursorRules {
    CursorRules::new(mode, 4, 8).unwrap()
}

fn decode(query_len: u32, num_accepted: u32, folded: u32) -> Outcome {
    Outcome::Decode { query_len, num_accepted, folded }
}

fn live(state: RowState) -> StateRow<super::Live> {
    match state {
        RowState::Live(row) => row,
        RowState::Verifying(row) => panic!("{} steps in flight", row.num_in_flight()),
    }
}

#[test]
fn two_steps_in_flight_commit_one_after_the_other() {
    let mut table = StateTable::new(2);
    let rules = rules(StateMode::Native);
    let row = StateRow::new(table.try_take().unwrap()).reset().launch();
    let row = row.launch(2).unwrap();
    let error = row.launch(2).unwrap_err();
    assert!(error.to_string().contains("overlap_depth"));
    let state = error.row.commit(rules, Outcome::Prefill { len: 7 }).unwrap();
    assert_eq!((state.committed_len(), state.num_in_flight()), (7, 1));
    let row = state.launch(2).unwrap();
    let state = row.commit(rules, decode(4, 3, 0)).unwrap();
    assert_eq!((state.committed_len(), state.num_in_flight()), (10, 1));
    let RowState::Verifying(row) = state else { panic!("a step is in flight") };
    let row = live(row.commit(rules, decode(0, 0, 0)).unwrap());
    assert_eq!((row.seq_len(), row.cursor().accepted), (10, 2));
    table.free(row.preempt().into_ref());
    table.check([]).unwrap();
}

#[test]
fn a_contradictory_result_keeps_the_cursor_and_gives_the_row_back() {
    let mut table = StateTable::new(1);
    let rules = rules(StateMode::Replay);
    let row = StateRow::new(table.try_take().unwrap()).reset();
    let error = row.launch().commit(rules, decode(2, 3, 0)).unwrap_err();
    assert_eq!(error.error, CursorError::Accepted { num_accepted: 3, query_len: 2 });
    let row = live(error.row);
    assert_eq!(row.seq_len(), 0);
    let error = row.launch().commit(rules, decode(2, 1, 5)).unwrap_err();
    assert_eq!(error.error, CursorError::Folded { folded: 5, expected: 0 });
    table.free(live(error.row).preempt().into_ref());
    assert_eq!(table.num_free(), 1);
}

#[test]
fn history_goes_along_when_a_row_is_forked_or_moved() {
    let mut table = StateTable::new(3);
    let rules = rules(StateMode::Replay);
    let row = StateRow::new(table.try_take().unwrap()).reset().launch();
    let row = live(row.commit(rules, decode(4, 3, 0)).unwrap());
    let cursor = row.cursor();
    assert_eq!(cursor.history_len, 3);
    let other = StateRow::new(table.try_take().unwrap());
    let (row, twin, copy) = row.fork(other);
    assert_eq!((copy.from, copy.to, copy.cursor), (row.id(), twin.id(), cursor));
    assert_eq!((twin.seq_len(), twin.cursor()), (3, cursor));
    let twin = live(twin.launch().commit(rules, decode(4, 4, 0)).unwrap());
    assert_eq!((row.cursor().history_len, twin.cursor().history_len), (3, 7));
    let old = row.id();
    let (row, empty, copy) = row.migrate(StateRow::new(table.try_take().unwrap()));
    assert_eq!((copy.from, copy.to, row.cursor(), empty.id()), (old, row.id(), cursor, old));
    table.check([row.id(), twin.id(), empty.id()]).unwrap();
    for row in [row.preempt(), twin.preempt(), empty] {
        table.free(row.into_ref());
    }
    assert_eq!(table.num_free(), table.num_total());
}

#[test]
fn a_recycled_row_restores_without_the_history_of_its_last_owner() {
    let mut table = StateTable::new(1);
    let rules = rules(StateMode::Replay);
    let row = StateRow::new(table.try_take().unwrap()).reset().launch();
    let row = live(row.commit(rules, decode(4, 4, 0)).unwrap());
    table.free(row.preempt().into_ref());

    let mut pool = PagePool::new(2, 1);
    let mut cache = PrefixCache::new(&PrefixConfig {
        page_size: 1,
        num_checkpoints: 2,
        checkpoint_bytes: 1,
        page_bytes: 1,
        identity: Vec::new(),
        enabled: true,
    });
    let tokens: [Token; 1] = [5];
    let hit = cache.admit(&mut pool, cache.probe(&Salt::default(), &tokens));
    let page = pool.try_take().unwrap();
    let path = cache.publish_page(&mut pool, hit.path, &tokens, &page);
    let checkpoint = cache.try_take_checkpoint(&mut pool).unwrap();
    cache.publish_checkpoint(&mut pool, &path, &[], None, checkpoint);
    cache.release(path);
    let hit = cache.admit(&mut pool, cache.probe(&Salt::default(), &tokens));
    let pinned = hit.checkpoint.unwrap();

    let row = StateRow::new(table.try_take().unwrap()).restore(&pinned, hit.num_tokens);
    assert_eq!((row.seq_len(), row.cursor()), (1, super::Cursor::default()));
    let row = live(row.launch().commit(rules, decode(4, 2, 0)).unwrap());
    let into = cache.try_take_checkpoint(&mut pool).unwrap();
    let before = row.cursor();
    let (row, export) = row.checkpoint(rules, &into);
    let source = ExportSource { state_slot: 0, fold_start: 0, fold_count: 2, conv_offset: 1 };
    assert_eq!((export.from, export.to, export.seq_len), (row.id(), into.id(), 3));
    assert_eq!((export.source, row.cursor()), (source, before));
}

#[test]
fn a_lost_or_doubly_owned_row_is_reported() {
    let mut table = StateTable::new(2);
    let row = table.try_take().unwrap();
    let id = row.id();
    drop(row);
    assert_eq!(table.check([]), Err(StateIntegrityError::Lost { row: id.0 }));
    assert_eq!(table.check([id, id]), Err(StateIntegrityError::TwoOwners { row: id.0 }));
    assert!(table.check([id, StateIdx::NULL]).is_err());
}
