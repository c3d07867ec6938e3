//! Whole preemptions: how soon the worker is free, how long the preempted request is away, and what
//! is left of a worker that is preempted every few microseconds.
//!
//! ```text
//!   dispatcher's thread   decides ── asks ─┐                      waits a quantum, decides …
//!                            │◄─ freed ───►│
//!   worker's thread       long request     │ another context: resumes it at once ─► long request
//!                                       │◄──────────────── gap ──────────────────►│
//! ```
//!
//! ```sh
//! cargo bench -p psp-server --bench preempt_gap        # prints the tables of docs/preemption.md
//! ```
//!
//! Wants two cores for itself.

// The mechanism is private to the crate: its files are compiled into the benchmark.
#[allow(dead_code, unreachable_pub, unused_imports, unsafe_code)]
#[path = "../../src/fiber/mod.rs"]
mod fiber;
use psp_server::{handler, policy, preempt};

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fiber::{
    AlternateStack, ContextPool, GiveWay, Pause, PreemptFlag, Target, Wake, begin_turn, checkpoint,
    occupy, pause, preemptible,
};
use policy::RequestId;
use preempt::PreemptPolicy;
use quanta::Clock;

const STACK_BYTES: usize = 256 * 1024;
const LONG: RequestId = RequestId(1);
/// Iterations between two looks at the clock, some 50 ns.
const STRIDE: u32 = 16;
const QUANTA_US: [u64; 6] = [2, 5, 10, 20, 50, 100];
/// How long a figure is measured, and how long a test of the benchmark takes.
const RUN: Duration = Duration::from_millis(500);
const RUN_SHORT: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mechanism {
    Cooperative,
    Signal,
}

impl Mechanism {
    fn policy(self) -> PreemptPolicy {
        match self {
            Self::Cooperative => PreemptPolicy::Cooperative,
            Self::Signal => PreemptPolicy::Signal,
        }
    }
}

/// What the two threads tell each other. Times are those of [`Clock::raw`].
#[derive(Default)]
struct Bout {
    /// When the dispatcher decided last.
    decided: AtomicU64,
    /// Turn that the long request has.
    turn: AtomicU64,
    stop: AtomicBool,
    ready: AtomicBool,
}

#[derive(Default)]
struct Measured {
    freed_ns: Vec<u64>,
    gap_ns: Vec<u64>,
    strides: u64,
}

/// The worker's side.
struct Worker<'a> {
    bout: &'a Bout,
    clock: Clock,
    measured: RefCell<Measured>,
}

impl GiveWay for Worker<'_> {
    fn give_way(&self) {
        pause(Pause::Yielded(LONG));
        self.bout.turn.fetch_add(1, Ordering::Release);
    }

    fn describe(&self, _slot: usize, _out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        Ok(())
    }
}

impl Worker<'_> {
    /// The long request: looks at the clock as often as it can.
    fn run_long(&self, mechanism: Mechanism) {
        let mut seen = 0;
        let mut last = self.clock.raw();
        let mut strides = 0;
        let mut step_before = 0;
        let mut gaps = Vec::with_capacity(1 << 20);
        while !self.bout.stop.load(Ordering::Relaxed) {
            for _ in 0..STRIDE {
                std::hint::black_box(strides);
            }
            if mechanism == Mechanism::Cooperative {
                checkpoint();
            }
            strides += 1;
            // In this order: an interruption anywhere falls into this step or the one before.
            let turn = self.bout.turn.load(Ordering::Relaxed);
            let now = self.clock.raw();
            let step = now - last;
            if turn != seen {
                seen = turn;
                gaps.push(self.clock.delta_as_nanos(0, step.max(step_before)));
            }
            step_before = step;
            last = now;
        }
        fiber::no_preempt(|| {
            let mut measured = self.measured.borrow_mut();
            measured.strides = strides;
            measured.gap_ns = gaps;
        });
    }

    /// What runs when the worker is free.
    fn run_other(&self) {
        loop {
            let now = self.clock.raw();
            let decided = self.bout.decided.load(Ordering::Relaxed);
            let freed_ns = self.clock.delta_as_nanos(decided, now);
            self.measured.borrow_mut().freed_ns.push(freed_ns);
            begin_turn();
            if pause(Pause::StepAside(LONG)) == Wake::Finish {
                return;
            }
        }
    }
}

