//! What the pool asks of the system: how much of the processor threads get, and when. `unsafe` is for `sched_setattr`,
//! which no safe library offers.

#![allow(unsafe_code)]

/// The nice value of threads that get what others leave.
pub(crate) const NICE_MAX: i32 = 19;
/// No thread has this number.
pub(crate) const NO_THREAD: i32 = 0;
/// The slice of a thread that has stepped back: the longest that the kernel has.
#[cfg(target_os = "linux")]
const LONG_SLICE_NS: u64 = 100_000_000;
/// `SCHED_FLAG_KEEP_POLICY` of sched_setattr(2). A real-time thread refuses a slice, and stays as it is.
#[cfg(target_os = "linux")]
const KEEP_POLICY: u64 = 0x08;

/// Sets the nice value of the calling thread, on Linux. Elsewhere nice values are those of processes: nothing is done.
pub(crate) fn set_nice(nice: i32) {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, nice);
    #[cfg(not(target_os = "linux"))]
    let _ = nice;
}

/// The number of the calling thread.
pub(crate) fn this_thread() -> i32 {
    #[cfg(target_os = "linux")]
    let number = rustix::thread::gettid().as_raw_nonzero().get();
    #[cfg(not(target_os = "linux"))]
    let number = NO_THREAD;
    number
}

/// Gives a thread of the process a slice so long that all others of its core run before it when they wake. Its share of
/// the processor stays as it is. Linux before 6.12 has no slices of single threads, and nothing changes.
#[cfg(target_os = "linux")]
pub(crate) fn step_back(thread: i32) {
    let Some(id) = rustix::process::Pid::from_raw(thread) else {
        return;
    };
    let Ok(nice) = rustix::process::getpriority_process(Some(id)) else {
        return;
    };
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: 0,
        sched_flags: KEEP_POLICY,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: LONG_SLICE_NS,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel reads as many bytes of `attributes` as that says it has, and writes nothing. It lives until
    // the call returns. A thread that is gone is an error. No flags.
    let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attributes, 0) };
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn step_back(_thread: i32) {}
