//! What each thread of a worker starts with, and starting it.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use psp_policy::WorkerId;
use psp_protocols::Framing;

use super::executor::{Executor, Sending};
use super::notices::{Notifier, fault_of};
use crate::error::{RunError, WorkerFault};
use crate::fiber::{Timers, WakeList};
use crate::guarded_framing::GuardedFraming;
use crate::handler::Handler;
use crate::runtime::host::clock::Clock;
use crate::runtime::host::cores::Cores;
use crate::runtime::host::scheduling::{Background, lower_priority};
use crate::shared::Shared;

/// See the [module](self).
pub(crate) struct WorkerSetup<F, H> {
    pub(crate) worker: WorkerId,
    pub(crate) notifier: Notifier,
    pub(crate) handler: Arc<H>,
    pub(crate) framing: Arc<GuardedFraming<F>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) clock: Clock,
    /// Where requests that wait are woken.
    pub(crate) wakes: Arc<WakeList>,
    pub(crate) timers: Arc<Timers>,
    /// How long an idle worker polls before it sleeps.
    pub(crate) spin: Duration,
    pub(crate) cores: Cores,
    /// Index of the worker's core.
    pub(crate) core_index: usize,
    /// Threads of the server that would have a core each.
    pub(crate) threads: usize,
    /// Whether threads share cores instead, and the worker yields to the net thread.
    pub(crate) background: bool,
}

impl<F: Framing, H: Handler<F::Head>> WorkerSetup<F, H> {
    fn step_back(&self) {
        let config = &self.shared.config;
        let (nice, slice_us) = (config.background_nice, config.background_slice_us);
        lower_priority(Background::new(nice, slice_us));
    }

    /// Tells the kernel how the calling thread, the worker's only one, shares its core.
    pub(crate) fn apply_scheduling(&self) {
        if self.background {
            self.step_back();
        } else {
            self.cores.pin(self.core_index, self.threads);
        }
    }

    /// The same for a thread of a team: it stays on the team's core in any case.
    pub(crate) fn apply_team_scheduling(&self) {
        if self.background {
            self.step_back();
        }
        self.cores.pin_shared(self.core_index);
    }

    /// The same for a thread that runs requests of this worker and others: it is pinned with each turn, if the workers
    /// are.
    pub(crate) fn apply_request_thread_scheduling(&self) {
        if self.background {
            self.step_back();
        }
    }

    /// Starts a thread of the worker. If the worker dies, the task that it holds is lost. Then the server stops
    /// with an error: better than a server that answers some requests and not others.
    ///
    /// # Errors
    /// When the system has no thread.
    pub(crate) fn spawn(
        &self,
        name: String,
        life: impl FnOnce(&Self) -> Result<(), WorkerFault> + Send + 'static,
    ) -> Result<JoinHandle<()>, RunError> {
        let setup = self.clone();
        let body = move || {
            let fault = match catch_unwind(AssertUnwindSafe(|| life(&setup))) {
                Ok(Ok(())) => return,
                Ok(Err(fault)) => fault,
                Err(payload) => fault_of(payload),
            };
            setup.notifier.died(fault);
            setup.shared.shutdown.trigger();
        };
        let thread = std::thread::Builder::new().name(name.clone()).spawn(body);
        thread.map_err(|source| RunError::Thread { name, source })
    }

    /// An executor for the calling thread. It takes `away_ns` off its measurements.
    ///
    /// # Errors
    /// When the handler cannot make the worker's state.
    pub(crate) fn executor(&self, sending: Sending, away_ns: Rc<Cell<u64>>) -> Result<Executor<F, H>, WorkerFault> {
        self.executor_of(Rc::new(Cell::new(self.worker)), sending, away_ns)
    }

    /// The same of a thread whose runs move: `worker` says where they are.
    ///
    /// # Errors
    /// When the handler cannot make the worker's state.
    pub(crate) fn executor_of(
        &self,
        worker: Rc<Cell<WorkerId>>,
        sending: Sending,
        away_ns: Rc<Cell<u64>>,
    ) -> Result<Executor<F, H>, WorkerFault> {
        Executor::new(
            worker,
            self.handler.clone(),
            self.framing.clone(),
            self.shared.clone(),
            self.clock.clone(),
            sending,
            away_ns,
        )
    }
}

impl<F, H> Clone for WorkerSetup<F, H> {
    fn clone(&self) -> Self {
        Self {
            worker: self.worker,
            notifier: self.notifier.clone(),
            handler: self.handler.clone(),
            framing: self.framing.clone(),
            shared: self.shared.clone(),
            clock: self.clock.clone(),
            wakes: self.wakes.clone(),
            timers: self.timers.clone(),
            spin: self.spin,
            cores: self.cores.clone(),
            core_index: self.core_index,
            threads: self.threads,
            background: self.background,
        }
    }
}
