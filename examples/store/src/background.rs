//! Code that the background threads share.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Nice value of background threads: they run only on time that no other thread wants.
const NICE: i32 = 19;

/// Gives the calling thread the lowest weight. A failure costs latency and nothing else.
pub(crate) fn lower_priority() {
    // On Linux the call applies to the calling thread alone, not to its process.
    let _kept_priority = rustix::process::setpriority_process(None, NICE);
}

/// A thread of the lowest priority that repeats a task. It ends when this value is dropped.
#[derive(Debug)]
pub struct Periodic {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Periodic {
    /// Starts a thread called `name`. The thread runs `task`, waits for `pause`, and repeats.
    ///
    /// # Errors
    /// The system refuses to start a thread.
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
            // The panic hook has already reported the thread's panic.
            let _panicked = thread.join();
        }
    }
}
