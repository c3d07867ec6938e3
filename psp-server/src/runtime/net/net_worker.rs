//! What the net workers of all topologies have: ports, a dispatcher, and those stages of a turn that do not depend on
//! who runs the requests. See the [room](super).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use psp_policy::{Relief, RequestId, RequestType, WorkerId};
use psp_protocols::Framing;

use super::commons::Commons;
use super::driven::Driven;
use super::lent::Lent;
use super::pauses::{BudgetedTurn, Paused, Pauses};
use super::polled_port::FRAMES_PER_LOOK;
use super::port::{Port, PortParts};
use crate::classifier::Classifier;
use crate::fiber::{self, Bell, Timers, WakeList};
use crate::handler::Handler;
use crate::runtime::channel::message::Report;
use crate::runtime::dispatch::dispatcher::Dispatcher;
#[cfg(all(test, not(loom)))]
use crate::runtime::dispatch::places::Places;
use crate::runtime::dispatch::turns::RunningTurn;
use crate::runtime::host::clock::Clock;
use crate::runtime::host::spin::Spin;
use crate::runtime::task::Task;
use crate::runtime::worker::contexts::ContextTask;
use crate::runtime::worker::inline::{EndedTurn, InlineWorker};
use crate::shared::{Receiver, Shared};
use crate::shutdown::Shutdown;
use crate::telemetry::WorkerCounters;
use crate::transport::owed::detached_max;
use crate::transport::room::Kept;
use crate::transport::run::Stream;

pub(super) const CONNECTIONS_PER_TURN: usize = 512;
/// Connections whose messages are sent before the net worker looks at its sockets again. Each costs a system call.
pub(super) const PUSHED_PER_TURN: usize = 16;
/// Time after which the messages to further connections have to wait for the next turn.
const PUSHED_NS_MAX: u64 = 50_000;
/// A net worker that polls a port sleeps, if it may, when nothing has come for this long.
const IDLE_NS: u64 = 50_000;
/// A net worker that has not asked the event queue for this long asks it before it sleeps.
const LOOK_AGE_NS_MAX: u64 = 1_000_000;
/// Actions carried out before the net worker looks at its sockets again.
pub(super) const ACTIONS_PER_TURN: usize = 256;

/// A request is not run, because no client waits for it.
pub(super) struct Dropped;

/// What a net worker starts with.
pub(crate) struct Parts<F: Framing, K, H: Handler<F::Head>> {
    pub(crate) port: PortParts<F, H>,
    /// The workers of its scheduler, and it itself if it is another one.
    pub(crate) executors: usize,
    pub(crate) dispatcher: Dispatcher<K>,
    pub(crate) clock: Clock,
    /// Requests that were woken.
    pub(crate) wakes: Arc<WakeList>,
    pub(crate) timers: Arc<Timers>,
    pub(crate) spin: Spin,
}

/// See the [module](self).
pub(crate) struct NetWorker<F: Framing, K, H: Handler<F::Head>> {
    pub(super) ports: Driven<F, H>,
    /// What all ports of the server have in common.
    pub(super) commons: Arc<Commons<H::Connection, F::Head>>,
    /// The time of the first timer, on the clock of the timers and on the runtime's.
    timer: Option<(u64, u64)>,
    pub(super) lent: Lent,
    pub(super) dispatcher: Dispatcher<K>,
    pub(super) shared: Receiver,
    pub(super) clock: Clock,
    pub(super) wakes: Arc<WakeList>,
    pub(super) timers: Arc<Timers>,
    spin: Spin,
    /// The last turn ended before all of the scheduler's decisions were carried out.
    pub(super) unfinished: bool,
    /// A request of this thread yielded in the last turn, maybe to what lies in a socket.
    pub(super) yielded: bool,
    /// Requests that had this thread for longer than they may.
    pub(super) pauses: Pauses,
    pub(super) now_ns: u64,
    pub(super) busy_at_ns: u64,
}

