//! Requests in datagrams over one link.

use std::io;

use super::exchange::{Ending, Exchange};
use super::ring::Ring;
use crate::clients::arrival::Arrival;
use crate::clients::lane::Lane;
use crate::clients::link::Link;
use crate::clients::waiter::Waiter;
use crate::record::{Failure, Notes, Recorder, RunClock};
use crate::schedule::{Pacing, RunPlan};

/// Datagrams read before the schedule is looked at again.
const READS_PER_TURN: usize = 32;

/// One link and the requests on it.
#[derive(Debug)]
pub(crate) struct DatagramLane<X: Exchange> {
    link: Link,
    requests: Requests<X>,
    /// The datagram that is being made.
    out: Vec<u8>,
    outstanding_max: usize,
    timeout_ns: u64,
    sent_ns: u64,
}

/// The requests that are in flight.
#[derive(Debug)]
struct Requests<X: Exchange> {
    exchange: X,
    types: Vec<DatagramType>,
    ring: Ring<Request<X::Pending>>,
}

#[derive(Debug)]
struct DatagramType {
    recorder: Recorder,
    in_flight: usize,
}

#[derive(Debug)]
struct Request<P> {
    type_index: usize,
    intended_ns: u64,
    pending: P,
}

impl<X: Exchange> DatagramLane<X> {
    /// Opens the link for the types of these recorders. Together they send at most `rate_rps`
    /// requests per second.
    pub(crate) fn connect(
        plan: &RunPlan,
        exchange: X,
        recorders: Vec<Recorder>,
        rate_rps: f64,
        waiter: &Waiter,
    ) -> io::Result<Self> {
        let types = recorders.into_iter().map(|recorder| DatagramType { recorder, in_flight: 0 });
        let types: Vec<_> = types.collect();
        Ok(Self {
            link: Link::connect(plan, waiter)?,
            requests: Requests {
                exchange,
                ring: Ring::new(slots_wanted(rate_rps, plan, types.len()), X::NAMED),
                types,
            },
            out: Vec::new(),
            outstanding_max: plan.outstanding_max,
            timeout_ns: u64::try_from(plan.timeout.as_nanos()).unwrap_or(u64::MAX),
            sent_ns: 0,
        })
    }
}

impl<X: Exchange> Requests<X> {
    /// Takes a datagram that arrived at `now_ns`.
    fn take_datagram(&mut self, datagram: &[u8], now_ns: u64) {
        let Some((id, header, payload)) = X::open(datagram) else {
            return;
        };
        // A late reply, or a datagram of another sender, has no request.
        let Some(request) = self.ring.get_mut(id) else {
            return;
        };
        let pending = &mut request.pending;
        let Some(ending) = self.exchange.take(pending, header, payload) else {
            return;
        };
        let intended_ns = request.intended_ns;
        let ty = &mut self.types[request.type_index];
        match ending {
            Ending::Served { service_ns } => {
                ty.recorder.completed(intended_ns, now_ns, Some(service_ns));
            }
            Ending::Answered { hits_and_misses: (hits, misses) } => {
                ty.recorder.looked_up(intended_ns, hits, misses);
                ty.recorder.completed(intended_ns, now_ns, None);
            }
            Ending::Failed(kind) => ty.recorder.failed(intended_ns, Failure::Error(kind)),
        }
        ty.in_flight -= 1;
        self.ring.remove(id);
    }

    /// Gives up requests that were due at `due_ns` or before.
    fn give_up(&mut self, due_ns: u64) {
        let is_late = |request: &Request<_>| request.intended_ns <= due_ns;
        while let Some(late) = self.ring.pop_oldest_if(is_late) {
            let ty = &mut self.types[late.type_index];
            ty.recorder.failed(late.intended_ns, Failure::Timeout);
            ty.in_flight -= 1;
            self.exchange.give_up(late.pending);
        }
    }
}

/// Twice the expected number of requests in flight.
fn slots_wanted(rate_rps: f64, plan: &RunPlan, types: usize) -> usize {
    let in_flight = match plan.pacing {
        Pacing::Closed(closed) if closed.per_type => closed.outstanding.saturating_mul(types) as f64,
        Pacing::Closed(closed) => closed.outstanding as f64,
        Pacing::Drawn | Pacing::Trace(_) => rate_rps * plan.timeout.as_secs_f64(),
    };
    let bounded = (plan.outstanding_max * types) as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the conversion saturates"
    )]
    let count = (2.0 * in_flight).min(bounded) as usize;
    count
}

impl<X: Exchange> Lane for DatagramLane<X> {
    fn issue(&mut self, arrival: Arrival, _waiter: &Waiter, clock: &RunClock) {
        let Arrival { index, command, intended_ns } = arrival;
        let Requests { exchange, types, ring } = &mut self.requests;
        let free_id = ring.free_id();
        let taken_ns = clock.now_ns();
        let ty = &mut types[index];
        let has_room = free_id.is_some() && ty.in_flight < self.outstanding_max;
        let recorder = &mut ty.recorder;
        let is_sent = recorder.taken_up(intended_ns, taken_ns, has_room, self.timeout_ns);
        let Some(id) = free_id.filter(|_| is_sent) else {
            return;
        };
        self.out.clear();
        let written = exchange.write(index, command, ring.name(id), intended_ns, &mut self.out);
        let sent = written.and_then(|pending| self.link.send(&self.out).map(|()| pending));
        let pending = match sent {
            Ok(pending) => pending,
            Err(kind) => {
                ty.recorder.failed(intended_ns, Failure::Error(kind));
                return;
            }
        };
        ty.recorder.sent(intended_ns, taken_ns);
        ty.in_flight += 1;
        self.sent_ns = taken_ns;
        let request = Request { type_index: index, intended_ns, pending };
        ring.insert(id, request);
    }

    fn flush(&mut self, _waiter: &Waiter, _clock: &RunClock) {
        self.link.flush();
    }

    fn is_polled(&self) -> bool {
        self.link.is_polled()
    }

    fn ready(&mut self, _data: u64, _waiter: &Waiter, clock: &RunClock) {
        let Self { link, requests, .. } = self;
        link.receive(READS_PER_TURN, |datagram| {
            requests.take_datagram(datagram, clock.now_ns());
        });
    }

    fn expire(&mut self, _waiter: &Waiter, clock: &RunClock) {
        let now_ns = clock.now_ns();
        for ty in &mut self.requests.types {
            ty.recorder.tick(now_ns);
        }
        if let Some(due_ns) = now_ns.checked_sub(self.timeout_ns) {
            self.requests.give_up(due_ns);
        }
    }

    fn take_ended(&mut self, index: usize) -> u64 {
        self.requests.types[index].recorder.take_ended()
    }

    fn types(&self) -> usize {
        self.requests.types.len()
    }

    fn outstanding(&self) -> usize {
        self.requests.ring.len()
    }

    fn sent_ns(&self) -> Option<u64> {
        (self.outstanding() > 0).then_some(self.sent_ns)
    }

    fn finish(self) -> Vec<Notes> {
        let Requests { mut types, ring, .. } = self.requests;
        for request in ring.into_requests() {
            let recorder = &mut types[request.type_index].recorder;
            recorder.failed(request.intended_ns, Failure::Unfinished);
        }
        let records = types.into_iter().map(|ty| ty.recorder.into_notes());
        records.collect()
    }
}
