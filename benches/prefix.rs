//! `prefix/match/{tokens}`: one lookup in a cache of 64 texts that share a system
//! prompt, by a prompt that matches to its end.
#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mtpcore::pages::PagePool;
use mtpcore::prefix::{PrefixCache, PrefixConfig, Salt};

const PAGE: usize = 16;
const TEXTS: u32 = 64;

fn text(tokens: usize, index: u32) -> Vec<u32> {
    let shared = tokens / 4;
    (0..tokens as u32).map(|at| if (at as usize) < shared { at } else { at + index * 7 }).collect()
}

fn filled(tokens: usize) -> PrefixCache {
    let num_pages = TEXTS * (tokens / PAGE) as u32;
    let mut pool = PagePool::new(num_pages, PAGE as u32);
    let mut cache = PrefixCache::new(&PrefixConfig {
        page_size: PAGE as u32,
        num_checkpoints: TEXTS,
        checkpoint_bytes: 1 << 20,
        page_bytes: 1 << 16,
        identity: Vec::new(),
        enabled: true,
    });
    for index in 0..TEXTS {
        let tokens = text(tokens, index);
        let probe = cache.probe(&Salt::default(), &[]);
        let mut path = cache.admit(&mut pool, probe).path;
        for edge in tokens.chunks_exact(PAGE) {
            let page = pool.try_take().expect("one page an edge");
            path = cache.publish_page(&mut pool, path, edge, &page);
            pool.free(page);
        }
        let row = cache.try_take_checkpoint(&mut pool).expect("one row a text");
        cache.publish_checkpoint(&mut pool, &path, &[], None, row);
        cache.release(path);
    }
    cache
}

fn lookup(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("prefix/match");
    for tokens in [128, 1024, 8192] {
        let cache = filled(tokens);
        let prompt = text(tokens, TEXTS / 2);
        assert_eq!(cache.probe(&Salt::default(), &prompt).hit_tokens as usize, tokens);
        group.throughput(Throughput::Elements(tokens as u64));
        group.bench_function(BenchmarkId::from_parameter(tokens), |bencher| {
            bencher.iter(|| cache.probe(black_box(&Salt::default()), black_box(&prompt)));
        });
    }
    group.finish();
}

criterion_group!(benches, lookup);
criterion_main!(benches);
