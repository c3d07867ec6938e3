//! What the pool asks of the system: how much of the processor threads get.

#[cfg(target_os = "linux")]
mod linux {
    /// The nice value of threads that have been relieved.
    const NICE_MAX: i32 = 19;

    pub(crate) type Thread = rustix::process::Pid;

    pub(crate) fn this_thread() -> Thread {
        rustix::thread::gettid()
    }

    /// A thread gets what others leave. It cannot be undone without a privilege.
    pub(crate) fn lower_priority(thread: Thread) {
        // Who may make threads may do this.
        let _ = rustix::process::setpriority_process(Some(thread), NICE_MAX);
    }

    /// Sets the nice value of the calling thread.
    pub(crate) fn set_nice(nice: i32) {
        let _ = rustix::process::setpriority_process(None, nice);
    }
}

/// Elsewhere nice values are those of processes: nothing is done.
#[cfg(not(target_os = "linux"))]
mod other {
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Thread;

    pub(crate) const fn this_thread() -> Thread {
        Thread
    }

    pub(crate) const fn lower_priority(_thread: Thread) {}

    pub(crate) const fn set_nice(_nice: i32) {}
}

#[cfg(target_os = "linux")]
pub(crate) use linux::{Thread, lower_priority, set_nice, this_thread};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{Thread, lower_priority, set_nice, this_thread};
