//! Wakes a request that waits, from any thread.
//!
//! ```text
//!              begin_poll             block
//!   Awake ─────────────────► Polling ───────► Blocked ── wake ──► Awake, and in the list ──► net thread: Unblocked
//!     ▲                         │                                                                │
//!     └───────── wake ──────────┘ block says so: polled again                                    ▼
//!     └─────────────────────────────────────────────────────────────────────────────── resumed: polled again
//! ```
//!
//! Wakers may come from any thread, at any time, more than once, or long after the wait is over. Every wake changes
//! the state by a swap, so that each `Blocked` puts the waiter into the list once: the net thread resumes the request
//! once. A wake that finds anything else has at most the effect that the future is polled once more.
//!
//! A request with a thread of its own may wait at another worker each time: it says which when it blocks, and the wake
//! puts it into the list of that worker's net thread.
//!
//! The list is a stack linked through the waiters themselves, so that a wake allocates nothing and takes no lock. The
//! net thread takes it as a whole. Checked by loom.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::fmt;
use std::ptr;
use std::sync::Arc;
use std::task::Wake;

#[cfg(loom)]
use loom::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};

use psp_policy::{RequestId, WorkerId};

use super::thread_state::no_preempt;

/// No request waits, or the request was woken.
const AWAKE: u8 = 0;
/// The future is being polled.
const POLLING: u8 = 1;
/// The request gives, or has given, its worker away.
const BLOCKED: u8 = 2;

/// Calls the net thread to the list.
pub(crate) trait Bell: Send + Sync {
    /// Called after a waiter was put into the list, without a lock held.
    fn ring(&self);
}

/// The requests of a server that were woken, and that the net thread has not seen yet.
pub(crate) struct WakeList {
    /// The waiter that came last.
    last: AtomicPtr<Waiter>,
    bell: Arc<dyn Bell>,
}

/// The lists in which requests of a thread are, once they were woken.
#[derive(Debug, Clone)]
pub(crate) enum WakeLists {
    /// Of all workers.
    One(Arc<WakeList>),
    /// Of each worker.
    OfWorkers(Arc<[Arc<WakeList>]>),
}

impl WakeLists {
    fn of(&self, worker: WorkerId) -> &WakeList {
        match self {
            Self::One(list) => list,
            Self::OfWorkers(lists) => &lists[worker.index()],
        }
    }
}

/// See the [module](self). One for each request that waits, and used again by later ones of the same thread.
pub(crate) struct Waiter {
    state: AtomicU8,
    /// The worker that the request gave away.
    worker: AtomicU32,
    /// The request that waits.
    request: AtomicU32,
    /// The waiter that came before, in the list.
    before: AtomicPtr<Waiter>,
    lists: WakeLists,
}

impl WakeList {
    pub(crate) fn new(bell: Arc<dyn Bell>) -> Self {
        Self { last: AtomicPtr::new(ptr::null_mut()), bell }
    }

    /// Rings the net thread's bell.
    pub(crate) fn ring(&self) {
        self.bell.ring();
    }

    fn push(&self, waiter: Arc<Waiter>) {
        let waiter = Arc::into_raw(waiter).cast_mut();
        let mut last = self.last.load(Ordering::Relaxed);
        loop {
            // SAFETY: the pointer holds a count of the waiter, which `take` gives back. Only the thread that found
            // the waiter blocked pushes it, and it is not blocked again before it was taken.
            unsafe { (*waiter).before.store(last, Ordering::Relaxed) };
            match self.last.compare_exchange(last, waiter, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => last = now,
            }
        }
        self.ring();
    }

    /// Whether a waiter is in the list.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        !self.last.load(Ordering::Relaxed).is_null()
    }

    /// As if a request that gave `worker` away were woken.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn put_woken(self: &Arc<Self>, worker: WorkerId, request: RequestId) {
        let waiter = Waiter::new(WakeLists::One(self.clone()));
        waiter.set_request(request, worker);
        self.push(Arc::new(waiter));
    }

    /// Takes all waiters, in the order in which they were woken, with the worker and the request of each.
    pub(crate) fn take(&self, mut each: impl FnMut(WorkerId, RequestId)) {
        if !self.has_any() {
            return;
        }
        let mut taken = self.last.swap(ptr::null_mut(), Ordering::Acquire);
        let mut next = ptr::null_mut();
        while !taken.is_null() {
            // SAFETY: `push` left a count with each pointer in the list, and the swap made this thread their owner.
            let before = unsafe { &(*taken).before };
            let then = before.load(Ordering::Relaxed);
            before.store(next, Ordering::Relaxed);
            next = std::mem::replace(&mut taken, then);
        }
        while !next.is_null() {
            // SAFETY: as above. The count is given back here, once.
            let waiter = unsafe { Arc::from_raw(next.cast_const()) };
            next = waiter.before.load(Ordering::Relaxed);
            let request = RequestId(waiter.request.load(Ordering::Relaxed));
            each(waiter.worker(), request);
        }
    }
}

