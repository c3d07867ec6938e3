//! The work: spin or sleep, then echo.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::time::Duration;

use psp_program::spin;
use psp_protocols::Sink;
use psp_protocols::psp_header::{Header, Kind};
use psp_server::preempt::SignalPreemptible;
use psp_server::{Handler, PreemptPolicy, Reply, Request, WorkerId, checkpoint, no_preempt};
use serde::{Deserialize, Serialize};

/// How a request's run time is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Busy: the worker needs a core of its own.
    #[default]
    Spin,
    /// Asleep: many workers share few cores. For run times of a millisecond and more.
    Sleep,
}

/// Works for as long as the header asks, or a multiple of that.
#[derive(Debug, Clone, Copy)]
pub struct Synthetic {
    /// How the time is spent.
    pub mode: Mode,
    /// How many times as long as asked for.
    pub stretch: u32,
    /// How requests give way. Only where that is at checkpoints does the work have any, so that a signal or a thread
    /// interrupts it somewhere.
    pub preempt: PreemptPolicy,
}

impl Synthetic {
    fn spend(&self, run_time: Duration) {
        let between = match self.preempt {
            PreemptPolicy::Cooperative => checkpoint,
            PreemptPolicy::None | PreemptPolicy::KernelThread | PreemptPolicy::Signal => || {},
        };
        match self.mode {
            Mode::Spin => {
                let Ok(()) = spin(run_time, || {
                    between();
                    Ok::<_, Infallible>(())
                });
            }
            Mode::Sleep => psp_server::sleep(run_time),
        }
    }
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

    fn connect(&self, _peer: SocketAddr) {}

    fn handle(&self, (): &mut (), request: Request<'_, ()>, reply: &mut Reply<'_>) {
        // The framing lets nothing else through.
        let Ok(header) = Header::decode(request.payload) else {
            return;
        };
        let run_time = Duration::from_nanos(header.run_time_ns.into());
        self.spend(run_time * self.stretch);
        let echo = Header {
            kind: Kind::Reply,
            payload_len: 0,
            ..header
        };
        no_preempt(|| reply.put(&echo.encode()));
    }
}

// SAFETY: outside of `no_preempt` the handler reads its request, computes on its own stack, reads the
// clock through the vDSO, which keeps no state of its readers, and parks within `no_preempt`. It
// allocates where the reply is written, which is within `no_preempt`. Logging or allocating while it
// spins would break this.
#[allow(unsafe_code)]
unsafe impl SignalPreemptible for Synthetic {}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn both_modes_take_at_least_the_time_asked_for() {
        for mode in [Mode::Spin, Mode::Sleep] {
            let synthetic = Synthetic {
                mode,
                stretch: 1,
                preempt: PreemptPolicy::Cooperative,
            };
            let started = Instant::now();
            synthetic.spend(Duration::from_millis(2));
            assert!(started.elapsed() >= Duration::from_millis(2), "{mode:?}");
        }
    }
}
