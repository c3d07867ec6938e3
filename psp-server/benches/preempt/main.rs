//! The cost of the parts of a preemption: switching contexts, asking a request to yield, and checking for
//! it.
//!
//! ```sh
//! cargo bench -p psp-server --features benches --bench preempt
//! ```
//!
//! `preempt_gap` measures whole preemptions, across threads.

// The mechanism is private to the crate. Its files are compiled into the benchmark.
#[allow(dead_code, unreachable_pub, unused_imports, unsafe_code)]
#[path = "../../src/fiber/mod.rs"]
mod fiber;
#[allow(dead_code, unreachable_pub)]
#[path = "../../src/limits.rs"]
mod limits;
#[allow(dead_code, unused_imports)]
#[path = "../../src/presence.rs"]
mod presence;
#[allow(dead_code, unreachable_pub, unused_imports, unsafe_code)]
mod runtime;
#[cfg(test)]
#[allow(dead_code, unreachable_pub, unused_imports)]
#[path = "../../src/simulated/mod.rs"]
mod simulated;
#[cfg(test)]
use psp_server::peer;
use psp_server::{policy, preempt};

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};

use fiber::{ContextPool, Pause, PreemptFlag, PreemptSafeAlloc, Target, Wake, Yielder};
use policy::RequestId;
use preempt::PreemptPolicy;
use runtime::channel::message::Message;
use runtime::host::clock::Clock;
use runtime::host::cores::Cores;
use runtime::new_team;

const STACK_BYTES: usize = 256 * 1024;
const ONE: RequestId = RequestId(1);

/// Never yields.
struct NeverYields;

impl Yielder for NeverYields {
    fn yield_now(&self) {}

    fn describe(&self, _slot: usize, _out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        Ok(())
    }
}

/// Measures `switches` switches there and back between two contexts of a pool.
fn there_and_back(switches: u64) -> Duration {
    let spent = std::rc::Rc::new(std::cell::Cell::new(Duration::ZERO));
    let mut first = true;
    let pool = ContextPool::new(2, STACK_BYTES, || {
        let (is_first, spent) = (std::mem::take(&mut first), spent.clone());
        Ok(move || {
            if is_first {
                fiber::ensure_spare();
                let start = Instant::now();
                for _ in 0..switches {
                    fiber::pause(Pause::Suspended(ONE));
                }
                spent.set(start.elapsed());
                fiber::pause(Pause::Stop);
            } else {
                while fiber::pause(Pause::StepAside(ONE)) == Wake::Serve {}
            }
        })
    });
    pool.run().unwrap();
    spent.get()
}

fn contexts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("contexts");
    group.bench_function("preempted and resumed", |bencher| {
        bencher.iter_custom(there_and_back);
    });
    group.bench_function("made, run and dropped", |bencher| {
        bencher.iter(|| {
            let pool = ContextPool::new(1, STACK_BYTES, || {
                Ok(|| {
                    fiber::pause(Pause::Stop);
                })
            });
            pool.run().unwrap();
        });
    });
    group.finish();
}

/// Measures `switches` switches there and back between two threads of one core, which wake each other.
fn between_threads(switches: u64) -> Duration {
    let turn = AtomicU64::new(0);
    let cores = Cores::discover();
    let wait_for = |number| {
        while turn.load(Ordering::Acquire) != number {
            std::thread::park();
        }
    };
    std::thread::scope(|scope| {
        let (send, receive) = std::sync::mpsc::channel::<std::thread::Thread>();
        let (turn, cores, wait_for) = (&turn, &cores, &wait_for);
        let first = scope.spawn(move || {
            cores.pin_shared(1);
            let second = receive.recv().unwrap();
            let start = Instant::now();
            for switch in 0..switches {
                turn.store(2 * switch + 1, Ordering::Release);
                second.unpark();
                wait_for(2 * switch + 2);
            }
            start.elapsed()
        });
        let other = first.thread().clone();
        let second = scope.spawn(move || {
            cores.pin_shared(1);
            for switch in 0..switches {
                wait_for(2 * switch + 1);
                turn.store(2 * switch + 2, Ordering::Release);
                other.unpark();
            }
        });
        send.send(second.thread().clone()).unwrap();
        first.join().unwrap()
    })
}

/// A team of `threads` that serves nothing, started and stopped.
fn team(threads: usize) {
    let (team, mut link, port, _) = new_team(threads, Clock::new());
    std::thread::scope(|scope| {
        for seat in 0..threads {
            let (team, port) = (&team, &port);
            scope.spawn(move || team.serve(seat, port, Duration::ZERO, |()| {}));
        }
        assert!(link.send(Message::Stop).is_ok());
    });
}

fn threads(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("threads");
    group.bench_function("there and back on one core", |bencher| {
        bencher.iter_custom(between_threads);
    });
    for threads in [1, 32] {
        let name = format!("team of {threads}, made and stopped");
        group.bench_function(name, |bencher| bencher.iter(|| team(threads)));
    }
    group.finish();
}

/// The cost for handlers that are not asked to yield.
fn unasked(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("unasked");
    let flag = PreemptFlag::new();
    fiber::occupy(&flag, &NeverYields, || {
        fiber::begin_turn();
        fiber::in_handler(0, PreemptPolicy::Signal, || {
            group.bench_function("checkpoint", |bencher| bencher.iter(fiber::checkpoint));
            group.bench_function("no_preempt", |bencher| {
                bencher.iter(|| fiber::no_preempt(|| black_box(1)));
            });
            let layout = Layout::new::<[u64; 8]>();
            let guarded = PreemptSafeAlloc(System);
            group.bench_function("allocation", |bencher| {
                bencher.iter(|| round_trip(&System, layout));
            });
            group.bench_function("allocation, not preempted", |bencher| {
                bencher.iter(|| round_trip(&guarded, layout));
            });
        });
        group.bench_function("preemptible", |bencher| {
            bencher.iter(|| fiber::in_handler(0, PreemptPolicy::Signal, || black_box(1)));
        });
    });
    group.finish();
}

#[allow(unsafe_code)]
fn round_trip(allocator: &impl GlobalAlloc, layout: Layout) {
    // SAFETY: the layout is not empty, and the memory is given back with it at once.
    unsafe {
        let memory = black_box(allocator.alloc(layout));
        allocator.dealloc(memory, layout);
    }
}

/// The cost of asking, for the dispatcher.
fn asking(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("asking");
    let flag = PreemptFlag::new();
    let mut turn = 0;
    group.bench_function("by the flag", |bencher| {
        bencher.iter(|| {
            turn += 1;
            flag.ask(black_box(turn));
        });
    });
    if fiber::prepare_process().is_ok() {
        let target = Arc::new(Target::default());
        let stop = Arc::new(AtomicBool::new(false));
        let ready = Arc::new(AtomicBool::new(false));
        let worker = std::thread::spawn({
            let (target, stop, ready) = (target.clone(), stop.clone(), ready.clone());
            move || {
                fiber::prepare_thread();
                target.register();
                ready.store(true, Ordering::Release);
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                target.retire();
            }
        });
        while !ready.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        group.bench_function("by a signal", |bencher| bencher.iter(|| target.signal()));
        stop.store(true, Ordering::Relaxed);
        worker.join().unwrap();
    }
    group.finish();
}

criterion_group!(benches, contexts, threads, unasked, asking);
criterion_main!(benches);
