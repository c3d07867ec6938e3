//! The work: spin or sleep, wait in between, then echo.

use std::future::poll_fn;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::time::{Duration, Instant};

use psp_program::spin;
use psp_protocols::Sink;
use psp_protocols::psp_header::{HEADER_LEN, Header, Kind, decode_wait};
use psp_server::preempt::SignalPreemptible;
use psp_server::{Handler, Peer, PreemptPolicy, Reply, Request, WorkerId, checkpoint, is_abandoned, no_preempt, task};
use rustix::thread::{Timespec, nanosleep};
use serde::{Deserialize, Serialize};

/// Longest sleep between two checkpoints, before run times are stretched.
const NAP: Duration = Duration::from_micros(200);
/// The same where a signal ends it. One that comes right before the sleep does not.
const NAP_WITH_SIGNALS: Duration = Duration::from_millis(100);

/// How a worker spends the run time of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Keep a core busy: each worker needs a core of its own.
    #[default]
    Spin,
    /// Sleep: many workers can share few cores. For run times of a millisecond and more.
    Sleep,
}

/// Works for the time that the header asks for, or a multiple of it. If the payload asks for a
/// [wait](psp_protocols::psp_header), it waits that long, or the same multiple, when half of the work is done.
#[derive(Debug, Clone, Copy)]
pub struct Synthetic {
    /// How workers spend the time.
    pub mode: Mode,
    /// Factor by which run times and waits are multiplied.
    pub stretch: u32,
    /// How requests are preempted. The work has checkpoints only under cooperative preemption, so that a signal or
    /// a thread interrupts it at any other place.
    pub preempt: PreemptPolicy,
}

impl Synthetic {
    fn spend(&self, run_time: Duration) {
        let between = match self.preempt {
            PreemptPolicy::Cooperative => checkpoint,
            _ => || {},
        };
        match self.mode {
            Mode::Spin => {
                // Whether it ends early does not matter: there is no client to tell.
                let _early = spin(run_time, || {
                    between();
                    if is_abandoned() { Err(()) } else { Ok(()) }
                });
            }
            Mode::Sleep => self.occupy(run_time),
        }
    }

    /// Sleeps, and keeps the worker but for checkpoints. Time between the request's turns does not count.
    fn occupy(&self, run_time: Duration) {
        let nap = match self.preempt {
            PreemptPolicy::None => run_time,
            PreemptPolicy::Signal => NAP_WITH_SIGNALS,
            _ => NAP * self.stretch,
        };
        let mut left = run_time;
        while !left.is_zero() {
            // A signal must not find the thread half asleep.
            let slept = no_preempt(|| {
                let started = Instant::now();
                sleep_or_signal(left.min(nap));
                started.elapsed()
            });
            left = left.saturating_sub(slept);
            checkpoint();
        }
    }
}

/// Sleeps until a signal comes.
fn sleep_or_signal(duration: Duration) {
    let request = Timespec::try_from(duration).expect("naps are short");
    // Who sleeps on if it ends early looks at the clock.
    let _ = nanosleep(&request);
}

/// Waits without the worker.
fn wait(duration: Duration) {
    // Timers are behind locks, which a preempted request must not hold.
    let mut sleep = task::sleep(duration);
    psp_server::wait(poll_fn(|context| no_preempt(|| Pin::new(&mut sleep).poll(context))));
    no_preempt(|| drop(sleep));
}

impl Handler for Synthetic {
    type Worker = ();
    type Connection = ();

    fn init_worker(&self, worker: WorkerId) {
        // The kernel may otherwise extend each sleep by 50 us.
        if let Err(error) = rustix::thread::set_current_timer_slack(NonZeroU64::new(1)) {
            tracing::warn!(worker = worker.0, %error, "sleeps of this worker are imprecise");
        }
    }

    fn connect(&self, _peer: Peer) {}

    fn handle(&self, (): &mut (), request: Request<'_, ()>, reply: &mut Reply<'_>) {
        // The framing passes only frames with a header.
        let Ok(header) = Header::decode(request.payload) else {
            return;
        };
        let payload = request.payload.get(HEADER_LEN..).unwrap_or_default();
        let [run_time, waits] = [header.run_time_ns, decode_wait(payload)]
            .map(|time_ns| Duration::from_nanos(time_ns.into()) * self.stretch);
        if waits.is_zero() {
            self.spend(run_time);
        } else {
            let first_half = run_time / 2;
            self.spend(first_half);
            wait(waits);
            self.spend(run_time - first_half);
        }
        let echo = Header { kind: Kind::Reply, payload_len: 0, ..header };
        no_preempt(|| reply.put(&echo.encode()));
    }
}

// SAFETY: outside of `no_preempt`, the handler only reads its request, computes on its own stack, and reads
// the clock through the vDSO, which keeps no state about its readers. It sleeps, sets timers, writes the reply
// and allocates within `no_preempt`. Logging or allocating while it spins would break this.
#[allow(unsafe_code)]
unsafe impl SignalPreemptible for Synthetic {}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn both_modes_take_at_least_the_time_asked_for() {
        for mode in [Mode::Spin, Mode::Sleep] {
            let synthetic = Synthetic { mode, stretch: 1, preempt: PreemptPolicy::Cooperative };
            let started = Instant::now();
            synthetic.spend(Duration::from_millis(2));
            assert!(started.elapsed() >= Duration::from_millis(2), "{mode:?}");
        }
    }
}
