//! The net worker: one thread that reads, frames, dispatches, and, in the `inline` topology, runs
//! the requests of worker 0 itself.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use psp_protocols::{Framing, Rejection};
use rustix::io::Errno;

use super::alarm::Alarm;
use super::channel::{Doorbell, Message, Report, WorkerLink, settle};
use super::clock::Clock;
use super::connections::Connections;
use super::dispatcher::Dispatcher;
use super::executor::Executor;
use super::intake::{DATAGRAM_FIRST, admit};
use super::shared::Shared;
use super::spin::Spin;
use super::task::Task;
use crate::classifier::Classifier;
use crate::config::Topology;
use crate::error::RunError;
use crate::handler::Handler;
use crate::policy::{Action, RequestId, WorkerId};
use crate::shutdown::Shutdown;
use crate::transport::Packets;
use crate::transport::datagram::{DatagramPool, Endpoint, Outlet};

/// Wakes the net worker.
pub(crate) const WAKER: Token = Token(0);
/// The scheduler's deadline has come.
const ALARM: Token = Token(1);
/// Sockets come after the alarm, connections after the sockets.
const SOCKET_FIRST: usize = 2;

const EVENTS_PER_TURN: usize = 512;
const ACCEPTS_PER_TURN: usize = 64;
const DATAGRAMS_PER_TURN: usize = 64;
/// Frames of a port that are read before the net worker looks at its workers: a look costs about as much
/// as a frame.
const FRAMES_PER_LOOK: usize = 8;
/// How often a net worker that polls a port looks at its event queue.
const EVENTS_INTERVAL_NS: u64 = 20_000;
/// How long nothing has come before it sleeps, if it may.
const IDLE_NS: u64 = 50_000;
const CONNECTIONS_PER_TURN: usize = 512;
/// Actions carried out before the net worker looks at its sockets again, and the time after which it
/// starts no more of them.
const ACTIONS_PER_TURN: usize = 256;
const TURN_NS_MAX: u64 = 200_000;
const SWEEP_INTERVAL_NS: u64 = 1_000_000_000;
const SWEEP_INTERVAL_LINGER_NS: u64 = 50_000_000;

/// What a net worker is made of.
pub(crate) struct Parts<F, K, H: Handler> {
    pub(crate) poll: Poll,
    pub(crate) doorbell: Arc<Doorbell>,
    pub(crate) listeners: Vec<TcpListener>,
    pub(crate) endpoints: Vec<Arc<Endpoint<H::Connection>>>,
    /// A port to be polled.
    pub(crate) packets: Option<Packets<H::Connection>>,
    pub(crate) links: Vec<Link<F, H>>,
    pub(crate) dispatcher: Dispatcher<K>,
    pub(crate) handler: Arc<H>,
    pub(crate) framing: Arc<F>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) clock: Clock,
    /// Datagrams of sockets, and of the port, that may be in flight or waiting.
    pub(crate) datagrams: usize,
    pub(crate) spin: Spin,
}

/// How the net worker reaches one worker.
pub(crate) enum Link<F, H: Handler> {
    /// It is that worker.
    Inline(Executor<F, H>),
    /// A thread of its own.
    Thread(WorkerLink<Task<H::Connection>>),
}

/// See the [module](self).
pub(crate) struct NetWorker<F: Framing, K, H: Handler> {
    parts: Parts<F, K, H>,
    events: Events,
    alarm: Alarm,
    connections: Connections<F, H::Connection>,
    datagrams: DatagramPool<H::Connection>,
    /// Sockets with input: listeners first, then endpoints.
    readable: Vec<bool>,
    connection_first: usize,
    /// There were no file descriptors for a connection since the last sweep.
    exhausted: bool,
    /// The last turn ended before the scheduler had nothing left to decide.
    unfinished: bool,
    lent: usize,
    /// Workers that were sent something since they were last seen to.
    unsettled: Vec<WorkerId>,
    now_ns: u64,
    sweep_at_ns: u64,
    busy_at_ns: u64,
    events_at_ns: u64,
    draining_until_ns: Option<u64>,
}

