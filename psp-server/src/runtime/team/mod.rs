//! A worker of several kernel threads on one core, for preemption of arbitrary safe code.
//!
//! ```text
//!   net thread                        worker's core
//!     preempt(turn) ── moves the baton ──►  A runs a request ─► SCHED_IDLE: A has the core only while
//!          └────────── wakes ───────────►   B idle           ─► B runs: reports Yielded, is the worker
//!     Resume(request) ── ring ──────────►   B raises A, gives it the baton, is idle again
//! ```
//!
//! Exactly one thread of the team holds the baton ([`baton`]) and *is* the worker: it reads the port,
//! runs requests, reports. A request that is never preempted costs two writes to the baton's word.
//!
//! A thread that was preempted is not stopped. It has the lowest standing on its core, so it goes on
//! while nobody else wants the core. That is what makes locks safe: who waits for a lock that it holds
//! blocks, and so lets it run. When its handler returns before its request was resumed, it waits for
//! the baton, and reports what it did then.
//!
//! Where the process may not raise a thread from SCHED_IDLE again, preempted threads keep their standing:
//! the one that wakes has slept and gets the core, but has to share it from then on.
//!
//! All threads of a team are pinned to one core, since a preempted thread that is moved elsewhere would
//! take time from others. Teams that share a core share it as threads do: those that hold a baton
//! equally, the preempted ones what is left.

mod baton;
mod member;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::park;
use std::time::Duration;

use self::baton::{Baton, FIRST, Move, Phase};
pub(crate) use self::baton::{SEATS_MAX, Seat};
use self::member::Member;
use super::channel::{Message, Preempter, Report, TaskPort};
use super::clock::Clock;
use super::turn_start::TurnStart;
use crate::fiber::PreemptFlag;
use crate::policy::RequestId;

/// The threads of one worker.
#[derive(Debug)]
pub(crate) struct Team {
    baton: Baton,
    members: Box<[Member]>,
    lowers: bool,
    clock: Clock,
    /// When the turn of the baton's holder began.
    start: Arc<TurnStart>,
    /// Preemptions that were left undone because no thread was idle.
    undone: AtomicU64,
    /// For requests that give way at checkpoints only.
    flag: PreemptFlag,
}

/// What a thread without the baton gets.
enum Call {
    /// It is the worker; another request has yielded.
    Serve { served_ns: u64 },
    /// There will be no work.
    Stop,
}

impl Team {
    /// A team of `threads` threads, at most 64, which are to serve. The first has the baton. Those that
    /// are preempted are put behind all others if `lowers`. `start` will say when turns begin.
    pub(crate) fn new(threads: usize, lowers: bool, clock: Clock, start: Arc<TurnStart>) -> Self {
        let members = (0..threads.clamp(1, SEATS_MAX)).map(|_| Member::default());
        Self {
            baton: Baton::new(),
            members: members.collect(),
            lowers,
            clock,
            start,
            undone: AtomicU64::new(0),
            flag: PreemptFlag::new(),
        }
    }

    /// Whether all threads but the one with the baton wait for work. A request that is preempted before they
    /// do may find nobody to take over.
    pub(crate) fn is_complete(&self) -> bool {
        self.baton.idle().count_ones() as usize + 1 == self.members.len()
    }

    /// Which turn shall give way at a checkpoint.
    pub(crate) fn flag(&self) -> &PreemptFlag {
        &self.flag
    }

    /// Number of the turn that runs, for the thread that has the baton.
    pub(crate) fn turn(&self) -> u64 {
        self.baton.state().turn
    }

    /// Whether the turn that runs was asked to give way and has not.
    pub(crate) fn is_wanted(&self) -> bool {
        self.baton.is_wanted()
    }

    /// Preemptions that were left undone because no thread was idle.
    pub(crate) fn undone(&self) -> u64 {
        self.undone.load(Ordering::Relaxed)
    }

    /// Time during which the requests of this thread waited for another turn, in all.
    pub(crate) fn away_ns(&self, seat: Seat) -> u64 {
        self.members[seat].away_ns()
    }

    /// Wakes the thread that reads the messages, for one that was published before.
    pub(crate) fn wake(&self) {
        self.members[self.baton.holder_to_wake()].wake();
    }

    /// Serves as one thread of the team, on the calling thread, until the team is told to stop. `run`
    /// runs a task, with the baton, and may [`open`](Self::open) and close parts of it. The holder of the
    /// baton, idle, polls for `spin` and then parks.
    pub(crate) fn serve<T>(
        &self,
        seat: Seat,
        port: &Mutex<TaskPort<T>>,
        spin: Duration,
        mut run: impl FnMut(&mut T),
    ) {
        self.members[seat].enlist(self.lowers);
        let mut is_worker = seat == FIRST;
        if !is_worker {
            self.baton.rest(seat);
        }
        loop {
            if !is_worker {
                match self.wait_for_work(seat) {
                    Call::Serve { served_ns } => {
                        lock(port).report(Report::Yielded { served_ns });
                        is_worker = true;
                    }
                    Call::Stop => return,
                }
            }
            // Not in the `match`, which would keep the lock for the whole turn.
            let message = lock(port).next(spin);
            match message {
                Message::Run { request, mut task } => {
                    self.begin(seat, request);
                    run(&mut task);
                    lock(port).report(Report::Completed(task));
                }
                Message::Resume(request) => {
                    self.resume(seat, request);
                    is_worker = false;
                }
                Message::Stop => {
                    self.baton.stop(seat);
                    self.members.iter().for_each(Member::wake);
                    return;
                }
            }
        }
    }

