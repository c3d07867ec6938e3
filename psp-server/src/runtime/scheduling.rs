//! What the kernel is told about a thread: how it shares its core with others.
//!
//! ```text
//!   net thread   short slice: on waking it goes before whoever runs, a spinning client included
//!   workers      SCHED_BATCH, nice 19: they run when nobody else wants the core
//! ```
//!
//! Neither needs a privilege. `unsafe` is for `sched_setattr`, which no safe library offers.

/// Tells the kernel that the calling thread runs for at most about `slice_us` at a time. A thread
/// with a shorter slice than the running one's may preempt it on waking (Linux 6.12 and later;
/// earlier ones ignore it). A real-time thread is left alone.
pub(super) fn shorten_slice(slice_us: u64) {
    if slice_us > 0
        && let Err(error) = system::set_slice(slice_us)
    {
        tracing::debug!(slice_us, %error, "cannot shorten the net thread's slice");
    }
}

/// Tells the kernel that the calling thread's timeouts may not be put off; it joins those of other
/// threads to within 50 us otherwise.
pub(super) fn sharpen_timers() {
    if let Err(error) = system::set_timer_slack() {
        tracing::debug!(%error, "timeouts of the net thread may be late");
    }
}

/// Gives the calling thread the scheduling class of background work and a nice value.
pub(super) fn lower_priority(nice: i32) {
    if let Err(error) = system::set_batch(nice) {
        tracing::warn!(nice, %error, "cannot lower the thread's priority");
    }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod system {
    use std::io;

    pub(super) fn set_slice(slice_us: u64) -> io::Result<()> {
        // SAFETY: `sched_getscheduler` takes a number and touches no memory; 0 is this thread.
        let policy = unsafe { libc::sched_getscheduler(0) };
        if policy != libc::SCHED_OTHER {
            return Ok(());
        }
        let nice = rustix::process::getpriority_process(None)?;
        set_attributes(libc::SCHED_OTHER, nice, slice_us * 1000)
    }

    pub(super) fn set_timer_slack() -> io::Result<()> {
        Ok(rustix::thread::set_current_timer_slack(
            std::num::NonZero::new(1),
        )?)
    }

    pub(super) fn set_batch(nice: i32) -> io::Result<()> {
        set_attributes(libc::SCHED_BATCH, nice, 0)
    }

    /// A `slice_ns` of 0 is the system's default.
    fn set_attributes(policy: i32, nice: i32, slice_ns: u64) -> io::Result<()> {
        let attributes = libc::sched_attr {
            size: size_of::<libc::sched_attr>() as u32,
            sched_policy: policy as u32,
            sched_flags: 0,
            sched_nice: nice,
            sched_priority: 0,
            sched_runtime: slice_ns,
            sched_deadline: 0,
            sched_period: 0,
        };
        // SAFETY: the kernel reads `size` bytes of `attributes`, which lives until the call returns
        // and is as long as it says, and writes nothing. 0 is this thread, and no flags.
        let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// The policy, nice value and slice that the kernel has for this thread.
        fn attributes() -> (u32, i32, u64) {
            let mut attributes = libc::sched_attr {
                size: 0,
                sched_policy: 0,
                sched_flags: 0,
                sched_nice: 0,
                sched_priority: 0,
                sched_runtime: 0,
                sched_deadline: 0,
                sched_period: 0,
            };
            let size = size_of::<libc::sched_attr>();
            // SAFETY: the kernel writes at most `size` bytes into `attributes`, which is that long.
            let result =
                unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
            assert_eq!(result, 0, "{}", io::Error::last_os_error());
            (
                attributes.sched_policy,
                attributes.sched_nice,
                attributes.sched_runtime,
            )
        }

        #[test]
        fn the_kernel_takes_what_it_is_told() {
            let before = std::thread::spawn(attributes).join().unwrap();
            let sliced = std::thread::spawn(|| {
                set_slice(100).unwrap();
                attributes()
            });
            let (policy, nice, slice_ns) = sliced.join().unwrap();
            assert_eq!((policy, nice), (before.0, before.1));
            // Kernels before 6.12 have no slice of one's own and report none.
            assert!(slice_ns == 100_000 || slice_ns == before.2, "{slice_ns}");
            let batch = std::thread::spawn(|| {
                set_batch(19).unwrap();
                attributes()
            });
            let (policy, nice, _) = batch.join().unwrap();
            assert_eq!((policy, nice), (libc::SCHED_BATCH as u32, 19));
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;

    pub(super) fn set_slice(_slice_us: u64) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn set_timer_slack() -> io::Result<()> {
        Ok(())
    }

    pub(super) fn set_batch(nice: i32) -> io::Result<()> {
        Ok(rustix::process::setpriority_process(None, nice)?)
    }
}
