//! The thread that sees that a net thread stands still: code without checkpoints runs there, in a handler, a classifier
//! or a framing, or the thread gets no processor. Nothing on that thread could tell.
//!
//! It looks at each port's [words](crate::telemetry::Turning) and compares. A stall is logged, counted, and known to
//! the admin port.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::error::RunError;
use crate::shared::Shared;

const NAME: &str = "psp-watchdog";
const INTERVAL: Duration = Duration::from_millis(250);
const INTERVAL_NS: u64 = INTERVAL.as_nanos() as u64;
/// A turn that was seen by so many looks after the first stands still: for a second. Looks are counted, and not the
/// time, since the whole process may have been stopped.
const LOOKS: u64 = 4;

/// The watchdog of a running server. Dropping it ends its thread.
#[derive(Debug)]
pub(crate) struct Watchdog {
    /// Dropped to end the thread.
    stop: Option<Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread.
    pub(crate) fn start(shared: Arc<Shared>) -> Result<Self, RunError> {
        let (stop, stopped) = channel();
        let life = move || {
            let mut looks = Looks::new(shared);
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                looks.look();
            }
        };
        let thread = Builder::new().name(NAME.into()).spawn(life);
        let thread = thread.map_err(|source| RunError::Thread { name: NAME.into(), source })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic.
            let _panicked = thread.join();
        }
    }
}

/// What the watchdog has seen.
struct Looks {
    shared: Arc<Shared>,
    /// Of each port: the turn that was seen last, and by how many looks since.
    ports: Vec<(Option<u64>, u64)>,
}

impl Looks {
    fn new(shared: Arc<Shared>) -> Self {
        Self {
            ports: vec![(None, 0); shared.telemetry.receivers.len()],
            shared,
        }
    }

    fn look(&mut self) {
        let telemetry = &self.shared.telemetry;
        for (port, (seen, looks)) in self.ports.iter_mut().enumerate() {
            let receiver = &telemetry.receivers[port];
            let turn = receiver.turning.0.turn();
            if turn.is_none() || turn != *seen {
                if *looks >= LOOKS {
                    let for_ms = receiver.stalled_ns.get() / 1_000_000;
                    tracing::warn!(port, for_ms, "a net thread turns again");
                }
                receiver.stalled_ns.set(0);
                (*seen, *looks) = (turn, 0);
                continue;
            }
            *looks += 1;
            if *looks < LOOKS {
                continue;
            }
            receiver.stalled_ns.set(*looks * INTERVAL_NS);
            telemetry.stalled_ns.add(INTERVAL_NS);
            if *looks == LOOKS {
                telemetry.stalls.add(1);
                tracing::warn!(port, "{}", self.shared.describe_stall(port));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use psp_policy::{TypeSpec, WorkerId};

    use super::*;
    use crate::config::Config;

    #[test]
    fn a_turn_that_lasts_for_a_second_is_a_stall_until_it_ends() {
        let types = [TypeSpec::new("SPIN")].into_iter().collect();
        let shared = Arc::new(Shared::example(Config::default(), types, 2));
        let mut looks = Looks::new(shared.clone());
        let telemetry = &shared.telemetry;
        let turning = &telemetry.receivers[0].turning.0;
        let stalled = || telemetry.receivers[0].stalled_ns.get();
        for _ in 0..10 {
            turning.turns();
            looks.look();
        }
        turning.sleeps();
        (0..10).for_each(|_| looks.look());
        assert_eq!(stalled(), 0, "it turned, and slept");
        turning.turns();
        turning.runs(WorkerId(1), 0);
        (0..LOOKS).for_each(|_| looks.look());
        assert_eq!(stalled(), 0, "less than a second");
        looks.look();
        assert_eq!(stalled(), 1_000_000_000);
        let words = "a net thread has stood still for 1000 ms: worker 1 in a request of type SPIN";
        assert_eq!(shared.describe_stall(0), words);
        looks.look();
        turning.turns();
        looks.look();
        assert_eq!(stalled(), 0);
        let counted = (telemetry.stalls.get(), telemetry.stalled_ns.get());
        assert_eq!(counted, (1, 2 * INTERVAL_NS));
    }
}
