//! The net worker's loop. See the [room](super).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use psp_arbiter::ThreadId;
use psp_policy::{Action, HandOff, Relief, RequestId, WorkerId};
use psp_protocols::Framing;

use super::granted_cores::GrantedCores;
use super::port::{Port, PortParts};
use super::workers::{Link, Workers};
use crate::classifier::Classifier;
use crate::config::Topology;
use crate::error::RunError;
use crate::fiber::{Bell, Timers, WakeList};
use crate::handler::Handler;
use crate::runtime::channel::message::Report;
use crate::runtime::crew::Seat;
use crate::runtime::dispatch::dispatcher::Dispatcher;
use crate::runtime::host::clock::Clock;
use crate::runtime::host::spin::Spin;
use crate::runtime::worker::contexts::ContextTask;
use crate::runtime::worker::inline::EndedTurn;
use crate::shared::Receiver;
use crate::shutdown::Shutdown;

const DATAGRAMS_PER_TURN: usize = 64;
const CONNECTIONS_PER_TURN: usize = 512;
/// A net worker that polls a port sleeps, if it may, when nothing has come for this long.
const IDLE_NS: u64 = 50_000;
/// A net worker that has not asked the event queue for this long asks it before it sleeps.
const LOOK_AGE_NS_MAX: u64 = 1_000_000;
/// Actions carried out before the net worker looks at its sockets again.
const ACTIONS_PER_TURN: usize = 256;
/// Time after which a turn of the loop starts no more actions.
const TURN_NS_MAX: u64 = 200_000;
/// A request is not run, because nobody waits for it.
struct Dropped;

/// What a net worker starts with.
pub(crate) struct Parts<F: Framing, K, H: Handler<F::Head>> {
    pub(crate) port: PortParts<F, H>,
    pub(crate) links: Vec<Link<F, H>>,
    pub(crate) dispatcher: Dispatcher<K>,
    /// The place among workers that run each other's requests.
    pub(crate) seat: Option<Seat<ContextTask<F, H>>>,
    pub(crate) shared: Receiver,
    pub(crate) clock: Clock,
    /// Requests that were woken.
    pub(crate) wakes: Arc<WakeList>,
    pub(crate) timers: Arc<Timers>,
    pub(crate) spin: Spin,
}

/// See the [room](super).
pub(crate) struct NetWorker<F: Framing, K, H: Handler<F::Head>> {
    port: Port<F, H>,
    /// The time of the first timer, on the clock of the timers and on the runtime's.
    timer: Option<(u64, u64)>,
    workers: Workers<F, H>,
    /// The place among workers that run each other's requests.
    seat: Option<Seat<ContextTask<F, H>>>,
    /// The cores that an arbiter grants, if one is asked.
    cores: Option<GrantedCores>,
    dispatcher: Dispatcher<K>,
    shared: Receiver,
    clock: Clock,
    wakes: Arc<WakeList>,
    timers: Arc<Timers>,
    spin: Spin,
    /// The last turn ended before all of the scheduler's decisions were carried out.
    unfinished: bool,
    now_ns: u64,
    busy_at_ns: u64,
}

