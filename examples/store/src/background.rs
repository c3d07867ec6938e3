//! Code that the background threads share.
//!
//! They have the weight of any other thread. They hold locks of shards, and of the allocator: a thread of less weight
//! that loses its core meanwhile gets none for seconds beside busy programs, and a net thread that needs the lock waits
//! as long.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A thread that repeats a task. It ends when this value is dropped.
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
    pub fn start(name: &str, pause: Duration, mut task: impl FnMut() + Send + 'static) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                task();
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_task_has_ended_when_its_thread_is_dropped() {
        let ends = Arc::new(AtomicBool::new(true));
        let (tell, told) = channel();
        let task = {
            let ends = Arc::clone(&ends);
            move || {
                ends.store(false, Ordering::SeqCst);
                let _has_ended = tell.send(());
                thread::sleep(Duration::from_millis(20));
                ends.store(true, Ordering::SeqCst);
            }
        };
        let thread = Periodic::start("psp-test", Duration::ZERO, task).unwrap();
        told.recv().unwrap();
        drop(thread);
        assert!(ends.load(Ordering::SeqCst));
    }

    #[test]
    fn a_background_thread_has_the_weight_of_others() {
        // On Linux this is of the calling thread alone.
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let (tell, told) = channel();
        let _thread = Periodic::start("psp-test", Duration::ZERO, move || {
            let _has_ended = tell.send(nice());
        });
        assert_eq!(told.recv().unwrap(), nice());
    }
}
