//! Running requests: the same code on a worker's thread and on the net thread.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use psp_protocols::{Framing, Rejection};

use super::clock::Clock;
use super::shared::Shared;
use super::task::Task;
use crate::fiber::preemptible;
use crate::handler::{Handler, Request};
use crate::policy::{Sample, WorkerId};
use crate::preempt::PreemptPolicy;
use crate::reply::{Reply, ReplyOutcome};
use crate::request_type::RequestType;
use crate::telemetry::Counter;
use crate::transport::datagram::Datagram;
use crate::transport::output::Flush;
use crate::transport::stream::Stream;

/// A run that has taken this long gives the worker back; its rest is queued again.
const RUN_NS_MAX: u64 = 1_000_000;

/// Who sends the replies of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sending {
    /// The worker itself, when the run is done.
    AtOnce,
    /// The net worker, when the runs of its turn are done: a peer that waits for replies on many
    /// connections is woken once for all of them.
    WithTheTurn,
}

/// One worker's half of the work: the handler and all that it needs.
pub(crate) struct Executor<F, H: Handler> {
    worker: WorkerId,
    handler: Arc<H>,
    framing: Arc<F>,
    shared: Arc<Shared>,
    clock: Clock,
    state: H::Worker,
    sending: Sending,
    /// Time that the present run was away from the worker, in nanoseconds.
    away_ns: Rc<Cell<u64>>,
}

impl<F: Framing, H: Handler> Executor<F, H> {
    /// To be called on the worker's own thread. Time in `away_ns`, which runs may spend between
    /// turns, is not measured as service.
    pub(crate) fn new(
        worker: WorkerId,
        handler: Arc<H>,
        framing: Arc<F>,
        shared: Arc<Shared>,
        clock: Clock,
        sending: Sending,
        away_ns: Rc<Cell<u64>>,
    ) -> Self {
        let state = handler.init_worker(worker);
        Self {
            worker,
            handler,
            framing,
            shared,
            clock,
            state,
            sending,
            away_ns,
        }
    }

    /// The time that this run has had so far, from any beginning.
    #[inline]
    fn service_clock_ns(&self) -> u64 {
        self.clock.now_ns() - self.away_ns.get()
    }

    /// How long a request waited whose handler begins at `service_ns` of the service clock.
    #[inline]
    fn waited(&self, arrived_ns: u64, service_ns: u64) -> Duration {
        let now_ns = service_ns + self.away_ns.get();
        Duration::from_nanos(now_ns.saturating_sub(arrived_ns))
    }

    /// Runs what the task holds, sends the replies, and leaves its measurements in it. When the last
    /// handler was done, in nanoseconds of the runtime's clock.
    pub(crate) fn run(&mut self, task: &mut Task<H::Connection>) -> u64 {
        let end_ns = match task {
            Task::Stream(stream) => self.run_stream(stream),
            Task::Datagram(datagram) => self.run_datagram(datagram),
        };
        end_ns + self.away_ns.get()
    }

    /// Returns the service clock's time at the end.
    fn run_stream(&mut self, stream: &mut Stream<H::Connection>) -> u64 {
        stream.samples.clear();
        stream.done = 0;
        let start_ns = self.service_clock_ns();
        let mut now_ns = start_ns;
        while let Some(&frame) = stream.run.get(stream.done) {
            let mark = stream.output.len();
            let payload = &stream.input.data()[..frame.len];
            let mut reply =
                Reply::to_stream(&mut stream.output, self.shared.config.reply_bytes_max);
            let request = Request {
                payload,
                request_type: frame.request_type,
                connection: &stream.state,
                peer: stream.peer,
                worker: self.worker,
                waited: self.waited(frame.arrived_ns, now_ns),
            };
            let outcome = self.shared.guard(
                &*self.handler,
                self.worker,
                &mut self.state,
                request,
                &mut reply,
            );
            let limit_bytes = self.shared.config.reply_bytes_max;
            if let Some(rejection) = self.shared.refusal(self.worker, outcome, limit_bytes) {
                stream.output.truncate(mark);
                self.framing
                    .encode_rejection(&rejection, payload, &mut stream.output);
            }
            stream.closing |= outcome.is_ok_and(|outcome| outcome.close);
            stream.input.consume(frame.len);
            stream.done += 1;
            let end_ns = self.service_clock_ns();
            // Clocks of two cores may differ, and the thread have moved.
            let service_ns = end_ns.saturating_sub(now_ns);
            self.shared
                .measure(self.worker, frame.request_type, service_ns);
            record(&mut stream.samples, frame.request_type, service_ns);
            now_ns = end_ns;
            if stream.output.len() > self.shared.config.output_high_water_bytes {
                self.send(stream);
                if !stream.output.is_empty() {
                    break;
                }
                now_ns = self.service_clock_ns();
            }
            if stream.closing || now_ns.saturating_sub(start_ns) > RUN_NS_MAX {
                break;
            }
        }
        self.send(stream);
        now_ns
    }

    fn send(&mut self, stream: &mut Stream<H::Connection>) {
        match self.sending {
            Sending::AtOnce => {
                let sent = stream.send(usize::MAX);
                self.shared.telemetry.workers[self.worker.index()]
                    .bytes_sent
                    .add(sent as u64);
            }
            Sending::WithTheTurn => stream.flush = Flush::Budget,
        }
    }

