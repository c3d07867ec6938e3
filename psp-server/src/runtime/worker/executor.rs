//! Runs requests: the same code on a worker's thread and on the net thread.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use psp_policy::{RequestType, Sample, WorkerId};
use psp_protocols::{Framing, Rejection};
use tracing::Span;

use super::notices::fault_of;
use super::spans::{Spans, end_span, request_span};
use crate::body::Body;
use crate::error::WorkerFault;
use crate::fiber::{NO_SLOT, for_peer, in_handler, note_load_level, said_type};
use crate::foreseen::Foreseen;
use crate::guarded_framing::GuardedFraming;
use crate::handler::{Handler, Request};
use crate::peer::Peer;
use crate::preempt::PreemptPolicy;
use crate::presence::PeerWatch;
use crate::reply::{Origin, Overflow, Reply, ReplyOutcome, refuse};
use crate::runtime::host::clock::Clock;
use crate::runtime::task::Task;
use crate::shared::{ServerHandle, Shared};
use crate::telemetry::Times;
use crate::transport::connection::Connection;
use crate::transport::datagram::Datagram;
use crate::transport::input::BODY_LEN_MIN;
use crate::transport::output::Flush;
use crate::transport::owed::{Owed, owed_max};
use crate::transport::request_key::RequestKey;
use crate::transport::run::{Frame, Run, Stream};
use crate::wait::wait;

/// A run that has taken this long gives the worker back; its rest is queued again. Requests of other connections wait
/// meanwhile, so this is a quarter of a net worker's turn.
pub(crate) const RUN_NS_MAX: u64 = 50_000;

/// Which thread sends the replies of a run, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sending {
    /// The worker itself, when the run is done.
    AtOnce,
    /// The net worker, when the runs of its turn are done: a peer that waits for replies on many connections is
    /// woken once for all of them.
    WithTheTurn,
}

/// The handler of one worker, and everything that it needs.
pub(crate) struct Executor<F: Framing, H: Handler<F::Head>> {
    /// The worker that runs the present run. It changes between two turns, if the run moves.
    worker: Rc<Cell<WorkerId>>,
    handler: Arc<H>,
    framing: Arc<GuardedFraming<F>>,
    shared: Arc<Shared>,
    /// For requests.
    server: ServerHandle,
    clock: Clock,
    state: H::Worker,
    sending: Sending,
    /// How many replies a connection may owe before its next request has to wait.
    owed_max: usize,
    /// Time that the present run spent between turns, in nanoseconds.
    away_ns: Rc<Cell<u64>>,
    spans: Spans,
}

impl<F: Framing, H: Handler<F::Head>> Executor<F, H> {
    /// To be called on the worker's own thread. Time in `away_ns`, which runs spend between turns, does not
    /// count as service.
    ///
    /// # Errors
    /// When the handler cannot make the worker's state.
    pub(crate) fn new(
        worker: Rc<Cell<WorkerId>>,
        handler: Arc<H>,
        framing: Arc<GuardedFraming<F>>,
        shared: Arc<Shared>,
        clock: Clock,
        sending: Sending,
        away_ns: Rc<Cell<u64>>,
    ) -> Result<Self, WorkerFault> {
        let state = make_state(&*handler, worker.get())?;
        Ok(Self {
            worker,
            handler,
            owed_max: owed_max(framing.replies_in_order()),
            framing,
            server: ServerHandle::new(shared.clone()),
            spans: Spans::new(shared.config.span_every),
            shared,
            clock,
            state,
            sending,
            away_ns,
        })
    }

    /// The time that this run has had the worker, from an arbitrary start.
    #[inline]
    fn service_clock_ns(&self) -> u64 {
        // The thread may have moved between two cores whose clocks differ.
        self.clock.now_ns().saturating_sub(self.away_ns.get())
    }

    /// How long ago a request arrived, at `service_ns` of the service clock.
    #[inline]
    fn since_arrival_ns(&self, arrived_ns: u64, service_ns: u64) -> u64 {
        let now_ns = service_ns + self.away_ns.get();
        now_ns.saturating_sub(arrived_ns)
    }

