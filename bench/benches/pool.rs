//! What a task costs in psp-pool: a closure that returns at once, beside `tokio::task::spawn_blocking`; and a task that
//! yields.

use std::hint::black_box;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use psp_pool::policy::Policy;
use psp_pool::{Pool, RequestType, TypeSpec, checkpoint, suspended};
use tokio::runtime::Runtime;

const SHORT: RequestType = RequestType::new(0);
const LONG: RequestType = RequestType::new(1);
/// Closures that are submitted together.
const BATCH: usize = 64;

fn pool(policy: impl Into<Policy>) -> Pool {
    let types = [TypeSpec::new("short"), TypeSpec::new("long")];
    let pool = Pool::builder().types(types).workers(1).policy(policy).spare_threads(0);
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

/// A checkpoint of a task that need not yield, and a task that yields to another and goes on.
fn checkpoints(c: &mut Criterion) {
    let mut group = c.benchmark_group("checkpoint");
    let pool = pool(Policy::mq().quantum_us(200));
    group.bench_function("of_no_pool", |b| b.iter(checkpoint));
    group.bench_function("not_asked", |b| {
        b.iter_custom(|calls| {
            let task = pool.run(LONG, move || {
                let began = Instant::now();
                (0..calls).for_each(|_| checkpoint());
                began.elapsed()
            });
            futures_lite::future::block_on(task).expect("the pool is open")
        });
    });
    // From the end of the short task, whose worker the long one gets back. Most of a round is not measured.
    group.sample_size(20);
    group.measurement_time(Duration::from_millis(300));
    group.bench_function("goes_on", |b| {
        b.iter_custom(|times| (0..times).map(|_| goes_on(&pool)).sum());
    });
    group.finish();
}

/// How long it takes from the end of a task until another, which yielded to it, goes on.
fn goes_on(pool: &Pool) -> Duration {
    let (begins, begun) = channel();
    let long = pool.run(LONG, move || {
        let _ = begins.send(());
        let before = suspended();
        while suspended() == before {
            checkpoint();
        }
        Instant::now()
    });
    let _ = begun.recv();
    let short = pool.run(SHORT, Instant::now);
    let (ended, went_on) = futures_lite::future::block_on(futures_lite::future::zip(short, long));
    let (ended, went_on) = (ended.expect("it ran"), went_on.expect("it ran"));
    went_on.saturating_duration_since(ended)
}

criterion_group!(benches, tasks, checkpoints);
criterion_main!(benches);
