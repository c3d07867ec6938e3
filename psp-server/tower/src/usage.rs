//! How much of the processor the calling thread has had.
//!
//! A poll that took a millisecond on the clock may have computed for ten microseconds, while other programs had the
//! core. Its type is none that keeps threads of tokio busy. A poll that blocked its thread for a millisecond is: no
//! other task was polled meanwhile.

/// See the [module](self). Unknown where the system does not tell.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage(Option<Used>);

#[derive(Debug, Clone, Copy)]
struct Used {
    cpu_ns: u64,
    /// How often the thread has waited for something.
    waits: i64,
}

impl Usage {
    /// Takes some 400 ns.
    pub(crate) fn now() -> Self {
        Self(used())
    }

    /// The time of what began when this was taken, ends now, and took `wall_ns` on the clock: without the time that
    /// other threads had the core, if the thread has waited for nothing else.
    pub(crate) fn without_others(self, wall_ns: u64) -> u64 {
        match (self.0, used()) {
            (Some(before), Some(now)) if now.waits == before.waits => {
                wall_ns.min(now.cpu_ns.saturating_sub(before.cpu_ns))
            }
            _ => wall_ns,
        }
    }
}

#[cfg(target_os = "linux")]
fn used() -> Option<Used> {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike;

    let usage = getrusage(UsageWho::RUSAGE_THREAD).ok()?;
    let cpu_us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Some(Used {
        cpu_ns: u64::try_from(cpu_us).ok()? * 1000,
        waits: usage.voluntary_context_switches(),
    })
}

#[cfg(not(target_os = "linux"))]
const fn used() -> Option<Used> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_thread_that_slept_was_in_the_way_and_one_that_lost_its_core_was_not() {
        let before = Usage::now();
        thread::sleep(Duration::from_millis(1));
        assert_eq!(before.without_others(1_000_000), 1_000_000);

        let before = Usage::now();
        // What is said of the clock is not true: as if others had had the core for an hour.
        let hour_ns = 3_600_000_000_000;
        assert!(before.without_others(hour_ns) < hour_ns / 60);

        let (before, began) = (Usage::now(), Instant::now());
        while began.elapsed() < Duration::from_millis(5) {}
        assert!(before.without_others(hour_ns) >= 100_000, "it computed");
    }
}
