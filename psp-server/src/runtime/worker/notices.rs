//! What workers tell the thread that started them: that they are ready, or why they died.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use psp_arbiter::ThreadId;
use psp_policy::WorkerId;

use crate::error::{RunError, WorkerFault};
use crate::shutdown::Shutdown;

/// How often a starting server looks at its shutdown.
const SHUTDOWN_INTERVAL: Duration = Duration::from_millis(20);

type Notice = (WorkerId, Result<ThreadId, WorkerFault>);

/// The receiver of what all workers of a server tell.
pub(crate) struct Notices {
    sender: Sender<Notice>,
    receiver: Receiver<Notice>,
    are_ready: Arc<AtomicBool>,
}

/// Tells of one worker.
#[derive(Clone)]
pub(crate) struct Notifier {
    worker: WorkerId,
    sender: Sender<Notice>,
    are_ready: Arc<AtomicBool>,
}

impl Notices {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::channel();
        Self { sender, receiver, are_ready: Arc::default() }
    }

    pub(crate) fn notifier(&self, worker: WorkerId) -> Notifier {
        Notifier {
            worker,
            sender: self.sender.clone(),
            are_ready: self.are_ready.clone(),
        }
    }

    /// Waits until so many workers are ready, or until `shutdown` is triggered. Returns the threads of those that are,
    /// in the order of workers.
    ///
    /// # Errors
    /// When a worker dies instead.
    pub(crate) fn wait_until_ready(&self, workers: usize, shutdown: &Shutdown) -> Result<Vec<ThreadId>, RunError> {
        let mut ready = Vec::with_capacity(workers);
        while ready.len() < workers && !shutdown.is_triggered() {
            match self.receiver.recv_timeout(SHUTDOWN_INTERVAL) {
                Ok((worker, Ok(thread))) => ready.push((worker, thread)),
                Ok((worker, Err(fault))) => return Err(start_error(worker, fault)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
        self.are_ready.store(true, Ordering::Relaxed);
        ready.sort_unstable_by_key(|&(worker, _)| worker.index());
        Ok(ready.into_iter().map(|(_, thread)| thread).collect())
    }

    /// Why the first worker died, if one did since all were ready.
    pub(crate) fn death(&self) -> Option<RunError> {
        self.receiver.try_iter().find_map(|(worker, notice)| {
            let fault = notice.err()?;
            Some(death_error(worker, fault))
        })
    }
}

impl Notifier {
    /// The worker can take requests. To be called once, on its thread.
    pub(crate) fn ready(&self) {
        self.send(Ok(ThreadId::current()));
    }

    pub(crate) fn died(&self, fault: WorkerFault) {
        // Before that, the caller of `Server::run` gets the error at once.
        if self.are_ready.load(Ordering::Relaxed) {
            tracing::error!(worker = self.worker.0, %fault, "a worker died; stopping");
        }
        self.send(Err(fault));
    }

    fn send(&self, notice: Result<ThreadId, WorkerFault>) {
        // Nothing receives notices after the server has returned.
        let _ = self.sender.send((self.worker, notice));
    }
}

/// A worker that dies before all are ready.
pub(crate) fn start_error(worker: WorkerId, fault: WorkerFault) -> RunError {
    let worker = worker.index();
    RunError::WorkerStart { worker, fault }
}

/// A worker that dies later.
pub(crate) fn death_error(worker: WorkerId, fault: WorkerFault) -> RunError {
    let worker = worker.index();
    RunError::WorkerDied { worker, fault }
}

/// The fault of a worker that panicked: what it panicked with, if that is a fault or a text.
pub(crate) fn fault_of(payload: Box<dyn Any + Send>) -> WorkerFault {
    let payload = match payload.downcast::<WorkerFault>() {
        Ok(fault) => return *fault,
        Err(payload) => payload,
    };
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    WorkerFault::Panicked(text.unwrap_or("with a value that is no text").to_owned())
}