    /// Runs the task's requests, sends the replies, and leaves the measurements in the task. It is `now_ns`. Returns
    /// when the last handler returned. Both are in nanoseconds of the runtime's clock.
    pub(crate) fn run(&mut self, task: &mut Task<H::Connection, F::Head>, now_ns: u64) -> u64 {
        let start_ns = now_ns.saturating_sub(self.away_ns.get());
        let end_ns = match task {
            Task::Stream(stream) => {
                let Stream { connection, run } = &mut **stream;
                let end_ns = self.run_connection(connection, run, start_ns);
                let state = AssertUnwindSafe(|| self.handler.is_authenticated(&connection.common.state));
                connection.is_authenticated = catch_unwind(state).unwrap_or(false);
                end_ns
            }
            Task::Datagram(datagram) => self.run_datagram(datagram, start_ns),
        };
        end_ns + self.away_ns.get()
    }

    /// Begins at `start_ns` of the service clock, and returns its time at the end.
    fn run_connection(
        &mut self,
        connection: &mut Connection<H::Connection>,
        run: &mut Run<F::Head>,
        start_ns: u64,
    ) -> u64 {
        run.samples.clear();
        run.done = 0;
        if connection.socket.handshake().is_some() {
            return self.run_handshake(connection, run, start_ns);
        }
        // A run of a peer that does not read does not end for what earlier ones left.
        let ahead = match connection.uptake.is_stalled() {
            true => connection.output.len(),
            false => 0,
        };
        let high_water = ahead + self.shared.config.output_high_water_bytes;
        let (mut now_ns, mut unreleased) = (start_ns, connection.output.len());
        while run.done < run.frames.len() && now_ns.saturating_sub(start_ns) <= RUN_NS_MAX {
            if run.done.is_multiple_of(Foreseen::<F::Head>::COUNT_MAX) {
                self.foresee(connection, run.unfinished());
            }
            match self.run_request(connection, run, now_ns) {
                ControlFlow::Continue(end_ns) => now_ns = end_ns,
                ControlFlow::Break(end_ns) => {
                    now_ns = end_ns;
                    break;
                }
            }
            if connection.output.len() > high_water {
                self.release(connection, unreleased);
                self.send(connection);
                unreleased = connection.output.len();
                if connection.has_unsent() {
                    break;
                }
                now_ns = self.service_clock_ns();
            }
        }
        self.release(connection, unreleased);
        self.send(connection);
        now_ns
    }

    /// Waits for what the handler wants to come before the replies behind `from`.
    #[inline]
    fn release(&self, connection: &mut Connection<H::Connection>, from: usize) {
        let waits = AssertUnwindSafe(|| self.handler.replies_wait_for(&connection.common.state));
        let may_be_sent = match catch_unwind(waits) {
            Ok(None) => return,
            Ok(Some(receiver)) => in_handler(NO_SLOT, PreemptPolicy::None, || wait(receiver)).is_ok(),
            Err(_panicked) => false,
        };
        if !may_be_sent {
            connection.output.truncate(from);
            connection.closing = true;
        }
    }