/// Sends the replies of a run that is complete, as much as its socket takes.
pub(super) fn send_replies<C, D>(stream: &mut Stream<C, D>, counters: &WorkerCounters) {
    let sent = stream.connection.send(usize::MAX);
    counters.bytes_sent.add(sent as u64);
}

impl<F: Framing, K, H: Handler<F::Head>> NetWorker<F, K, H> {
    pub(crate) fn new(parts: Parts<F, K, H>) -> io::Result<Self> {
        let (now_ns, shared) = (parts.clock.now_ns(), parts.port.shared.clone());
        let detached_max = detached_max(parts.port.framing.replies_in_order(), &shared.config);
        Ok(Self {
            commons: parts.port.commons.clone(),
            ports: Driven::new(Port::new(parts.port, now_ns)?),
            timer: None,
            lent: Lent::new(parts.executors),
            unfinished: false,
            yielded: false,
            pauses: Pauses::new(shared.config.net_budget_us),
            now_ns,
            busy_at_ns: 0,
            dispatcher: parts.dispatcher.with_detached(detached_max),
            shared,
            clock: parts.clock,
            wakes: parts.wakes,
            timers: parts.timers,
            spin: parts.spin,
        })
    }

    /// The places in the typed queues.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn places(&self) -> &Arc<Places> {
        self.dispatcher.places()
    }

    /// Makes room for whichever thread needs it, while this one serves.
    pub(super) fn keep_room<'a>(&self, shared: &'a Shared) -> Kept<'a> {
        let doorbell = self.ports.home().doorbell().clone();
        shared.buffers.room.keep(move || doorbell.ring())
    }

    /// Another turn of the loop begins. Drains from the turn on in which the shutdown is triggered.
    pub(super) fn begin_turn(&mut self, shutdown: &Shutdown) {
        self.now_ns = self.clock.now_ns();
        let stop = shutdown.is_triggered() || self.shared.shutdown.is_triggered();
        if stop && !self.ports.iter().all(Port::is_draining) {
            self.drain();
        }
    }

    /// Does what is due from time to time.
    pub(super) fn look_after(&mut self) {
        self.dispatcher.tick(self.now_ns);
        self.warn_of_stuck();
        let connections = &mut self.ports.home_mut().requests.connections;
        connections.make_room_for_replies(self.now_ns);
    }

    /// The turn of the loop ends.
    pub(super) fn end_turn(&mut self) {
        for port in self.ports.iter_mut() {
            port.flush();
            port.sweep(self.now_ns);
        }
    }

    /// Whether the drain timeout is over.
    pub(super) fn is_overdue(&self) -> bool {
        self.ports.home().is_overdue(self.now_ns)
    }

    /// Whether the net worker drains, and everything in flight is answered.
    pub(super) fn is_done(&self) -> bool {
        self.ports.iter().all(Port::is_drained) && self.lent.count() == 0
    }

    /// Connections and datagrams that have something left to do.
    pub(super) fn given_up(&self) -> usize {
        self.ports.home().requests.unfinished()
    }

    /// Goes on under another policy, if one was set.
    #[inline]
    pub(super) fn follow_policy(&mut self) {
        if let Some(policy) = self.shared.policy.take() {
            self.dispatcher.switch_to(self.now_ns, &policy);
            tracing::info!(policy = policy.spelled(), "policy changed");
        }
    }

    /// Takes nothing new from here on. Ports of others may come later.
    #[cold]
    fn drain(&mut self) {
        // So that handles say so.
        self.shared.shutdown.trigger();
        let (in_flight, now_ns) = (self.lent.count(), self.now_ns);
        for port in self.ports.iter_mut().filter(|port| !port.is_draining()) {
            port.start_draining(in_flight, now_ns);
        }
    }

    /// Logs requests that may never end, each once.
    #[inline]
    fn warn_of_stuck(&mut self) {
        while let Some((stuck, relief)) = self.dispatcher.next_stuck(self.now_ns) {
            let others = match relief {
                Relief::NotNeeded => "",
                Relief::OtherWorker => ": others of its type may use another worker",
                Relief::NoWorker => {
                    ": others of its type have its worker for half of the time, if it passes checkpoints"
                }
            };
            self.warn_of(&stuck, others);
        }
    }

    /// The same of a request that pauses again and again.
    fn warn_of_endless(&mut self, paused: &Paused) {
        let &Paused { worker, request, request_type, .. } = paused;
        let for_ns = self.pauses.served_ns(request);
        if self.dispatcher.is_stuck(request_type, for_ns) && self.pauses.tell(request) {
            self.dispatcher.count_stuck(worker);
            let stuck = RunningTurn { worker, request, request_type, for_ns };
            self.warn_of(&stuck, ": others have its thread for half of the time");
        }
    }

    /// `others` says what becomes of others.
    #[cold]
    fn warn_of(&mut self, stuck: &RunningTurn, others: &str) {
        let port = self.ports.port_of(stuck.request);
        let peer = port.and_then(|port| port.requests.peer(stuck.request));
        let peer = peer.map_or_else(|| "unknown".to_owned(), |peer| peer.to_string());
        let request_type = self.dispatcher.type_name(stuck.request_type);
        let worker = self.shared.global(stuck.worker).0;
        let for_ms = stuck.for_ns / 1_000_000;
        tracing::warn!(worker, request_type, peer, for_ms, "a request may never end{others}");
    }

    /// How long the event queue may sleep, before what is due at a time. `None` if it need not be asked now.
    pub(super) fn timeout(&mut self) -> Option<Duration> {
        let timeout = self.idle_timeout();
        if timeout.is_zero() && self.ports.home_mut().skips_events(self.now_ns) {
            return None;
        }
        let look_age_ns = { self.clock.now_ns() }.saturating_sub(self.ports.looked_ns());
        // Before the net worker sleeps it has to know which events are older.
        Some(match look_age_ns > LOOK_AGE_NS_MAX {
            true => Duration::ZERO,
            false => timeout,
        })
    }

    fn idle_timeout(&self) -> Duration {
        // The net worker polls for new work while it is idle, and for workers while requests wait for one.
        let spin = match self.lent.count() {
            0 => self.spin.idle,
            _ if self.dispatcher.any_waiting() => self.spin.turn,
            _ => Duration::ZERO,
        };
        let spinning = u128::from(self.now_ns.saturating_sub(self.busy_at_ns)) < spin.as_nanos();
        let polling = self.ports.home().is_polled() && self.port_poll_at_ns().is_none();
        let is_busy = self.unfinished || self.pauses.has_latest();
        if polling || spinning || is_busy || self.ports.iter().any(Port::is_ready) {
            return Duration::ZERO;
        }
        let sweeps_at_ns = self.ports.iter().map(Port::sweep_at_ns);
        let sweep_at_ns = sweeps_at_ns.min().unwrap_or(0);
        Duration::from_nanos(sweep_at_ns.saturating_sub(self.now_ns).max(1_000_000))
    }

    /// The longest timeout with which the scheduler's deadline is kept, and another one. The event queue's timeout
    /// counts milliseconds; if that is too late, the alarm is set.
    pub(super) fn until_deadline(&mut self, other_ns: Option<u64>) -> Duration {
        let deadlines_ns = [
            self.dispatcher.deadline_ns(),
            self.held_deadline_ns(),
            self.port_poll_at_ns(),
            self.timer_ns(),
            self.pauses.due_ns(),
            other_ns,
        ];
        let Some(deadline_ns) = deadlines_ns.into_iter().flatten().min() else {
            return Duration::MAX;
        };
        let now_ns = self.clock.now_ns();
        if deadline_ns > now_ns && self.ports.home_mut().alarm.set(now_ns, deadline_ns) {
            return Duration::MAX;
        }
        Duration::from_nanos(deadline_ns.saturating_sub(now_ns))
    }

    /// When a run has waited for a place, or a body for room, for as long as it may.
    fn held_deadline_ns(&self) -> Option<u64> {
        let deadlines = |port: &Port<F, H>| {
            let connections = &port.requests.connections;
            [connections.held_deadline_ns(), connections.bodies_deadline_ns()]
        };
        self.ports.iter().flat_map(deadlines).flatten().min()
    }

    /// When the first timer of a request that waits is due, on the runtime's clock.
    pub(super) fn timer_ns(&mut self) -> Option<u64> {
        let first_ns = self.timers.first_ns()?;
        if self.timer.is_none_or(|(known_ns, _)| known_ns != first_ns) {
            // Both clocks run alike. A difference between them does not move the alarm from turn to turn.
            let left_ns = first_ns.saturating_sub(self.timers.now_ns());
            self.timer = Some((first_ns, self.clock.now_ns().saturating_add(left_ns)));
        }
        self.timer.map(|(_, at_ns)| at_ns)
    }

    /// When the port has to be polled again, if the net worker need not poll it all the time: nothing has come
    /// for a while, and other threads may need the core.
    fn port_poll_at_ns(&self) -> Option<u64> {
        let idle_sleep = self.ports.home().idle_sleep()?;
        let idle = self.spin.idle.is_zero() && self.now_ns.saturating_sub(self.busy_at_ns) >= IDLE_NS;
        let idle_sleep_ns = u64::try_from(idle_sleep.as_nanos()).unwrap_or(u64::MAX);
        idle.then(|| self.now_ns.saturating_add(idle_sleep_ns))
    }

    /// Passes the events on to their sources. `slept` says that the net worker waited for the first of them. Returns
    /// whether the arbiter has told something.
    pub(super) fn note_events(&mut self, slept: bool) -> bool {
        let noted = { self.ports.home_mut() }.note_events(slept, self.clock.now_ns());
        if noted.any {
            self.busy_at_ns = self.now_ns;
        }
        noted.arbiter
    }

    /// Accepts connections, unless the ports drain.
    pub(super) fn accept(&mut self) {
        let now_ns = self.now_ns;
        for port in self.ports.iter_mut().filter(|port| !port.is_draining()) {
            port.accept(now_ns);
        }
    }

    /// Takes a burst of frames, if they come to the port at `at`. Returns whether there are any to read.
    pub(super) fn receive_burst(&mut self, at: usize) -> bool {
        let any = self.ports.at(at).receive_burst();
        if any {
            self.busy_at_ns = self.now_ns;
        }
        any
    }

    /// Receives the wakes of requests that wait. Returns their number.
    pub(super) fn receive_wakes(&mut self) -> usize {
        let mut received = 0;
        let (dispatcher, now_ns) = (&mut self.dispatcher, self.now_ns);
        let (lent, shared) = (&mut self.lent, &self.shared);
        self.wakes.take(|worker, request| {
            let worker = shared.local(worker);
            received += 1;
            lent.woken(worker);
            dispatcher.woken(now_ns, worker, request);
        });
        received
    }

    /// Receives what other threads left for the ports that are here. Returns the number of all.
    pub(super) fn receive_mail(&mut self) -> usize {
        let (dispatcher, now_ns) = (&self.dispatcher, self.now_ns);
        let ports = self.ports.iter_mut();
        ports.map(|port| port.receive_mail(dispatcher, now_ns)).sum()
    }

    /// Has a request go on that has been away for long enough. What waits has a chance first, if another one has paused
    /// just now.
    #[inline]
    pub(super) fn resume_paused(&mut self) {
        if self.pauses.has_latest() {
            return;
        }
        if let Some(paused) = self.pauses.next_due(self.now_ns) {
            self.go_on(&paused);
        }
    }

    /// Whether others need the thread that a request gave back.
    #[cold]
    pub(super) fn is_needed_after(&mut self, paused: &Paused) -> bool {
        self.warn_of_endless(paused);
        let dispatcher = &self.dispatcher;
        self.ports.iter().any(Port::is_ready)
            || dispatcher.any_short_waiting(self.pauses.budget_ns())
            || self.pauses.is_lasting(paused.request) && dispatcher.any_waiting()
    }

    /// A request that paused goes on at once, or is away.
    #[cold]
    pub(super) fn settle(&mut self, paused: Paused, for_others: bool) {
        if for_others || self.pauses.any_away() {
            self.pauses.put_away(paused, for_others);
        } else {
            self.go_on(&paused);
        }
    }

    pub(super) fn go_on(&mut self, paused: &Paused) {
        let (request, request_type) = (paused.request, paused.request_type);
        self.dispatcher.goes_on(self.now_ns, request, request_type);
        // The scheduler has something to decide.
        self.unfinished = true;
    }

    /// Takes a request back that `worker` completed, or brings it to its port. `remote` says that the worker is not the
    /// net thread.
    #[inline]
    pub(super) fn take_back(&mut self, task: Task<H::Connection, F::Head>, worker: WorkerId, remote: bool) {
        self.dispatcher.completed(self.now_ns, worker, task.samples());
        self.bring_home(task, worker, remote);
    }

    /// The same, whoever decided that the request runs.
    #[inline]
    pub(super) fn bring_home(&mut self, task: Task<H::Connection, F::Head>, worker: WorkerId, remote: bool) {
        match self.ports.find(task.port()) {
            Some(port) => {
                let requests = &mut port.requests;
                requests.take_back(task, remote, &self.dispatcher, self.now_ns);
            }
            None => self.bring_back(task, worker),
        }
    }

    /// Sends the replies of a request that `worker` completed and whose port is elsewhere, and brings it there. The
    /// reply to a datagram is sent, or leaves a polled port at the end of the turn if the own port is here.
    #[cold]
    fn bring_back(&self, mut task: Task<H::Connection, F::Head>, worker: WorkerId) {
        let worker = self.shared.global(worker);
        let counters = &self.shared.telemetry.workers[worker.index()];
        match &mut task {
            Task::Stream(stream) => send_replies(stream, counters),
            Task::Datagram(datagram) if !self.ports.is_home() => {
                let unsent = datagram.flush(worker);
                counters.replies_unsent.add(unsent as u64);
            }
            Task::Datagram(_) => {}
        }
        self.commons.returns.give(task);
    }

    /// Gives free places in typed queues to requests that wait for them, and free room to bodies. Returns whether there
    /// were any.
    pub(super) fn admit_held(&mut self) -> bool {
        let (dispatcher, now_ns) = (&mut self.dispatcher, self.now_ns);
        let mut have_entered = false;
        for port in self.ports.iter_mut() {
            let connections = &mut port.requests.connections;
            have_entered |= connections.admit_held(dispatcher, now_ns);
            have_entered |= connections.admit_bodies(now_ns);
        }
        have_entered
    }

    /// Records that a request found no room.
    pub(super) fn note_rejection(&self, request: RequestId, request_type: RequestType) {
        let slot = self.dispatcher.slot(request_type);
        self.shared.trace.rejected(self.shared.index(), request, slot);
    }

    /// Refuses a request that found no room.
    pub(super) fn reject(&mut self, request: RequestId, request_type: RequestType) {
        if let Some(port) = self.ports.port_of(request) {
            let requests = &mut port.requests;
            requests.reject(request, request_type, &self.dispatcher);
        }
    }

    /// The task of a request that other workers do not find, or `None` if it has begun before. An error if it is
    /// dropped: no client waits for it.
    #[inline]
    pub(super) fn lend(&mut self, request: RequestId) -> Result<Option<ContextTask<F, H>>, Dropped> {
        // Without its port, it began here.
        let Some(port) = self.ports.port_of(request) else {
            return Ok(None);
        };
        let turn_ns = self.dispatcher.turn_ns(self.now_ns, request);
        match { &mut port.requests }.drop_unwanted(request, &self.dispatcher, turn_ns) {
            true => Err(Dropped),
            false => Ok(port.requests.lend(request)),
        }
    }

    /// Runs a turn of a task on the net thread, which is `worker`: the first, or another one of the task that it holds.
    /// It has the thread for its budget.
    #[inline]
    pub(super) fn run_here(
        &mut self,
        own: &mut InlineWorker<F, H>,
        worker: WorkerId,
        request: RequestId,
        task: Option<ContextTask<F, H>>,
    ) -> EndedTurn<ContextTask<F, H>> {
        self.lent.begins(worker, task.is_some());
        let (clock, budget) = (&self.clock, self.pauses.budget(self.now_ns));
        let ended = match budget.is_unlimited() {
            true => own.run(request, task),
            false => fiber::watch_turn(&BudgetedTurn { clock, budget }, || own.run(request, task)),
        };
        self.lent.ended(worker, &ended.report);
        ended
    }

    /// A turn of a request that the net thread ran as `worker` has ended.
    #[inline]
    pub(super) fn ran_here(
        &mut self,
        worker: WorkerId,
        request: RequestId,
        request_type: RequestType,
        report: Report<ContextTask<F, H>>,
    ) {
        self.yielded |= matches!(report, Report::Yielded { .. } | Report::Paused { .. });
        self.busy_at_ns = self.now_ns;
        match report {
            Report::Completed(task) => {
                self.pauses.end(self.now_ns, request);
                self.take_back(task, worker, false);
            }
            Report::Blocked { served_ns } => {
                self.dispatcher.blocked(self.now_ns, worker, served_ns);
            }
            Report::Yielded { served_ns } => {
                self.dispatcher.yielded(self.now_ns, worker, served_ns);
            }
            Report::Paused { served_ns } => self.pauses.pause(Paused {
                worker,
                request,
                request_type,
                served_ns,
                since_ns: self.now_ns,
            }),
        }
    }

    /// The same of a control request.
    pub(super) fn ran_control(
        &mut self,
        worker: WorkerId,
        request: RequestId,
        request_type: RequestType,
        ended: EndedTurn<ContextTask<F, H>>,
    ) {
        self.dispatcher.ran_control(worker, request_type);
        self.now_ns = ended.ended_ns;
        self.busy_at_ns = self.now_ns;
        match ended.report {
            Report::Completed(task) => {
                self.dispatcher.control_ended(request);
                self.bring_home(task, worker, false);
            }
            Report::Blocked { .. } => {
                self.dispatcher.control_blocked(self.now_ns, request, request_type);
            }
            Report::Yielded { .. } | Report::Paused { .. } => {
                self.dispatcher.control_yielded(request, request_type);
            }
        }
    }
}