    /// Returns the service clock's time at the end.
    #[inline]
    fn run_datagram(&mut self, datagram: &mut Datagram<H::Connection>) -> u64 {
        let start_ns = self.service_clock_ns();
        let Datagram {
            peer,
            body,
            endpoint: Some(endpoint),
            request_type,
            arrived_ns,
            sample,
            ..
        } = datagram
        else {
            return start_ns;
        };
        let (peer, request_type, arrived_ns) = (*peer, *request_type, *arrived_ns);
        let envelope = self.framing.envelope();
        let shape = envelope.shape();
        let reply_len_max = body.reply_len_max(shape);
        let (received, free) = body.split();
        let (header_room, room) = free.split_at_mut(shape.header_len.min(free.len()));
        let payload = received.get(shape.header_len..).unwrap_or_default();
        let limit_bytes = match header_room.len() == shape.header_len {
            true => room.len().min(reply_len_max),
            false => 0,
        };
        let room = &mut room[..limit_bytes];
        let mut reply = Reply::to_datagram(room);
        let request = Request {
            payload,
            request_type,
            connection: &endpoint.state,
            peer,
            worker: self.worker,
            waited: self.waited(arrived_ns, start_ns),
        };
        let outcome = self.shared.guard(
            &*self.handler,
            self.worker,
            &mut self.state,
            request,
            &mut reply,
        );
        let mut written = reply.outcome().written;
        if let Some(rejection) = self.shared.refusal(self.worker, outcome, limit_bytes) {
            let mut reply = Reply::to_datagram(room);
            self.framing
                .encode_rejection(&rejection, payload, &mut reply);
            let outcome = reply.outcome();
            written = if outcome.overflowed {
                0
            } else {
                outcome.written
            };
        }
        let end_ns = self.service_clock_ns();
        let service_ns = end_ns - start_ns;
        if written > 0 {
            let at_once = self.sending == Sending::AtOnce;
            let sent = body.send(
                written,
                envelope,
                &endpoint.outlet,
                peer,
                self.worker,
                at_once,
            );
            let counters = &self.shared.telemetry.workers[self.worker.index()];
            counters.bytes_sent.add(sent.bytes as u64);
            counters.replies_unsent.add(sent.dropped as u64);
        }
        self.shared.measure(self.worker, request_type, service_ns);
        *sample = Some(Sample {
            request_type,
            count: 1,
            service_ns,
        });
        end_ns
    }
}

fn record(
    samples: &mut smallvec::SmallVec<[Sample; 4]>,
    request_type: RequestType,
    service_ns: u64,
) {
    match samples
        .iter_mut()
        .find(|sample| sample.request_type == request_type)
    {
        Some(sample) => {
            sample.count += 1;
            sample.service_ns += service_ns;
        }
        None => samples.push(Sample {
            request_type,
            count: 1,
            service_ns,
        }),
    }
}

/// The handler panicked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Panicked;

impl Shared {
    /// Calls the handler. A panic is counted and the worker's state made anew, for it may have
    /// been left half changed.
    #[inline]
    fn guard<H: Handler>(
        &self,
        handler: &H,
        worker: WorkerId,
        state: &mut H::Worker,
        request: Request<'_, H::Connection>,
        reply: &mut Reply<'_>,
    ) -> Result<ReplyOutcome, Panicked> {
        let slot = self.types.slot(request.request_type);
        let preempt = self.preempt[slot];
        let handle = AssertUnwindSafe(|| handler.handle(state, request, reply));
        let handled = catch_unwind(|| match preempt {
            PreemptPolicy::None => handle(),
            _ => preemptible(slot, preempt, handle),
        });
        match handled {
            Ok(()) => Ok(reply.outcome()),
            Err(_) => {
                self.telemetry.workers[worker.index()].panics.add(1);
                *state = handler.init_worker(worker);
                Err(Panicked)
            }
        }
    }

    /// What a request's peer is told in place of a reply, if it has none, or one beyond `limit_bytes`.
    #[inline]
    fn refusal(
        &self,
        worker: WorkerId,
        outcome: Result<ReplyOutcome, Panicked>,
        limit_bytes: usize,
    ) -> Option<Rejection<'static>> {
        match outcome {
            Err(Panicked) => Some(Rejection::HandlerFailed),
            Ok(outcome) if outcome.overflowed => {
                let counters = &self.telemetry.workers[worker.index()];
                counters.replies_too_large.add(1);
                Some(Rejection::ReplyTooLarge { limit_bytes })
            }
            Ok(_) => None,
        }
    }

    #[inline]
    fn measure(&self, worker: WorkerId, request_type: RequestType, service_ns: u64) {
        let slot = self.types.slot(request_type);
        let work = &self.telemetry.workers[worker.index()].types[slot].0;
        work.completions.add(1);
        work.service_ns.add(service_ns);
        raise(&work.service_ns_max, service_ns);
    }
}

fn raise(max: &Counter, value: u64) {
    if value > max.get() {
        max.set(value);
    }
}