impl Drop for WakeList {
    fn drop(&mut self) {
        self.take(|_, _| {});
    }
}

impl fmt::Debug for WakeList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WakeList").finish_non_exhaustive()
    }
}

impl Waiter {
    fn new(lists: WakeLists) -> Self {
        Self {
            state: AtomicU8::new(AWAKE),
            worker: AtomicU32::new(0),
            request: AtomicU32::new(0),
            before: AtomicPtr::new(ptr::null_mut()),
            lists,
        }
    }

    fn worker(&self) -> WorkerId {
        WorkerId(self.worker.load(Ordering::Relaxed))
    }

    /// The request that is about to give `worker` away. Ordered by the state against who wakes it.
    fn set_request(&self, request: RequestId, worker: WorkerId) {
        self.request.store(request.0, Ordering::Relaxed);
        self.worker.store(worker.0, Ordering::Relaxed);
    }

    /// The future is about to be polled. It will see whatever happened before the wakes up to now.
    pub(crate) fn begin_poll(&self) {
        self.state.swap(POLLING, Ordering::AcqRel);
    }

    /// The future is pending, and `request` is about to give `worker` away. `false` if it was woken since
    /// [`begin_poll`](Self::begin_poll): then it is polled again instead.
    pub(crate) fn block(&self, request: RequestId, worker: WorkerId) -> bool {
        self.set_request(request, worker);
        let (from, to) = (POLLING, BLOCKED);
        let exchanged = self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        exchanged.is_ok()
    }

    /// The request wants to be polled again, after others had the worker.
    pub(crate) fn block_awake(self: &Arc<Self>, request: RequestId, worker: WorkerId) {
        self.set_request(request, worker);
        self.state.swap(BLOCKED, Ordering::AcqRel);
        self.wake_by_ref();
    }

    /// Whether it was woken since [`begin_poll`](Self::begin_poll).
    pub(crate) fn is_awake(&self) -> bool {
        self.state.load(Ordering::Relaxed) == AWAKE
    }

    /// The wait is over: wakers that are left have no effect.
    pub(crate) fn end(&self) {
        self.state.swap(AWAKE, Ordering::AcqRel);
    }
}

impl Wake for Waiter {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // If the caller is a request that yielded in between, this one would wait for it.
        no_preempt(|| {
            if self.state.swap(AWAKE, Ordering::AcqRel) == BLOCKED {
                self.lists.of(self.worker()).push(self.clone());
            }
        });
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let request = self.request.load(Ordering::Relaxed);
        f.debug_struct("Waiter")
            .field("worker", &self.worker())
            .field("request", &request)
            .finish_non_exhaustive()
    }
}

/// The waiters of one thread: as many as its requests ever needed at once.
#[derive(Debug)]
pub(crate) struct Waiters {
    lists: WakeLists,
    unused: RefCell<Vec<Arc<Waiter>>>,
}

impl Waiters {
    /// Of requests that are woken through `lists`.
    pub(crate) fn new(lists: WakeLists) -> Self {
        Self { lists, unused: RefCell::default() }
    }

    pub(super) fn get(&self) -> Arc<Waiter> {
        let unused = self.unused.borrow_mut().pop();
        unused.unwrap_or_else(|| self.new_one())
    }

    /// A waiter that no waker knows.
    pub(super) fn new_one(&self) -> Arc<Waiter> {
        Arc::new(Waiter::new(self.lists.clone()))
    }

