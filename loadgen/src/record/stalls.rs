//! Stalls: times in which the machine did not run its threads.
//!
//! A hypervisor sometimes takes a virtual machine's cores away for milliseconds, and every thread
//! on them is late. Neither the server nor the generator causes this, but it is in every latency.
//! So a witness thread sleeps and wakes on each core, at a higher priority than all other threads
//! there, and records when it wakes late. A request is *calm* if no stall overlapped it.
//!
//! ```text
//!   core 0   witness: nap, nap, nap ........ late ─► stall ─┐
//!   core 1   witness: nap, nap, nap, nap, nap               ├─► united ─► calm?
//!                                                           ┘
//! ```

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

/// How long a witness sleeps. A shorter stall may go unnoticed.
const NAP: Duration = Duration::from_micros(500);

/// A witness that wakes this late has seen a stall. Waking a halted virtual core takes about 100
/// us.
pub const STALL_MIN: Duration = Duration::from_micros(250);

/// Stalls that a witness remembers: one every other millisecond for an hour.
const STALLS_MAX: usize = 1 << 21;

/// A time in which a core did not run a ready thread.
type Stall = (Instant, Instant);

/// Threads, one on each core, that sleep, wake, and record when they wake late.
#[derive(Debug)]
pub struct Witnesses {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Stall>>>,
}

impl Witnesses {
    /// Starts a witness on each core that the process may use. Witnesses have real-time priority,
    /// so no thread of ordinary priority makes them late.
    ///
    /// # Errors
    /// When the system refuses a thread or the priority, which takes root or CAP_SYS_NICE.
    pub fn start() -> io::Result<Self> {
        let cores = sched_getaffinity(None)?;
        let (ready, started) = std::sync::mpsc::channel();
        // If a later witness cannot start, dropping this value stops the earlier ones.
        let mut witnesses = Self { stop: Arc::new(AtomicBool::new(false)), threads: Vec::new() };
        for core in (0..CpuSet::MAX_CPU).filter(|&core| cores.is_set(core)) {
            let (stop, ready) = (Arc::clone(&witnesses.stop), ready.clone());
            let watch = move || {
                let prepared = stand_on(core);
                let may_watch = prepared.is_ok();
                // The starting thread may have returned an error already.
                let _ = ready.send(prepared);
                // The channel closes when the witnesses shall stop.
                drop(ready);
                if may_watch { watch(&stop) } else { Vec::new() }
            };
            let builder = thread::Builder::new().name("witness".to_owned());
            witnesses.threads.push(builder.spawn(watch)?);
        }
        drop(ready);
        match started.iter().find(Result::is_err) {
            Some(Err(error)) => Err(error),
            _ => Ok(witnesses),
        }
    }

    /// Stops the witnesses and returns the stalls that they saw.
    #[must_use]
    pub fn stop(mut self) -> Stalls {
        self.stop.store(true, Ordering::Relaxed);
        let seen = self.threads.drain(..).filter_map(|thread| thread.join().ok());
        Stalls::new(seen.flatten().collect())
    }
}

impl Drop for Witnesses {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Puts the calling thread on `core`, before all other threads there.
fn stand_on(core: usize) -> io::Result<()> {
    let mut own = CpuSet::new();
    own.set(core);
    sched_setaffinity(None, &own)?;
    let refused = |_| {
        let text = "no real-time priority for witnesses of stalls: it takes root or CAP_SYS_NICE, and in a control \
                    group of the cpu controller cpu.rt_runtime_us";
        io::Error::new(io::ErrorKind::PermissionDenied, text)
    };
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Max, policy).map_err(refused)
}

fn watch(stop: &AtomicBool) -> Vec<Stall> {
    let mut stalls = Vec::new();
    while !stop.load(Ordering::Relaxed) && stalls.len() < STALLS_MAX {
        let due = Instant::now() + NAP;
        thread::sleep(NAP);
        let woken = Instant::now();
        if woken > due + STALL_MIN {
            stalls.push((due, woken));
        }
    }
    stalls
}

/// Stalls of any core, in order and without overlaps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stalls(Vec<Stall>);

impl Stalls {
    pub(crate) fn new(mut stalls: Vec<Stall>) -> Self {
        stalls.sort_unstable();
        let mut united: Vec<Stall> = Vec::new();
        for (from, until) in stalls {
            match united.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(until),
                _ => united.push((from, until)),
            }
        }
        Self(united)
    }

    /// How much of the time from `from` to `until` was stalled.
    #[must_use]
    pub fn within(&self, from: Instant, until: Instant) -> Duration {
        let first = self.0.partition_point(|stall| stall.1 <= from);
        let overlapping = self.0[first..].iter().take_while(|stall| stall.0 < until);
        overlapping.map(|stall| stall.1.min(until) - stall.0.max(from)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_counted_once() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let stalls = Stalls::new(vec![(at(10), at(20)), (at(40), at(50)), (at(15), at(25))]);
        let cases = [(0, 10, 0), (0, 12, 2), (18, 45, 12), (25, 40, 0), (0, 99, 25)];
        for (from, until, ms) in cases {
            let within = stalls.within(at(from), at(until));
            assert_eq!(within, Duration::from_millis(ms), "{from} to {until}");
        }
    }
}
