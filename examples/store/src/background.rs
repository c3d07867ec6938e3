//! What threads in the background have in common.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Nice value of background threads: they run when nothing else wants to.
const NICE: i32 = 19;

/// Gives the calling thread the lowest weight. Failure to do so costs latency, nothing else.
pub(crate) fn lower_priority() {
    // On Linux the calling thread alone is meant, not its process.
    let _kept_priority = rustix::process::setpriority_process(None, NICE);
}

/// A thread of the lowest priority that does something again and again. It ends when this is
/// dropped.
#[derive(Debug)]
pub struct Periodic {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Periodic {
    /// Starts a thread called `name` that runs `task`, waits for `pause`, and so on.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn start(
        name: &str,
        pause: Duration,
        mut task: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                lower_priority();
                while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                    task();
                }
            })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Periodic {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Its panic has been reported by the panic hook.
            let _panicked = thread.join();
        }
    }
}
