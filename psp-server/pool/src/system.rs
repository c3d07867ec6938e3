//! What the pool asks of the system: how much of the processor threads get.

/// The nice value of threads that get what others leave.
pub(crate) const NICE_MAX: i32 = 19;

/// Sets the nice value of the calling thread, on Linux. Elsewhere nice values are those of processes: nothing is done.
pub(crate) fn set_nice(nice: i32) {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, nice);
    #[cfg(not(target_os = "linux"))]
    let _ = nice;
}
