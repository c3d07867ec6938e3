//! Log lines on their way to standard error, which may be a pipe whose reader has stopped.
//!
//! ```text
//!   any thread ── line ──► queue of 1 MiB ──► psp-log ──► standard error
//!                  └─ no room: dropped, counted   └─ says in place of the missing lines how many they are
//! ```
//!
//! Only `psp-log` waits for the reader. The end of the program waits for `psp-log`, for a second at most.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, Write};
use std::panic;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Builder};
use std::time::Duration;

use psp_server::telemetry::count_dropped_log_lines;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

const NAME: &str = "psp-log";
const QUEUED_BYTES_MAX: usize = 1 << 20;
/// How long the end of the program waits for the reader.
const END_TIME_MAX: Duration = Duration::from_secs(1);
/// How long a panic, which may be the end of the program, waits for the reader.
const PANIC_TIME_MAX: Duration = Duration::from_millis(100);

/// The queue of the process.
static OF_PROCESS: OnceLock<LogQueue> = OnceLock::new();

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct LogQueue {
    entries: Sender<Entry>,
    state: Arc<State>,
}

#[derive(Debug)]
struct Entry {
    /// Lines that were dropped before this one.
    missing: u64,
    text: Box<[u8]>,
    /// Who waits until all this is written.
    done: Option<Sender<()>>,
}

#[derive(Debug, Default)]
struct State {
    queued_bytes: AtomicUsize,
    /// Lines that were dropped, and that the log has not told yet.
    missing: AtomicU64,
    /// A panic has waited in vain, and nothing was written since.
    is_stuck: AtomicBool,
}

impl LogQueue {
    /// Starts the queue of the process, which takes the messages of panics, too.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub(crate) fn start() -> io::Result<&'static Self> {
        let queue = Self::to(StandardError)?;
        let queue = OF_PROCESS.get_or_init(|| queue);
        panic::set_hook(Box::new(|panicked| queue.report(panicked)));
        Ok(queue)
    }

    fn to(sink: impl Write + Send + 'static) -> io::Result<Self> {
        let (entries, queued) = mpsc::channel();
        let state = Arc::new(State::default());
        let of_thread = state.clone();
        Builder::new().name(NAME.into()).spawn(move || of_thread.write(&queued, sink))?;
        Ok(Self { entries, state })
    }

    fn push(&self, text: &[u8]) {
        let state = &self.state;
        let queued = state.queued_bytes.fetch_add(text.len(), Ordering::Relaxed);
        if queued + text.len() > QUEUED_BYTES_MAX {
            state.queued_bytes.fetch_sub(text.len(), Ordering::Relaxed);
            return state.drop_line();
        }
        self.send(text, None);
    }

    fn send(&self, text: &[u8], done: Option<Sender<()>>) {
        // The thread is there as long as the queue.
        let _ = self.entries.send(Entry {
            missing: self.state.missing.swap(0, Ordering::Relaxed),
            text: text.into(),
            done,
        });
    }

    /// Waits until all lines are written, for `time_max` at most. Returns whether they are.
    fn flush(&self, time_max: Duration) -> bool {
        let (done, written) = mpsc::channel();
        self.send(&[], Some(done));
        written.recv_timeout(time_max).is_ok()
    }

    /// Logs a panic as the standard library would print it.
    fn report(&self, panicked: &panic::PanicHookInfo<'_>) {
        let thread = thread::current();
        let name = thread.name().unwrap_or("<unnamed>");
        let mut text = format!("thread '{name}' {panicked}\n");
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            text = format!("{text}{backtrace}\n");
        }
        self.push(text.as_bytes());
        // Some panics abort the process; all others wait once for a reader that has stopped.
        let is_stuck = &self.state.is_stuck;
        if !is_stuck.load(Ordering::Relaxed) && !self.flush(PANIC_TIME_MAX) {
            is_stuck.store(true, Ordering::Relaxed);
        }
    }
}

/// A write is a line.
impl Write for &LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl State {
    fn drop_line(&self) {
        self.missing.fetch_add(1, Ordering::Relaxed);
        count_dropped_log_lines(1);
    }

