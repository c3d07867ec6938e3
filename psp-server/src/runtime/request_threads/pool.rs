//! The request threads of a server and its workers, and what a request thread does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, park, yield_now};

use psp_policy::{RequestId, WorkerId};

use super::request_thread::{Readiness, RequestThread, WorkerTurn};
use super::turn_owner::{REQUEST_THREAD, RequestThreadNumber, TurnOwner, lock};
use crate::fiber::PreemptFlag;
use crate::runtime::channel::turn_start::TurnStart;
use crate::runtime::host::clock::Clock;
use crate::runtime::host::cores::Cores;
use crate::runtime::team::active_thread::Move;

/// See the [module](self). The request threads of a server, and its workers. `T` is what they run.
pub(crate) struct RequestThreads<T> {
    request_threads: Box<[RequestThread<T>]>,
    owners: Box<[TurnOwner<T>]>,
    handles: Mutex<Vec<JoinHandle<()>>>,
    /// Preempted request threads get the lowest standing on their core.
    lowers: bool,
    /// The cores of the workers, if each has one.
    pub(super) cores: Option<Cores>,
    is_over: AtomicBool,
    pub(super) clock: Clock,
}

impl<T> RequestThreads<T> {
    /// Up to `threads` request threads, which have yet to [`serve`](Self::serve), and a worker for each of `starts`,
    /// which says when its turns begin. With `lowers`, preempted request threads get the lowest standing on their core.
    /// `cores` are those of the workers, if each has one.
    pub(crate) fn new(
        threads: usize,
        starts: impl IntoIterator<Item = Arc<TurnStart>>,
        lowers: bool,
        cores: Option<Cores>,
        clock: Clock,
    ) -> Self {
        Self {
            request_threads: (0..threads).map(|_| RequestThread::new()).collect(),
            owners: starts.into_iter().map(TurnOwner::new).collect(),
            handles: Mutex::default(),
            lowers,
            cores,
            is_over: AtomicBool::new(false),
            clock,
        }
    }

    pub(super) fn request_thread(&self, number: RequestThreadNumber) -> &RequestThread<T> {
        &self.request_threads[number as usize]
    }

    pub(super) fn owner(&self, worker: WorkerId) -> &TurnOwner<T> {
        &self.owners[worker.index()]
    }

    /// Whether a request thread can take requests, or why not.
    pub(crate) fn readiness(&self, number: RequestThreadNumber) -> Readiness {
        self.request_thread(number).readiness()
    }

    /// The request thread has a thread that makes its state, or has failed to.
    pub(crate) fn set_readiness(&self, number: RequestThreadNumber, readiness: Readiness) {
        self.request_thread(number).set_readiness(readiness);
    }

    /// Keeps the handle of a thread that was started.
    pub(crate) fn add_thread(&self, handle: JoinHandle<()>) {
        lock(&self.handles).push(handle);
    }

    /// Has all request threads end that have no request, and returns the handles of all threads. A request that waits
    /// for its next turn has none any more: its thread is left behind.
    pub(crate) fn stop(&self) -> Vec<JoinHandle<()>> {
        self.is_over.store(true, Ordering::SeqCst);
        self.request_threads.iter().for_each(|thread| thread.member.wake());
        std::mem::take(&mut *lock(&self.handles))
    }

    /// The flag that names the request thread's own turn which has to yield at a checkpoint.
    pub(crate) fn flag(&self, number: RequestThreadNumber) -> &PreemptFlag {
        &self.request_thread(number).flag
    }

    /// Number of the request thread's own turn. For its thread, while it has a turn.
    pub(crate) fn own_turn(&self, number: RequestThreadNumber) -> u64 {
        self.request_thread(number).own_turn()
    }

    /// Total time that the requests of this request thread waited between turns, in nanoseconds.
    pub(crate) fn away_ns(&self, number: RequestThreadNumber) -> u64 {
        self.request_thread(number).member.away_ns()
    }

    /// The worker whose turn the request thread has, or had last.
    pub(crate) fn worker(&self, number: RequestThreadNumber) -> WorkerId {
        self.request_thread(number).worker_turn().worker
    }

    /// The request that the request thread runs.
    pub(crate) fn request(&self, number: RequestThreadNumber) -> RequestId {
        let member = &self.request_thread(number).member;
        RequestId(member.request.load(Ordering::Relaxed))
    }

