//! The system has no timer that is a descriptor.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::shared_alarm::Countdown;

/// There is none.
#[derive(Debug)]
pub(crate) enum TimerFd {}

impl TimerFd {
    pub(crate) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Countdown for TimerFd {
    fn start(&self, _in_ns: u64) -> io::Result<()> {
        match *self {}
    }

    fn clear(&self) {
        match *self {}
    }
}

impl AsFd for TimerFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match *self {}
    }
}
