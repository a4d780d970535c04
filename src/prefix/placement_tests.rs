use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Placement, place};

fn placed(query: Placement) -> Vec<u32> {
    let mut out = vec![77];
    place(&query, &mut out);
    out
}

#[test]
fn the_most_useful_boundaries_come_first() {
    let query =
        Placement { prompt_len: 150, hit_tokens: 0, leave_at: 96, page_size: 16, interval: 64 };
    assert_eq!(placed(query), [96, 150, 144, 128, 64]);
}

#[test]
fn nothing_is_taken_again_or_twice() {
    let query =
        Placement { prompt_len: 64, hit_tokens: 48, leave_at: 48, page_size: 16, interval: 16 };
    assert_eq!(placed(query), [64]);
    assert!(placed(Placement { hit_tokens: 64, ..query }).is_empty());
}

#[test]
fn the_interval_is_rounded_to_whole_pages() {
    let query =
        Placement { prompt_len: 100, hit_tokens: 0, leave_at: 0, page_size: 16, interval: 40 };
    assert_eq!(placed(query), [100, 96, 64, 32]);
    assert_eq!(placed(Placement { interval: 3, prompt_len: 33, ..query }), [33, 32, 16]);
    assert_eq!(placed(Placement { interval: 0, ..query }), [100, 96]);
}

proptest! {
    /// The set against its definition, token by token.
    #[test]
    fn the_set_is_what_the_definition_says(
        prompt_len in 1_u32..200,
        hit in 0_u32..200,
        leave_page in 0_u32..50,
        page_size in 1_u32..9,
        interval in 0_u32..40,
    ) {
        let leave_at = (leave_page * page_size).min(prompt_len - prompt_len % page_size);
        let hit_tokens = hit.min(prompt_len);
        let out = placed(Placement { prompt_len, hit_tokens, leave_at, page_size, interval });
        let stride = interval.div_euclid(page_size).max(1) * page_size;
        let expected: BTreeSet<u32> = (hit_tokens + 1..=prompt_len)
            .filter(|b| {
                *b == leave_at
                    || *b == prompt_len
                    || (b % page_size == 0 && b + page_size > prompt_len)
                    || (interval > 0 && b % stride == 0)
            })
            .collect();
        prop_assert_eq!(out.len(), expected.len());
        prop_assert_eq!(out.into_iter().collect::<BTreeSet<_>>(), expected);
    }
}
