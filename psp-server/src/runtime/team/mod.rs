//! A worker of several kernel threads on one core, for preemption of arbitrary safe code.
//!
//! ```text
//!   net thread                             worker's core
//!     preempt(turn) ── makes B active ────►  A runs a request ─► SCHED_IDLE: A has the core only while
//!          └────────── wakes ─────────────►  B idle           ─► B runs: reports Yielded, is the worker
//!     Resume(request) ── ring ────────────►  B raises A, makes it active, is idle again
//! ```
//!
//! Exactly one thread of the team is active ([`active_thread`]) and *is* the worker: it reads the port,
//! runs requests, reports. A request that is never preempted costs two writes to the word that names the
//! active thread.
//!
//! A preempted thread is not stopped. It has the lowest standing on its core, so it runs on
//! while no other thread wants the core. That makes locks safe: a thread that waits for a lock of the preempted
//! thread blocks, and so lets the preempted thread run. If the handler of a preempted thread returns before its
//! request is resumed, the thread waits until it is active again, and then reports the result.
//!
//! Some processes may not raise a thread from SCHED_IDLE again. There, preempted threads keep their standing:
//! the woken thread has slept and gets the core, but has to share it from then on.
//!
//! All threads of a team are pinned to one core, since a preempted thread that moved to another core would
//! take time from the threads there. Teams that share a core share it as threads do: their active threads get
//! equal parts, and preempted threads get the rest.

pub(crate) mod active_thread;
pub(crate) mod member;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, park};
use std::time::Duration;

use psp_policy::RequestId;

use self::active_thread::{ActiveThread, Move, Phase};
use self::member::Member;
use super::channel::message::{Message, Report};
use super::channel::preempter::Preempter;
use super::channel::task_port::TaskPort;
use super::channel::turn_start::TurnStart;
use super::host::clock::Clock;
use crate::fiber::PreemptFlag;
use crate::limits::TEAM_THREADS_MAX;

pub(crate) use self::active_thread::{FIRST, TeamThread};

/// The threads of one worker.
#[derive(Debug)]
pub(crate) struct Team {
    active: ActiveThread,
    members: Box<[Member]>,
    /// Threads that were started, or are about to be.
    started: AtomicUsize,
    /// Threads that have begun to serve.
    serving: AtomicUsize,
    handles: Mutex<Vec<JoinHandle<()>>>,
    lowers: bool,
    clock: Clock,
    /// When the active thread's turn began.
    start: Arc<TurnStart>,
    /// Asks requests that yield at checkpoints only.
    flag: PreemptFlag,
    /// Who hears of turns that the kernel ends, if anybody does.
    listener: Option<Box<dyn TurnListener>>,
}

/// Hears of the turns of requests that have more than one.
pub(crate) trait TurnListener: fmt::Debug + Send + Sync {
    /// A turn ended, and the request did not.
    fn ended(&self, now_ns: u64, request: RequestId, slot: usize, is_blocked: bool);

    /// Its next turn begins.
    fn resumed(&self, now_ns: u64, request: RequestId, slot: usize);
}

/// Why a thread that waits for work goes on.
enum Call {
    /// It is the worker now; another request has yielded, or is blocked.
    Serve { served_ns: u64, is_blocked: bool },
    /// There will be no more work.
    Stop,
}

impl Team {
    /// A team of up to `threads` threads, at most [`TEAM_THREADS_MAX`], which have yet to [`serve`](Self::serve). The
    /// first thread is active. With `lowers`, preempted threads get the lowest standing on their core. The team
    /// announces in `start` when turns begin.
    pub(crate) fn new(threads: usize, lowers: bool, clock: Clock, start: Arc<TurnStart>) -> Self {
        let members = (0..threads.clamp(1, TEAM_THREADS_MAX)).map(|_| Member::default());
        Self {
            active: ActiveThread::new(),
            members: members.collect(),
            started: AtomicUsize::new(0),
            serving: AtomicUsize::new(0),
            handles: Mutex::default(),
            lowers,
            clock,
            start,
            flag: PreemptFlag::new(),
            listener: None,
        }
    }

    /// As this, with somebody who hears of turns.
    pub(crate) fn heard_by(self, listener: Box<dyn TurnListener>) -> Self {
        let listener = Some(listener);
        Self { listener, ..self }
    }

    /// Tells the listener about the request of a thread. Only the active thread may call this.
    fn tell(&self, thread: TeamThread, tell: impl FnOnce(&dyn TurnListener, RequestId, usize)) {
        if let Some(listener) = &self.listener {
            let slot = self.members[thread].slot.load(Ordering::Relaxed);
            tell(&**listener, self.request(thread), slot);
        }
    }

    /// The request that begins on the active thread is of the type at `slot`. Returns when its turn began.
    pub(crate) fn set_slot(&self, thread: TeamThread, slot: usize) -> u64 {
        self.members[thread].slot.store(slot, Ordering::Relaxed);
        self.start.began_ns()
    }

