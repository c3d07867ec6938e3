//! Benchmarks the collections: growth at the ends, walks of 10 000 elements, changes of single elements of lists,
//! changes and ranks in sorted sets.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use psp_store::{Element, Hash, List, ListEnd, ScoreBound, Set, SortedSet};

/// Elements that each walk visits.
const WALKED: usize = 10_000;
/// Sizes at which single changes are measured.
const SIZES: [usize; 2] = [10_000, 1_000_000];

fn name(index: usize) -> Vec<u8> {
    format!("member:{index:08}").into_bytes()
}

/// Maps `step` to an index so that successive steps visit all of `0..len` in scattered order.
/// `len` must not be a multiple of the stride, 7919.
fn scattered(step: usize, len: usize) -> usize {
    step.wrapping_mul(7919) % len
}

fn score_of(step: usize) -> f64 {
    scattered(step, 1_000_003) as f64
}

fn list_of(len: usize) -> List {
    (0..len).map(|index| Element::from(&*name(index))).collect()
}

fn sorted_set_of(len: usize) -> SortedSet {
    let mut set = SortedSet::new();
    for index in 0..len {
        set.insert(&name(index), score_of(index)).expect("a number");
    }
    set
}

fn push(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("list push");
    for end in [ListEnd::Left, ListEnd::Right] {
        group.bench_function(format!("{end:?}"), |bencher| {
            bencher.iter_batched_ref(
                || list_of(WALKED),
                |list| {
                    for _ in 0..1000 {
                        list.push(end, b"xxx".as_slice());
                    }
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.throughput(Throughput::Elements(1000));
    group.finish();
}

/// Single elements of lists.
fn list(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("list");
    for len in SIZES {
        let mut list = list_of(len);
        let new = Element::from(&*name(len));
        let mut step = 0;
        let mut place = move || {
            step += 1;
            scattered(step, len)
        };
        group.bench_function(BenchmarkId::new("get", len), |bencher| {
            bencher.iter(|| list.get(place()).map(|element| element.len()));
        });
        group.bench_function(BenchmarkId::new("set", len), |bencher| {
            bencher.iter(|| list.set(place(), &new));
        });
        group.bench_function(BenchmarkId::new("insert and remove", len), |bencher| {
            bencher.iter(|| {
                let place = place();
                list.insert(place, &new);
                list.remove_range(place..place + 1);
            });
        });
        for (from, to) in [(ListEnd::Left, ListEnd::Right), (ListEnd::Right, ListEnd::Left)] {
            let id = BenchmarkId::new(format!("from {from:?} to {to:?}"), len);
            group.bench_function(id, |bencher| {
                bencher.iter(|| {
                    let element = list.pop(from);
                    list.push(to, &element.unwrap_or_else(|| new.clone()));
                });
            });
        }
        group.bench_function(BenchmarkId::new("set below a snapshot", len), |bencher| {
            bencher.iter(|| {
                let snapshot = list.clone();
                list.set(place(), &new);
                snapshot
            });
        });
    }
    group.finish();
}

fn walk(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("walk of 10 000");
    group.throughput(Throughput::Elements(WALKED as u64));
    let list = list_of(WALKED);
    group.bench_function("list", |bencher| {
        bencher.iter(|| black_box(&list).range(0..WALKED).map(|element| element.len()).sum::<usize>());
    });
    let numbers: List = (0..WALKED).map(|index| Element::from(index.to_string().as_bytes())).collect();
    group.bench_function("list of numbers", |bencher| {
        bencher.iter(|| black_box(&numbers).range(0..WALKED).map(|element| element.len()).sum::<usize>());
    });
    let mut set = Set::new();
    let mut hash = Hash::new();
    for index in 0..WALKED {
        set.insert(&name(index));
        hash.insert(&name(index), Element::from(b"value"));
    }
    group.bench_function("set", |bencher| {
        bencher.iter(|| black_box(&set).iter().map(|member| member.len()).sum::<usize>());
    });
    group.bench_function("hash", |bencher| {
        bencher.iter(|| black_box(&hash).iter().map(|(field, value)| field.len() + value.len()).sum::<usize>());
    });
    let sorted_set = sorted_set_of(WALKED);
    group.bench_function("sorted set", |bencher| {
        bencher.iter(|| {
            let members = black_box(&sorted_set).range(0..WALKED);
            members.map(|scored| scored.member.len() as f64 + scored.score).sum::<f64>()
        });
    });
    group.finish();
}

fn sorted_set(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sorted set");
    for len in SIZES {
        let mut set = sorted_set_of(len);
        let names: Vec<Vec<u8>> = (0..len).map(|step| name(scattered(step, len))).collect();
        let mut step = 0;
        group.bench_function(BenchmarkId::new("rank", len), |bencher| {
            bencher.iter(|| {
                step += 1;
                set.rank(&names[step % len])
            });
        });
        group.bench_function(BenchmarkId::new("ranks by score", len), |bencher| {
            bencher.iter(|| {
                step += 1;
                let bound = |score| ScoreBound { score, exclusive: false };
                set.ranks_by_score(bound(score_of(step)), bound(f64::INFINITY))
            });
        });
        group.bench_function(BenchmarkId::new("move", len), |bencher| {
            bencher.iter(|| {
                step += 1;
                set.insert(&names[step % len], score_of(step * 31))
            });
        });
        group.bench_function(BenchmarkId::new("remove and add", len), |bencher| {
            bencher.iter(|| {
                step += 1;
                let name = &names[step % len];
                let score = set.remove(name).unwrap_or(0.0);
                set.insert(name, score)
            });
        });
        group.bench_function(BenchmarkId::new("move below a snapshot", len), |bencher| {
            bencher.iter(|| {
                let snapshot = set.clone();
                step += 1;
                let _ = set.insert(&names[step % len], score_of(step * 31));
                snapshot
            });
        });
    }
    group.finish();
}

criterion_group!(benches, push, list, walk, sorted_set);
criterion_main!(benches);