    /// From here on the thread, which runs a request, may lose the baton at any time.
    pub(crate) fn open(&self, seat: Seat) {
        self.members[seat]
            .preemptible
            .store(true, Ordering::Relaxed);
        if self.baton.enter(seat) {
            let moved = self.baton.preempt(self.baton.state().turn);
            self.carry_out(moved, Some(seat));
            // It has its own standing until the one that takes over has the core.
            std::thread::yield_now();
        }
    }

    /// Ends what `open` began, and waits for the baton if it is with another thread.
    pub(crate) fn close(&self, seat: Seat) {
        while !self.try_close(seat) {
            self.wait_for_baton(seat);
        }
    }

    /// Ends what `open` began, or returns `false` if the baton is with another thread.
    pub(crate) fn try_close(&self, seat: Seat) -> bool {
        let closed = self.baton.leave(seat);
        if closed {
            self.members[seat]
                .preemptible
                .store(false, Ordering::Relaxed);
        }
        closed
    }

    /// Waits for another turn if the request was asked to give way. For a thread that runs one which
    /// cannot be preempted here.
    pub(crate) fn give_way(&self, seat: Seat) {
        if !self.members[seat].preemptible.load(Ordering::Relaxed) {
            let moved = self.baton.give_way(seat);
            self.carry_out(moved, Some(seat));
            self.wait_for_baton(seat);
        }
    }

    fn begin(&self, seat: Seat, request: RequestId) {
        self.members[seat]
            .request
            .store(request.0, Ordering::Relaxed);
        self.baton.begin(seat);
        self.start.announce(self.turn(), self.clock.now_ns());
    }

    /// Sends the thread that runs the request on, and makes this one idle.
    fn resume(&self, seat: Seat, request: RequestId) {
        let holds = |member: &Member| member.is_away_with(request);
        let Some(to) = self.members.iter().position(holds) else {
            unreachable!("request {} never yielded", request.0);
        };
        let member = &self.members[to];
        let now_ns = self.clock.now_ns();
        member.come_back(now_ns);
        let phase = if member.preemptible.load(Ordering::Relaxed) {
            Phase::Preemptible
        } else {
            Phase::Serving
        };
        let turn = self.turn() + 1;
        // While this thread is the worker: the next one may have begun a later turn at any time.
        self.start.announce_on(turn, now_ns, member.clock());
        let wanted = member.raise(|| self.baton.resume(to, phase));
        member.wake();
        self.baton.rest(seat);
        if wanted {
            let moved = self.baton.preempt(turn);
            self.carry_out(moved, None);
        }
    }

    /// What follows from a move of the baton. `by` is the thread that gave it away itself: it must not lose
    /// its standing before it has woken the other, nor with its own rank's lock held, for on a core that other
    /// programs use it may not run again for seconds.
    fn carry_out(&self, moved: Move, by: Option<Seat>) {
        match moved {
            Move::Moved { from, to } => {
                if by != Some(from) {
                    self.members[from].lower(|| self.baton.state().holder != from);
                }
                self.members[to].wake();
            }
            Move::Stays => {}
            Move::NobodyIdle => {
                self.undone.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn wait_for_baton(&self, seat: Seat) {
        while self.baton.state().holder != seat {
            park();
        }
    }

    fn wait_for_work(&self, seat: Seat) -> Call {
        loop {
            let state = self.baton.state();
            if state.phase == Phase::Stopped {
                return Call::Stop;
            }
            if state.holder == seat {
                let now_ns = self.clock.now_ns();
                let began_ns = self.start.began_ns();
                let before = &self.members[state.from];
                before.go_away(now_ns);
                if before.preemptible.load(Ordering::Relaxed) {
                    before.lower(|| true);
                }
                self.baton.take_over(seat);
                return Call::Serve {
                    served_ns: now_ns.saturating_sub(began_ns),
                };
            }
            park();
        }
    }
}

impl Preempter for Arc<Team> {
    fn preempt(&self, turn: u64) {
        self.flag.ask(turn);
        let moved = self.baton.preempt(turn);
        self.carry_out(moved, None);
    }
}

/// The port is with the holder of the baton, so nobody waits for this lock.
fn lock<T>(port: &Mutex<TaskPort<T>>) -> std::sync::MutexGuard<'_, TaskPort<T>> {
    port.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(loom)))]
mod tests;