    /// Serves as a request thread, on the calling thread, until that is told to [stop](Self::stop). `run` runs a task,
    /// and may [`open`](Self::open) and close parts of it.
    pub(crate) fn serve(&self, number: RequestThreadNumber, mut run: impl FnMut(&mut T)) {
        let thread = self.request_thread(number);
        thread.enlist(self.lowers);
        thread.set_readiness(Readiness::Ready);
        let mut last = thread.worker_turn();
        while self.wait_for_turn(thread, last) {
            let Some(mut task) = lock(&thread.inbox).take() else {
                debug_assert!(false, "a request thread's first turn has a task");
                return;
            };
            let at = thread.worker_turn();
            let start = &self.owner(at.worker).start;
            start.announce(at.turn, self.clock.now_ns());
            run(&mut task);
            // It may have moved.
            last = thread.worker_turn();
            let owner = self.owner(last.worker);
            *lock(&owner.completed) = Some(task);
            hand_over(owner);
        }
    }

    /// Waits until the idle request thread has another turn than `last`. Returns `false` if it has to stop.
    fn wait_for_turn(&self, thread: &RequestThread<T>, last: WorkerTurn) -> bool {
        while thread.worker_turn() == last {
            if self.is_over.load(Ordering::SeqCst) {
                return false;
            }
            park();
        }
        true
    }

    /// From here on the request thread, which has a turn, may lose it at any time.
    pub(crate) fn open(&self, number: RequestThreadNumber) {
        let thread = self.request_thread(number);
        thread.member.preemptible.store(true, Ordering::Relaxed);
        let at = thread.worker_turn();
        let owner = self.owner(at.worker);
        if owner.active.enter(REQUEST_THREAD) && owner.active.take_away(at.turn) {
            owner.wake();
            // This thread keeps its own standing until the worker's thread has the core.
            yield_now();
        }
    }

    /// Ends what `open` began. If the request thread has lost its turn, waits until it has another.
    pub(crate) fn close(&self, number: RequestThreadNumber) {
        let thread = self.request_thread(number);
        loop {
            let at = thread.worker_turn();
            if self.leave(thread, at) {
                return;
            }
            wait_for_another_turn(thread, at);
        }
    }

    /// Ends what `open` began, or returns `false` if the request thread has lost its turn.
    pub(crate) fn try_close(&self, number: RequestThreadNumber) -> bool {
        let thread = self.request_thread(number);
        self.leave(thread, thread.worker_turn())
    }

    fn leave(&self, thread: &RequestThread<T>, at: WorkerTurn) -> bool {
        let owner = self.owner(at.worker);
        let closed = owner.active.leave_turn(REQUEST_THREAD, at.turn);
        if closed {
            thread.member.preemptible.store(false, Ordering::Relaxed);
        }
        closed
    }

    /// Waits for another turn if the request was asked to yield. For requests that cannot be preempted at this
    /// point.
    pub(crate) fn yield_now(&self, number: RequestThreadNumber) {
        let thread = self.request_thread(number);
        if thread.member.preemptible.load(Ordering::Relaxed) {
            return;
        }
        let at = thread.worker_turn();
        let owner = self.owner(at.worker);
        match owner.active.yield_now(REQUEST_THREAD) {
            Move::Moved { .. } => owner.wake(),
            // A late request to an earlier turn has claimed the worker's thread, and lets go of it again.
            Move::NobodyIdle => hand_over(owner),
            Move::Stays => return,
        }
        wait_for_another_turn(thread, at);
    }

    /// Runs `body` while the request thread has a turn that it cannot lose.
    pub(crate) fn closed<R>(&self, number: RequestThreadNumber, body: impl FnOnce() -> R) -> R {
        let is_open = &self.request_thread(number).member.preemptible;
        let is_open = is_open.load(Ordering::Relaxed);
        if is_open {
            self.close(number);
        }
        let result = body();
        if is_open {
            self.open(number);
        }
        result
    }

    /// Ends the turn of a request that waits and is [closed](Self::closed), calls `meanwhile`, and returns in the
    /// request's next turn.
    pub(crate) fn block(&self, number: RequestThreadNumber, meanwhile: &mut dyn FnMut()) {
        let thread = self.request_thread(number);
        let at = thread.worker_turn();
        thread.member.is_blocked.store(true, Ordering::Relaxed);
        hand_over(self.owner(at.worker));
        meanwhile();
        wait_for_another_turn(thread, at);
    }
}

/// Gives the turn back to the worker's thread, and wakes that. The request is closed.
fn hand_over<T>(owner: &TurnOwner<T>) {
    // A request to yield, which comes too late, claims the worker's thread and lets go of it again.
    while !matches!(owner.active.hand_over(REQUEST_THREAD), Move::Moved { .. }) {
        yield_now();
    }
    owner.wake();
}

/// Waits until the request thread, which has a request, has another turn than this.
fn wait_for_another_turn<T>(thread: &RequestThread<T>, at: WorkerTurn) {
    while thread.worker_turn() == at {
        park();
    }
}