    /// Writes what comes until the queue is dropped.
    fn write(&self, queued: &Receiver<Entry>, mut sink: impl Write) {
        loop {
            let next = match queued.try_recv() {
                Err(TryRecvError::Empty) => {
                    self.tell_missing(&mut sink, self.missing.swap(0, Ordering::Relaxed));
                    queued.recv().ok()
                }
                other => other.ok(),
            };
            let Some(Entry { missing, text, done }) = next else {
                return;
            };
            self.tell_missing(&mut sink, missing);
            match sink.write_all(&text) {
                Ok(()) => self.is_stuck.store(false, Ordering::Relaxed),
                Err(_) => self.drop_line(),
            }
            self.queued_bytes.fetch_sub(text.len(), Ordering::Relaxed);
            // Who waits may have given up.
            let _ = done.map(|done| done.send(()));
        }
    }

    fn tell_missing(&self, sink: &mut impl Write, missing: u64) {
        if missing == 0 {
            return;
        }
        let mut line = String::new();
        // Without the time, the line is still worth reading.
        let _ = SystemTime.format_time(&mut Writer::new(&mut line));
        line.push_str(&format!(
            "  WARN psp_program::log_queue: {missing} lines are missing here: who reads this log is too slow\n"
        ));
        if sink.write_all(line.as_bytes()).is_err() {
            self.missing.fetch_add(missing, Ordering::Relaxed);
        }
    }
}

/// Prints `line` to standard error, behind all lines of the log.
pub(crate) fn print_error(line: &str) {
    match OF_PROCESS.get() {
        Some(queue) => queue.push(line.as_bytes()),
        None => eprint!("{line}"),
    }
}

/// The end of a program, be it a return or a panic: dropped, it waits for the reader of the log.
pub(crate) struct FlushAtEnd;

impl Drop for FlushAtEnd {
    fn drop(&mut self) {
        if let Some(queue) = OF_PROCESS.get() {
            queue.flush(END_TIME_MAX);
        }
    }
}

/// Standard error without the lock of [`io::stderr`], for which other threads would wait.
struct StandardError;

impl Write for StandardError {
    /// Waits for room, even in a pipe that somebody has made non-blocking.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let stderr = io::stderr();
        loop {
            match rustix::io::write(&stderr, bytes) {
                Err(Errno::AGAIN) => {
                    poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], None)?;
                }
                written => return Ok(written?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A pipe whose reader reads when the test says so: the writer waits for a permit for each write.
    struct Pipe {
        permits: Receiver<()>,
        written: Arc<Mutex<Vec<String>>>,
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // When the test has dropped its end, all may be written.
            let _ = self.permits.recv();
            let line = String::from_utf8_lossy(bytes).into_owned();
            self.written.lock().unwrap().push(line);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_find_no_room_are_told_where_they_are_missing() {
        let (permit, permits) = mpsc::channel();
        let written = Arc::default();
        let pipe = Pipe { permits, written: Arc::clone(&written) };
        let queue = LogQueue::to(pipe).unwrap();
        let long = "x".repeat(QUEUED_BYTES_MAX / 4);
        for _ in 0..7 {
            queue.push(long.as_bytes());
        }
        assert!(!queue.flush(Duration::from_millis(10)), "no thread reads");
        permit.send(()).unwrap();
        while queue.state.queued_bytes.load(Ordering::Relaxed) == QUEUED_BYTES_MAX {
            thread::yield_now();
        }
        queue.push(b"after");
        queue.push(long.as_bytes());
        drop(permit);
        assert!(queue.flush(Duration::from_secs(30)));
        let written = written.lock().unwrap();
        let told: Vec<&str> = { written.iter() }
            .map(|line| match line.split_once(" lines are missing") {
                Some((before, _)) => before.rsplit(' ').next().unwrap(),
                None if line.starts_with('x') => "x",
                None => line,
            })
            .collect();
        assert_eq!(told, ["x", "x", "x", "x", "3", "after", "1"]);
    }
}
