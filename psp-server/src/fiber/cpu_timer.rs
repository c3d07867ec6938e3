//! For how long a request computes, for servers that learn the type of a request from that.
//!
//! To read the [CPU clock](super::cpu_clock) takes up to a microsecond. A timer reads it only where it can differ much
//! from the clock on the wall.

use std::marker::PhantomData;
use std::time::Duration;

use quanta::Instant;

use super::cpu_clock;
use super::thread_state::no_preempt;

/// Up to this time on the wall, a timer trusts the wall.
const WALL_MIN: Duration = Duration::from_micros(100);

/// Measures for how long the handler that starts it computes. What other requests do on the worker while this one
/// yields or waits does not count, and neither does what other threads do on the worker's core.
///
/// A classifier that learns how long requests take asks a timer rather than a clock: on a busy machine, a request of
/// 5 us now and then takes some milliseconds by the clock.
///
/// ```
/// let timer = psp_server::CpuTimer::start();
/// std::thread::sleep(std::time::Duration::from_millis(20));
/// assert!(timer.elapsed() < std::time::Duration::from_millis(20));
/// ```
///
/// A timer reads the system's clock twice. It also reads the thread's CPU clock, which takes up to a microsecond: at
/// the start, unless the thread did so in the last 50 us, and at the end, if more than 100 us have passed. So times of
/// up to 100 us are those of the system's clock. Longer ones may be too long by up to 50 us of what the thread did just
/// before, but never longer than those of the system's clock.
#[derive(Debug)]
pub struct CpuTimer {
    started: Instant,
    started_ns: u64,
    /// The timer belongs to the request that runs on this thread.
    _of_thread: PhantomData<*const ()>,
}

impl CpuTimer {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        let started = Instant::now();
        // A signal between the readings would make them those of two turns.
        let started_ns = no_preempt(|| cpu_clock::begin_timer(started));
        Self { started, started_ns, _of_thread: PhantomData }
    }

    /// For how long the request has computed since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        let wall = self.started.elapsed();
        if wall <= WALL_MIN {
            return wall;
        }
        let own_ns = no_preempt(cpu_clock::own_ns);
        wall.min(Duration::from_nanos(own_ns.wrapping_sub(self.started_ns)))
    }
}

impl Drop for CpuTimer {
    fn drop(&mut self) {
        cpu_clock::end_timer();
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::super::cpu_clock::{cpu_ns, keep, restore};
    use super::*;

    const AWAY: Duration = Duration::from_millis(20);

    /// Computes until the thread has had its core for this long.
    fn compute(time: Duration) {
        let end_ns = cpu_ns() + u64::try_from(time.as_nanos()).unwrap();
        while cpu_ns() < end_ns {
            black_box(0);
        }
    }

    #[test]
    fn time_without_the_core_does_not_count() {
        let timer = CpuTimer::start();
        std::thread::sleep(AWAY);
        assert!(timer.elapsed() < AWAY);
        compute(AWAY);
        assert!(timer.elapsed() >= AWAY);
        assert!(timer.elapsed() <= timer.started.elapsed());
    }

    #[test]
    fn the_time_of_other_requests_does_not_count() {
        let timer = CpuTimer::start();
        compute(AWAY);
        let kept = keep();
        // Another request, which yields itself.
        let other = CpuTimer::start();
        compute(AWAY / 4);
        let kept_other = keep();
        compute(AWAY * 4);
        restore(&kept_other);
        let other_time = other.elapsed();
        assert!(other_time >= AWAY / 4 && other_time < AWAY * 4);
        drop(other);
        restore(&kept);
        assert!(timer.elapsed() >= AWAY && timer.elapsed() < AWAY * 4);
    }

    #[test]
    fn a_request_goes_on_on_another_thread() {
        let timer = CpuTimer::start();
        compute(AWAY);
        let kept = keep();
        let (started, started_ns) = (timer.started, timer.started_ns);
        let elapsed = std::thread::spawn(move || {
            compute(AWAY * 4);
            restore(&kept);
            let timer = CpuTimer { started, started_ns, _of_thread: PhantomData };
            compute(AWAY);
            timer.elapsed()
        });
        let elapsed = elapsed.join().unwrap();
        assert!(elapsed >= AWAY * 2 && elapsed < AWAY * 5, "{elapsed:?}");
    }

    #[test]
    fn requests_without_timers_are_not_timed() {
        assert!(!keep().has_timers());
        let timer = CpuTimer::start();
        let kept = keep();
        assert!(kept.has_timers());
        assert!(!keep().has_timers(), "the next request has none");
        restore(&kept);
        drop(timer);
        assert!(!keep().has_timers());
    }
}
