//! The net worker's loop. See the [room](super).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use psp_arbiter::ThreadId;
use psp_policy::{Action, HandOff, Relief, RequestId, RequestType, WorkerId};
use psp_protocols::Framing;

use super::commons::Commons;
use super::driven::{Driven, PortLeases};
use super::granted_cores::GrantedCores;
use super::long_turn::LongTurn;
use super::pauses::{BudgetedTurn, Paused, Pauses};
use super::polled_port::FRAMES_PER_LOOK;
use super::port::{Port, PortParts};
use super::time_sharing::{Patience, TimeSharing};
use super::workers::{Link, Workers};
use crate::classifier::Classifier;
use crate::config::Topology;
use crate::error::RunError;
use crate::fiber::{self, Bell, Timers, TurnWatch, WakeList};
use crate::handler::Handler;
use crate::runtime::channel::message::Report;
use crate::runtime::dispatch::dispatcher::{Arrived, Dispatcher};
use crate::runtime::dispatch::lengths::Length;
use crate::runtime::dispatch::turns::RunningTurn;
use crate::runtime::distributed::{Joined, Peers};
use crate::runtime::host::clock::Clock;
use crate::runtime::host::scheduling::Demotion;
use crate::runtime::host::spin::Spin;
use crate::runtime::task::Task;
use crate::runtime::worker::contexts::ContextTask;
use crate::runtime::worker::inline::EndedTurn;
use crate::shared::Receiver;
use crate::shutdown::Shutdown;
use crate::telemetry::WorkerCounters;
use crate::trace::Turn;
use crate::transport::run::{Stream, TurnedDown};

const DATAGRAMS_PER_TURN: usize = 64;
const CONNECTIONS_PER_TURN: usize = 512;
/// Connections whose messages are sent before the net worker looks at its sockets again. Each costs a system call.
const PUSHED_PER_TURN: usize = 16;
/// Time after which the messages to further connections have to wait for the next turn.
const PUSHED_NS_MAX: u64 = 50_000;
/// A net worker that polls a port sleeps, if it may, when nothing has come for this long.
const IDLE_NS: u64 = 50_000;
/// A net worker that has not asked the event queue for this long asks it before it sleeps.
const LOOK_AGE_NS_MAX: u64 = 1_000_000;
/// Actions carried out before the net worker looks at its sockets again.
const ACTIONS_PER_TURN: usize = 256;
/// Time after which a turn of the loop starts no more actions.
const TURN_NS_MAX: u64 = 200_000;
/// Time for requests that the last turn left, before the net worker reads further ones. Without it, a pipeline of
/// shorter requests, of which each turn reads more, would hold up longer requests until it ends.
const LEFT_NS_MAX: u64 = TURN_NS_MAX / 2;
/// Time that control requests have in a turn before others, where more of them wait.
const CONTROL_NS_MAX: u64 = TURN_NS_MAX / 2;
/// For how long a worker waits for its port before it looks for something else to do.
const HOME_PATIENCE: Duration = Duration::from_millis(1);
/// A request is not run, because no client waits for it.
struct Dropped;

/// What a net worker starts with.
pub(crate) struct Parts<F: Framing, K, H: Handler<F::Head>> {
    pub(crate) port: PortParts<F, H>,
    /// `None` where a port belongs to its thread for good.
    pub(crate) leases: Option<Arc<PortLeases<F, H>>>,
    pub(crate) links: Vec<Link<F, H>>,
    pub(crate) dispatcher: Dispatcher<K>,
    /// The place among workers that run each other's requests.
    pub(crate) peers: Option<Peers<ContextTask<F, H>>>,
    /// How the net worker steps back while it runs a long request, if it does.
    pub(crate) demotion: Option<Demotion>,
    pub(crate) shared: Receiver,
    pub(crate) clock: Clock,
    /// Requests that were woken.
    pub(crate) wakes: Arc<WakeList>,
    pub(crate) timers: Arc<Timers>,
    pub(crate) spin: Spin,
}

/// See the [room](super).
pub(crate) struct NetWorker<F: Framing, K, H: Handler<F::Head>> {
    ports: Driven<F, H>,
    /// What all ports of the server have in common.
    commons: Arc<Commons<H::Connection, F::Head>>,
    /// The time of the first timer, on the clock of the timers and on the runtime's.
    timer: Option<(u64, u64)>,
    workers: Workers<F, H>,
    /// The place among workers that run each other's requests.
    peers: Option<Peers<ContextTask<F, H>>>,
    /// The cores that an arbiter grants, if one is asked.
    cores: Option<GrantedCores>,
    dispatcher: Dispatcher<K>,
    demotion: Option<Demotion>,
    shared: Receiver,
    clock: Clock,
    wakes: Arc<WakeList>,
    timers: Arc<Timers>,
    spin: Spin,
    /// The last turn ended before all of the scheduler's decisions were carried out.
    unfinished: bool,
    /// A request of this thread yielded in the last turn, maybe to what lies in a socket.
    yielded: bool,
    /// Requests that had this thread for longer than they may.
    pauses: Pauses,
    /// Requests that are stuck on other threads.
    sharing: TimeSharing,
    now_ns: u64,
    busy_at_ns: u64,
}

/// Sends the replies of a run that is complete, as much as its socket takes.
fn send_replies<C, D>(stream: &mut Stream<C, D>, counters: &WorkerCounters) {
    let sent = stream.connection.send(usize::MAX);
    counters.bytes_sent.add(sent as u64);
}

