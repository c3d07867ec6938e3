//! The work: spin or sleep, then echo.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use psp_protocols::Sink;
use psp_protocols::psp_header::{Header, Kind};
use psp_server::{Handler, Reply, Request, WorkerId};
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

impl Mode {
    fn spend(self, run_time: Duration) {
        match self {
            Self::Spin => {
                let started = Instant::now();
                while started.elapsed() < run_time {
                    std::hint::spin_loop();
                }
            }
            Self::Sleep => std::thread::sleep(run_time),
        }
    }
}

/// Works for as long as the header asks.
#[derive(Debug, Clone, Copy)]
pub struct Synthetic {
    /// How the time is spent.
    pub mode: Mode,
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
        self.mode
            .spend(Duration::from_nanos(header.run_time_ns.into()));
        let echo = Header {
            kind: Kind::Reply,
            payload_len: 0,
            ..header
        };
        reply.put(&echo.encode());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_modes_take_at_least_the_time_asked_for() {
        for mode in [Mode::Spin, Mode::Sleep] {
            let started = Instant::now();
            mode.spend(Duration::from_millis(2));
            assert!(started.elapsed() >= Duration::from_millis(2), "{mode:?}");
        }
    }
}