    /// Runs the next request of a run, from `now_ns` of the service clock. Returns its time at the end, and breaks if the
    /// run ends with this request.
    #[inline]
    fn run_request(
        &mut self,
        connection: &mut Connection<H::Connection>,
        run: &mut Run<F::Head>,
        now_ns: u64,
    ) -> ControlFlow<u64, u64> {
        let frame = &run.frames[run.done];
        // Detached requests leave messages to their home.
        if !connection.is_detached() && connection.common.pushes.has_any() {
            connection.take_pushed(usize::MAX);
        }
        if frame.len >= BODY_LEN_MIN {
            connection.input.share();
        }
        let waited_ns = self.since_arrival_ns(run.arrived_ns, now_ns);
        let span = self.next_span(frame.request_type, waited_ns);
        let watch = PeerWatch {
            presence: &connection.presence,
            socket: connection.socket.as_raw_fd(),
        };
        let origin = Origin {
            request: RequestKey::Connection(connection.index),
            home: Some(connection.home),
            presence: Some(&connection.presence),
            deferrals: self.shared.deferrals_of(connection.port),
            pushes: Some(&connection.common.pushes),
        };
        let Connection { output, socket, .. } = connection;
        let mut reply = Reply::to_stream(output, socket, self.shared.reply_bytes_max(), &self.shared.buffers, origin);
        let request = Request {
            payload: &connection.input.data()[..frame.len],
            body: Body::new(connection.input.shared()),
            head: &frame.head,
            request_type: frame.request_type,
            connection: &connection.common.state,
            peer: connection.peer,
            worker: self.worker.get(),
            waited: Duration::from_nanos(waited_ns),
            watch: Some(watch),
            origin,
            server: &self.server,
        };
        let handled = self.shared.guard(&*self.handler, &self.worker, &mut self.state, request, &mut reply);
        let outcome = reply.into_outcome();
        let flushed = outcome.flushed;
        connection.reserved_bytes += outcome.reserved_bytes + flushed.pushed_bytes;
        if outcome.reclassified.is_some() && handled.is_ok() && !flushed.is_committed {
            connection.output.truncate(flushed.ahead);
            run.reclassified = outcome.reclassified;
            return ControlFlow::Break(now_ns);
        }
        let is_abandoned = watch.is_gone();
        self.settle(connection, frame.len, handled, outcome, is_abandoned);
        run.done += 1;
        let end_ns = self.service_clock_ns();
        let times = self.times(run.arrived_ns, waited_ns, now_ns, end_ns);
        let request_type = self.shared.type_of(frame.request_type);
        let sample = self.measure(span, request_type, connection.peer, times);
        record(&mut run.samples, sample);
        if is_abandoned || connection.closing || connection.failed || connection.owed.len() >= self.owed_max {
            return ControlFlow::Break(end_ns);
        }
        ControlFlow::Continue(end_ns)
    }

    /// Leaves in the connection what the handler made of its next request, of `len` bytes: a reply, a refusal in its
    /// place, or a reply that is owed.
    #[inline]
    fn settle(
        &self,
        connection: &mut Connection<H::Connection>,
        len: usize,
        handled: Result<(), Panicked>,
        outcome: ReplyOutcome,
        is_abandoned: bool,
    ) {
        let flushed = outcome.flushed;
        let payload = &connection.input.data()[..len];
        let refusal = self.shared.refusal(self.worker.get(), handled, &outcome, self.shared.reply_bytes_max());
        // The handler of an abandoned request may have stopped halfway.
        let is_discarded = is_abandoned || refusal.is_some();
        let deferred = outcome.deferred.filter(|_| !is_discarded);
        if is_discarded && flushed.is_committed {
            connection.closing = true;
        } else if is_discarded || (deferred.is_some() && !flushed.is_committed) {
            connection.output.truncate(flushed.ahead);
            if let Some(rejection) = refusal.filter(|_| !is_abandoned) {
                self.framing.encode_rejection(&rejection, payload, &mut connection.output);
            }
        }
        connection.owed.extend(deferred.map(|ticket| Owed {
            ticket,
            request: payload.into(),
            is_committed: flushed.is_committed,
        }));
        connection.closing |= handled.is_ok() && outcome.close;
        connection.failed |= flushed.is_peer_gone;
        if flushed.sent > 0 {
            connection.uptake.moves();
            self.count_sent(flushed.sent);
        }
        connection.input.consume(len);
    }

    /// A span for the request that begins, if it is one that gets a span.
    #[inline]
    fn next_span(&mut self, request_type: RequestType, waited_ns: u64) -> Option<Span> {
        let Self { spans, shared, worker, .. } = self;
        spans.next(|| request_span(shared.name_of(request_type), worker.get(), waited_ns))
    }

    /// The times of a request that ran from `start_ns` to `end_ns` of the service clock.
    #[inline]
    fn times(&self, arrived_ns: u64, waited_ns: u64, start_ns: u64, end_ns: u64) -> Times {
        Times {
            waited_ns,
            served_ns: end_ns.saturating_sub(start_ns),
            sojourn_ns: self.since_arrival_ns(arrived_ns, end_ns),
        }
    }

    /// Counts a request that has ended. Returns what the scheduler learns of it.
    #[inline]
    fn measure(&self, span: Option<Span>, request_type: RequestType, peer: Peer, times: Times) -> Sample {
        end_span(span, times);
        self.shared.measure(self.worker.get(), request_type, peer, times);
        Sample { request_type, count: 1, service_ns: times.served_ns }
    }

