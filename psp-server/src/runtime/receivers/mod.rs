//! Starts and ends the threads of a server whose workers receive for themselves.
//!
//! ```text
//!   worker 0   port: epoll, listeners ─► connections ─► queue ─► handler ─► replies
//!   worker 1   port: epoll, listeners ─► connections ─► queue ─► handler ─► replies
//!      ...       ▲
//!   kernel: SO_REUSEPORT: a connection stays in the port that accepted it
//!   sockets without that: whoever is woken accepts, and passes connections to the ports in turn
//! ```
//!
//! The calling thread sleeps until the shutdown, or [takes care](Supervisor) of the workers, so that no request can
//! hold it. Each worker is a net worker with one worker, itself. They share settings, the handler and the budget of
//! memory. Before a long request a worker [leaves its port](super::net) to another. Under `d-fcfs` they share nothing
//! on the way of a short one. Under all other policies they are a [worker group](super::distributed): they run each
//! other's requests. If the policy preempts requests, the group has a [timer core](super::distributed), a thread beside
//! its workers.

mod common;
mod worker;

use std::io;
use std::sync::mpsc::{Receiver as Answers, RecvTimeoutError};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Waker};
use psp_protocols::Framing;

use self::common::Common;
use self::worker::{Answer, Sources, Worker};
use super::channel::doorbell::Doorbell;
use super::distributed::Supervisor;
use super::net::WAKER;
use super::start::Launch;
use super::worker::notices::Notices;
use super::worker::thread_runner::ThreadRunner;
use crate::classifier::Classifier;
use crate::error::RunError;
use crate::handler::Handler;
use crate::shared::{Receiver, Shared};
use crate::shutdown::Shutdown;

/// How long workers may take to return after the drain timeout.
const LATE: Duration = Duration::from_millis(200);

/// Runs all workers until the shutdown is triggered. Returns the number of connections that were given up. Threads of
/// workers may still run when it returns, but were told to stop.
pub(super) fn serve<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>>(
    mut launch: Launch<F, K, H>,
    shutdown: &Shutdown,
    notices: &Notices,
    threads: &mut Vec<JoinHandle<()>>,
    on_ready: impl FnOnce(),
) -> Result<usize, RunError> {
    let (ports, shared) = (std::mem::take(&mut launch.ports), launch.shared.clone());
    let mut endpoints = std::mem::take(&mut launch.endpoints).into_iter();
    let mut polled = std::mem::take(&mut launch.polled).into_iter();
    let doorbells = ports.iter().map(|port| Doorbell::new(port.waker.clone()));
    let common = Common::new(launch, doorbells.map(Arc::new).collect());
    let common = common.map_err(RunError::Events)?;
    let request_threads = StopRequestThreads(common.thread_runner.clone());
    let poll = Poll::new().map_err(RunError::Events)?;
    let waker = Waker::new(poll.registry(), WAKER).map_err(RunError::Events)?;
    let waker = Arc::new(waker);
    let of_workers: Vec<Arc<Waker>> = ports.iter().map(|port| port.waker.clone()).collect();
    let wakers: Vec<Arc<Waker>> = of_workers.iter().chain([&waker]).cloned().collect();
    shutdown.attach(wakers.clone());
    shared.shutdown.attach(wakers);
    shared.policy.attach(waker);
    let _stops_all = Stop(shared.clone());
    let (answer, answers) = mpsc::channel();
    let (mut gates, mut watched) = (Vec::new(), Vec::new());
    for (index, port) in ports.into_iter().enumerate() {
        let (gate, opened) = mpsc::channel();
        gates.push(gate);
        let sources = Sources {
            port,
            polled: polled.next(),
            endpoints: endpoints.next().unwrap_or_default(),
        };
        let worker = Worker::new(common.clone(), index, sources, notices);
        watched.extend(worker.watched().map_err(RunError::Events)?);
        threads.push(worker.spawn(opened, answer.clone(), shutdown.clone())?);
    }
    drop(answer);
    notices.wait_until_ready(shared.workers, shutdown)?;
    // A timer core may poll where a core is left over for it.
    let spin = common.spin(shared.workers + 1).idle;
    let (rules, clock) = (common.rules.clone(), common.clock.clone());
    let mut supervisor = Supervisor::new(rules, watched, of_workers, clock, spin)?;
    on_ready();
    for gate in &gates {
        // A worker that died has said so.
        let _ = gate.send(());
    }
    wait_for_shutdown(poll, &[shutdown, &shared.shutdown], || supervisor.turn()).map_err(RunError::Events)?;
    let (abandoned, serving) = wait_for_workers(&shared, &answers, || supervisor.turn())?;
    threads.extend(supervisor.end());
    threads.extend(request_threads.stop());
    let receivers = { serving.into_iter() }.map(|index| Receiver::new(shared.clone(), index));
    let left = receivers.map(|receiver| receiver.net().connections_open.get());
    Ok(abandoned + left.sum::<u64>() as usize)
}

/// Waits until all workers have ended, or are late, and calls `turn` whenever that wants to be called. Returns the
/// number of connections that were given up, and the workers that are stuck in a request or have died.
fn wait_for_workers(
    shared: &Shared,
    answers: &Answers<Answer>,
    mut turn: impl FnMut() -> Option<Duration>,
) -> Result<(usize, Vec<usize>), RunError> {
    let drain_timeout = Duration::from_millis(shared.config.drain_timeout_ms);
    let deadline = Instant::now() + drain_timeout.saturating_add(LATE);
    let mut abandoned = 0;
    let mut serving: Vec<usize> = (0..shared.workers).collect();
    while !serving.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        match answers.recv_timeout(turn().map_or(left, |next| next.min(left))) {
            Ok((index, served)) => {
                abandoned += served?;
                serving.retain(|&other| other != index);
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
            Err(_) => break,
        }
    }
    Ok((abandoned, serving))
}

/// Sleeps until one of these is triggered, each of which wakes `poll`, and calls `turn` whenever that wants to be
/// called.
fn wait_for_shutdown(
    mut poll: Poll,
    shutdowns: &[&Shutdown],
    mut turn: impl FnMut() -> Option<Duration>,
) -> io::Result<()> {
    let mut events = Events::with_capacity(1);
    while !shutdowns.iter().any(|shutdown| shutdown.is_triggered()) {
        match poll.poll(&mut events, turn()) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Stops the threads that carry requests in the end, whatever its reason.
struct StopRequestThreads<F: Framing, H: Handler<F::Head>>(Option<Arc<ThreadRunner<F, H>>>);

impl<F: Framing, H: Handler<F::Head>> StopRequestThreads<F, H> {
    /// Returns the handles of all that were started. Those whose requests wait for another turn are left behind.
    fn stop(&self) -> Vec<JoinHandle<()>> {
        self.0.as_ref().map_or_else(Vec::new, |thread_runner| thread_runner.stop())
    }
}

impl<F: Framing, H: Handler<F::Head>> Drop for StopRequestThreads<F, H> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Stops all workers in the end, whatever its reason.
struct Stop(Arc<Shared>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.shutdown.trigger();
    }
}