    /// How many threads wait for work. Without one a request cannot be preempted.
    #[inline]
    pub(crate) fn idle(&self) -> usize {
        self.active.idle().count_ones() as usize
    }

    /// Whether a thread can take over from the active one. Only the active thread may ask, while its request is
    /// [closed](Self::closed): otherwise another thread may have become active, and the answer be about its turn.
    ///
    /// A thread that neither holds a request nor is active is idle, or a request to yield that comes too late has
    /// claimed it and is about to let go of it. So [`idle`](Self::idle) may say less.
    pub(crate) fn has_successor(&self) -> bool {
        let away = self.members.iter().filter(|member| member.is_away());
        self.serving.load(Ordering::Acquire) > away.count() + 1
    }

    /// Whether the team has all its threads.
    pub(crate) fn is_full(&self) -> bool {
        self.started.load(Ordering::Relaxed) == self.members.len()
    }

    /// The index of the next thread to be started; `None` if the team is full. For one thread at a time: the
    /// caller that starts the first one, and then the active thread.
    pub(crate) fn next_thread(&self) -> Option<TeamThread> {
        let thread = self.started.load(Ordering::Relaxed);
        let is_free = thread < self.members.len();
        self.started.store(thread + usize::from(is_free), Ordering::Relaxed);
        is_free.then_some(thread)
    }

    /// Keeps the handle of a thread that was started.
    pub(crate) fn add_thread(&self, handle: JoinHandle<()>) {
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.push(handle);
    }

