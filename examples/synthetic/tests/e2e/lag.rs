//! How late the machine wakes threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Most lags of the machine that a request waits for. There are seven wake-ups on the way from the client to the net
/// worker, the dispatcher, the worker and back. At half load, those at the worker count three times, because they also
/// delay the requests behind. On a machine with bursts of real-time work on both cores, requests waited for seven lags.
pub(crate) const LAGS: f64 = 12.0;

/// Runs `work`, and meanwhile measures the lag of the machine: by how many nanoseconds a pinned thread, like those of
/// servers, wakes up late in the mean, if it wakes up at a random time.
pub(crate) fn with_lag_ns<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let stop = AtomicBool::new(false);
    let may_use = sched_getaffinity(None).unwrap();
    let cores: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&core| may_use.is_set(core)).collect();
    thread::scope(|scope| {
        let watch = |&core| {
            scope.spawn({
                let stop = &stop;
                move || lag_ns(core, stop)
            })
        };
        let watches: Vec<_> = cores.iter().map(watch).collect();
        let done = {
            let _stop = StopOnDrop(&stop);
            work()
        };
        let lags = watches.into_iter().map(|watch| watch.join().unwrap());
        (done, lags.sum::<f64>() / cores.len() as f64)
    })
}

/// Ends the watches, also when the work panics.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn lag_ns(core: usize, stop: &AtomicBool) -> f64 {
    const NAP: Duration = Duration::from_millis(5);
    let mut own = CpuSet::new();
    own.set(core);
    sched_setaffinity(None, &own).unwrap();
    let started = Instant::now();
    let (mut naps, mut late_ns, mut late_ns_squared) = (0.0, 0.0, 0.0);
    while naps == 0.0 || !stop.load(Ordering::Relaxed) {
        let asleep = Instant::now();
        thread::sleep(NAP);
        let nap_late_ns = (asleep.elapsed() - NAP).as_nanos() as f64;
        naps += 1.0;
        late_ns += nap_late_ns;
        late_ns_squared += nap_late_ns * nap_late_ns;
    }
    // A wake-up during a stall of the machine is late by half of the stall in the mean.
    late_ns / naps + late_ns_squared / 2.0 / started.elapsed().as_nanos() as f64
}
