use super::{PrefixCache, PrefixConfig, Salt};
use crate::ids::Token;
use crate::pages::PagePool;

const PAGE: usize = 4;

struct Fixture {
    pool: PagePool,
    cache: PrefixCache,
    salt: Salt,
}

impl Fixture {
    fn new(num_checkpoints: u32, checkpoint_bytes: u64, page_bytes: u64) -> Self {
        let config = PrefixConfig {
            page_size: PAGE as u32,
            num_checkpoints,
            checkpoint_bytes,
            page_bytes,
            identity: Vec::new(),
            enabled: true,
        };
        let pool = PagePool::new(64, PAGE as u32);
        Self { pool, cache: PrefixCache::new(&config), salt: Salt::default() }
    }

    /// Publishes the whole pages of `tokens`, with checkpoints at `boundaries`
    /// (multiples of the page size).
    fn publish(&mut self, tokens: &[Token], boundaries: &[usize]) {
        let hit = self.cache.admit(&mut self.pool, self.cache.probe(&self.salt, &[]));
        let mut path = hit.path;
        for (index, edge) in tokens.chunks_exact(PAGE).enumerate() {
            let page = self.pool.try_take().unwrap();
            path = self.cache.publish_page(&mut self.pool, path, edge, &page);
            self.pool.free(page);
            if boundaries.contains(&((index + 1) * PAGE)) {
                let row = self.cache.try_take_checkpoint(&mut self.pool).unwrap();
                self.cache.publish_checkpoint(&mut self.pool, &path, &[], None, row);
            }
        }
        self.cache.release(path);
        self.cache.check(&self.pool).unwrap();
    }

    fn hit(&self, tokens: &[Token]) -> u32 {
        self.cache.probe(&self.salt, tokens).hit_tokens
    }

    fn cached(&self, tokens: &[Token]) -> u32 {
        self.cache.probe(&self.salt, tokens).leave_at
    }

    fn use_now(&mut self, tokens: &[Token]) {
        let probe = self.cache.probe(&self.salt, tokens);
        let hit = self.cache.admit(&mut self.pool, probe);
        hit.pages.into_iter().for_each(|page| self.pool.free(page));
        hit.checkpoint.into_iter().for_each(|pinned| self.cache.unpin(pinned));
        self.cache.release(hit.path);
    }

    fn evict_one_page(&mut self) {
        let want = self.pool.num_free() + 1;
        self.cache.evict_pages(&mut self.pool, want);
        self.cache.check(&self.pool).unwrap();
    }
}

fn path(name: Token, len: usize) -> Vec<Token> {
    (0..len as Token).map(|i| name * 1000 + i).collect()
}

#[test]
fn pages_below_no_checkpoint_go_first_and_leaf_first() {
    let mut cache = Fixture::new(4, 100, 10);
    let (kept, bare) = (path(1, 8), path(2, 8));
    cache.publish(&kept, &[8]);
    cache.publish(&bare, &[]);
    cache.use_now(&bare);
    cache.evict_one_page();
    assert_eq!((cache.cached(&bare), cache.hit(&kept)), (4, 8));
    cache.evict_one_page();
    assert_eq!((cache.cached(&bare), cache.hit(&kept)), (0, 8));
}

#[test]
fn of_two_alike_the_longer_unused_goes() {
    let mut cache = Fixture::new(4, 100, 10);
    let (old, young) = (path(1, 8), path(2, 8));
    cache.publish(&old, &[8]);
    cache.publish(&young, &[8]);
    cache.use_now(&old);
    cache.evict_one_page();
    assert_eq!((cache.hit(&old), cache.hit(&young)), (8, 0));
}

#[test]
fn a_checkpoint_that_saves_more_per_byte_outlives_a_younger_one() {
    let mut cache = Fixture::new(2, 1000, 10);
    let (long, short) = (path(1, 40), path(2, 4));
    cache.publish(&long, &[40]);
    cache.publish(&short, &[4]);
    cache.publish(&path(3, 20), &[20]);
    assert_eq!((cache.hit(&long), cache.hit(&short)), (40, 0));
}

