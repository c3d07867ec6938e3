//! Instructions of the parts of a preemption, of a policy's decision and of what is counted of a request, by Valgrind:
//! the same figures on any machine, busy or idle. They do not include the kernel and the caches.
//!
//! ```sh
//! cargo bench -p psp-server --features instructions --bench instructions
//! ```
//!
//! Needs Valgrind and `gungraun-runner` in the version of the crate; CONTRIBUTING.md says how to get it.
//! Some functions do their work once and 101 times: the difference is that of 100.

// The benchmark's macros make public items.
#![allow(missing_docs)]

// The mechanism is private to the crate. Its files are compiled into the benchmark.
#[allow(dead_code, unreachable_pub, unused_imports, unsafe_code)]
#[path = "../src/fiber/mod.rs"]
mod fiber;
#[allow(dead_code, unused_imports)]
#[path = "../src/presence.rs"]
mod presence;
/// Nothing is simulated here.
mod simulated {
    pub(crate) const fn unread(_socket: std::os::fd::RawFd) -> Option<usize> {
        None
    }
}
use psp_server::{policy, preempt};

// So are the counters of requests, and what records traces.
#[allow(dead_code, unreachable_pub)]
#[path = "../src/telemetry/counter.rs"]
mod counter;
#[allow(dead_code, unreachable_pub)]
#[path = "../src/telemetry/counters.rs"]
mod counters;
#[allow(dead_code, unreachable_pub)]
#[path = "../src/telemetry/histogram.rs"]
mod histogram;
#[allow(dead_code, unreachable_pub)]
#[path = "../src/trace/recorder.rs"]
mod recorder;
#[allow(dead_code, unreachable_pub, unused_imports)]
#[path = "../src/trace/ring.rs"]
mod ring;
#[allow(dead_code, unreachable_pub, unused_imports)]
#[path = "../src/telemetry/turning.rs"]
mod turning;

use std::hint::black_box;

use counters::{Telemetry, Times};
use fiber::{ContextPool, Pause, PreemptFlag, Wake, Yielder};
use gungraun::{library_benchmark, library_benchmark_group, main};
use policy::{Contexts, Event, Preemption, RequestId, Sample, Scheduler, SchedulerSetup};
use preempt::PreemptPolicy;
use psp_server::{Policy, RequestType, TypeSpec, TypeTable, WorkerId};
use recorder::{Trace, Turn};

const STACK_BYTES: usize = 256 * 1024;
const ONE: RequestId = RequestId(1);
const WORKERS: usize = 14;
const SHORT: RequestType = RequestType::new(0);
const LONG: RequestType = RequestType::new(1);
/// Longer than any quantum.
const LATER_NS: u64 = 1_000_000;

/// Never yields.
struct NeverYields;

impl Yielder for NeverYields {
    fn yield_now(&self) {}

    fn describe(&self, _slot: usize, _out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        Ok(())
    }
}

// A pool of two contexts. The first is preempted and resumed so many times.
#[library_benchmark]
#[bench::once(1)]
#[bench::and_100_times(101)]
fn switch(times: u64) {
    let mut is_first = true;
    let pool = ContextPool::new(2, STACK_BYTES, || {
        let is_first = std::mem::take(&mut is_first);
        Ok(move || {
            if is_first {
                fiber::ensure_spare();
                for _ in 0..times {
                    fiber::pause(Pause::Suspended(ONE));
                }
                fiber::pause(Pause::Stop);
            } else {
                while fiber::pause(Pause::StepAside(ONE)) == Wake::Serve {}
            }
        })
    });
    pool.run().unwrap();
}

// A context, made, run and dropped.
#[library_benchmark]
fn create() {
    let body = || {
        Ok(|| {
            fiber::pause(Pause::Stop);
        })
    };
    ContextPool::new(1, STACK_BYTES, body).run().unwrap();
}

// Checkpoints of a request that is not asked to yield.
#[library_benchmark]
#[bench::once(1)]
#[bench::and_100_times(101)]
fn checkpoint(times: u64) {
    let flag = PreemptFlag::new();
    fiber::occupy(&flag, &NeverYields, || {
        fiber::begin_turn();
        fiber::in_handler(0, PreemptPolicy::Cooperative, || {
            for _ in 0..times {
                fiber::checkpoint();
            }
        });
    });
}

/// A turn of a loop's body that the compiler keeps as it is.
fn step(number: u64) -> u64 {
    black_box(number).wrapping_mul(7)
}

// Loops of a request that is not asked to yield: as they are, with a checkpoint written into each 64th turn, and with
// those of the macro.
#[library_benchmark]
#[bench::plain(plain_loop)]
#[bench::by_hand(loop_by_hand)]
#[bench::preemptible(preemptible_loop)]
fn loops(body: fn(u64) -> u64) {
    let flag = PreemptFlag::new();
    fiber::occupy(&flag, &NeverYields, || {
        fiber::begin_turn();
        fiber::in_handler(0, PreemptPolicy::Cooperative, || black_box(body(black_box(TURNS))));
    });
}

const TURNS: u64 = 6_400;

fn plain_loop(turns: u64) -> u64 {
    (0..turns).fold(0, |sum, number| sum ^ step(number))
}

fn loop_by_hand(turns: u64) -> u64 {
    let mut sum = 0;
    for number in 0..turns {
        if number % 64 == 0 {
            psp_server::checkpoint();
        }
        sum ^= step(number);
    }
    sum
}