    /// Shows the next requests of a connection to the handler.
    #[inline]
    fn foresee(&self, connection: &Connection<H::Connection>, frames: &[Frame<F::Head>]) {
        if let Some(foreseen) = Foreseen::new(connection.input.data(), frames) {
            let state = &connection.common.state;
            let foresee = AssertUnwindSafe(|| self.handler.foresee(state, foreseen));
            if catch_unwind(foresee).is_err() {
                let counters = &self.shared.telemetry.workers[self.worker.get().index()];
                counters.panics.add(1);
            }
        }
    }

    /// Takes a step of a TLS handshake. Begins at `start_ns` of the service clock, and returns its time at the end.
    fn run_handshake(
        &mut self,
        connection: &mut Connection<H::Connection>,
        run: &mut Run<F::Head>,
        start_ns: u64,
    ) -> u64 {
        let session = connection.socket.session();
        let (Some((session, _)), Some(request_type)) = (session, self.shared.handshake) else {
            return start_ns;
        };
        session.step();
        let end_ns = self.service_clock_ns();
        let waited_ns = self.since_arrival_ns(run.arrived_ns, start_ns);
        let times = self.times(run.arrived_ns, waited_ns, start_ns, end_ns);
        let sample = self.measure(None, request_type, connection.peer, times);
        record(&mut run.samples, sample);
        self.send(connection);
        end_ns
    }

    fn send(&mut self, connection: &mut Connection<H::Connection>) {
        match self.sending {
            Sending::AtOnce => {
                let sent = connection.send(usize::MAX);
                self.count_sent(sent);
            }
            Sending::WithTheTurn => connection.flush = Flush::Budget,
        }
        if connection.reserved_bytes > 0 {
            connection.count(&self.shared.buffers);
        }
    }

    fn count_sent(&self, bytes: usize) {
        let counters = &self.shared.telemetry.workers[self.worker.get().index()];
        counters.bytes_sent.add(bytes as u64);
    }

    /// Begins at `start_ns` of the service clock, and returns its time at the end.
    #[inline]
    fn run_datagram(&mut self, datagram: &mut Datagram<H::Connection, F::Head>, start_ns: u64) -> u64 {
        let Datagram {
            names,
            index,
            peer,
            body,
            endpoint: Some(endpoint),
            request_type,
            head,
            arrived_ns,
            sample,
            owed,
            ..
        } = datagram
        else {
            return start_ns;
        };
        let (peer, request_type, arrived_ns) = (*peer, *request_type, *arrived_ns);
        let waited_ns = self.since_arrival_ns(arrived_ns, start_ns);
        let span = self.next_span(request_type, waited_ns);
        let envelope = self.framing.envelope();
        let shape = envelope.shape();
        let (payload, room) = body.request_and_room(shape);
        let limit_bytes = room.len();
        let origin = Origin {
            request: RequestKey::Datagram(*index),
            home: None,
            presence: None,
            deferrals: self.shared.deferrals_of(names.port()),
            pushes: None,
        };
        let mut reply = Reply::to_datagram(room, Some(origin));
        let request = Request {
            payload,
            body: Body::default(),
            head,
            request_type,
            connection: &endpoint.state,
            peer: Peer::Ip(peer),
            worker: self.worker.get(),
            waited: Duration::from_nanos(waited_ns),
            watch: None,
            origin,
            server: &self.server,
        };
        let handled = self.shared.guard(&*self.handler, &self.worker, &mut self.state, request, &mut reply);
        let outcome = reply.into_outcome();
        let refusal = self.shared.refusal(self.worker.get(), handled, &outcome, limit_bytes);
        *owed = outcome.deferred.filter(|_| refusal.is_none());
        let written = match refusal {
            Some(rejection) => refuse(&*self.framing, &rejection, payload, room),
            None if owed.is_some() => 0,
            None => outcome.written,
        };
        let end_ns = self.service_clock_ns();
        if written > 0 {
            let at_once = self.sending == Sending::AtOnce;
            let sent = body.send(written, envelope, &endpoint.outlet, peer, self.worker.get(), at_once);
            let counters = &self.shared.telemetry.workers[self.worker.get().index()];
            counters.bytes_sent.add(sent.bytes as u64);
            counters.replies_unsent.add(sent.dropped as u64);
        }
        let times = self.times(arrived_ns, waited_ns, start_ns, end_ns);
        *sample = Some(self.measure(span, self.shared.type_of(request_type), Peer::Ip(peer), times));
        end_ns
    }
}