impl<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>> NetWorker<F, K, H> {
    pub(crate) fn new(parts: Parts<F, K, H>) -> io::Result<Self> {
        let Parts {
            port,
            links,
            dispatcher,
            seat,
            shared,
            clock,
            wakes,
            timers,
            spin,
        } = parts;
        let now_ns = clock.now_ns();
        Ok(Self {
            port: Port::new(port, now_ns)?,
            timer: None,
            workers: Workers::new(links, ACTIONS_PER_TURN),
            seat,
            cores: None,
            unfinished: false,
            now_ns,
            busy_at_ns: 0,
            dispatcher,
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
            let registry = self.port.poll().registry();
            let cores = GrantedCores::new(path, workers, self.shared.shared().clone(), registry)?;
            self.cores = Some(cores);
        }
        Ok(())
    }

    /// Serves until the shutdown is triggered and everything in flight is answered, or the drain
    /// timeout is over. Then the workers stop, too. Returns the number of connections and datagrams that were
    /// given up.
    pub(crate) fn serve(mut self, shutdown: &Shutdown) -> Result<usize, RunError> {
        let (shared, doorbell) = (self.shared.clone(), self.port.doorbell().clone());
        // A worker that receives for itself has nobody to ask.
        let _kept = (shared.topology != Topology::Distributed)
            .then(|| shared.buffers.room.keep(move || doorbell.ring()));
        loop {
            self.wait().map_err(RunError::Events)?;
            self.now_ns = self.clock.now_ns();
            let stop = shutdown.is_triggered() || self.shared.shutdown.is_triggered();
            if stop && !self.port.is_draining() {
                // So that handles say so.
                self.shared.shutdown.trigger();
                self.port.start_draining(self.workers.lent(), self.now_ns);
            }
            self.receive_reports();
            if let Some(policy) = self.shared.policy.take() {
                self.dispatcher.switch_to(self.now_ns, &policy);
                tracing::info!(policy = policy.spelled(), "policy changed");
            }
            if !self.port.is_draining() {
                self.receive_requests();
            }
            self.dispatcher.tick(self.now_ns);
            self.warn_of_stuck();
            let connections = &mut self.port.requests.connections;
            connections.make_room_for_replies(self.now_ns);
            self.serve_turn();
            self.follow_cores();
            self.port.flush();
            self.port.sweep(self.now_ns);
            let seat = &mut self.seat;
            let may_end = || seat.as_mut().is_none_or(Seat::may_leave);
            if self.port.is_drained(self.now_ns, may_end) {
                return Ok(self.port.requests.unfinished());
            }
        }
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
            let peer = self.port.requests.peer(stuck.request);
            let peer = peer.map_or_else(|| "unknown".to_owned(), |peer| peer.to_string());
            let request_type = self.dispatcher.type_name(stuck.request_type);
            let worker = self.shared.global(stuck.worker).0;
            let for_ms = stuck.for_ns / 1_000_000;
            let others = match relief {
                Relief::NotNeeded => "",
                Relief::OtherWorker => ": others of its type may use another worker",
                Relief::NoWorker => {
                    ": others of its type wait, as there is no other worker for them"
                }
            };
            tracing::warn!(
                worker,
                request_type,
                peer,
                for_ms,
                "a request may never end{others}"
            );
        }
    }

    /// Waits for events, for as long as there is nothing to do.
    fn wait(&mut self) -> io::Result<()> {
        let mut timeout = self.timeout();
        if timeout.is_zero() && self.port.skips_events(self.now_ns) {
            return Ok(());
        }
        let look_age_ns = self.clock.now_ns().saturating_sub(self.port.looked_ns());
        if look_age_ns > LOOK_AGE_NS_MAX {
            // Before the net worker sleeps it has to know which events are older.
            timeout = Duration::ZERO;
        }
        if !timeout.is_zero() {
            self.port.doorbell().announce_sleep();
            self.seat.as_ref().inspect(|seat| seat.announce_sleep());
            timeout = timeout.min(self.until_deadline());
            if self.receive_reports() > 0
                || self.shared.buffers.room.is_asked()
                || self.helps_others()
            {
                timeout = Duration::ZERO;
            }
        }
        let waited = self.port.wait(timeout);
        self.awake();
        if waited? {
            self.note_events(!timeout.is_zero());
        }
        Ok(())
    }

    fn awake(&self) {
        self.port.doorbell().awake();
        self.seat.as_ref().inspect(|seat| seat.awake());
    }