impl<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>> NetWorker<F, K, H> {
    pub(crate) fn new(parts: Parts<F, K, H>) -> io::Result<Self> {
        let Parts {
            port,
            leases,
            links,
            dispatcher,
            peers,
            demotion,
            shared,
            clock,
            wakes,
            timers,
            spin,
        } = parts;
        let now_ns = clock.now_ns();
        Ok(Self {
            commons: port.commons.clone(),
            ports: Driven::new(Port::new(port, now_ns)?, leases),
            timer: None,
            sharing: TimeSharing::new(shared.workers_each(), shared.config.net_budget_us),
            workers: Workers::new(links, ACTIONS_PER_TURN),
            peers,
            cores: None,
            unfinished: false,
            yielded: false,
            pauses: Pauses::new(shared.config.net_budget_us),
            now_ns,
            busy_at_ns: 0,
            dispatcher,
            demotion,
            shared,
            clock,
            wakes,
            timers,
            spin,
        })
    }

    /// Asks the arbiter, if there is to be one, for cores for this thread and for the workers' threads.
    pub(crate) fn ask_for_cores(&mut self, workers: &[ThreadId]) -> io::Result<()> {
        if let Some(path) = &self.shared.config.arbiter {
            let registry = self.ports.home().queue().poll().registry();
            let cores = GrantedCores::new(path, workers, self.shared.shared().clone(), registry)?;
            self.cores = Some(cores);
        }
        Ok(())
    }

    /// Serves until the shutdown is triggered and everything in flight is answered, or the drain
    /// timeout is over. Then the workers stop, too. Returns the number of connections and datagrams that were
    /// given up.
    pub(crate) fn serve(mut self, shutdown: &Shutdown) -> Result<usize, RunError> {
        let (shared, doorbell) = (self.shared.clone(), self.ports.home().doorbell().clone());
        // A worker that receives for itself has no other worker to ask.
        let _kept = (shared.topology != Topology::Distributed)
            .then(|| shared.buffers.room.keep(move || doorbell.ring()));
        loop {
            self.wait().map_err(RunError::Events)?;
            self.now_ns = self.clock.now_ns();
            let stop = shutdown.is_triggered() || self.shared.shutdown.is_triggered();
            if stop && !self.ports.iter().all(Port::is_draining) {
                self.drain();
            }
            if self.ports.can_exchange() {
                self.offer_arrived();
                if self.ports.exchange() {
                    // What lies there comes before a request that yielded to it.
                    self.look_at_others(false).map_err(RunError::Events)?;
                }
            }
            self.receive_reports();
            self.resume_paused();
            self.follow_policy();
            self.receive_requests();
            self.dispatcher.tick(self.now_ns);
            self.warn_of_stuck();
            let connections = &mut self.ports.home_mut().requests.connections;
            connections.make_room_for_replies(self.now_ns);
            self.serve_turn();
            self.share_workers();
            self.follow_cores();
            for port in self.ports.iter_mut() {
                port.flush();
                port.sweep(self.now_ns);
            }
            if self.is_drained() {
                return Ok(self.ports.home().requests.unfinished());
            }
        }
    }

    /// Goes on under another policy, if one was set.
    #[inline]
    fn follow_policy(&mut self) {
        if self.peers.as_ref().is_some_and(Peers::is_behind) {
            self.succeed();
        } else if self.peers.is_none()
            && let Some(policy) = self.shared.policy.take()
        {
            self.dispatcher.switch_to(self.now_ns, &policy);
            tracing::info!(policy = policy.spelled(), "policy changed");
        }
    }

    /// Goes on under the policy that is in force, as a worker among others.
    #[cold]
    fn succeed(&mut self) {
        self.offer_arrived();
        let Some(peers) = &mut self.peers else {
            return;
        };
        let Joined {
            policy,
            member,
            left,
        } = peers.join();
        let places = member.as_ref().map(|_| peers.places().clone());
        let scheduler = Joined::scheduler(&self.shared, &policy, member);
        self.dispatcher.succeed(self.now_ns, scheduler, places);
        for waiting in left {
            let (request, request_type) = (waiting.request, waiting.request_type);
            self.dispatcher.adopt(self.now_ns, request, request_type);
        }
        self.offer_arrived();
        // The scheduler may have decided something.
        self.unfinished = true;
    }

    /// Whether workers run each other's requests.
    #[inline]
    fn has_group(&self) -> bool {
        self.peers.as_ref().is_some_and(Peers::has_group)
    }

    /// Takes nothing new from here on. Ports of others may come later.
    #[cold]
    fn drain(&mut self) {
        // So that handles say so.
        self.shared.shutdown.trigger();
        let (in_flight, now_ns) = (self.workers.lent(), self.now_ns);
        for port in self.ports.iter_mut().filter(|port| !port.is_draining()) {
            port.start_draining(in_flight, now_ns);
        }
    }

    /// Whether everything in flight is answered, or the drain timeout is over.
    fn is_drained(&mut self) -> bool {
        let is_over = self.ports.home().is_overdue(self.now_ns);
        let is_done = self.ports.iter().all(Port::is_drained) && self.workers.lent() == 0;
        is_over || (is_done && self.peers.as_mut().is_none_or(Peers::may_leave))
    }

