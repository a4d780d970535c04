use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{PageIntegrityError, PagePool, PageRef};
use crate::ids::PageId;

#[test]
fn null_is_never_handed_out_and_all_others_are() {
    let mut pool = PagePool::new(3, 16);
    let pages: Vec<PageRef> = std::iter::from_fn(|| pool.try_take()).collect();
    let mut ids: Vec<u32> = pages.iter().map(|p| p.id().0).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3]);
    assert_eq!(pool.num_free(), 0);
    for page in pages {
        pool.free(page);
    }
    assert_eq!(pool.num_free(), 3);
    pool.check([]).unwrap();
}

#[test]
fn a_dropped_reference_is_reported_as_a_leak() {
    let mut pool = PagePool::new(2, 1);
    let page = pool.try_take().unwrap();
    let id = page.id();
    drop(page);
    assert_eq!(pool.check([]), Err(PageIntegrityError::Count { page: id.0, counted: 1, held: 0 }));
}

#[test]
fn a_reference_named_twice_is_reported() {
    let mut pool = PagePool::new(2, 1);
    let page = pool.try_take().unwrap();
    let id = page.id();
    assert!(matches!(pool.check([id, id]), Err(PageIntegrityError::Count { held: 2, .. })));
    pool.free(page);
}

#[derive(Debug, Clone)]
enum Op {
    Take,
    Share(usize),
    Free(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        Just(Op::Take),
        any::<usize>().prop_map(Op::Share),
        any::<usize>().prop_map(Op::Free),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Against a twin that only knows how often each page is held.
    #[test]
    fn random_operations_match_a_multiset(
        num_pages in 0_u32..6,
        ops in prop::collection::vec(op(), 0..120),
    ) {
        let mut pool = PagePool::new(num_pages, 4);
        let mut held: Vec<PageRef> = Vec::new();
        let mut twin: BTreeMap<PageId, u32> = BTreeMap::new();
        for op in ops {
            match op {
                Op::Take => {
                    let page = pool.try_take();
                    prop_assert_eq!(page.is_some(), twin.len() < num_pages as usize);
                    if let Some(page) = page {
                        prop_assert!(twin.insert(page.id(), 1).is_none());
                        held.push(page);
                    }
                }
                Op::Share(i) if !held.is_empty() => {
                    let i = i % held.len();
                    let more = pool.share(&held[i]);
                    *twin.get_mut(&more.id()).unwrap() += 1;
                    held.push(more);
                }
                Op::Free(i) if !held.is_empty() => {
                    let page = held.swap_remove(i % held.len());
                    let id = page.id();
                    pool.free(page);
                    let left = twin.get_mut(&id).unwrap();
                    *left -= 1;
                    if *left == 0 {
                        twin.remove(&id);
                    }
                }
                Op::Share(_) | Op::Free(_) => {}
            }
            for page in 1..=num_pages {
                let expected = twin.get(&PageId(page)).copied().unwrap_or(0);
                prop_assert_eq!(pool.refs(PageId(page)), expected);
            }
            prop_assert_eq!(pool.num_free() + twin.len(), pool.num_total());
            prop_assert_eq!(pool.check(held.iter().map(PageRef::id)), Ok(()));
        }
    }
}
