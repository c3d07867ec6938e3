//! What a pool is made of.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use psp_policy::{Policy, TypeSpec, TypeTable};

use crate::error::BuildError;
use crate::hand_off::{After, HandOffs};
use crate::pool::Pool;
use crate::shared::{Surroundings, Threads};
use crate::state::{Limits, State};

/// For how long workers look for more before they sleep, where there is a core to spare. Waking a thread on a core that
/// sleeps takes some ten microseconds.
const SPIN: Duration = Duration::from_micros(20);
/// Tasks that may be handed off for each worker.
const SPARES_PER_WORKER: usize = 8;

/// What a pool is made of. By default it has a worker for each core, the policy `drr`, under which no type waits long
/// for its turn, and queues of 1024 tasks for each type.
#[must_use]
pub struct Builder {
    types: TypeTable,
    policy: Policy,
    workers: usize,
    queue_capacity: usize,
    threads: Threads,
    spin: Option<Duration>,
    hand_off_after: After,
    spare_threads: Option<usize>,
    contexts_per_worker: usize,
    surroundings: Option<Surroundings>,
}

impl Pool {
    /// A pool with defaults, to change.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            types: TypeTable::new(),
            policy: Policy::drr(),
            workers: cores(),
            queue_capacity: 1024,
            threads: Threads {
                name: "psp-pool".to_owned(),
                nice: None,
                spin: Duration::ZERO,
            },
            spin: None,
            hand_off_after: After::ByLength,
            spare_threads: None,
            contexts_per_worker: 8,
            surroundings: None,
        }
    }
}

impl Builder {
    /// The types of tasks. The first is `RequestType::new(0)`. Tasks of other types are `UNKNOWN`.
    pub fn types(mut self, types: impl IntoIterator<Item = TypeSpec>) -> Self {
        self.types = types.into_iter().collect();
        self
    }

    /// The policy at the start.
    pub fn policy(mut self, policy: impl Into<Policy>) -> Self {
        self.policy = policy.into();
        self
    }

    /// The number of threads.
    pub const fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Tasks that may wait for each type that does not say otherwise, at least 1: each task waits at first, if only for
    /// a moment.
    pub const fn queue_capacity(mut self, tasks: usize) -> Self {
        self.queue_capacity = tasks;
        self
    }

    /// Threads are named `NAME-0`, `NAME-1` and so on. `psp-pool` by default.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.threads.name = name.into();
        self
    }

    /// The nice value of the threads, on Linux. By default it is that of the thread which builds the pool. With 19 they
    /// get what all other threads leave, those of other programs too: beside a busy one tasks take a hundred times as
    /// long.
    pub const fn nice(mut self, nice: i32) -> Self {
        self.threads.nice = Some(nice);
        self
    }

    /// A worker that has nothing to do looks for more for so long before it sleeps: 20 us by default if the machine has
    /// more cores than the pool has workers, and not at all otherwise. A task that comes meanwhile wakes no thread.
    pub const fn spin(mut self, time: Duration) -> Self {
        self.spin = Some(time);
        self
    }

    /// A task that has run for so long while others wait is handed off: another thread takes the worker's place, and
    /// the task ends on its own. So one task does not keep others waiting for much longer than this, at the cost of a
    /// thread that is started, and of one more thread that wants a processor. On Linux 6.12 and later that has a slice
    /// of 100 ms, so that workers run before it when they wake. With [`Duration::MAX`] tasks keep their workers.
    ///
    /// By default a task is handed off after a millisecond, or twice what a short task takes of the shortest type that
    /// waits if that is longer: tasks that are alike keep their workers. Policies that have tasks yield hand off none.
    ///
    /// A pool that hands off tasks has one more thread, which sleeps while nothing waits. A task that was handed off
    /// yields at no [`checkpoint`](crate::checkpoint()) any more.
    pub const fn hand_off_after(mut self, time: Duration) -> Self {
        self.hand_off_after = match time.as_nanos() {
            ns if ns > u64::MAX as u128 => After::Never,
            ns => After::Ns(ns as u64),
        };
        self
    }

    /// Most tasks that are handed off at a time: eight for each worker by default. With 0 tasks keep their workers.
    pub const fn spare_threads(mut self, threads: usize) -> Self {
        self.spare_threads = Some(threads);
        self
    }

    /// Most tasks for each worker that have yielded at a [`checkpoint`](crate::checkpoint()) and wait for their turns:
    /// 8 by default. Each of them keeps a thread. With 0 no task yields, and all policies run tasks to completion.
    ///
    /// While policies may preempt tasks, the pool has one more thread, which sleeps while no quantum ends.
    pub const fn contexts_per_worker(mut self, tasks: usize) -> Self {
        self.contexts_per_worker = tasks;
        self
    }

    /// Polls tasks within this runtime, so that they may use its timers and sockets.
    #[cfg(feature = "tokio")]
    pub fn tokio(mut self, runtime: tokio::runtime::Handle) -> Self {
        self.surroundings = Some(Box::new(move |poll| {
            let _within = runtime.enter();
            poll();
        }));
        self
    }

    /// Starts the pool.
    ///
    /// # Errors
    /// When there is no worker or no place in a queue, the policy does not fit, or the system has no thread.
    pub fn build(self) -> Result<Pool, BuildError> {
        if self.workers == 0 {
            return Err(BuildError::NoWorkers);
        }
        let of_types = self.types.specs().iter().map(|spec| spec.queue_capacity);
        if of_types.chain([Some(self.queue_capacity)]).any(|it| it == Some(0)) {
            return Err(BuildError::NoQueue);
        }
        let types = Arc::new(self.types);
        let spares = self.spare_threads.unwrap_or(SPARES_PER_WORKER.saturating_mul(self.workers));
        let hand_offs = HandOffs::new(self.hand_off_after, spares, types.len() + 1);
        let contexts = self.contexts_per_worker.saturating_mul(self.workers);
        let has_spare_core = cores() > self.workers;
        let by_default = if has_spare_core { SPIN } else { Duration::ZERO };
        let threads = Threads { spin: self.spin.unwrap_or(by_default), ..self.threads };
        let state = State::new(
            types.clone(),
            &self.policy,
            Limits {
                workers: self.workers,
                queue_capacity: self.queue_capacity,
                contexts,
            },
            hand_offs,
        )?;
        Ok(Pool::start(state, &self.policy, types, threads, self.surroundings)?)
    }
}

/// The cores that the process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("types", &self.types)
            .field("policy", &self.policy)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}
