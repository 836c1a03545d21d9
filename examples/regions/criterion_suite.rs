//! A suite of criterion; each of its routines is a region.
use criterion::{BenchmarkId, Criterion, black_box, criterion_group, criterion_main};
use opcost_region::measured;

fn fib(n: u64) -> u64 {
    if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
}

fn cases(c: &mut Criterion) {
    c.bench_function("fib 20", |b| b.iter(|| measured("fib_20", 1, || fib(black_box(20)))));
    let mut group = c.benchmark_group("sort");
    for size in [100u32, 1000] {
        group.bench_with_input(BenchmarkId::from_parameter(size), &size, |b, size| {
            let name = format!("sort/{size}");
            b.iter_batched(
                || (0..*size).rev().collect::<Vec<u32>>(),
                |mut numbers| measured(&name, 1, || numbers.sort_unstable()),
                criterion::BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, cases);
criterion_main!(benches);
