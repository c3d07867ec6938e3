//! What a task costs in psp-pool: a closure that returns at once, beside `tokio::task::spawn_blocking`.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use psp_pool::policy::Policy;
use psp_pool::{Pool, RequestType, TypeSpec};
use tokio::runtime::Runtime;

const SHORT: RequestType = RequestType::new(0);
/// Closures that are submitted together.
const BATCH: usize = 64;

fn pool(policy: impl Into<Policy>) -> Pool {
    let types = [TypeSpec::new("short"), TypeSpec::new("long")];
    let pool = Pool::builder().types(types).workers(1).policy(policy);
    pool.build().expect("a pool")
}

fn tasks(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime: Runtime = { runtime }.build().expect("a runtime");
    for (name, count) in [("one_task", 1), ("batch_of_tasks", BATCH)] {
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function("spawn_blocking", |b| {
            b.iter(|| {
                let tasks = (0..count).map(|_| runtime.spawn_blocking(|| black_box(1)));
                let tasks: Vec<_> = tasks.collect();
                tasks.into_iter().for_each(|it| drop(runtime.block_on(it)));
            });
        });
        for policy in [Policy::c_fcfs(), Policy::darc()] {
            let spelled = policy.spelled();
            let pool = pool(policy);
            group.bench_function(spelled, |b| {
                b.iter(|| {
                    let tasks = (0..count).map(|_| pool.run(SHORT, || black_box(1)));
                    let tasks: Vec<_> = tasks.collect();
                    tasks.into_iter().for_each(|it| drop(runtime.block_on(it)));
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, tasks);
criterion_main!(benches);