    /// Has workers come and go with the cores that the arbiter grants, and tells it what the load needs.
    fn follow_cores(&mut self) {
        let Some(cores) = &mut self.cores else {
            return;
        };
        if self.workers.lent() > 0 {
            cores.work(self.now_ns);
        }
        let (needed, workers) = (self.dispatcher.needed(self.now_ns), &self.workers);
        let is_busy = |worker| workers.has_runnable(worker);
        if let Some(present) = cores.turn(self.now_ns, needed, is_busy) {
            self.dispatcher.set_present(self.now_ns, present);
            // The scheduler may have decided something.
            self.unfinished = true;
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
        let &Paused {
            worker,
            request,
            request_type,
            ..
        } = paused;
        let for_ns = self.pauses.served_ns(request);
        if self.dispatcher.is_stuck(request_type, for_ns) && self.pauses.tell(request) {
            self.dispatcher.count_stuck(worker);
            let stuck = RunningTurn {
                worker,
                request,
                request_type,
                for_ns,
            };
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
        tracing::warn!(
            worker,
            request_type,
            peer,
            for_ms,
            "a request may never end{others}"
        );
    }

    /// Waits for events, for as long as there is nothing to do.
    fn wait(&mut self) -> io::Result<()> {
        let mut timeout = self.timeout();
        if timeout.is_zero() && self.ports.home_mut().skips_events(self.now_ns) {
            return Ok(());
        }
        let look_age_ns = { self.clock.now_ns() }.saturating_sub(self.ports.looked_ns());
        if look_age_ns > LOOK_AGE_NS_MAX {
            // Before the net worker sleeps it has to know which events are older.
            timeout = Duration::ZERO;
        }
        if !timeout.is_zero() {
            self.ports.announce_sleep();
            self.peers.as_ref().inspect(|peers| peers.announce_sleep());
            timeout = timeout.min(self.until_deadline());
            if self.receive_reports() > 0
                || self.shared.buffers.room.is_asked()
                || self.ports.can_exchange()
                // Others give places back.
                || self.admit_held()
                || self.helps_others()
            {
                timeout = Duration::ZERO;
            }
        }
        let waited = self.ports.wait(timeout);
        self.awake();
        let slept = !timeout.is_zero();
        if waited? {
            self.note_events(slept);
        }
        self.look_at_others(slept)
    }

    /// Asks the event queues of others' ports.
    fn look_at_others(&mut self, slept: bool) -> io::Result<()> {
        for port in self.ports.others_mut() {
            if port.wait(Duration::ZERO)? && port.note_events(slept, self.clock.now_ns()).any {
                self.busy_at_ns = self.now_ns;
            }
        }
        Ok(())
    }

    fn awake(&self) {
        self.ports.awake();
        self.peers.as_ref().inspect(|peers| peers.awake());
    }

    /// Before it sleeps, a worker looks once more for requests that others have put where it finds them: they may not
    /// have seen that it was about to. Returns whether there was one.
    fn helps_others(&mut self) -> bool {
        if !self.has_group() {
            return false;
        }
        self.now_ns = self.clock.now_ns();
        let Some(action) = self.next_action() else {
            return false;
        };
        self.awake();
        self.carry_out_one(action);
        true
    }

    /// Passes the events on to their sources. `slept` says that the net worker waited for the first of them.
    fn note_events(&mut self, slept: bool) {
        let noted = { self.ports.home_mut() }.note_events(slept, self.clock.now_ns());
        if noted.arbiter {
            self.cores.as_mut().map(GrantedCores::on_event);
        }
        if noted.any {
            self.busy_at_ns = self.now_ns;
        }
    }

    /// How long the event queue may sleep.
    fn timeout(&self) -> Duration {
        // The net worker polls for new work while it is idle, and for workers while requests wait for one.
        let spin = match self.workers.lent() {
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

    /// The longest timeout with which the scheduler's deadline is kept. The event queue's timeout counts
    /// milliseconds; if that is too late, the alarm is set.
    fn until_deadline(&mut self) -> Duration {
        let deadlines_ns = [
            self.dispatcher.deadline_ns(),
            self.held_deadline_ns(),
            self.port_poll_at_ns(),
            self.timer_ns(),
            self.pauses.due_ns(),
            self.sharing.due_ns(),
            self.ask_at_ns(),
            self.cores.as_ref().and_then(GrantedCores::deadline_ns),
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
            [
                connections.held_deadline_ns(),
                connections.bodies_deadline_ns(),
            ]
        };
        self.ports.iter().flat_map(deadlines).flatten().min()
    }

    /// When the first timer of a request that waits is due, on the runtime's clock.
    fn timer_ns(&mut self) -> Option<u64> {
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
        let idle =
            self.spin.idle.is_zero() && self.now_ns.saturating_sub(self.busy_at_ns) >= IDLE_NS;
        let idle_sleep_ns = u64::try_from(idle_sleep.as_nanos()).unwrap_or(u64::MAX);
        idle.then(|| self.now_ns.saturating_add(idle_sleep_ns))
    }

    /// Accepts connections and receives datagrams, unless the ports drain.
    fn receive_requests(&mut self) {
        let now_ns = self.now_ns;
        for port in self.ports.iter_mut().filter(|port| !port.is_draining()) {
            port.accept(now_ns);
        }
        if !self.takes_one_by_one() {
            self.receive_datagrams();
        }
        if self.ports.home().is_draining() {
            return;
        }
        self.receive_frames();
    }

    /// Takes a burst of frames from each port that is polled, and reads it unless requests are taken one by one.
    fn receive_frames(&mut self) {
        for at in 0..self.ports.count() {
            if !self.ports.at(at).receive_burst() {
                continue;
            }
            self.busy_at_ns = self.now_ns;
            while !self.takes_one_by_one() && self.read_frames(at) {
                self.look_at_workers();
            }
        }
    }

    /// Reads some frames of the port at `at`. Returns whether there were any.
    fn read_frames(&mut self, at: usize) -> bool {
        let (dispatcher, now_ns) = (&mut self.dispatcher, self.now_ns);
        let port = self.ports.at(at);
        port.read_frames(FRAMES_PER_LOOK, dispatcher, now_ns)
    }

    /// Receives a bounded number of datagrams from each socket.
    fn receive_datagrams(&mut self) {
        for at in 0..self.ports.count() {
            for index in 0..self.ports.at(at).datagram_sockets() {
                for _ in 0..DATAGRAMS_PER_TURN {
                    let (dispatcher, now_ns) = (&mut self.dispatcher, self.now_ns);
                    let port = self.ports.at(at);
                    if !port.receive_datagram(index, dispatcher, now_ns) {
                        break;
                    }
                    self.look_at_workers();
                }
            }
        }
    }

    /// Takes completed requests back and gives workers their next ones, so that no worker waits for the end
    /// of a burst. Does nothing if the net thread is a worker itself: its own request would
    /// hold up the burst, and the most urgent request of the burst is known only at its end.
    fn look_at_workers(&mut self) {
        if self.shared.topology == Topology::Dedicated {
            self.now_ns = self.clock.now_ns();
            self.receive_reports();
            self.carry_out(u64::MAX);
        }
    }

    /// Receives a report of each worker, the wakes of requests that wait, connections that come back, deferred
    /// replies, and what was pushed. Returns the number of all.
    fn receive_reports(&mut self) -> usize {
        self.timers.wake_due();
        self.receive_reports_of_workers() + self.receive_mail()
    }

    /// Receives what other threads left for the ports that are here. Returns the number of all.
    fn receive_mail(&mut self) -> usize {
        let (dispatcher, now_ns) = (&self.dispatcher, self.now_ns);
        let ports = self.ports.iter_mut();
        ports
            .map(|port| port.receive_mail(dispatcher, now_ns))
            .sum()
    }

    fn receive_reports_of_workers(&mut self) -> usize {
        let mut received = 0;
        if self.workers.lent() == 0 {
            return received;
        }
        let (dispatcher, now_ns) = (&mut self.dispatcher, self.now_ns);
        let workers = &mut self.workers;
        let shared = &self.shared;
        self.wakes.take(|worker, request| {
            let worker = shared.local(worker);
            received += 1;
            workers.woken(worker);
            dispatcher.woken(now_ns, worker, request);
        });
        for index in 0..self.workers.count() {
            let Some(report) = self.workers.receive(index) else {
                continue;
            };
            received += 1;
            self.busy_at_ns = self.now_ns;
            let worker = WorkerId(u32::try_from(index).expect("workers are counted in u32"));
            let was_asked = self.sharing.turn_ended(worker);
            match report {
                Report::Completed(task) => {
                    if let Some(request) = self.dispatcher.request_on(worker) {
                        self.sharing.end(self.now_ns, worker, request);
                    }
                    self.take_back(task, worker, true);
                }
                Report::Yielded { served_ns } if was_asked => self.stuck_yielded(worker, served_ns),
                Report::Yielded { served_ns } => {
                    self.dispatcher.yielded(self.now_ns, worker, served_ns);
                }
                Report::Blocked { served_ns } => {
                    self.dispatcher.blocked(self.now_ns, worker, served_ns);
                }
                Report::Paused { .. } => unreachable!("it has a thread without sockets"),
            }
        }
        received
    }

    /// A stuck request on `worker` yielded. Others have its worker now.
    #[cold]
    fn stuck_yielded(&mut self, worker: WorkerId, served_ns: u64) {
        let Some(turn) = self.dispatcher.unasked(self.now_ns, worker) else {
            return self.dispatcher.yielded(self.now_ns, worker, served_ns);
        };
        self.dispatcher.shares(self.now_ns, worker, served_ns);
        self.sharing.put_away(Paused {
            worker,
            request: turn.request,
            request_type: turn.request_type,
            served_ns,
            since_ns: self.now_ns,
        });
    }

    /// Has stuck requests yield to those that wait, and go on when these have had their workers. To be called when
    /// the policy has decided.
    #[inline]
    fn share_workers(&mut self) {
        if self.sharing.any_away() && !self.unfinished {
            self.resume_stuck();
        }
        if self.workers.lent() > 0 && self.dispatcher.any_waiting() {
            for worker in self.workers.ids() {
                if self.asks_in_ns(worker) == Some(0) {
                    self.sharing.ask(worker);
                    self.dispatcher.asked(worker);
                    self.workers.preempt(worker);
                }
            }
        }
    }

    #[cold]
    fn resume_stuck(&mut self) {
        let (dispatcher, now_ns) = (&self.dispatcher, self.now_ns);
        let is_idle = |worker| dispatcher.request_on(worker).is_none();
        if let Some(paused) = self.sharing.next_due(now_ns, is_idle) {
            self.go_on(&paused);
        }
    }

    /// In how long the request that runs on `worker` is asked to yield if others wait.
    fn asks_in_ns(&self, worker: WorkerId) -> Option<u64> {
        let turn = self.dispatcher.unasked(self.now_ns, worker)?;
        let after_ns = match self.sharing.patience(worker, turn.request)? {
            Patience::Ns(budget_ns) => budget_ns,
            Patience::PartOfStuck(part) => self.dispatcher.stuck_after_ns(turn.request_type) / part,
        };
        Some(after_ns.saturating_sub(turn.for_ns))
    }

    /// When the next stuck request is asked to yield.
    fn ask_at_ns(&self) -> Option<u64> {
        if self.workers.lent() == 0 || !self.dispatcher.any_waiting() {
            return None;
        }
        let asks_in_ns = self
            .workers
            .ids()
            .filter_map(|worker| self.asks_in_ns(worker));
        Some(self.now_ns.saturating_add(asks_in_ns.min()?))
    }

    /// Has a request go on that has been away for long enough. Where ports move, the one that paused last may do so,
    /// too, before anything else is read: no request may wait here that came through a port which leaves.
    #[inline]
    fn resume_paused(&mut self) {
        if self.peers.is_some() {
            self.settle_pause();
        }
        if let Some(paused) = self.pauses.next_due(self.now_ns) {
            self.go_on(&paused);
        }
    }

    /// The request that paused last goes on at once if there is no other that may be short, and else is away.
    #[inline]
    fn settle_pause(&mut self) {
        if let Some(paused) = self.pauses.take_latest() {
            self.settle(paused);
        }
    }

    #[cold]
    fn settle(&mut self, paused: Paused) {
        self.warn_of_endless(&paused);
        let dispatcher = &mut self.dispatcher;
        let is_lasting = self.pauses.is_lasting(paused.request);
        let has_queue = self.peers.as_ref().is_some_and(Peers::has_queue);
        let for_others = has_queue
            || self.ports.iter().any(Port::is_ready)
            || dispatcher.any_short_waiting(self.pauses.budget_ns())
            || is_lasting && dispatcher.any_waiting();
        if self.peers.is_none() {
            dispatcher.paused(self.now_ns, paused.worker, paused.served_ns);
        }
        if for_others || self.pauses.any_away() {
            self.pauses.put_away(paused, for_others);
        } else {
            self.go_on(&paused);
        }
    }

    fn go_on(&mut self, paused: &Paused) {
        let (request, request_type) = (paused.request, paused.request_type);
        self.dispatcher.goes_on(self.now_ns, request, request_type);
        // The scheduler has something to decide.
        self.unfinished = true;
    }

    /// Takes a request back that `worker` completed, or brings it to its port. `remote` says that the worker is not the
    /// net thread.
    #[inline]
    fn take_back(&mut self, task: Task<H::Connection, F::Head>, worker: WorkerId, remote: bool) {
        self.dispatcher
            .completed(self.now_ns, worker, task.samples());
        self.bring_home(task, worker, remote);
    }

    /// The same, whoever decided that the request runs.
    #[inline]
    fn bring_home(&mut self, task: Task<H::Connection, F::Head>, worker: WorkerId, remote: bool) {
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

    /// Reads requests, has them run and sends replies until nothing is left to do or the turn has
    /// taken its time.
    fn serve_turn(&mut self) {
        if self.takes_one_by_one() {
            return self.serve_ports();
        }
        let end_ns = self.now_ns + TURN_NS_MAX;
        // Workers of a group find what was left, and a request that yielded did so to what lies in the sockets.
        if self.unfinished && !self.yielded && !self.has_group() {
            self.carry_out(self.now_ns + LEFT_NS_MAX);
        }
        loop {
            for port in self.ports.iter_mut() {
                let connections = &mut port.requests.connections;
                connections.advance_ready(CONNECTIONS_PER_TURN, &mut self.dispatcher, self.now_ns);
            }
            self.settle_pause();
            self.carry_out(end_ns);
            if !self.ports.iter().any(Port::has_ready)
                || self.yielded
                || self.now_ns > end_ns
                || self.ports.can_exchange()
            {
                break;
            }
            self.now_ns = self.clock.now_ns();
        }
        if self.ports.iter().any(Port::has_pushed) {
            self.send_pushed();
        }
    }

    /// Sends messages, behind the requests that are at hand, and not for long: a message to thousands of connections
    /// shall hold up no request that comes meanwhile.
    #[cold]
    fn send_pushed(&mut self) {
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

    /// Whether ports move about and requests do not. What waits does so in its port then, and goes with it; the
    /// dispatcher has no more than the request that is next, and requests that began here.
    #[inline]
    fn takes_one_by_one(&self) -> bool {
        self.ports.move_about() && !self.has_group()
    }

    /// The same where requests are [taken one by one](Self::takes_one_by_one): one connection, or one datagram, after
    /// the other.
    fn serve_ports(&mut self) {
        let end_ns = self.now_ns + TURN_NS_MAX;
        let mut pushed = 0;
        loop {
            self.carry_out(u64::MAX);
            let is_over = self.now_ns > end_ns || self.pauses.has_latest();
            if is_over || pushed == PUSHED_PER_TURN || self.ports.can_exchange() {
                return;
            }
            if self.dispatcher.any_waiting() {
                self.now_ns = self.clock.now_ns();
                continue;
            }
            let Some(port) = self.ports.next_ready() else {
                return;
            };
            let has_sent = port.advance_one(&mut self.dispatcher, self.now_ns);
            pushed += usize::from(has_sent);
            self.carry_out(u64::MAX);
            self.now_ns = self.clock.now_ns();
        }
    }

    /// Carries out the scheduler's decisions. That includes the requests of worker 0 if the net thread is it.
    fn carry_out(&mut self, end_ns: u64) {
        self.unfinished = !self.act(end_ns);
        self.workers.wake_parked();
    }

    /// Returns whether all decisions were carried out.
    fn act(&mut self, end_ns: u64) -> bool {
        self.admit_held();
        self.yielded = false;
        let before_ns = self.now_ns;
        let has_run_control = self.dispatcher.control_at_hand() == 0 || self.run_control();
        let end_ns = end_ns.saturating_add(self.now_ns.saturating_sub(before_ns));
        for _ in 0..ACTIONS_PER_TURN {
            if self.now_ns > end_ns || self.yielded || self.holds_up_an_owner() {
                return false;
            }
            match self.next_action() {
                None if self.admit_held() => {}
                None => return has_run_control,
                Some(action) => self.carry_out_one(action),
            }
        }
        false
    }

    /// Runs the control requests that are at hand, before anything that the scheduler has decided. Returns whether all
    /// have run. A port that moves leaves none of its connections in the dispatcher, so there they all do.
    #[cold]
    fn run_control(&mut self) -> bool {
        let end_ns = match self.ports.move_about() {
            true => u64::MAX,
            false => self.now_ns + CONTROL_NS_MAX,
        };
        // One that yields goes on in the next turn.
        for _ in 0..self.dispatcher.control_at_hand() {
            if let Some((request, request_type)) = self.dispatcher.next_control() {
                self.run_one_control(request, request_type);
            }
            if self.now_ns > end_ns {
                break;
            }
        }
        self.dispatcher.control_at_hand() == 0
    }

    /// Runs a turn of a control request, as the worker that the net thread is.
    fn run_one_control(&mut self, request: RequestId, request_type: RequestType) {
        let (Ok(task), Some(worker)) = (self.lend(request), self.workers.own()) else {
            return;
        };
        self.workers.wake_parked();
        let was_home = self.ports.is_home();
        let turn = fiber::turn();
        let ended = self.run_here(worker, request, request_type, Length::Short, task);
        if self.has_group() {
            // The numbers of turns are those of the board, which has not shown this one.
            fiber::set_turn(turn);
        }
        self.dispatcher.ran_control(worker, request_type);
        self.now_ns = ended.ended_ns;
        match ended.report {
            Report::Completed(task) => {
                self.dispatcher.control_ended(request);
                self.bring_home(task, worker, false);
            }
            Report::Blocked { .. } => {
                self.dispatcher
                    .control_blocked(self.now_ns, request, request_type);
            }
            Report::Yielded { .. } | Report::Paused { .. } => {
                self.dispatcher.control_yielded(request, request_type);
            }
        }
        if was_home && !self.ports.is_home() {
            self.return_home();
        }
        self.busy_at_ns = self.now_ns;
    }

    /// Whether the owner of a port waits for this worker to leave it. What has arrived there waits where all workers
    /// find it.
    #[inline]
    fn holds_up_an_owner(&self) -> bool {
        self.has_group() && self.ports.is_wanted()
    }

    /// The scheduler's next decision. What has arrived is where other workers find it by then.
    #[inline]
    fn next_action(&mut self) -> Option<Action> {
        self.offer_arrived();
        self.dispatcher.poll(self.now_ns)
    }

    /// Puts what has arrived where all workers find it. From then on its port may move.
    #[inline]
    fn offer_arrived(&mut self) {
        let Some(peers) = &self.peers else {
            return;
        };
        while let Some(Arrived { request, slot }) = self.dispatcher.next_offered() {
            let port = self.ports.port_of(request);
            if let Some(task) = port.and_then(|port| port.requests.lend(request)) {
                peers.offer(slot, request, task);
            }
        }
    }

    fn carry_out_one(&mut self, action: Action) {
        match action {
            Action::Reject {
                request,
                request_type,
            } => self.reject(request, request_type),
            Action::Preempt { worker, .. } => self.workers.preempt(worker),
            Action::Run {
                worker,
                request,
                request_type,
                hand_off,
            } => {
                self.note_hand_off(worker, request, request_type, hand_off);
                self.run(worker, request, request_type);
            }
        }
    }

    /// Refuses a request that found no room.
    fn reject(&mut self, request: RequestId, request_type: RequestType) {
        let slot = self.dispatcher.slot(request_type);
        self.shared
            .trace
            .rejected(self.shared.index(), request, slot);
        if let Some(task) = self.take_offered(request) {
            self.turn_down(task, TurnedDown::Rejected);
        } else if let Some(port) = self.ports.port_of(request) {
            let requests = &mut port.requests;
            requests.reject(request, request_type, &self.dispatcher);
        }
    }

    /// Brings a request back to its port, here or elsewhere: it is not run.
    #[cold]
    fn turn_down(&mut self, mut task: Task<H::Connection, F::Head>, why: TurnedDown) {
        match (&mut task, why) {
            (Task::Stream(stream), why) => stream.run.turned_down = Some(why),
            // Its peer is told nothing.
            (Task::Datagram(datagram), TurnedDown::Rejected) => {
                self.dispatcher.count_rejection(datagram.request_type);
            }
            (Task::Datagram(datagram), TurnedDown::Unwanted) => {
                self.dispatcher.count_expired(datagram.request_type);
            }
        }
        match self.ports.find(task.port()) {
            Some(port) => { &mut port.requests }.receive(task, &self.dispatcher, self.now_ns),
            None => self.commons.returns.give(task),
        }
    }

    /// Counts and records requests that workers take from each other, or hand over.
    #[inline]
    fn note_hand_off(
        &self,
        worker: WorkerId,
        request: RequestId,
        request_type: RequestType,
        hand_off: HandOff,
    ) {
        if !self.has_group() {
            return;
        }
        let worker = self.shared.global(worker);
        let slot = self.dispatcher.slot(request_type);
        let turn = Turn {
            worker,
            request,
            slot,
        };
        self.shared.trace.taken(self.shared.index(), turn, hand_off);
        let counters = &self.shared.telemetry.workers[worker.index()];
        match hand_off {
            HandOff::Stolen => counters.stolen.add(1),
            HandOff::HandedOver => counters.handed_over.add(1),
            HandOff::Own | HandOff::Dispatched => {}
        }
    }

    /// Gives free places in typed queues to requests that wait for them, and free room to bodies. Returns whether there
    /// were any.
    fn admit_held(&mut self) -> bool {
        let (dispatcher, now_ns) = (&mut self.dispatcher, self.now_ns);
        let mut have_entered = false;
        for port in self.ports.iter_mut() {
            let connections = &mut port.requests.connections;
            have_entered |= connections.admit_held(dispatcher, now_ns);
            have_entered |= connections.admit_bodies(now_ns);
        }
        have_entered
    }

    /// Runs a request on `worker`, or resumes it there if it yielded. Drops a request that no client waits for.
    fn run(&mut self, worker: WorkerId, request: RequestId, request_type: RequestType) {
        let Ok(task) = self.task_of(request) else {
            return self.dispatcher.dropped(self.now_ns, worker);
        };
        if let Some(cores) = &mut self.cores {
            cores.work(self.now_ns);
        }
        if self.workers.own() != Some(worker) {
            return self.workers.run(worker, request, task);
        }
        // The request may take long.
        self.workers.wake_parked();
        let slot = self.dispatcher.slot(request_type);
        self.ports.note_run(self.shared.global(worker), slot);
        let was_home = self.ports.is_home();
        if let Some(peers) = self.peers.as_ref().filter(|peers| peers.may_yield()) {
            let mut unserved = false;
            for port in self.ports.iter_mut() {
                let connections = &mut port.requests.connections;
                connections.send_replies();
                unserved |= connections.may_read(CONNECTIONS_PER_TURN);
            }
            peers.begins(unserved);
            let has_mail = self.ports.iter().any(Port::has_mail);
            let (due_ns, is_called) = (self.timer_ns(), has_mail || self.wakes.has_any());
            let now_ns = self.clock.now_ns();
            self.peers
                .as_ref()
                .inspect(|peers| peers.runs(now_ns, is_called, due_ns));
        }
        let has_begun = task.is_none();
        let peers = self.peers.as_ref();
        let request_thread = peers.and_then(|peers| peers.request_thread(request, has_begun));
        let length = self.dispatcher.length(request_type);
        let ended = if let Some(request_thread) = request_thread {
            let (workers, demotion) = (&mut self.workers, &mut self.demotion);
            let (ports, clock) = (&mut self.ports, &self.clock);
            let long_us = self.shared.config.long_us;
            let (now_ns, budget) = (self.now_ns, self.pauses.budget(self.now_ns));
            let holds_up = || false;
            let turn = LongTurn::new(ports, demotion, clock, now_ns, long_us, budget, &holds_up);
            let run = |watch: Option<&dyn TurnWatch>| {
                workers.run_on_thread(worker, request, request_thread, task, watch)
            };
            match long_us > 0 {
                true => turn.run_elsewhere(length, run),
                false => run(None),
            }
        } else {
            let length = match self.pauses.knows(request) {
                true => Length::Long,
                false => length,
            };
            self.run_here(worker, request, request_type, length, task)
        };
        self.record_on_thread(worker, request, request_type, &ended);
        let EndedTurn {
            report,
            ended_ns,
            was_asked,
            ..
        } = ended;
        self.now_ns = ended_ns;
        self.peers.as_ref().inspect(|peers| peers.ran());
        if was_asked {
            self.dispatcher.asked(worker);
        }
        let yielded = matches!(report, Report::Yielded { .. } | Report::Paused { .. });
        match report {
            Report::Completed(task) => {
                self.pauses.end(self.now_ns, request);
                if let Some(peers) = self.peers.as_ref().filter(|_| request_thread.is_some()) {
                    peers.release(request);
                }
                self.take_back(task, worker, false);
            }
            Report::Blocked { served_ns } => {
                self.dispatcher.blocked(self.now_ns, worker, served_ns);
            }
            Report::Yielded { served_ns } => {
                self.dispatcher.yielded(self.now_ns, worker, served_ns);
            }
            Report::Paused { served_ns } => {
                if self.peers.is_some() {
                    self.dispatcher.paused(self.now_ns, worker, served_ns);
                }
                self.pauses.pause(Paused {
                    worker,
                    request,
                    request_type,
                    served_ns,
                    since_ns: self.now_ns,
                });
            }
        }
        if was_home && !self.ports.is_home() {
            self.return_home();
        }
        // Behind the way home, on which other requests may have run.
        self.yielded |= yielded;
        self.busy_at_ns = self.now_ns;
    }

    /// Runs a turn of a request of this length on the net thread, which is that worker.
    #[inline]
    fn run_here(
        &mut self,
        worker: WorkerId,
        request: RequestId,
        request_type: RequestType,
        length: Length,
        task: Option<ContextTask<F, H>>,
    ) -> EndedTurn<ContextTask<F, H>> {
        let (workers, demotion) = (&mut self.workers, &mut self.demotion);
        let (ports, clock) = (&mut self.ports, &self.clock);
        let long_us = self.shared.config.long_us;
        let budget = self.pauses.budget(self.now_ns);
        if !ports.move_about() || long_us == 0 {
            if budget.is_unlimited() {
                return workers.run_inline(worker, request, task);
            }
            let turn = BudgetedTurn { clock, budget };
            return fiber::watch_turn(&turn, || workers.run_inline(worker, request, task));
        }
        let (dispatcher, peers) = (&self.dispatcher, self.peers.as_ref());
        // Behind a request of a long type there is what the policy has put there, and a policy that preempts does so.
        let pauses = !self.shared.can_preempt() && dispatcher.length(request_type) != Length::Long;
        let holds_up = || pauses && peers.is_some_and(Peers::has_queue);
        let now_ns = self.now_ns;
        let turn = LongTurn::new(ports, demotion, clock, now_ns, long_us, budget, &holds_up);
        let mut ended = turn.run(length, || workers.run_inline(worker, request, task));
        if turn.has_stepped_back()
            && let Report::Completed(Task::Stream(stream)) = &mut ended.report
        {
            let counters = &self.shared.telemetry.workers[self.shared.global(worker).index()];
            send_replies(stream, counters);
        }
        let starved_ns = turn.end();
        if starved_ns > 0 {
            self.count_starved(worker, request_type, &ended.report, starved_ns);
        }
        ended
    }

    /// Records a turn on the thread of its request. Others record theirs as they begin and end.
    #[inline]
    fn record_on_thread(
        &self,
        worker: WorkerId,
        request: RequestId,
        request_type: RequestType,
        ended: &EndedTurn<ContextTask<F, H>>,
    ) {
        let Some(began_ns) = ended.thread_began_ns else {
            return;
        };
        let turn = Turn {
            worker: self.shared.global(worker),
            request,
            slot: self.dispatcher.slot(request_type),
        };
        let trace = &self.shared.trace;
        trace.begun(began_ns, turn, 0);
        match &ended.report {
            Report::Completed(task) => trace.completed(ended.ended_ns, turn, task.replies()),
            Report::Yielded { .. } => trace.yielded(ended.ended_ns, turn),
            Report::Blocked { .. } | Report::Paused { .. } => {
                trace.blocked(ended.ended_ns, turn);
            }
        }
    }

    /// The worker had stepped back for a turn, and others had its core for so long. What was not within the service
    /// time does not count.
    #[cold]
    fn count_starved(
        &self,
        worker: WorkerId,
        request_type: RequestType,
        report: &Report<ContextTask<F, H>>,
        starved_ns: u64,
    ) {
        let served_ns = match report {
            Report::Completed(task) => task.samples().iter().map(|sample| sample.service_ns).sum(),
            Report::Yielded { served_ns }
            | Report::Blocked { served_ns }
            | Report::Paused { served_ns } => *served_ns,
        };
        let (worker, slot) = (
            self.shared.global(worker),
            self.dispatcher.slot(request_type),
        );
        let work = &self.shared.telemetry.workers[worker.index()].types[slot].0;
        work.starved_ns.add(starved_ns.min(served_ns));
    }

    /// Takes the own port back after a long request. As long as its driver is held up, a worker of a group runs what it
    /// finds in queues.
    #[cold]
    fn return_home(&mut self) {
        let patience = match self.has_group() {
            true => HOME_PATIENCE,
            false => Duration::MAX,
        };
        while !self.ports.return_home(patience) {
            self.now_ns = self.clock.now_ns();
            self.carry_out(self.now_ns + TURN_NS_MAX);
        }
        self.now_ns = self.clock.now_ns();
        // What this worker brought back while its port was elsewhere has a next request, maybe.
        self.receive_mail();
    }

    /// The task of a request that all workers find, if it has not begun.
    #[inline]
    fn take_offered(&self, request: RequestId) -> Option<ContextTask<F, H>> {
        self.peers.as_ref()?.take(request)
    }

    /// The task of a request, or `None` if it has begun before. An error if it is dropped: no client waits for it.
    #[inline]
    fn task_of(&mut self, request: RequestId) -> Result<Option<ContextTask<F, H>>, Dropped> {
        match self.take_offered(request) {
            Some(task) if task.is_unwanted(self.now_ns) => {
                self.turn_down(task, TurnedDown::Unwanted);
                Err(Dropped)
            }
            None if !self.has_group() => self.lend(request),
            task => Ok(task),
        }
    }

    /// The same for a request that other workers do not find.
    #[inline]
    fn lend(&mut self, request: RequestId) -> Result<Option<ContextTask<F, H>>, Dropped> {
        // Without its port, it began here.
        let Some(port) = self.ports.port_of(request) else {
            return Ok(None);
        };
        match { &mut port.requests }.drop_unwanted(request, &self.dispatcher, self.now_ns) {
            true => Err(Dropped),
            false => Ok(port.requests.lend(request)),
        }
    }
}
