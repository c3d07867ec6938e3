//! The thread that saves and loads, so that no request does.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::scripts::control::STACK_BYTES_MIN;
use crate::state::ServerState;

/// Time between two looks at the save points.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// What the thread does.
pub(super) type Job = Box<dyn FnOnce(&ServerState) + Send>;

/// Saves and loads, until it is [ended](Self::end).
#[derive(Debug)]
pub struct Saver {
    server: Arc<ServerState>,
    thread: Option<JoinHandle<()>>,
}

impl Saver {
    /// Starts the thread. It has the weight of any other: it holds locks of shards and of the allocator.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(server: Arc<ServerState>) -> io::Result<Self> {
        let (jobs, taken) = channel::<Job>();
        *server.persistence.jobs.lock() = Some(jobs);
        let served = Arc::clone(&server);
        let serve = move || {
            loop {
                // Who waits for a job that panics hears of it. The hook has reported the panic.
                let _panicked = match taken.recv_timeout(LOOK_INTERVAL) {
                    Ok(job) => catch_unwind(AssertUnwindSafe(|| job(&served))),
                    Err(RecvTimeoutError::Timeout) => {
                        catch_unwind(AssertUnwindSafe(|| served.persistence.save_if_due(&served)))
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                };
            }
        };
        // Libraries of functions run on it.
        let thread = thread::Builder::new().name("psp-saver".to_owned()).stack_size(STACK_BYTES_MIN);
        let thread = thread.spawn(serve)?;
        Ok(Self { server, thread: Some(thread) })
    }

    /// Ends the thread. Saves what there is if save points or SHUTDOWN say so: no client is served any more.
    ///
    /// # Errors
    /// The file that the server began with could not be loaded, or the save failed.
    pub fn end(mut self) -> anyhow::Result<()> {
        self.stop();
        self.server.persistence.end(&self.server)
    }

    fn stop(&mut self) {
        self.server.persistence.stop();
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        self.stop();
    }
}