/// What reads requests.
impl<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>> NetWorker<F, K, H> {
    /// Receives a datagram from a socket of the port at `at`. Returns whether there may be another.
    pub(super) fn receive_datagram(&mut self, at: usize, socket: usize) -> bool {
        let (dispatcher, now_ns) = (&mut self.dispatcher, self.now_ns);
        { self.ports.at(at) }.receive_datagram(socket, dispatcher, now_ns)
    }

    /// Reads some frames of the port at `at`. Returns whether there were any.
    pub(super) fn read_frames(&mut self, at: usize) -> bool {
        let (dispatcher, now_ns) = (&mut self.dispatcher, self.now_ns);
        let port = self.ports.at(at);
        port.read_frames(FRAMES_PER_LOOK, dispatcher, now_ns)
    }

    /// Sends messages, behind the requests that are at hand, and not for long: a message to thousands of connections
    /// shall hold up no request that comes meanwhile.
    #[inline]
    pub(super) fn send_pushed(&mut self) {
        if self.ports.iter().any(Port::has_pushed) {
            self.send_some_pushed();
        }
    }

    #[cold]
    fn send_some_pushed(&mut self) {
        let end_ns = self.clock.now_ns() + PUSHED_NS_MAX;
        for port in self.ports.iter_mut() {
            let connections = &mut port.requests.connections;
            for _ in 0..PUSHED_PER_TURN {
                let has_sent = connections.send_pushed(&mut self.dispatcher, self.now_ns);
                if !has_sent || self.clock.now_ns() > end_ns {
                    break;
                }
            }
        }
        // Their connections may have had requests, too.
        self.unfinished = true;
    }
}
