//! One long request, preempted every quantum: what both threads know of it, and what they measure.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use quanta::Clock;

use crate::runtime::cores::Cores;

/// Iterations between two looks at the clock, some 50 ns.
const STRIDE: u32 = 16;
/// How many of each figure there is room for.
pub(crate) const FIGURES_MAX: usize = 1 << 20;

/// What the two threads tell each other. Times are those of [`Clock::raw`].
pub(crate) struct Bout {
    clock: Clock,
    cores: Cores,
    length: Duration,
    /// How long a turn lasts; without one, for ever.
    quantum: Option<Duration>,
    /// When the dispatcher decided last.
    decided: AtomicU64,
    /// Turns that the long request has had before the present one.
    turns: AtomicU64,
    pub(crate) ready: AtomicBool,
    stop: AtomicBool,
}

/// What the long request saw.
#[derive(Default)]
pub(crate) struct LongRun {
    pub(crate) gap_ns: Vec<u64>,
    pub(crate) strides: u64,
}

/// All figures of a bout.
#[derive(Default)]
pub(crate) struct Measured {
    pub(crate) asking_ns: Vec<u64>,
    pub(crate) freed_ns: Vec<u64>,
    pub(crate) long: LongRun,
}

/// The dispatcher's hold on a worker.
pub(crate) trait Asker {
    /// Asks the long request to give way.
    fn ask(&mut self);

    /// Whether it goes on again since it was asked; does what is needed for that.
    fn goes_on(&mut self) -> bool;
}

impl Bout {
    pub(crate) fn new(cores: Cores, length: Duration, quantum: Option<Duration>) -> Self {
        Self {
            clock: Clock::new(),
            cores,
            length,
            quantum,
            decided: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            ready: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        }
    }

    /// Puts the calling thread on the worker's core.
    pub(crate) fn join_worker(&self) {
        self.cores.pin_shared(1);
    }

    /// Time since the dispatcher decided.
    pub(crate) fn since_decision_ns(&self) -> u64 {
        let decided = self.decided.load(Ordering::Relaxed);
        self.clock.delta_as_nanos(decided, self.clock.raw())
    }

    pub(crate) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Acquire)
    }

    /// The long request has another turn.
    pub(crate) fn next_turn(&self) {
        self.turns.fetch_add(1, Ordering::Release);
    }

    /// The long request: looks at the clock as often as it can, and calls `pause` as often.
    pub(crate) fn run_long(&self, pause: impl Fn()) -> LongRun {
        let mut long = LongRun {
            gap_ns: Vec::with_capacity(FIGURES_MAX),
            strides: 0,
        };
        self.ready.store(true, Ordering::Release);
        let mut seen = 0;
        let mut last = self.clock.raw();
        let mut step_before = 0;
        while !self.stop.load(Ordering::Relaxed) {
            for _ in 0..STRIDE {
                std::hint::black_box(long.strides);
            }
            pause();
            long.strides += 1;
            // In this order: an interruption anywhere falls into this step or the one before.
            let turns = self.turns.load(Ordering::Relaxed);
            let now = self.clock.raw();
            let step = now - last;
            if turns != seen && long.gap_ns.len() < FIGURES_MAX {
                seen = turns;
                long.gap_ns
                    .push(self.clock.delta_as_nanos(0, step.max(step_before)));
            }
            step_before = step;
            last = now;
        }
        long
    }

    /// The dispatcher: preempts the long request until the time is over, and returns how long asking
    /// took it each time.
    pub(crate) fn dispatch(&self, asker: &mut impl Asker) -> Vec<u64> {
        self.cores.pin_shared(0);
        let mut asking_ns = Vec::with_capacity(FIGURES_MAX);
        while !self.ready.load(Ordering::Acquire) {
            // The worker's thread may have begun on this core.
            std::thread::yield_now();
        }
        let start = self.clock.raw();
        let elapsed =
            |since| Duration::from_nanos(self.clock.delta_as_nanos(since, self.clock.raw()));
        let mut turn_start = start;
        while elapsed(start) < self.length {
            if self
                .quantum
                .is_none_or(|quantum| elapsed(turn_start) < quantum)
            {
                std::hint::spin_loop();
                continue;
            }
            self.decided.store(self.clock.raw(), Ordering::Relaxed);
            asker.ask();
            asking_ns.push(self.since_decision_ns());
            while !asker.goes_on() && elapsed(start) < self.length {
                std::hint::spin_loop();
            }
            turn_start = self.clock.raw();
        }
        self.stop.store(true, Ordering::Relaxed);
        asking_ns
    }
}
