//! The carriers of a server and its workers, and what the thread of a carrier does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, park, yield_now};

use psp_policy::{RequestId, WorkerId};

use super::carrier::{Carrier, Readiness, Seat};
use super::post::{CARRIER, CarrierNumber, Post, lock};
use crate::fiber::PreemptFlag;
use crate::runtime::channel::turn_start::TurnStart;
use crate::runtime::host::clock::Clock;
use crate::runtime::host::cores::Cores;
use crate::runtime::team::active_thread::Move;

/// See the [module](self). The carriers of a server, and its workers. `T` is what they run.
pub(crate) struct Carriers<T> {
    carriers: Box<[Carrier<T>]>,
    posts: Box<[Post<T>]>,
    handles: Mutex<Vec<JoinHandle<()>>>,
    /// Preempted carriers get the lowest standing on their core.
    lowers: bool,
    /// The cores of the workers, if each has one.
    pub(super) cores: Option<Cores>,
    is_over: AtomicBool,
    pub(super) clock: Clock,
}

impl<T> Carriers<T> {
    /// Up to `threads` carriers, which have yet to [`serve`](Self::serve), and a worker for each of `starts`, which says
    /// when its turns begin. With `lowers`, preempted carriers get the lowest standing on their core. `cores` are those of
    /// the workers, if each has one.
    pub(crate) fn new(
        threads: usize,
        starts: impl IntoIterator<Item = Arc<TurnStart>>,
        lowers: bool,
        cores: Option<Cores>,
        clock: Clock,
    ) -> Self {
        Self {
            carriers: (0..threads).map(|_| Carrier::new()).collect(),
            posts: starts.into_iter().map(Post::new).collect(),
            handles: Mutex::default(),
            lowers,
            cores,
            is_over: AtomicBool::new(false),
            clock,
        }
    }

    pub(super) fn carrier(&self, number: CarrierNumber) -> &Carrier<T> {
        &self.carriers[number as usize]
    }

    pub(super) fn post(&self, worker: WorkerId) -> &Post<T> {
        &self.posts[worker.index()]
    }

    /// Whether a carrier can take requests, or why not.
    pub(crate) fn readiness(&self, number: CarrierNumber) -> Readiness {
        self.carrier(number).readiness()
    }

    /// The carrier has a thread that makes its state, or has failed to.
    pub(crate) fn set_readiness(&self, number: CarrierNumber, readiness: Readiness) {
        self.carrier(number).set_readiness(readiness);
    }

    /// Keeps the handle of a thread that was started.
    pub(crate) fn add_thread(&self, handle: JoinHandle<()>) {
        lock(&self.handles).push(handle);
    }

    /// Has all carriers end that have no request, and returns the handles of all threads. A request that waits for its
    /// next turn has none any more: its thread is left behind.
    pub(crate) fn stop(&self) -> Vec<JoinHandle<()>> {
        self.is_over.store(true, Ordering::SeqCst);
        self.carriers
            .iter()
            .for_each(|carrier| carrier.member.wake());
        std::mem::take(&mut *lock(&self.handles))
    }

    /// The flag that names the carrier's own turn which has to give way at a checkpoint.
    pub(crate) fn flag(&self, number: CarrierNumber) -> &PreemptFlag {
        &self.carrier(number).flag
    }

    /// Number of the carrier's own turn. For its thread, while it has a turn.
    pub(crate) fn own_turn(&self, number: CarrierNumber) -> u64 {
        self.carrier(number).own_turn()
    }

    /// Total time that the requests of this carrier waited between turns, in nanoseconds.
    pub(crate) fn away_ns(&self, number: CarrierNumber) -> u64 {
        self.carrier(number).member.away_ns()
    }

    /// The worker whose turn the carrier has, or had last.
    pub(crate) fn worker(&self, number: CarrierNumber) -> WorkerId {
        self.carrier(number).seat().worker
    }

    /// The request that the carrier runs.
    pub(crate) fn request(&self, number: CarrierNumber) -> RequestId {
        let member = &self.carrier(number).member;
        RequestId(member.request.load(Ordering::Relaxed))
    }

