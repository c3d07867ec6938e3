//! Waiting: a request polls a future on its own context, and gives its worker away while the future is pending.
//!
//! ```text
//!   begin_poll ─► poll ─► ready ─► end
//!       ▲          │ pending
//!       │          ▼
//!       └─ woken ─ block ── the worker reports Blocked; others run ── the request's next turn ──┐
//!       └──────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A poll is code of the handler: it may be preempted, and wait itself. What is done here between polls is not.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread::Thread;

use psp_policy::{RequestId, WorkerId};

use super::helpers::Helpers;
use super::thread_state::{self, Kept};
use super::timers::Timers;
use super::waiter::{Waiter, Waiters};

thread_local! {
    /// `None` on threads that run no requests.
    static WAITING: Cell<Option<&'static dyn Waiting>> = const { Cell::new(None) };
}

/// Calls its argument, once.
pub(crate) type Surroundings = dyn Fn(&mut dyn FnMut()) + Send + Sync;

/// A thread whose requests can wait.
pub(crate) trait Waiting {
    /// The waiters of this thread's requests.
    fn waiters(&self) -> &Waiters;

    /// The timers of the server.
    fn timers(&self) -> &Arc<Timers>;

    /// What each poll runs within, such as the context of a runtime.
    fn surroundings(&self) -> Option<&Surroundings>;

    /// Whether another request could have the worker, if this one blocked now. Makes that possible if it can.
    fn can_block(&self) -> bool;

    /// Called on the stack of a request that waits, if it [can block](Self::can_block). `block` is called with the
    /// request and its worker before that is given away, and says whether it shall be. Returns at once if not, and
    /// otherwise when the request's next turn has begun. A thread of the request's own calls `meanwhile` without the
    /// worker.
    fn block(&self, block: &dyn Fn(RequestId, WorkerId) -> bool, meanwhile: &mut dyn FnMut());

    /// The threads that run what blocks in the kernel. `None` if requests have threads of their own.
    fn helpers(&self) -> Option<&Arc<Helpers>>;
}