fn serve(
    bout: &'static Bout,
    flag: &PreemptFlag,
    target: &Target,
    mechanism: Mechanism,
) -> Measured {
    let worker = Rc::new(Worker {
        bout,
        clock: Clock::new(),
        measured: RefCell::default(),
    });
    worker.measured.borrow_mut().freed_ns.reserve(1 << 20);
    let first = Cell::new(true);
    let pool = ContextPool::new(2, STACK_BYTES, || {
        let (worker, is_first) = (worker.clone(), first.replace(false));
        move || {
            if is_first {
                begin_turn();
                preemptible(0, mechanism.policy(), || {
                    worker.run_long(mechanism);
                });
                pause(Pause::Stop);
            } else {
                worker.run_other();
            }
        }
    });
    let _alternate = AlternateStack::install().unwrap();
    occupy(flag, &*worker, || {
        fiber::prepare_thread();
        target.register();
        bout.ready.store(true, Ordering::Release);
        pool.unwrap().run();
        target.retire();
    });
    worker.measured.take()
}

/// Preempts a request every `quantum`; without one, never.
fn run(mechanism: Mechanism, quantum: Option<Duration>) -> Measured {
    let measures = std::env::args().any(|argument| argument == "--bench");
    let length = if measures { RUN } else { RUN_SHORT };
    // Leaked, a few hundred bytes a run: the worker's contexts want it for ever.
    let bout: &'static Bout = Box::leak(Box::default());
    let flag = PreemptFlag::new();
    let target = Target::default();
    let clock = Clock::new();
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| serve(bout, &flag, &target, mechanism));
        while !bout.ready.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        let start = clock.raw();
        let elapsed_ns = |since| u128::from(clock.delta_as_nanos(since, clock.raw()));
        let mut turn_start = start;
        while elapsed_ns(start) < length.as_nanos() {
            let Some(quantum) = quantum else {
                std::hint::spin_loop();
                continue;
            };
            while elapsed_ns(turn_start) < quantum.as_nanos() {
                std::hint::spin_loop();
            }
            let turn = bout.turn.load(Ordering::Acquire);
            bout.decided.store(clock.raw(), Ordering::Relaxed);
            // The long request's turns are the only ones; the first has number 1.
            flag.ask(turn + 1);
            if mechanism == Mechanism::Signal {
                target.signal();
            }
            while bout.turn.load(Ordering::Acquire) == turn && elapsed_ns(start) < length.as_nanos()
            {
                std::hint::spin_loop();
            }
            turn_start = clock.raw();
        }
        bout.stop.store(true, Ordering::Relaxed);
        worker.join().unwrap()
    })
}

fn percentile_us(sorted_ns: &[u64], percent: f64) -> f64 {
    let at = ((sorted_ns.len() as f64 * percent / 100.0) as usize).min(sorted_ns.len() - 1);
    sorted_ns[at] as f64 / 1000.0
}

fn main() {
    fiber::prepare_process().unwrap();
    println!("{}", fiber::Platform::detect());
    println!("| mechanism | what | p50 us | p99 us | p99.9 us | of |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for mechanism in [Mechanism::Cooperative, Mechanism::Signal] {
        let measured = run(mechanism, Some(Duration::from_micros(50)));
        for (what, mut ns) in [
            ("decision to freed worker", measured.freed_ns),
            ("gap of the long request", measured.gap_ns),
        ] {
            ns.sort_unstable();
            println!(
                "| {mechanism:?} | {what} | {:.2} | {:.2} | {:.2} | {} |",
                percentile_us(&ns, 50.0),
                percentile_us(&ns, 99.0),
                percentile_us(&ns, 99.9),
                ns.len()
            );
        }
    }
    println!();
    println!(
        "| worker's time lost | {} |",
        QUANTA_US.map(|us| format!("{us} us")).join(" | ")
    );
    println!("| --- |{}", " --- |".repeat(QUANTA_US.len()));
    for mechanism in [Mechanism::Cooperative, Mechanism::Signal] {
        let whole = run(mechanism, None).strides as f64;
        let lost = QUANTA_US.map(|us| {
            let strides = run(mechanism, Some(Duration::from_micros(us))).strides;
            format!("{:.1} %", 100.0 * (1.0 - strides as f64 / whole))
        });
        println!("| {mechanism:?} | {} |", lost.join(" | "));
    }
}