    /// Serves as a carrier, on the calling thread, until that is told to [stop](Self::stop). `run` runs a task, and may
    /// [`open`](Self::open) and close parts of it.
    pub(crate) fn serve(&self, number: CarrierNumber, mut run: impl FnMut(&mut T)) {
        let carrier = self.carrier(number);
        carrier.enlist(self.lowers);
        carrier.set_readiness(Readiness::Ready);
        let mut last = carrier.seat();
        while self.wait_for_turn(carrier, last) {
            let Some(mut task) = lock(&carrier.inbox).take() else {
                debug_assert!(false, "a carrier's first turn has a task");
                return;
            };
            let seat = carrier.seat();
            let start = &self.post(seat.worker).start;
            start.announce(seat.turn, self.clock.now_ns());
            run(&mut task);
            // It may have moved.
            last = carrier.seat();
            let post = self.post(last.worker);
            *lock(&post.completed) = Some(task);
            hand_over(post);
        }
    }

    /// Waits until the idle carrier has another seat than `last`. Returns `false` if it has to stop.
    fn wait_for_turn(&self, carrier: &Carrier<T>, last: Seat) -> bool {
        while carrier.seat() == last {
            if self.is_over.load(Ordering::SeqCst) {
                return false;
            }
            park();
        }
        true
    }

    /// From here on the carrier, which has a turn, may lose it at any time.
    pub(crate) fn open(&self, number: CarrierNumber) {
        let carrier = self.carrier(number);
        carrier.member.preemptible.store(true, Ordering::Relaxed);
        let seat = carrier.seat();
        let post = self.post(seat.worker);
        if post.active.enter(CARRIER) && post.active.take_away(seat.turn) {
            post.wake();
            // This thread keeps its own standing until the worker's thread has the core.
            yield_now();
        }
    }

    /// Ends what `open` began. If the carrier has lost its turn, waits until it has another.
    pub(crate) fn close(&self, number: CarrierNumber) {
        let carrier = self.carrier(number);
        loop {
            let seat = carrier.seat();
            if self.leave(carrier, seat) {
                return;
            }
            wait_for_seat(carrier, seat);
        }
    }

    /// Ends what `open` began, or returns `false` if the carrier has lost its turn.
    pub(crate) fn try_close(&self, number: CarrierNumber) -> bool {
        let carrier = self.carrier(number);
        self.leave(carrier, carrier.seat())
    }

    fn leave(&self, carrier: &Carrier<T>, seat: Seat) -> bool {
        let post = self.post(seat.worker);
        let closed = post.active.leave_turn(CARRIER, seat.turn);
        if closed {
            carrier.member.preemptible.store(false, Ordering::Relaxed);
        }
        closed
    }

    /// Waits for another turn if the request was asked to give way. For requests that cannot be preempted at this point.
    pub(crate) fn give_way(&self, number: CarrierNumber) {
        let carrier = self.carrier(number);
        if carrier.member.preemptible.load(Ordering::Relaxed) {
            return;
        }
        let seat = carrier.seat();
        let post = self.post(seat.worker);
        match post.active.give_way(CARRIER) {
            Move::Moved { .. } => post.wake(),
            // A late request to an earlier turn has claimed the worker's thread, and lets go of it again.
            Move::NobodyIdle => hand_over(post),
            Move::Stays => return,
        }
        wait_for_seat(carrier, seat);
    }

    /// Runs `body` while the carrier has a turn that it cannot lose.
    pub(crate) fn closed<R>(&self, number: CarrierNumber, body: impl FnOnce() -> R) -> R {
        let is_open = &self.carrier(number).member.preemptible;
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
    pub(crate) fn block(&self, number: CarrierNumber, meanwhile: &mut dyn FnMut()) {
        let carrier = self.carrier(number);
        let seat = carrier.seat();
        carrier.member.is_blocked.store(true, Ordering::Relaxed);
        hand_over(self.post(seat.worker));
        meanwhile();
        wait_for_seat(carrier, seat);
    }
}

/// Gives the turn back to the worker's thread, and wakes that. The request is closed.
fn hand_over<T>(post: &Post<T>) {
    // A request to give way, which comes too late, claims the worker's thread and lets go of it again.
    while !matches!(post.active.hand_over(CARRIER), Move::Moved { .. }) {
        yield_now();
    }
    post.wake();
}

/// Waits until the carrier, which has a request, has another seat than this.
fn wait_for_seat<T>(carrier: &Carrier<T>, seat: Seat) {
    while carrier.seat() == seat {
        park();
    }
}