    pub(super) fn put(&self, waiter: Arc<Waiter>) {
        self.unused.borrow_mut().push(waiter);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Waker;

    use super::*;

    const WORKER: WorkerId = WorkerId(3);

    #[derive(Default)]
    struct Rings(AtomicUsize);

    impl Bell for Rings {
        fn ring(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn waiters() -> (Arc<Rings>, Waiters) {
        let bell = Arc::new(Rings::default());
        let list = Arc::new(WakeList::new(bell.clone()));
        (bell, Waiters::new(WakeLists::One(list)))
    }

    fn taken(waiters: &Waiters) -> Vec<u32> {
        let mut taken = Vec::new();
        waiters.lists.of(WORKER).take(|worker, request| {
            assert_eq!(worker, WORKER);
            taken.push(request.0);
        });
        taken
    }

    #[test]
    fn each_blocked_request_is_in_the_list_once_in_order_of_the_wakes() {
        let (bell, waiters) = waiters();
        let blocked: Vec<_> = (0..4).map(|_| waiters.get()).collect();
        let wakers: Vec<Waker> = blocked.iter().cloned().map(Waker::from).collect();
        wakers[0].wake_by_ref();
        assert!(taken(&waiters).is_empty(), "no request waits");
        for (request, waiter) in (10..).zip(&blocked) {
            waiter.begin_poll();
            assert!(waiter.block(RequestId(request), WORKER));
        }
        for index in [2, 0, 2, 3] {
            wakers[index].wake_by_ref();
        }
        assert_eq!(bell.0.load(Ordering::Relaxed), 3);
        assert_eq!(taken(&waiters), [12, 10, 13]);
        assert!(taken(&waiters).is_empty());
        wakers.into_iter().for_each(Waker::wake);
        assert_eq!(taken(&waiters), [11]);
    }

    #[test]
    fn a_wake_during_the_poll_or_after_the_wait_blocks_nothing() {
        let (bell, waiters) = waiters();
        let waiter = waiters.get();
        let waker = Waker::from(waiter.clone());
        waiter.begin_poll();
        waker.wake_by_ref();
        assert!(waiter.is_awake() && !waiter.block(RequestId(1), WORKER));
        waiter.begin_poll();
        waiter.end();
        waker.wake_by_ref();
        assert_eq!((taken(&waiters), bell.0.load(Ordering::Relaxed)), (vec![], 0));
        waiter.begin_poll();
        waiter.block_awake(RequestId(7), WORKER);
        assert_eq!(taken(&waiters), [7]);
    }

    #[test]
    fn a_request_is_woken_at_the_worker_where_it_blocked_last() {
        let list = || Arc::new(WakeList::new(Arc::new(Rings::default())));
        let lists: Arc<[_]> = Arc::new([list(), list()]);
        let waiters = Waiters::new(WakeLists::OfWorkers(lists.clone()));
        let waiter = waiters.get();
        for worker in [1, 0, 1].map(WorkerId) {
            waiter.begin_poll();
            assert!(waiter.block(RequestId(7), worker));
            waiter.wake_by_ref();
            let mut found = Vec::new();
            for (list, at) in lists.iter().zip(0..) {
                list.take(|worker, request| found.push((at, worker.0, request.0)));
            }
            assert_eq!(found, [(worker.0, worker.0, 7)]);
        }
    }

    #[test]
    fn a_waiter_is_used_again_and_those_in_a_dropped_list_are_freed() {
        let (_, waiters) = waiters();
        let first = waiters.get();
        let weak = Arc::downgrade(&first);
        waiters.put(first);
        let again = waiters.get();
        assert!(ptr::eq(&*again, weak.as_ptr()));
        again.begin_poll();
        again.block_awake(RequestId(0), WORKER);
        waiters.lists.of(WORKER).take(|_, _| {});
        drop((again, waiters));
        assert!(weak.upgrade().is_none());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::atomic::{AtomicBool, AtomicUsize};
    use loom::thread;

    use super::*;

    const WORKER: WorkerId = WorkerId(0);

    struct Silent;

    impl Bell for Silent {
        fn ring(&self) {}
    }

    /// A future that `waker` completes, polled by a request, and a net thread that resumes the request when it finds
    /// it in the list.
    fn polled_until_ready(wakers: usize) {
        let mut model = loom::model::Builder::new();
        // Without a bound, two wakers take minutes.
        model.preemption_bound = Some(3);
        model.check(move || {
            let list = Arc::new(WakeList::new(Arc::new(Silent)));
            let waiter = Arc::new(Waiter::new(WakeLists::One(list.clone())));
            let left = loom::sync::Arc::new(AtomicUsize::new(wakers));
            let threads: Vec<_> = (0..wakers)
                .map(|_| {
                    let (waiter, left) = (waiter.clone(), left.clone());
                    thread::spawn(move || {
                        left.fetch_sub(1, Ordering::Release);
                        waiter.wake();
                    })
                })
                .collect();
            loop {
                waiter.begin_poll();
                if left.load(Ordering::Acquire) == 0 {
                    break;
                }
                if waiter.block(RequestId(5), WORKER) {
                    let mut resumed = 0;
                    while resumed == 0 {
                        list.take(|_, request| {
                            assert_eq!(request, RequestId(5));
                            resumed += 1;
                        });
                        thread::yield_now();
                    }
                    assert_eq!(resumed, 1, "it is resumed once");
                }
            }
            waiter.end();
            for thread in threads {
                thread.join().unwrap();
            }
            list.take(|_, _| panic!("the wait is over"));
        });
    }

    #[test]
    fn no_wake_is_lost() {
        polled_until_ready(1);
    }

    #[test]
    fn two_wakers_at_once_resume_once() {
        polled_until_ready(2);
    }

    /// Two requests are woken at once by two threads, while the net thread takes the list.
    #[test]
    fn no_waiter_is_lost_from_the_list() {
        loom::model(|| {
            let list = Arc::new(WakeList::new(Arc::new(Silent)));
            let taken = loom::sync::Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
            let threads: Vec<_> = (0..2)
                .map(|request| {
                    let waiter = Arc::new(Waiter::new(WakeLists::One(list.clone())));
                    waiter.begin_poll();
                    assert!(waiter.block(RequestId(request), WORKER));
                    thread::spawn(move || waiter.wake())
                })
                .collect();
            let take = || {
                list.take(|_, request| {
                    let before = taken[request.0 as usize].swap(true, Ordering::Relaxed);
                    assert!(!before, "twice");
                });
            };
            take();
            for thread in threads {
                thread.join().unwrap();
            }
            take();
            assert!(taken.iter().all(|taken| taken.load(Ordering::Relaxed)));
        });
    }
}
