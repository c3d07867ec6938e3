//! A timer that signals a worker once more, for a request that was asked to give way before its turn
//! had begun.
//!
//! A quantum runs from when the dispatcher sent the request. On a busy machine a worker may wake later
//! than that; a request that gave way at once would never get on. It runs for [`TURN_NS_MIN`] instead.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::{io, mem, ptr};

use super::handler::signal;

/// Least time that a request has which is preempted by a signal, in nanoseconds.
const TURN_NS_MIN: i64 = 50_000;

/// One worker's timer. It belongs to the thread that made it.
pub(crate) struct Reminder {
    timer: libc::timer_t,
    /// Not `Send`: the timer signals the thread that it was made for.
    _thread: PhantomData<*const ()>,
}

impl Reminder {
    /// Makes a timer for the calling thread.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the structures are plain data, for which zeroes are valid, and live until the call returns;
        // the kernel fills `timer` in.
        unsafe {
            let mut event: libc::sigevent = mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal();
            event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
            let mut timer: libc::timer_t = mem::zeroed();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Self {
                timer,
                _thread: PhantomData,
            })
        }
    }

    /// Has the signal sent in [`TURN_NS_MIN`], once.
    pub(crate) fn arm(&self) {
        // SAFETY: the timer exists until `self` is dropped, and the setting until the call returns.
        unsafe {
            let mut setting: libc::itimerspec = mem::zeroed();
            setting.it_value.tv_nsec = TURN_NS_MIN;
            libc::timer_settime(self.timer, 0, &raw const setting, ptr::null_mut());
        }
    }
}

impl Drop for Reminder {
    fn drop(&mut self) {
        // SAFETY: the timer was made in `new` and is deleted here alone.
        unsafe { libc::timer_delete(self.timer) };
    }
}
