use super::{Placement, PrefixCache, PrefixConfig, Salt, place};
use crate::ids::Token;
use crate::pages::{PagePool, PageRef};

const PAGE: u32 = 16;

struct Bench {
    pool: PagePool,
    cache: PrefixCache,
    salt: Salt,
}

impl Bench {
    fn new(num_pages: u32, num_checkpoints: u32) -> Self {
        let config = PrefixConfig {
            page_size: PAGE,
            num_checkpoints,
            checkpoint_bytes: 1 << 20,
            page_bytes: 1 << 14,
            identity: b"model".to_vec(),
            enabled: true,
        };
        Self {
            pool: PagePool::new(num_pages, PAGE),
            cache: PrefixCache::new(&config),
            salt: Salt::default(),
        }
    }

    /// Runs a prompt to its end as the scheduler does; returns the tokens hit.
    fn run(&mut self, prompt: &[Token]) -> u32 {
        let probe = self.cache.probe(&self.salt, prompt);
        let mut armed = Vec::new();
        let query = Placement {
            prompt_len: prompt.len() as u32,
            hit_tokens: probe.hit_tokens,
            leave_at: probe.leave_at,
            page_size: PAGE,
            interval: 0,
        };
        place(&query, &mut armed);
        armed.sort_unstable();
        let hit = self.cache.admit(&mut self.pool, probe);
        let num_tokens = hit.num_tokens;
        let mut pages = hit.pages;
        let mut path = hit.path;
        let num_pages = prompt.len().div_ceil(PAGE as usize);
        self.cache.evict_pages(&mut self.pool, num_pages - pages.len());
        while pages.len() < num_pages {
            pages.push(self.pool.try_take().unwrap());
        }
        let first = num_tokens / PAGE;
        for index in first..=(prompt.len() as u32 / PAGE) {
            let start = (index * PAGE) as usize;
            for b in armed.iter().filter(|b| **b >= index * PAGE && **b < (index + 1) * PAGE) {
                let tail = &prompt[start..*b as usize];
                let page = (!tail.is_empty()).then(|| &pages[index as usize]);
                let row = self.cache.try_take_checkpoint(&mut self.pool).unwrap();
                self.cache.publish_checkpoint(&mut self.pool, &path, tail, page, row);
            }
            let end = start + PAGE as usize;
            if end <= prompt.len() {
                let page = &pages[index as usize];
                path = self.cache.publish_page(&mut self.pool, path, &prompt[start..end], page);
            }
        }
        self.check(&pages);
        for page in pages.into_iter().chain(hit.partial.map(|partial| partial.src)) {
            self.pool.free(page);
        }
        if let Some(pinned) = hit.checkpoint {
            self.cache.unpin(pinned);
        }
        self.cache.release(path);
        self.check(&[]);
        num_tokens
    }

    fn check(&self, held: &[PageRef]) {
        self.cache.check(&self.pool).unwrap();
        if held.is_empty() {
            self.pool.check(self.cache.page_references()).unwrap();
        }
    }
}

fn prompt(shared: u32, own: u32, len: u32) -> Vec<Token> {
    (0..len).map(|i| if i < shared { i } else { 1000 * own + i }).collect()
}

#[test]
fn the_same_prompt_again_computes_nothing() {
    let mut bench = Bench::new(100, 20);
    assert_eq!(bench.run(&prompt(0, 1, 75)), 0);
    assert_eq!(bench.run(&prompt(0, 1, 75)), 75);
    assert_eq!(bench.run(&prompt(0, 2, 64)), 0);
    assert_eq!(bench.run(&prompt(0, 2, 64)), 64);
}

#[test]
fn the_third_sibling_hits_all_whole_pages_of_the_shared_beginning() {
    let mut bench = Bench::new(100, 20);
    assert_eq!(bench.run(&prompt(100, 1, 150)), 0);
    assert_eq!(bench.run(&prompt(100, 2, 150)), 0);
    assert_eq!(bench.run(&prompt(100, 3, 150)), 96);
    assert_eq!(bench.run(&prompt(100, 4, 150)), 96);
}

#[test]
fn a_turn_that_goes_on_hits_all_that_was_consumed() {
    let mut bench = Bench::new(100, 20);
    let whole = prompt(0, 1, 140);
    assert_eq!(bench.run(&whole[..91]), 0);
    assert_eq!(bench.run(&whole), 91);
    assert_eq!(bench.run(&whole), 140);
}

#[test]
fn salt_and_identity_divide_the_cache() {
    let mut bench = Bench::new(100, 20);
    assert_eq!(bench.run(&prompt(0, 1, 40)), 0);
    bench.salt = Salt::new(b"tenant");
    assert_eq!(bench.run(&prompt(0, 1, 40)), 0);
    assert_eq!(bench.run(&prompt(0, 1, 40)), 40);
}

#[test]
fn a_probe_of_an_evicted_entry_becomes_a_miss() {
    let mut bench = Bench::new(10, 4);
    bench.run(&prompt(0, 1, 40));
    let probe = bench.cache.probe(&bench.salt, &prompt(0, 1, 40));
    assert_eq!(probe.hit_tokens, 40);
    bench.cache.evict_pages(&mut bench.pool, 10);
    bench.run(&prompt(0, 2, 40));
    let hit = bench.cache.admit(&mut bench.pool, probe);
    assert_eq!(hit.num_tokens, 0);
    assert!(hit.pages.is_empty() && hit.partial.is_none() && hit.checkpoint.is_none());
    bench.cache.release(hit.path);
    bench.check(&[]);
}

#[test]
fn a_disabled_cache_keeps_nothing() {
    let mut bench = Bench::new(10, 2);
    bench.cache = PrefixCache::new(&PrefixConfig {
        page_size: PAGE,
        num_checkpoints: 2,
        checkpoint_bytes: 1,
        page_bytes: 1,
        identity: Vec::new(),
        enabled: false,
    });
    assert_eq!(bench.run(&prompt(0, 1, 40)), 0);
    assert_eq!(bench.run(&prompt(0, 1, 40)), 0);
    assert_eq!(bench.pool.num_free(), 10);
}

#[test]
fn equal_checkpoints_share_one_row() {
    let mut bench = Bench::new(100, 20);
    let query = prompt(0, 1, 40);
    bench.run(&query);
    let before = bench.cache.counts();
    let hit = bench.cache.admit(&mut bench.pool, bench.cache.probe(&bench.salt, &[]));
    let page = bench.pool.try_take().unwrap();
    let path = bench.cache.publish_page(&mut bench.pool, hit.path, &query[..16], &page);
    let path = bench.cache.publish_page(&mut bench.pool, path, &query[16..32], &page);
    for tail in [&query[32..40], &[]] {
        let row = bench.cache.try_take_checkpoint(&mut bench.pool).unwrap();
        let kept = (!tail.is_empty()).then_some(&page);
        bench.cache.publish_checkpoint(&mut bench.pool, &path, tail, kept, row);
    }
    bench.pool.free(page);
    bench.cache.release(path);
    assert_eq!(bench.cache.counts(), before);
    bench.check(&[]);
}