#[test]
fn recency_wins_in_the_end_over_value() {
    let mut cache = Fixture::new(2, 1000, 10);
    let valuable = path(1, 40);
    cache.publish(&valuable, &[40]);
    let mut rounds = 0;
    while cache.hit(&valuable) > 0 {
        rounds += 1;
        assert!(rounds < 100, "an entry that nobody uses is kept for ever");
        cache.publish(&path(1 + rounds, 8), &[8]);
    }
    assert!(rounds > 2, "value counts for nothing");
}

#[test]
fn pages_go_with_the_checkpoint_that_made_them_useful() {
    let mut cache = Fixture::new(1, 100, 10);
    let first = path(1, 24);
    cache.publish(&first, &[24]);
    assert_eq!(cache.cache.counts().num_pages, 6);
    let row = cache.cache.try_take_checkpoint(&mut cache.pool).unwrap();
    assert_eq!(cache.cache.counts().num_pages, 0);
    assert_eq!(cache.pool.num_free(), 64);
    cache.cache.free_checkpoint(row);
}

#[test]
fn an_entry_is_worth_more_once_the_checkpoint_above_it_is_gone() {
    let mut cache = Fixture::new(3, 1000, 1);
    let (tokens, other) = (path(1, 20), path(2, 16));
    cache.publish(&tokens, &[8, 20]);
    cache.publish(&other, &[16]);
    let mut rows = Vec::new();
    let mut hits = Vec::new();
    for _ in 0..3 {
        rows.push(cache.cache.try_take_checkpoint(&mut cache.pool).unwrap());
        cache.cache.check(&cache.pool).unwrap();
        hits.push((cache.hit(&tokens), cache.hit(&other)));
    }
    assert_eq!(hits, [(20, 16), (20, 0), (0, 0)]);
    for row in rows {
        cache.cache.free_checkpoint(row);
    }
}

#[test]
fn locked_and_pinned_entries_stay() {
    let mut cache = Fixture::new(1, 100, 10);
    let tokens = path(1, 8);
    cache.publish(&tokens, &[8]);
    let probe = cache.cache.probe(&cache.salt, &tokens);
    let hit = cache.cache.admit(&mut cache.pool, probe);
    hit.pages.into_iter().for_each(|page| cache.pool.free(page));
    assert_eq!(cache.cache.counts().num_evictable_pages, 0);
    assert_eq!(cache.cache.evict_pages(&mut cache.pool, 64), 0);
    assert!(cache.cache.try_take_checkpoint(&mut cache.pool).is_none());
    cache.cache.release(hit.path);
    assert_eq!(cache.cache.evict_pages(&mut cache.pool, 64), 0, "it is pinned still");
    assert!(cache.cache.try_take_checkpoint(&mut cache.pool).is_none());
    hit.checkpoint.into_iter().for_each(|pinned| cache.cache.unpin(pinned));
    assert_eq!(cache.cache.evict_pages(&mut cache.pool, 64), 2);
}

#[test]
fn a_page_that_its_owner_still_holds_stays() {
    let mut cache = Fixture::new(1, 100, 10);
    let tokens = path(1, 4);
    let hit = cache.cache.admit(&mut cache.pool, cache.cache.probe(&cache.salt, &[]));
    let page = cache.pool.try_take().unwrap();
    let path = cache.cache.publish_page(&mut cache.pool, hit.path, &tokens, &page);
    cache.cache.release(path);
    assert_eq!(cache.cache.evict_pages(&mut cache.pool, 64), 0);
    assert_eq!(cache.cached(&tokens), 4);
    assert_eq!(cache.cache.num_cached_pages(&cache.pool), 0);
    cache.pool.free(page);
    assert_eq!(cache.cache.num_cached_pages(&cache.pool), 1);
    assert_eq!(cache.cache.evict_pages(&mut cache.pool, 64), 1);
}
