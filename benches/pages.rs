//! `pages/churn/{pages}`: that many pages taken, shared once, and freed twice.
#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mtpcore::pages::PagePool;

fn churn(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pages/churn");
    for pages in [64_u32, 4096] {
        let mut pool = PagePool::new(pages, 16);
        let mut held = Vec::with_capacity(2 * pages as usize);
        group.throughput(Throughput::Elements(u64::from(pages)));
        group.bench_function(BenchmarkId::from_parameter(pages), |bencher| {
            bencher.iter(|| {
                while let Some(page) = pool.try_take() {
                    held.push(pool.share(&page));
                    held.push(page);
                }
                for page in held.drain(..) {
                    pool.free(page);
                }
                pool.num_free()
            });
        });
        assert_eq!(pool.num_free(), pages as usize);
    }
    group.finish();
}

criterion_group!(benches, churn);
criterion_main!(benches);