impl<F: Framing, K: Classifier, H: Handler> NetWorker<F, K, H> {
    pub(crate) fn new(mut parts: Parts<F, K, H>) -> Result<Self, RunError> {
        let registry = parts.poll.registry();
        let mut token = SOCKET_FIRST;
        for listener in &mut parts.listeners {
            registry
                .register(listener, Token(token), Interest::READABLE)
                .map_err(RunError::Events)?;
            token += 1;
        }
        for endpoint in &mut parts.endpoints {
            let endpoint = Arc::get_mut(endpoint).expect("not shared before the start");
            if let Outlet::Socket(socket) = &mut endpoint.outlet {
                registry
                    .register(socket, Token(token), Interest::READABLE)
                    .map_err(RunError::Events)?;
            }
            token += 1;
        }
        let sockets = parts.listeners.len() + parts.endpoints.len();
        Ok(Self {
            alarm: Alarm::new(parts.poll.registry(), ALARM).map_err(RunError::Events)?,
            events: Events::with_capacity(EVENTS_PER_TURN),
            connections: Connections::new(parts.framing.clone(), parts.shared.clone()),
            datagrams: DatagramPool::new(
                if parts.endpoints.is_empty() {
                    0
                } else {
                    parts.datagrams
                },
                parts.shared.config.datagram_bytes_max,
                parts.packets.as_ref().map_or(0, |_| parts.datagrams),
            ),
            readable: vec![true; sockets],
            connection_first: SOCKET_FIRST + sockets,
            exhausted: false,
            unfinished: false,
            lent: 0,
            unsettled: Vec::with_capacity(ACTIONS_PER_TURN),
            now_ns: parts.clock.now_ns(),
            sweep_at_ns: 0,
            busy_at_ns: 0,
            events_at_ns: 0,
            draining_until_ns: None,
            parts,
        })
    }

    /// Serves until the shutdown is triggered and everything in flight is answered, or the drain
    /// timeout is over. Returns the number of requests that were abandoned.
    pub(crate) fn serve(mut self, shutdown: &Shutdown) -> Result<usize, RunError> {
        loop {
            self.wait().map_err(RunError::Events)?;
            self.now_ns = self.parts.clock.now_ns();
            let stop = shutdown.is_triggered() || self.parts.shared.shutdown.is_triggered();
            if stop && self.draining_until_ns.is_none() {
                self.start_draining();
            }
            self.receive_completions();
            if let Some(policy) = self.parts.shared.policy.take() {
                self.parts.dispatcher.switch_to(self.now_ns, &policy);
                tracing::info!(policy = policy.spelled(), "policy changed");
            }
            self.accept();
            self.receive_datagrams();
            self.receive_packets();
            self.parts.dispatcher.tick(self.now_ns);
            self.serve_turn();
            if let Some(packets) = &self.parts.packets {
                packets.flush(&self.parts.shared.telemetry.net.0.packets);
            }
            self.sweep();
            if let Some(until_ns) = self.draining_until_ns {
                let open = self.connections.open() + self.datagrams.in_use();
                if open == 0 || self.now_ns >= until_ns {
                    return Ok(self.stop(open));
                }
            }
        }
    }

    fn wait(&mut self) -> io::Result<()> {
        let mut timeout = self.timeout();
        if timeout.is_zero() && self.parts.packets.is_some() {
            // A port is polled more often than the event queue can be.
            if self.now_ns < self.events_at_ns {
                return Ok(());
            }
            self.events_at_ns = self.now_ns + EVENTS_INTERVAL_NS;
        }
        if !timeout.is_zero() {
            timeout = timeout.min(self.until_deadline());
            self.parts.doorbell.announce_sleep();
            if self.receive_completions() > 0 {
                timeout = Duration::ZERO;
            }
        }
        let polled = self.parts.poll.poll(&mut self.events, Some(timeout));
        self.parts.doorbell.awake();
        match polled {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            polled => polled?,
        }
        let connection_first = self.connection_first;
        for event in &self.events {
            match event.token().0 {
                token if token >= connection_first => self.connections.on_event(
                    u32::try_from(token - connection_first).expect("tokens are made from u32"),
                    event.is_readable() || event.is_read_closed() || event.is_error(),
                    event.is_writable() || event.is_error(),
                    event.is_read_closed() || event.is_error(),
                ),
                token if token >= SOCKET_FIRST => {
                    self.readable[token - SOCKET_FIRST] = self.draining_until_ns.is_none();
                }
                _ if event.token() == ALARM => self.alarm.rang(),
                _ => {}
            }
        }
        if !self.events.is_empty() {
            self.busy_at_ns = self.now_ns;
        }
        Ok(())
    }