/// Adds a request to those of its type.
fn record(samples: &mut smallvec::SmallVec<[Sample; 4]>, sample: Sample) {
    match samples.iter_mut().find(|of_type| of_type.request_type == sample.request_type) {
        Some(of_type) => {
            of_type.count += sample.count;
            of_type.service_ns += sample.service_ns;
        }
        None => samples.push(sample),
    }
}

/// Makes a worker's state. Catches a panic.
fn make_state<D, H: Handler<D>>(handler: &H, worker: WorkerId) -> Result<H::Worker, WorkerFault> {
    match catch_unwind(AssertUnwindSafe(|| handler.try_init_worker(worker))) {
        Ok(made) => made.map_err(WorkerFault::State),
        Err(payload) => Err(fault_of(payload)),
    }
}

/// The handler panicked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Panicked;

impl Shared {
    /// Calls the handler. Counts a panic, and makes the worker's state anew: the panic may have left it half
    /// changed.
    #[inline]
    fn guard<D, H: Handler<D>>(
        &self,
        handler: &H,
        worker: &Cell<WorkerId>,
        state: &mut H::Worker,
        request: Request<'_, H::Connection, D>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Panicked> {
        let slot = self.types.slot(request.request_type);
        let preempt = self.preempt[slot];
        let watch = request.watch;
        if let Some(gate) = &self.gate {
            note_load_level(gate.load_level());
        }
        let handle = AssertUnwindSafe(|| handler.handle(state, request, reply));
        let handled = catch_unwind(|| {
            for_peer(watch.as_ref(), || in_handler(slot, preempt, handle));
        });
        match handled {
            Ok(()) => Ok(()),
            Err(_) => {
                let worker = worker.get();
                self.telemetry.workers[worker.index()].panics.add(1);
                match make_state(handler, worker) {
                    Ok(made) => *state = made,
                    // The worker ends: it has no state to run a request with.
                    Err(fault) => resume_unwind(Box::new(fault)),
                }
                Err(Panicked)
            }
        }
    }

    /// The rejection that a request's peer gets in place of a reply, if the handler panicked or failed, or the reply
    /// is longer than `limit_bytes`.
    #[inline]
    fn refusal<'a>(
        &self,
        worker: WorkerId,
        handled: Result<(), Panicked>,
        outcome: &'a ReplyOutcome,
        limit_bytes: usize,
    ) -> Option<Rejection<'a>> {
        let counters = &self.telemetry.workers[worker.index()];
        if handled.is_err() {
            Some(Rejection::HandlerFailed)
        } else if let Some(text) = &outcome.failure {
            counters.failures.add(1);
            Some(Rejection::Failed(text))
        } else {
            Some(match outcome.overflow? {
                Overflow::TooLarge => {
                    counters.replies_too_large.add(1);
                    Rejection::ReplyTooLarge { limit_bytes }
                }
                Overflow::OutOfBuffers => {
                    counters.replies_over_budget.add(1);
                    Rejection::OutOfBuffers
                }
            })
        }
    }

    #[inline]
    fn measure(&self, worker: WorkerId, request_type: RequestType, peer: Peer, times: Times) {
        let slot = self.types.slot(request_type);
        let work = &self.telemetry.workers[worker.index()].types[slot].0;
        work.completed(times);
        if self.slow.is_slow(slot, times.sojourn_ns) {
            let name = self.types.name_of_slot(slot);
            self.slow.note(name, worker, peer, times);
        }
    }

    /// The type of the request that has ended: as its handler said, or else as it was classified.
    #[inline]
    fn type_of(&self, classified: RequestType) -> RequestType {
        match said_type() {
            Some(said) if Some(said) != self.handshake && self.types.slot(said) < self.types.len() => said,
            _ => classified,
        }
    }

    fn name_of(&self, request_type: RequestType) -> &str {
        self.types.name_of_slot(self.types.slot(request_type))
    }
}
