//! Requests that are preempted and go on at another worker, on their own threads.
//!
//! ```text
//!   core 0   worker 0: decides ── asks ─────────────► has seen it free ── lends its turn ──► the thread goes on here
//!                        │◄────── freed ─────►│                 │◄──────── resumed ────────►│
//!   core 1   the request thread: a turn of worker 1 ─► worker 1 ── spins, and decides next
//! ```
//!
//! At home, worker 1 lends its next turn to the same request thread, and worker 0 asks each time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::figures::Figures;
use crate::policy::{RequestId, WorkerId};
use crate::runtime::channel::message::Report;
use crate::runtime::channel::preempter::Preempter;
use crate::runtime::channel::turn_start::TurnStart;
use crate::runtime::host::clock::Clock;
use crate::runtime::host::cores::Cores;
use crate::runtime::host::scheduling::can_be_raised;
use crate::runtime::request_threads::{LentTurn, RequestThreadPreempter, RequestThreads};

const REQUEST_THREAD: u32 = 0;
const REQUEST: RequestId = RequestId(1);
/// How long the request has each turn before it is asked.
const TURN_NS: u64 = 50_000;

/// What was measured, in nanoseconds.
pub(crate) struct Moved {
    /// From the decision until the worker runs.
    pub(crate) freed_ns: Figures,
    /// From lending the next turn until the request runs.
    pub(crate) resumed_ns: Figures,
}

/// What the threads share.
struct Scene {
    clock: Clock,
    cores: Cores,
    request_threads: Arc<RequestThreads<()>>,
    moves: bool,
    decided_ns: AtomicU64,
    /// When the turn of this number was lent.
    lent_ns: AtomicU64,
    lent: AtomicU64,
    /// The turn in which the request was seen running.
    seen: AtomicU64,
    /// The last turn whose worker is free again.
    freed: AtomicU64,
    is_over: AtomicBool,
    has_ended: AtomicBool,
}

impl Scene {
    /// The request: says in which turn it runs, as often as it can.
    fn run_request(&self) -> Figures {
        let mut resumed_ns = Figures::new();
        let mut seen = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            let lent = self.lent.load(Ordering::Acquire);
            if lent != seen {
                let lent_ns = self.lent_ns.load(Ordering::Relaxed);
                if seen > 0 {
                    resumed_ns.push(self.clock.now_ns().saturating_sub(lent_ns));
                }
                seen = lent;
                self.seen.store(lent, Ordering::Release);
            }
            std::hint::spin_loop();
        }
        resumed_ns
    }

    /// Lends turns. Returns how long it took to be free after each was asked.
    fn lend(&self, worker: WorkerId, turn: u64, task: Option<()>, freed_ns: &mut Figures) -> bool {
        let now_ns = self.clock.now_ns();
        self.lent_ns.store(now_ns, Ordering::Relaxed);
        self.lent.store(turn, Ordering::Release);
        let ended = self.request_threads.lend(
            LentTurn {
                worker,
                core_index: worker.index(),
                turn,
                request_thread: REQUEST_THREAD,
                request: REQUEST,
                task,
            },
            None,
        );
        let has_yielded = matches!(ended.report, Report::Yielded { .. });
        if has_yielded {
            let decided_ns = self.decided_ns.load(Ordering::Relaxed);
            freed_ns.push(self.clock.now_ns().saturating_sub(decided_ns));
        }
        self.has_ended.store(!has_yielded, Ordering::Relaxed);
        self.freed.store(turn, Ordering::Release);
        has_yielded
    }

    /// Asks a turn when it has had its time. Returns when its worker is free.
    fn ask(&self, asked: &RequestThreadPreempter<()>, turn: u64, end_ns: u64) {
        while self.seen.load(Ordering::Acquire) < turn {
            std::hint::spin_loop();
        }
        let began_ns = self.clock.now_ns();
        while self.clock.now_ns() < began_ns + TURN_NS {
            std::hint::spin_loop();
        }
        if began_ns >= end_ns {
            self.is_over.store(true, Ordering::Relaxed);
        }
        self.decided_ns.store(self.clock.now_ns(), Ordering::Relaxed);
        asked.preempt(turn);
        while self.freed.load(Ordering::Acquire) < turn {
            std::hint::spin_loop();
        }
    }

    /// A worker's thread: lends the turns that are its own, and asks the others.
    fn work(&self, worker: WorkerId, end_ns: u64) -> Figures {
        self.cores.pin_shared(worker.index());
        let mut freed_ns = Figures::new();
        let other = WorkerId(1 - worker.0);
        let asked = RequestThreadPreempter::new(self.request_threads.clone(), other);
        for turn in 1.. {
            let lender = if self.moves { turn % 2 } else { 1 };
            if lender == u64::from(worker.0) {
                let task = (turn == 1).then_some(());
                let has_yielded = self.lend(worker, turn, task, &mut freed_ns);
                let is_last = self.moves && self.is_over.load(Ordering::Relaxed);
                if is_last || !has_yielded {
                    break;
                }
                continue;
            }
            self.ask(&asked, turn, end_ns);
            if self.is_over.load(Ordering::Relaxed) {
                if self.moves && !self.has_ended.load(Ordering::Relaxed) {
                    self.lend(worker, turn + 1, None, &mut freed_ns);
                }
                break;
            }
        }
        freed_ns
    }
}

/// Preempts a request for so long, which goes on at the other of two workers each time, or at its own.
pub(crate) fn run(cores: &Cores, length: Duration, moves: bool) -> Moved {
    let clock = Clock::new();
    let starts = [(); 2].map(|()| Arc::new(TurnStart::new()));
    let own = Some(cores.clone());
    let request_threads = RequestThreads::new(1, starts, can_be_raised(), own, clock.clone());
    let end_ns = clock.now_ns() + length.as_nanos() as u64;
    let scene = Scene {
        clock,
        cores: cores.clone(),
        request_threads: Arc::new(request_threads),
        moves,
        decided_ns: AtomicU64::new(0),
        lent_ns: AtomicU64::new(0),
        lent: AtomicU64::new(0),
        seen: AtomicU64::new(0),
        freed: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        has_ended: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        let request_thread = scope.spawn(|| {
            let mut resumed_ns = None;
            scene.request_threads.serve(REQUEST_THREAD, |()| {
                scene.request_threads.open(REQUEST_THREAD);
                resumed_ns = Some(scene.run_request());
                scene.request_threads.close(REQUEST_THREAD);
            });
            resumed_ns
        });
        while scene.request_threads.readiness(REQUEST_THREAD) != crate::runtime::request_threads::Readiness::Ready {
            std::thread::yield_now();
        }
        let workers = [0, 1].map(|worker| {
            let scene = &scene;
            scope.spawn(move || scene.work(WorkerId(worker), end_ns))
        });
        let [mut freed_ns, others] = workers.map(|worker| worker.join().unwrap());
        freed_ns.add(others);
        scene.request_threads.stop();
        let resumed_ns = request_thread.join().unwrap();
        Moved {
            freed_ns,
            resumed_ns: resumed_ns.unwrap_or_else(Figures::new),
        }
    })
}