    /// How long the event queue may sleep.
    fn timeout(&self) -> Duration {
        // For what comes when nothing is to be done, and for workers that others wait for.
        let spin = match (self.lent, self.parts.dispatcher.waiting()) {
            (0, _) => self.parts.spin.idle,
            (_, 0) => Duration::ZERO,
            _ => self.parts.spin.turn,
        };
        let spinning = u128::from(self.now_ns.saturating_sub(self.busy_at_ns)) < spin.as_nanos();
        let endpoints_first = self.parts.listeners.len();
        let pending_socket = self.readable.iter().enumerate().any(|(index, readable)| {
            *readable && (index < endpoints_first || self.datagrams.has_buffers())
        });
        let polling = self.parts.packets.is_some() && self.packets_at_ns().is_none();
        if polling || spinning || self.unfinished || self.connections.has_ready() || pending_socket
        {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.sweep_at_ns.saturating_sub(self.now_ns).max(1_000_000))
    }

    /// The longest timeout with which the scheduler's deadline is kept. The alarm is set for it where
    /// the event queue's timeout, which counts milliseconds, would be too late.
    fn until_deadline(&mut self) -> Duration {
        let deadlines_ns = [self.parts.dispatcher.deadline_ns(), self.packets_at_ns()];
        let Some(deadline_ns) = deadlines_ns.into_iter().flatten().min() else {
            return Duration::MAX;
        };
        let now_ns = self.parts.clock.now_ns();
        if deadline_ns > now_ns && self.alarm.set(now_ns, deadline_ns) {
            return Duration::MAX;
        }
        Duration::from_nanos(deadline_ns.saturating_sub(now_ns))
    }

    /// When the port has to be looked at again, if it need not be polled till then: nothing has come for
    /// a while, and others may have use for the core.
    fn packets_at_ns(&self) -> Option<u64> {
        let idle_sleep = self.parts.packets.as_ref()?.idle_sleep()?;
        let idle = self.parts.spin.idle.is_zero()
            && self.now_ns.saturating_sub(self.busy_at_ns) >= IDLE_NS;
        let idle_sleep_ns = u64::try_from(idle_sleep.as_nanos()).unwrap_or(u64::MAX);
        idle.then(|| self.now_ns.saturating_add(idle_sleep_ns))
    }

    /// Wakes workers that fell asleep while something was sent to them.
    fn settle(&mut self) {
        if self.unsettled.is_empty() {
            return;
        }
        let links = &self.parts.links;
        settle(
            self.unsettled
                .iter()
                .filter_map(|worker| match &links[worker.index()] {
                    Link::Thread(link) => Some(link),
                    Link::Inline(_) => None,
                }),
        );
        self.unsettled.clear();
    }

    /// Takes back what workers have finished and gives them what they can take up next, so that none of
    /// them waits until a burst is read. Not where the net worker is a worker itself: its own request would
    /// hold up the burst, and what is most urgent in that is not known before its end.
    fn look_at_workers(&mut self) {
        if self.parts.shared.topology == Topology::Dedicated {
            self.now_ns = self.parts.clock.now_ns();
            self.receive_completions();
            self.carry_out(u64::MAX);
        }
    }

    fn receive_completions(&mut self) -> usize {
        let mut received = 0;
        if self.lent == 0 {
            return received;
        }
        for index in 0..self.parts.links.len() {
            let Link::Thread(link) = &mut self.parts.links[index] else {
                continue;
            };
            let Some(report) = link.receive() else {
                continue;
            };
            received += 1;
            let worker = WorkerId(u32::try_from(index).expect("workers are counted in u32"));
            match report {
                Report::Completed(task) => {
                    self.lent -= 1;
                    self.completed(worker, task, true);
                }
                Report::Yielded { served_ns } => {
                    let dispatcher = &mut self.parts.dispatcher;
                    dispatcher.yielded(self.now_ns, worker, served_ns);
                    self.busy_at_ns = self.now_ns;
                }
            }
        }
        received
    }

    fn completed(&mut self, worker: WorkerId, task: Task<H::Connection>, remote: bool) {
        let dispatcher = &mut self.parts.dispatcher;
        match task {
            Task::Stream(stream) => {
                dispatcher.completed(self.now_ns, worker, &stream.samples);
                self.connections
                    .give_back(stream, remote, dispatcher, self.now_ns);
            }
            Task::Datagram(datagram) => {
                dispatcher.completed(self.now_ns, worker, datagram.sample.as_slice());
                self.datagrams.give(datagram);
            }
        }
        self.busy_at_ns = self.now_ns;
    }

