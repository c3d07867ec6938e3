//! Threads, as the kernel numbers them.

use std::fmt;

use rustix::thread::Pid;

/// A kernel thread, by the number that Linux gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(i32);

impl ThreadId {
    /// The calling thread.
    #[must_use]
    pub fn current() -> Self {
        Self(rustix::thread::gettid().as_raw_nonzero().get())
    }

    /// The thread with this number, which is positive.
    #[must_use]
    pub fn new(number: i32) -> Option<Self> {
        (number > 0).then_some(Self(number))
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> i32 {
        self.0
    }

    pub(crate) fn to_pid(self) -> Option<Pid> {
        Pid::from_raw(self.0)
    }

    /// Whether it is a thread of `process`, in the eyes of this process.
    pub(crate) fn is_of(self, process: i32) -> bool {
        std::fs::metadata(format!("/proc/{process}/task/{self}")).is_ok()
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