    /// The handles of all threads that were started.
    pub(crate) fn take_threads(&self) -> Vec<JoinHandle<()>> {
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut handles)
    }

    /// The flag that names the turn which has to yield at a checkpoint.
    pub(crate) fn flag(&self) -> &PreemptFlag {
        &self.flag
    }

    /// Number of the turn that runs. Only the active thread may call this.
    pub(crate) fn turn(&self) -> u64 {
        self.active.state().turn
    }

    /// Whether the running turn was asked to yield and has not yet.
    pub(crate) fn is_wanted(&self) -> bool {
        self.active.is_wanted()
    }

    /// Whether no thread was idle when the running turn was asked to yield.
    pub(crate) fn is_undone(&self) -> bool {
        self.active.is_undone()
    }

    /// Total time that the requests of this thread waited between turns, in nanoseconds.
    pub(crate) fn away_ns(&self, thread: TeamThread) -> u64 {
        self.members[thread].away_ns()
    }

    /// Wakes the thread that reads the messages. The caller has published a message before.
    pub(crate) fn wake(&self) {
        self.members[self.active.thread_to_wake()].wake();
    }

    /// Serves as one thread of the team, on the calling thread, until the team is told to stop. `run`
    /// runs a task on the active thread, and may [`open`](Self::open) and close parts of it. An idle worker
    /// polls for `spin` and then parks.
    pub(crate) fn serve<T>(
        &self,
        thread: TeamThread,
        port: &Mutex<TaskPort<T>>,
        spin: Duration,
        mut run: impl FnMut(&mut T),
    ) {
        self.members[thread].enlist(self.lowers);
        let mut is_worker = thread == FIRST;
        if !is_worker {
            self.active.rest(thread);
        }
        self.serving.fetch_add(1, Ordering::Release);
        loop {
            if !is_worker {
                match self.wait_for_work(thread) {
                    Call::Serve { served_ns, is_blocked } => {
                        lock(port).report(match is_blocked {
                            true => Report::Blocked { served_ns },
                            false => Report::Yielded { served_ns },
                        });
                        is_worker = true;
                    }
                    Call::Stop => return,
                }
            }
            // Outside of the `match`, which would keep the lock for the whole turn.
            let message = lock(port).next(spin);
            match message {
                Message::Run { request, mut task } => {
                    self.begin(thread, request);
                    run(&mut task);
                    lock(port).report(Report::Completed(task));
                }
                Message::Resume(request) => {
                    self.resume(thread, request);
                    is_worker = false;
                }
                Message::Stop => {
                    self.active.stop(thread);
                    self.members.iter().for_each(Member::wake);
                    return;
                }
            }
        }
    }

    /// From here on the thread, which runs a request, may be preempted at any time.
    pub(crate) fn open(&self, thread: TeamThread) {
        self.members[thread].preemptible.store(true, Ordering::Relaxed);
        if self.active.enter(thread) {
            let moved = self.active.preempt(self.active.state().turn);
            self.carry_out(moved, Some(thread));
            // This thread keeps its own standing until its successor has the core.
            std::thread::yield_now();
        }
    }

    /// Ends what `open` began. If another thread is active, waits until this one is.
    pub(crate) fn close(&self, thread: TeamThread) {
        while !self.try_close(thread) {
            self.wait_until_active(thread);
        }
    }

    /// Ends what `open` began, or returns `false` if another thread is active.
    pub(crate) fn try_close(&self, thread: TeamThread) -> bool {
        let closed = self.active.leave(thread);
        if closed {
            self.members[thread].preemptible.store(false, Ordering::Relaxed);
        }
        closed
    }

    /// Waits for another turn if the request was asked to yield. For requests that cannot be preempted
    /// at this point.
    pub(crate) fn yield_now(&self, thread: TeamThread) {
        if !self.members[thread].preemptible.load(Ordering::Relaxed) {
            let moved = self.active.yield_now(thread);
            self.carry_out(moved, Some(thread));
            self.wait_until_active(thread);
        }
    }

    /// Runs `body` while the thread is active and its request cannot be preempted.
    pub(crate) fn closed<R>(&self, thread: TeamThread, body: impl FnOnce() -> R) -> R {
        let is_open = self.members[thread].preemptible.load(Ordering::Relaxed);
        if is_open {
            self.close(thread);
        }
        let result = body();
        if is_open {
            self.open(thread);
        }
        result
    }

    /// Gives the worker away for the request of the active thread, which waits and is [closed](Self::closed), calls
    /// `meanwhile`, and returns in the request's next turn. The team [has a successor](Self::has_successor).
    pub(crate) fn block(&self, thread: TeamThread, meanwhile: &mut dyn FnMut()) {
        self.members[thread].is_blocked.store(true, Ordering::Relaxed);
        let moved = loop {
            match self.active.hand_over(thread) {
                moved @ Move::Moved { .. } => break moved,
                // A request to yield, which comes too late, claims the idle thread and lets go of it again.
                Move::Stays | Move::NobodyIdle => std::thread::yield_now(),
            }
        };
        self.carry_out(moved, Some(thread));
        meanwhile();
        self.wait_until_active(thread);
    }

    /// The request that the thread runs.
    pub(crate) fn request(&self, thread: TeamThread) -> RequestId {
        RequestId(self.members[thread].request.load(Ordering::Relaxed))
    }

    fn begin(&self, thread: TeamThread, request: RequestId) {
        self.members[thread].request.store(request.0, Ordering::Relaxed);
        self.active.begin(thread);
        self.start.announce(self.turn(), self.clock.now_ns());
    }

    /// Makes the thread of the suspended request active, and this one idle.
    fn resume(&self, thread: TeamThread, request: RequestId) {
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
        // Announced while this thread is still active: afterwards a later turn may begin at any time.
        self.start.announce_on(turn, now_ns, member.clock());
        self.tell(to, |listener, request, slot| {
            listener.resumed(now_ns, request, slot);
        });
        // Idle before the other thread is active: a request to yield that comes at once finds a thread. Nothing
        // claims this one before, for it cannot be preempted here.
        self.active.rest(thread);
        let wanted = member.raise(|| self.active.resume(to, phase));
        member.wake();
        if wanted {
            let moved = self.active.preempt(turn);
            self.carry_out(moved, None);
        }
    }

    /// Completes a move: lowers the preempted thread and wakes the new active one. `by` is the calling thread, if
    /// it gave the worker away itself. It must not lose its standing before it has woken its successor, nor while
    /// it holds its own rank's lock: on a core that other programs use it may not run again for seconds.
    fn carry_out(&self, moved: Move, by: Option<TeamThread>) {
        match moved {
            Move::Moved { from, to } => {
                if by != Some(from) {
                    self.members[from].lower(|| self.active.state().thread != from);
                }
                self.members[to].wake();
            }
            Move::Stays | Move::NobodyIdle => {}
        }
    }

    fn wait_until_active(&self, thread: TeamThread) {
        while self.active.state().thread != thread {
            park();
        }
    }

    fn wait_for_work(&self, thread: TeamThread) -> Call {
        loop {
            let state = self.active.state();
            if state.phase == Phase::Stopped {
                return Call::Stop;
            }
            if state.thread == thread {
                let now_ns = self.clock.now_ns();
                let began_ns = self.start.began_ns();
                let before = &self.members[state.from];
                before.go_away(now_ns);
                if before.preemptible.load(Ordering::Relaxed) {
                    before.lower(|| true);
                }
                let is_blocked = before.is_blocked.swap(false, Ordering::Relaxed);
                self.tell(state.from, |listener, request, slot| {
                    listener.ended(now_ns, request, slot, is_blocked);
                });
                self.active.take_over(thread);
                return Call::Serve { served_ns: now_ns.saturating_sub(began_ns), is_blocked };
            }
            park();
        }
    }
}

impl Preempter for Arc<Team> {
    fn preempt(&self, turn: u64) {
        self.flag.ask(turn);
        let moved = self.active.preempt(turn);
        self.carry_out(moved, None);
    }
}

/// Only the active thread uses the port, so no thread waits for this lock.
fn lock<T>(port: &Mutex<TaskPort<T>>) -> std::sync::MutexGuard<'_, TaskPort<T>> {
    port.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(loom)))]
mod tests;