    fn accept(&mut self) {
        if self.draining_until_ns.is_some() {
            return;
        }
        let shared = &self.parts.shared;
        let connection_first = self.connection_first;
        for (index, listener) in self.parts.listeners.iter().enumerate() {
            if !self.readable[index] {
                continue;
            }
            for _ in 0..ACCEPTS_PER_TURN {
                let (socket, peer) = match listener.accept() {
                    Ok(accepted) => accepted,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.readable[index] = false;
                        break;
                    }
                    Err(error) if is_exhausted(&error) => {
                        // The next sweep tries again.
                        if !std::mem::replace(&mut self.exhausted, true) {
                            tracing::warn!(%error, "cannot accept");
                        }
                        self.readable[index] = false;
                        break;
                    }
                    // That connection is lost; there may be others.
                    Err(_) => continue,
                };
                let net = &shared.telemetry.net.0;
                if self.connections.open() >= shared.connections_max.load(Ordering::Relaxed) {
                    net.connections_refused.add(1);
                    let mut text = Vec::new();
                    let rejection = Rejection::TooManyConnections;
                    self.parts
                        .framing
                        .encode_rejection(&rejection, &[], &mut text);
                    // Best effort: an empty socket buffer takes a line.
                    let _ = io::Write::write(&mut { socket }, &text);
                    continue;
                }
                let handler = &self.parts.handler;
                let connect = AssertUnwindSafe(|| handler.connect(peer));
                let Ok(state) = catch_unwind(connect) else {
                    net.connections_refused.add(1);
                    continue;
                };
                self.connections.accept(
                    socket,
                    peer,
                    self.parts.poll.registry(),
                    |slot| Token(connection_first + slot as usize),
                    state,
                    self.now_ns,
                );
            }
        }
    }

    fn receive_datagrams(&mut self) {
        if self.draining_until_ns.is_some() {
            return;
        }
        for index in 0..self.parts.endpoints.len() {
            for _ in 0..DATAGRAMS_PER_TURN {
                if !self.receive_datagram(index) {
                    break;
                }
                self.look_at_workers();
            }
        }
    }

    /// Receives a datagram from a socket. Whether there may be another.
    fn receive_datagram(&mut self, index: usize) -> bool {
        let endpoint = &self.parts.endpoints[index];
        let readable = &mut self.readable[self.parts.listeners.len() + index];
        let Outlet::Socket(socket) = &endpoint.outlet else {
            return false;
        };
        if !*readable {
            return false;
        }
        let net = &self.parts.shared.telemetry.net.0;
        match self.datagrams.receive(endpoint, socket) {
            Ok(Some(datagram)) => {
                let slot = datagram.slot;
                let parts = (&*self.parts.framing, &mut self.parts.dispatcher);
                if !admit(parts, datagram, net, self.now_ns) {
                    self.datagrams.discard(slot);
                }
            }
            Ok(None) => {
                net.datagrams_received.add(1);
                net.malformed.add(1);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => *readable = false,
            // Every buffer is in use: the kernel queues, and then drops.
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => return false,
            // An earlier reply could not be delivered; nothing to do with this request.
            Err(_) => {}
        }
        *readable
    }

    fn receive_packets(&mut self) {
        if self.draining_until_ns.is_some() {
            return;
        }
        let net = &self.parts.shared.telemetry.net.0;
        let packets = self.parts.packets.as_mut();
        if packets.is_some_and(|packets| packets.poll(&net.packets)) {
            self.busy_at_ns = self.now_ns;
            while self.read_packets() {
                self.look_at_workers();
            }
        }
    }

    /// Reads some frames of the burst. Whether there were any.
    fn read_packets(&mut self) -> bool {
        let net = &self.parts.shared.telemetry.net.0;
        let Some(packets) = &mut self.parts.packets else {
            return false;
        };
        packets.read(FRAMES_PER_LOOK, &net.packets, |packet, endpoint| {
            let Some(datagram) = self.datagrams.hold(endpoint, packet) else {
                net.packets.overflows.add(1);
                return;
            };
            let slot = datagram.slot;
            let parts = (&*self.parts.framing, &mut self.parts.dispatcher);
            if !admit(parts, datagram, net, self.now_ns) {
                self.datagrams.discard(slot);
            }
        })
    }

    /// Reads requests, has them run and sends replies until nothing is left to do or the turn has
    /// taken its time.
    fn serve_turn(&mut self) {
        let end_ns = self.now_ns + TURN_NS_MAX;
        loop {
            self.connections.advance_ready(
                CONNECTIONS_PER_TURN,
                &mut self.parts.dispatcher,
                self.now_ns,
            );
            self.carry_out(end_ns);
            if !self.connections.has_ready() || self.now_ns > end_ns {
                return;
            }
            self.now_ns = self.parts.clock.now_ns();
        }
    }

    /// Carries out what the scheduler decides, worker 0's requests included where they are ours.
    fn carry_out(&mut self, end_ns: u64) {
        self.unfinished = !self.act(end_ns);
        self.settle();
    }

    /// Whether nothing is left to be carried out.
    fn act(&mut self, end_ns: u64) -> bool {
        for _ in 0..ACTIONS_PER_TURN {
            if self.now_ns > end_ns {
                return false;
            }
            match self.parts.dispatcher.poll(self.now_ns) {
                None => return true,
                Some(Action::Reject {
                    request,
                    request_type,
                }) => {
                    if request.0 < DATAGRAM_FIRST {
                        self.connections.reject(request.0, &self.parts.dispatcher);
                    } else {
                        self.parts.dispatcher.count_rejection(request_type);
                        self.datagrams.discard(request.0 - DATAGRAM_FIRST);
                    }
                }
                Some(Action::Preempt { worker, .. }) => {
                    // What the net thread runs itself is done by now.
                    if let Link::Thread(link) = &mut self.parts.links[worker.index()] {
                        link.preempt();
                    }
                }
                Some(Action::Run {
                    worker, request, ..
                }) => self.run(worker, request),
            }
        }
        false
    }

    /// Runs a request on `worker`, or goes on with it there if it yielded.
    fn run(&mut self, worker: WorkerId, request: RequestId) {
        let task = self.lend(request);
        let Link::Thread(link) = &mut self.parts.links[worker.index()] else {
            return self.run_here(worker, task);
        };
        let message = match task {
            Some(task) => {
                self.lent += 1;
                Message::Run { request, task }
            }
            None => Message::Resume(request),
        };
        let sent = link.send(message);
        assert!(sent.is_ok(), "the scheduler gave a busy worker a request");
        self.unsettled.push(worker);
    }

    /// Runs a request as the worker that the net worker is.
    fn run_here(&mut self, worker: WorkerId, task: Option<Task<H::Connection>>) {
        // It may take long.
        self.settle();
        let Some(mut task) = task else {
            unreachable!("what the net thread runs never yields");
        };
        if let Link::Inline(executor) = &mut self.parts.links[worker.index()] {
            self.now_ns = executor.run(&mut task);
        }
        self.completed(worker, task, false);
    }

    /// `None` for a request that is lent already, because it yielded.
    fn lend(&mut self, request: RequestId) -> Option<Task<H::Connection>> {
        if request.0 < DATAGRAM_FIRST {
            self.connections.lend(request.0).map(Task::Stream)
        } else {
            let datagram = self.datagrams.take(request.0 - DATAGRAM_FIRST);
            datagram.map(Task::Datagram)
        }
    }

    fn sweep(&mut self) {
        if self.now_ns < self.sweep_at_ns {
            return;
        }
        let idle_timeout_s = self.parts.shared.idle_timeout_s.load(Ordering::Relaxed);
        self.connections.sweep(idle_timeout_s, self.now_ns);
        // Also tries again to accept after the process had run out of file descriptors.
        self.readable.fill(self.draining_until_ns.is_none());
        self.exhausted = false;
        let soon = self.connections.has_lingering() || self.draining_until_ns.is_some();
        let interval_ns = if soon {
            SWEEP_INTERVAL_LINGER_NS
        } else {
            SWEEP_INTERVAL_NS
        };
        self.sweep_at_ns = self.now_ns + interval_ns;
    }

    fn start_draining(&mut self) {
        tracing::info!(
            connections = self.connections.open(),
            in_flight = self.lent,
            "draining"
        );
        let drain_ns = self
            .parts
            .shared
            .config
            .drain_timeout_ms
            .saturating_mul(1_000_000);
        self.draining_until_ns = Some(self.now_ns.saturating_add(drain_ns));
        self.readable.fill(false);
        self.sweep_at_ns = self.now_ns;
        for listener in &mut self.parts.listeners {
            let _ = self.parts.poll.registry().deregister(listener);
        }
        self.parts.listeners.clear();
        self.connections.drain();
    }

    fn stop(&mut self, open: usize) -> usize {
        for (worker, link) in (0..).map(WorkerId).zip(&mut self.parts.links) {
            if let Link::Thread(link) = link {
                // A full ring means a worker that is stuck; it is abandoned.
                let _ = link.send(Message::Stop);
                self.unsettled.push(worker);
            }
        }
        self.settle();
        if open > 0 { self.lent.max(1) } else { 0 }
    }
}

/// Whether the process or the system has no room for another connection.
fn is_exhausted(error: &io::Error) -> bool {
    let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| exhausted.contains(&errno))
}