/// Where a call runs that blocks in the kernel.
pub(crate) enum Aside {
    /// Where it is called: the worker cannot be given away.
    Here,
    /// On the request's own thread, [without the worker](without_worker).
    OwnThread(&'static dyn Waiting),
    /// On a helper, for which the request waits.
    Helpers(Arc<Helpers>),
}

/// Where a call runs that blocks the calling thread in the kernel.
pub(crate) fn aside() -> Aside {
    match WAITING.get().filter(|_| thread_state::may_wait()) {
        None => Aside::Here,
        Some(waiting) => match waiting.helpers() {
            Some(helpers) => Aside::Helpers(helpers.clone()),
            None => Aside::OwnThread(waiting),
        },
    }
}

/// Runs `work`, which does not panic, on the request's own thread, without the worker. Returns `false` if the worker
/// cannot be given away: `work` has not run.
pub(crate) fn without_worker(waiting: &'static dyn Waiting, work: &mut dyn FnMut()) -> bool {
    // Wakers of an earlier wait would end this one early.
    let waiter = waiting.waiters().new_one();
    waiter.begin_poll();
    let kept = Kept::take();
    let can_block = waiting.can_block();
    if can_block {
        waiting.block(&|request, worker| waiter.block(request, worker), &mut || {
            // Waits within park the thread.
            thread_state::no_preempt(&mut *work);
            waiter.wake_by_ref();
        });
    }
    kept.restore();
    can_block
}

/// Runs `body`, a worker's whole life, on this thread. `waiting` says how its requests wait.
pub(crate) fn let_wait<T>(waiting: &dyn Waiting, body: impl FnOnce() -> T) -> T {
    /// Forgets the object before it is gone.
    struct Forget;

    impl Drop for Forget {
        fn drop(&mut self) {
            WAITING.set(None);
        }
    }

    // SAFETY: the reference is used by this thread only, while `body` runs, and `Forget` takes it away when that
    // returns or unwinds. A request that waits keeps it on its context, which is resumed in `body` or never.
    let waiting = unsafe { std::mem::transmute::<&dyn Waiting, &'static dyn Waiting>(waiting) };
    WAITING.set(Some(waiting));
    let _forget = Forget;
    body()
}

/// Calls `poll` until it returns `true`. Between two calls the waker of its argument was woken; other requests have
/// the worker meanwhile. On threads that cannot give a worker away, the thread parks instead.
pub(crate) fn wait_until(poll: &mut dyn FnMut(&mut Context<'_>) -> bool) {
    match WAITING.get() {
        Some(waiting) if thread_state::may_wait() => wait_on(waiting, poll),
        waiting => park_until(waiting, poll),
    }
}

/// Polls within what the server asks for. Its surroundings belong to the thread, so that the request may not yield
/// within.
fn poll_within(waiting: Option<&'static dyn Waiting>, mut poll: impl FnMut() -> bool) -> bool {
    match waiting.and_then(Waiting::surroundings) {
        None => poll(),
        Some(surroundings) => thread_state::no_preempt(|| {
            let mut is_ready = false;
            surroundings(&mut || is_ready = poll());
            is_ready
        }),
    }
}

/// Whether requests of a server run on the calling thread.
pub(crate) fn is_worker() -> bool {
    WAITING.get().is_some()
}

/// The timers of the server whose worker the calling thread is, or those of other threads.
pub(crate) fn timers() -> Arc<Timers> {
    match WAITING.get() {
        Some(waiting) => waiting.timers().clone(),
        None => Timers::of_no_server(),
    }
}

/// A wait that ends when it is dropped, also when a poll panics.
struct Wait {
    waiting: &'static dyn Waiting,
    waiter: Arc<Waiter>,
}

impl Wait {
    fn begin(waiting: &'static dyn Waiting) -> Self {
        let waiter = thread_state::no_preempt(|| waiting.waiters().get());
        Self { waiting, waiter }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.waiter.end();
        thread_state::no_preempt(|| self.waiting.waiters().put(self.waiter.clone()));
    }
}

fn wait_on(waiting: &'static dyn Waiting, poll: &mut dyn FnMut(&mut Context<'_>) -> bool) {
    let wait = Wait::begin(waiting);
    let waiter = &wait.waiter;
    let waker = Waker::from(waiter.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        waiter.begin_poll();
        if poll_within(Some(waiting), || poll(&mut context)) {
            return;
        }
        if !give_away(waiting, waiter) {
            drop(wait);
            return park_until(Some(waiting), poll);
        }
    }
}

/// Gives the worker away until the request was woken. A request whose poll woke it lets others have the worker, too.
/// Returns `false` if the worker cannot be given away.
fn give_away(waiting: &'static dyn Waiting, waiter: &Arc<Waiter>) -> bool {
    let kept = Kept::take();
    let can_block = waiting.can_block();
    if can_block {
        waiting.block(
            &|request, worker| {
                if waiter.is_awake() {
                    waiter.block_awake(request, worker);
                    return true;
                }
                waiter.block(request, worker)
            },
            &mut || {},
        );
    }
    kept.restore();
    can_block
}

/// Wakes a thread. Its token alone is not enough: other code of the thread may use it up.
struct Alarm {
    thread: Thread,
    rang: AtomicBool,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rang.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Parks the thread between polls. If it is a net thread, no other thread wakes the timers.
fn park_until(waiting: Option<&'static dyn Waiting>, poll: &mut dyn FnMut(&mut Context<'_>) -> bool) {
    let alarm = Arc::new(Alarm { thread: std::thread::current(), rang: AtomicBool::new(false) });
    let waker = Waker::from(alarm.clone());
    let mut context = Context::from_waker(&waker);
    thread_state::no_preempt(|| {
        while !poll_within(waiting, || poll(&mut context)) {
            while !alarm.rang.swap(false, Ordering::Acquire) {
                let timers = waiting.map(Waiting::timers);
                match timers.and_then(|timers| timers.until_first()) {
                    Some(left) => std::thread::park_timeout(left),
                    None => std::thread::park(),
                }
                if let Some(timers) = timers {
                    timers.wake_due();
                }
            }
        }
    });
}
