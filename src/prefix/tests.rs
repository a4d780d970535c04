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
