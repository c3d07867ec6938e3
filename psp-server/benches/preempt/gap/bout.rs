//! One long request, preempted every quantum: the state of both threads, and their measurements.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::figures::Figures;
use crate::runtime::host::clock::Clock;
use crate::runtime::host::cores::Cores;

/// Iterations between two looks at the clock, some 50 ns.
const STRIDE: u32 = 16;
/// A request that does not yield for this long never will.
const PATIENCE: Duration = Duration::from_secs(30);

/// The state that the two threads share.
pub(crate) struct Bout {
    pub(crate) clock: Clock,
    cores: Cores,
    length: Duration,
    /// The length of a turn; `None` for ever.
    quantum: Option<Duration>,
    /// The time of the dispatcher's last decision.
    decided_ns: AtomicU64,
    /// Turns of the long request before the present one.
    turns: AtomicU64,
    pub(crate) ready: AtomicBool,
    stop: AtomicBool,
}

/// The long request's measurements.
pub(crate) struct LongRun {
    pub(crate) gap_ns: Figures,
    /// Strides that it completed.
    pub(crate) strides: u64,
    pub(crate) turns: u64,
    /// Turns without a stride.
    pub(crate) turns_empty: u64,
}

/// All figures of a bout.
pub(crate) struct Measured {
    /// The dispatcher's time for asking.
    pub(crate) send_ns: Figures,
    /// From the decision until another request ran.
    pub(crate) propagation_ns: Figures,
    /// From yielding until the other request ran, if the worker measures it.
    pub(crate) switch_ns: Option<Figures>,
    pub(crate) long: LongRun,
}

/// The dispatcher's access to a worker.
pub(crate) trait Asker {
    /// How long the long request has had its turn; `None` if the turn has not begun.
    fn had_ns(&self, now_ns: u64) -> Option<u64>;

    /// Asks it to yield.
    fn ask(&mut self);

    /// Runs another request and resumes the long one, if the worker does not do so by itself.
    fn follow_up(&mut self);

    /// Whether another request ran since the long one was asked.
    fn yielded(&mut self) -> bool;
}

impl Bout {
    pub(crate) fn new(cores: Cores, length: Duration, quantum: Option<Duration>) -> Self {
        Self {
            clock: Clock::new(),
            cores,
            length,
            quantum,
            decided_ns: AtomicU64::new(0),
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
        let decided_ns = self.decided_ns.load(Ordering::Relaxed);
        self.clock.now_ns().saturating_sub(decided_ns)
    }

    pub(crate) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Acquire)
    }

    /// The long request has another turn. Called on the worker's core.
    pub(crate) fn next_turn(&self) {
        self.turns.fetch_add(1, Ordering::Release);
    }

    /// The long request: looks at the clock as often as it can, and calls `pause` as often.
    pub(crate) fn run_long(&self, pause: impl Fn()) -> LongRun {
        let mut long = LongRun { gap_ns: Figures::new(), strides: 0, turns: 0, turns_empty: 0 };
        self.ready.store(true, Ordering::Release);
        let mut last_ns = self.clock.now_ns();
        let mut step_before_ns = 0;
        while !self.stop.load(Ordering::Relaxed) {
            for _ in 0..STRIDE {
                std::hint::black_box(long.strides);
            }
            pause();
            long.strides += 1;
            // In this order: an interruption anywhere falls into this step or the one before.
            let turns = self.turns.load(Ordering::Relaxed);
            let now_ns = self.clock.now_ns();
            let step_ns = now_ns - last_ns;
            if turns != long.turns {
                long.turns_empty += turns - long.turns - 1;
                long.turns = turns;
                long.gap_ns.push(step_ns.max(step_before_ns));
            }
            step_before_ns = step_ns;
            last_ns = now_ns;
        }
        long
    }

    /// The dispatcher: preempts the long request until the time is over. Returns how long each asking took.
    pub(crate) fn dispatch(&self, asker: &mut impl Asker) -> Figures {
        self.cores.pin_shared(0);
        let mut send_ns = Figures::new();
        while !self.ready.load(Ordering::Acquire) {
            // The worker's thread may have begun on this core.
            std::thread::yield_now();
        }
        let end_ns = self.clock.now_ns() + self.length.as_nanos() as u64;
        while self.waited(asker, end_ns) {
            let decided_ns = self.clock.now_ns();
            self.decided_ns.store(decided_ns, Ordering::Relaxed);
            asker.ask();
            send_ns.push(self.clock.now_ns() - decided_ns);
            asker.follow_up();
            while !asker.yielded() {
                assert!(self.since_decision_ns() < PATIENCE.as_nanos() as u64);
                std::hint::spin_loop();
            }
        }
        self.stop.store(true, Ordering::Relaxed);
        send_ns
    }

    /// Waits for the end of the turn's quantum, and checks the turn's time as rarely as a server does. Returns
    /// `false` at the end of the bout.
    fn waited(&self, asker: &impl Asker, end_ns: u64) -> bool {
        let quantum_ns = self.quantum.map(|quantum| quantum.as_nanos() as u64);
        let mut look_ns = 0;
        loop {
            let now_ns = self.clock.now_ns();
            if now_ns >= end_ns {
                return false;
            }
            if let Some(quantum_ns) = quantum_ns
                && now_ns >= look_ns
                && let Some(had_ns) = asker.had_ns(now_ns)
            {
                if had_ns >= quantum_ns {
                    return true;
                }
                look_ns = now_ns + quantum_ns - had_ns;
            }
            std::hint::spin_loop();
        }
    }
}
