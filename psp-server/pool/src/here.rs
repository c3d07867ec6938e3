//! What the calling thread does for a pool.

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::{Arc, Weak};

use psp_policy::WorkerId;

use crate::job::Job;
use crate::pool_thread::PoolThread;
use crate::shared::Shared;
use crate::state::Polled;

thread_local! {
    static HERE: OnceCell<Here> = const { OnceCell::new() };
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Here {
    pub(crate) shared: Weak<Shared>,
    pub(crate) thread: Arc<PoolThread>,
    /// The worker that the thread serves, or served last.
    pub(crate) worker: Cell<WorkerId>,
    pub(crate) polled: Cell<Option<Polled>>,
    /// The task that is polled.
    pub(crate) job: RefCell<Option<Arc<Job>>>,
    /// For how long its tasks have been suspended, in sum.
    pub(crate) suspended_ns: Cell<u64>,
}

impl Here {
    /// The calling thread is `thread`. Lives its life, which serves `worker` at first.
    pub(crate) fn live<T>(shared: &Arc<Shared>, thread: Arc<PoolThread>, life: impl FnOnce(&Self) -> T) -> T {
        let shared = Arc::downgrade(shared);
        HERE.with(|here| {
            life(here.get_or_init(|| Self {
                shared,
                thread,
                worker: Cell::new(WorkerId(0)),
                polled: Cell::new(None),
                job: RefCell::new(None),
                suspended_ns: Cell::new(0),
            }))
        })
    }

    /// Whether a task on the calling thread shall yield.
    #[inline]
    pub(crate) fn is_asked() -> bool {
        let is_asked = |here: &OnceCell<Self>| here.get().is_some_and(|it| it.thread.is_asked());
        HERE.try_with(is_asked).unwrap_or(false)
    }

    /// Does something with what the calling thread does, if that is for a pool.
    pub(crate) fn with<T>(act: impl FnOnce(&Self) -> T) -> Option<T> {
        HERE.try_with(|here| here.get().map(act)).ok().flatten()
    }
}