#[psp_server::preemptible]
fn preemptible_loop(turns: u64) -> u64 {
    let mut sum = 0;
    for number in 0..turns {
        sum ^= step(number);
    }
    sum
}

/// A scheduler of 14 workers that has served enough requests for its windows.
fn warm(name: &str) -> Box<dyn Scheduler> {
    let spec = |name, micros| TypeSpec::new(name).service_time(std::time::Duration::from_micros(micros));
    let types: TypeTable = [spec("SHORT", 1), spec("LONG", 100)].into_iter().collect();
    let policy: Policy = name.parse().unwrap();
    let mut scheduler = policy.scheduler(
        &SchedulerSetup::new(WORKERS, &types)
            .preemption(Some(Preemption::new(1_000)))
            .contexts(Contexts::at_home(31))
            .seed(7),
    );
    for round in 0..100 {
        serve(&mut *scheduler, round * LATER_NS);
    }
    scheduler
}

/// A request arrives at `now_ns`, runs, and is done.
fn serve(scheduler: &mut dyn Scheduler, now_ns: u64) {
    let arrived = Event::Arrived { request: ONE, request_type: SHORT, deadline_ns: None };
    scheduler.on_event(now_ns, arrived);
    let Some(policy::Action::Run { worker, .. }) = scheduler.poll(now_ns) else {
        unreachable!("a worker is idle");
    };
    let sample = Sample { request_type: SHORT, count: 1, service_ns: 1_000 };
    let completed = Event::Completed { worker, samples: &[sample], dropped: false };
    scheduler.on_event(now_ns + 1_000, completed);
    assert!(black_box(scheduler.poll(now_ns + 1_000)).is_none());
}

/// All workers run long requests, and the quantum of one is over.
fn busy(name: &str) -> Box<dyn Scheduler> {
    let mut scheduler = warm(name);
    for request in 0..WORKERS as u32 {
        let arrived = Event::Arrived {
            request: RequestId(request),
            request_type: LONG,
            deadline_ns: None,
        };
        scheduler.on_event(200 * LATER_NS, arrived);
        assert!(scheduler.poll(200 * LATER_NS).is_some());
    }
    scheduler
}

// The decision for a request that finds an idle worker.
#[library_benchmark]
#[bench::c_fcfs(warm("c-fcfs"))]
#[bench::darc(warm("darc"))]
#[bench::darc_lending(warm("darc-lending"))]
#[bench::sq(warm("sq"))]
#[bench::mq(warm("mq"))]
fn dispatch(mut scheduler: Box<dyn Scheduler>) -> Box<dyn Scheduler> {
    serve(&mut *scheduler, 200 * LATER_NS);
    scheduler
}

// The decisions for a request that preempts another: arrival, preemption, and end.
#[library_benchmark]
#[bench::sq(busy("sq"))]
#[bench::mq(busy("mq"))]
fn preempt_one(mut scheduler: Box<dyn Scheduler>) -> Box<dyn Scheduler> {
    let now_ns = 201 * LATER_NS;
    let arrived = Event::Arrived {
        request: RequestId(99),
        request_type: SHORT,
        deadline_ns: None,
    };
    scheduler.on_event(now_ns, arrived);
    let Some(policy::Action::Preempt { worker, .. }) = scheduler.poll(now_ns) else {
        unreachable!("quanta are over");
    };
    let served_ns = LATER_NS;
    scheduler.on_event(now_ns, Event::Yielded { worker, served_ns });
    assert!(black_box(scheduler.poll(now_ns)).is_some());
    scheduler
}

/// The counters of a server with two types and a worker.
fn counters() -> Telemetry {
    Telemetry::new(3, 1, 1)
}

// What is counted of a request: its arrival and its turn by the dispatcher, its times by the worker.
#[library_benchmark]
#[bench::once(counters(), 1)]
#[bench::and_100_times(counters(), 101)]
fn count(telemetry: Telemetry, times: u64) -> Telemetry {
    for number in 0..times {
        let number = black_box(number);
        let dispatch = &telemetry.receivers[0].types[0].0;
        dispatch.arrivals.add(1);
        dispatch.turns.turns.add(1);
        telemetry.turns[0].0.turns.add(1);
        telemetry.workers[0].types[0].0.completed(Times {
            waited_ns: 1_000 + number,
            served_ns: 2_000 + number,
            sojourn_ns: 3_000 + number,
        });
    }
    telemetry
}

/// A trace that is not made.
fn no_trace() -> Trace {
    Trace::new(1, 1)
}

// What a request costs while no trace is made: an arrival, and a turn that begins and ends.
#[library_benchmark]
#[bench::once(no_trace(), 1)]
#[bench::and_100_times(no_trace(), 101)]
fn untraced(trace: Trace, times: u64) -> Trace {
    for number in 0..times {
        let number = black_box(number);
        let turn = Turn { worker: WorkerId(0), request: ONE, slot: 0 };
        trace.arrived(0, ONE, 0);
        trace.begun(number, turn, 1);
        trace.completed(number, turn, 1);
    }
    trace
}

library_benchmark_group!(name = contexts, benchmarks = [switch, create, checkpoint, loops]);
library_benchmark_group!(name = decisions, benchmarks = [dispatch, preempt_one]);
library_benchmark_group!(name = counting, benchmarks = [count, untraced]);
main!(library_benchmark_groups = [contexts, decisions, counting]);