    /// Before it sleeps, a worker looks once more for requests that others have put where it finds them: they may not have
    /// seen that it was about to. Returns whether there was one.
    fn helps_others(&mut self) -> bool {
        if self.seat.is_none() {
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
        let noted = self.port.note_events(slept, self.clock.now_ns());
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
        let spin = match (self.workers.lent(), self.dispatcher.waiting()) {
            (0, _) => self.spin.idle,
            (_, 0) => Duration::ZERO,
            _ => self.spin.turn,
        };
        let spinning = u128::from(self.now_ns.saturating_sub(self.busy_at_ns)) < spin.as_nanos();
        let polling = self.port.is_polled() && self.port_poll_at_ns().is_none();
        if polling || spinning || self.unfinished || self.port.is_ready() {
            return Duration::ZERO;
        }
        let sweep_at_ns = self.port.sweep_at_ns();
        Duration::from_nanos(sweep_at_ns.saturating_sub(self.now_ns).max(1_000_000))
    }

    /// The longest timeout with which the scheduler's deadline is kept. The event queue's timeout counts
    /// milliseconds; if that is too late, the alarm is set.
    fn until_deadline(&mut self) -> Duration {
        let deadlines_ns = [
            self.dispatcher.deadline_ns(),
            self.port.requests.connections.held_deadline_ns(),
            self.port_poll_at_ns(),
            self.timer_ns(),
            self.cores.as_ref().and_then(GrantedCores::deadline_ns),
        ];
        let Some(deadline_ns) = deadlines_ns.into_iter().flatten().min() else {
            return Duration::MAX;
        };
        let now_ns = self.clock.now_ns();
        if deadline_ns > now_ns && self.port.alarm.set(now_ns, deadline_ns) {
            return Duration::MAX;
        }
        Duration::from_nanos(deadline_ns.saturating_sub(now_ns))
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
        let idle_sleep = self.port.idle_sleep()?;
        let idle =
            self.spin.idle.is_zero() && self.now_ns.saturating_sub(self.busy_at_ns) >= IDLE_NS;
        let idle_sleep_ns = u64::try_from(idle_sleep.as_nanos()).unwrap_or(u64::MAX);
        idle.then(|| self.now_ns.saturating_add(idle_sleep_ns))
    }

    /// Accepts connections and receives datagrams.
    fn receive_requests(&mut self) {
        self.port.accept(self.now_ns);
        for index in 0..self.port.datagram_sockets() {
            for _ in 0..DATAGRAMS_PER_TURN {
                let (dispatcher, now_ns) = (&mut self.dispatcher, self.now_ns);
                if !self.port.receive_datagram(index, dispatcher, now_ns) {
                    break;
                }
                self.look_at_workers();
            }
        }
        if self.port.receive_burst() {
            self.busy_at_ns = self.now_ns;
            while self.port.read_frames(&mut self.dispatcher, self.now_ns) {
                self.look_at_workers();
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

    /// Receives a report of each worker, the wakes of requests that wait, connections that come back, and deferred
    /// replies. Returns the number of all.
    fn receive_reports(&mut self) -> usize {
        self.timers.wake_due();
        let received = self.receive_reports_of_workers();
        received + self.port.receive_replies(&mut self.dispatcher, self.now_ns)
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
            let dispatcher = &mut self.dispatcher;
            match report {
                Report::Completed(task) => {
                    let requests = &mut self.port.requests;
                    requests.take_back(task, worker, true, dispatcher, self.now_ns);
                }
                Report::Yielded { served_ns } => {
                    dispatcher.yielded(self.now_ns, worker, served_ns);
                }
                Report::Blocked { served_ns } => {
                    dispatcher.blocked(self.now_ns, worker, served_ns);
                }
            }
        }
        received
    }

    /// Reads requests, has them run and sends replies until nothing is left to do or the turn has
    /// taken its time.
    fn serve_turn(&mut self) {
        let end_ns = self.now_ns + TURN_NS_MAX;
        loop {
            let connections = &mut self.port.requests.connections;
            connections.advance_ready(CONNECTIONS_PER_TURN, &mut self.dispatcher, self.now_ns);
            self.carry_out(end_ns);
            if !self.port.requests.connections.has_ready() || self.now_ns > end_ns {
                return;
            }
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
        for _ in 0..ACTIONS_PER_TURN {
            if self.now_ns > end_ns {
                return false;
            }
            match self.next_action() {
                None if self.admit_held() => {}
                None => return true,
                Some(action) => self.carry_out_one(action),
            }
        }
        false
    }

    /// The scheduler's next decision. What has arrived is where other workers find it by then.
    #[inline]
    fn next_action(&mut self) -> Option<Action> {
        if let Some(seat) = &self.seat {
            while let Some(request) = self.dispatcher.next_offered() {
                self.port.requests.offer(&seat.offers, request);
            }
        }
        self.dispatcher.poll(self.now_ns)
    }

    fn carry_out_one(&mut self, action: Action) {
        match action {
            Action::Reject {
                request,
                request_type,
            } => {
                let (requests, dispatcher) = (&mut self.port.requests, &self.dispatcher);
                match &self.seat {
                    Some(seat) => requests.reject_offered(&seat.offers, request, dispatcher),
                    None => requests.reject(request, request_type, dispatcher),
                }
            }
            Action::Preempt { worker, .. } => self.workers.preempt(worker),
            Action::Run {
                worker,
                request,
                hand_off,
                ..
            } => {
                self.count_hand_off(worker, hand_off);
                self.run(worker, request);
            }
        }
    }

    /// Counts requests that workers take from each other, or hand over.
    #[inline]
    fn count_hand_off(&self, worker: WorkerId, hand_off: HandOff) {
        if self.seat.is_none() {
            return;
        }
        let worker = self.shared.global(worker);
        let counters = &self.shared.telemetry.workers[worker.index()];
        match hand_off {
            HandOff::Stolen => counters.stolen.add(1),
            HandOff::HandedOver => counters.handed_over.add(1),
            HandOff::Own | HandOff::Dispatched => {}
        }
    }

    /// Gives free places in typed queues to requests that wait for them. Returns whether there were any.
    fn admit_held(&mut self) -> bool {
        let connections = &mut self.port.requests.connections;
        connections.admit_held(&mut self.dispatcher, self.now_ns)
    }

    /// Runs a request on `worker`, or resumes it there if it yielded. Drops a request that nobody waits for.
    fn run(&mut self, worker: WorkerId, request: RequestId) {
        let Ok(task) = self.task_of(request) else {
            return self.dispatcher.dropped(self.now_ns, worker);
        };
        if let Some(cores) = &mut self.cores {
            cores.work(self.now_ns);
        }
        if !self.workers.is_inline(worker) {
            return self.workers.run(worker, request, task);
        }
        // The request may take long.
        self.workers.wake_parked();
        let EndedTurn { report, ended_ns } = self.workers.run_inline(worker, request, task);
        self.now_ns = ended_ns;
        let dispatcher = &mut self.dispatcher;
        match report {
            Report::Completed(task) => {
                let requests = &mut self.port.requests;
                requests.take_back(task, worker, false, dispatcher, self.now_ns);
            }
            Report::Blocked { served_ns } => dispatcher.blocked(self.now_ns, worker, served_ns),
            Report::Yielded { .. } => unreachable!("the net thread asks no request to give way"),
        }
        self.busy_at_ns = self.now_ns;
    }

    /// The task of a request, or `None` if it has begun before. An error if it is dropped: nobody waits for it.
    #[inline]
    fn task_of(&mut self, request: RequestId) -> Result<Option<ContextTask<F, H>>, Dropped> {
        let (requests, dispatcher) = (&mut self.port.requests, &self.dispatcher);
        let Some(seat) = &self.seat else {
            return match requests.drop_unwanted(request, dispatcher, self.now_ns) {
                true => Err(Dropped),
                false => Ok(requests.lend(request)),
            };
        };
        let Some(task) = seat.offers.take(request) else {
            return Ok(None);
        };
        let wanted = requests.keep_wanted(task, dispatcher, self.now_ns);
        wanted.map(Some).ok_or(Dropped)
    }
}
