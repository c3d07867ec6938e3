//! The psp header over UDP: one socket or port, replies found by their id.
//!
//! A request's id is its place in a ring of slots, all of one size and each used for every n-th
//! request. What is not answered in time counts as a timeout, whether the network or the server
//! lost it.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use psp_protocols::psp_header::{HEADER_LEN, Header, Kind};

use crate::clock::RunClock;
use crate::engine::drive::Lane;
use crate::engine::link::Link;
use crate::engine::pacer::Arrival;
use crate::engine::services::Services;
use crate::engine::waiter::Waiter;
use crate::plan::RunPlan;
use crate::record::{Failure, Notes, Recorder};
use crate::target::Endpoint;

/// Datagrams read before the schedule is looked at again.
const READS_PER_TURN: usize = 32;

/// Most slots, whatever rate and timeout ask for.
const SLOTS_MAX: usize = 1 << 22;

/// Ids that are tried for one whose slot is free.
const PROBES_MAX: u32 = 64;

/// Length of an error's text that is kept as its kind.
const ERROR_KIND_LEN: usize = 32;

/// One link and the requests on it.
#[derive(Debug)]
pub(crate) struct DatagramLane {
    link: Link,
    requests: Requests,
    outstanding_max: usize,
    timeout_ns: u64,
    sent_ns: u64,
}

/// The requests that are in flight.
#[derive(Debug)]
struct Requests {
    types: Vec<DatagramType>,
    slots: Vec<Option<Slot>>,
    /// Id of the next request.
    next_id: u32,
    /// All requests with ids before this one have ended.
    oldest_id: u32,
    in_flight: usize,
}

#[derive(Debug)]
struct DatagramType {
    request_type: u16,
    services: Services,
    recorder: Recorder,
    in_flight: usize,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    id: u32,
    type_index: usize,
    service_ns: u32,
    intended_ns: u64,
}

/// One type for [`DatagramLane::connect`].
#[derive(Debug)]
pub(crate) struct DatagramTypeSetup {
    pub(crate) request_type: u16,
    pub(crate) services: Services,
    pub(crate) rate_rps: f64,
    pub(crate) recorder: Recorder,
}

/// A socket whose datagrams go to `endpoint`.
pub(crate) fn connect(endpoint: &Endpoint) -> io::Result<UdpSocket> {
    let (any, addr): (SocketAddr, _) = match *endpoint {
        Endpoint::Inet(addr @ SocketAddr::V4(_)) => ((Ipv4Addr::UNSPECIFIED, 0).into(), addr),
        Endpoint::Inet(addr @ SocketAddr::V6(_)) => ((Ipv6Addr::UNSPECIFIED, 0).into(), addr),
        Endpoint::Unix(_) => return Err(ErrorKind::Unsupported.into()),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(addr)?;
    Ok(socket)
}

impl DatagramLane {
    /// Opens the link.
    pub(crate) fn connect(
        plan: &RunPlan,
        setups: Vec<DatagramTypeSetup>,
        waiter: &Waiter,
    ) -> io::Result<Self> {
        let link = Link::connect(plan, waiter)?;
        let rate_rps: f64 = setups.iter().map(|setup| setup.rate_rps).sum();
        let types: Vec<_> = setups
            .into_iter()
            .map(|setup| DatagramType {
                request_type: setup.request_type,
                services: setup.services,
                recorder: setup.recorder,
                in_flight: 0,
            })
            .collect();
        Ok(Self {
            link,
            requests: Requests {
                slots: vec![None; slot_count(rate_rps, plan, types.len())],
                types,
                next_id: 0,
                oldest_id: 0,
                in_flight: 0,
            },
            outstanding_max: plan.outstanding_max,
            timeout_ns: u64::try_from(plan.timeout.as_nanos()).unwrap_or(u64::MAX),
            sent_ns: 0,
        })
    }
}

impl Requests {
    fn place(&self, id: u32) -> usize {
        id as usize & (self.slots.len() - 1)
    }

    fn slot_mut(&mut self, id: u32) -> &mut Option<Slot> {
        let place = self.place(id);
        &mut self.slots[place]
    }

    /// The next id whose slot is free, if it is not far.
    fn free_id(&self) -> Option<u32> {
        let mut ids = (0..PROBES_MAX).map(|ahead| self.next_id.wrapping_add(ahead));
        ids.find(|&id| self.slots[self.place(id)].is_none())
    }

    /// Ends the request, if it is in flight, and says which it was.
    fn take(&mut self, id: u32) -> Option<Slot> {
        let slot = self.slot_mut(id).take_if(|slot| slot.id == id)?;
        self.in_flight -= 1;
        self.types[slot.type_index].in_flight -= 1;
        Some(slot)
    }

    fn take_reply(&mut self, reply: &[u8], now_ns: u64) {
        let Ok(header) = Header::decode(reply) else {
            return;
        };
        // Late replies and strangers' datagrams have no slot.
        let Some(slot) = self.take(header.id) else {
            return;
        };
        let recorder = &mut self.types[slot.type_index].recorder;
        match header.kind {
            Kind::Error => {
                let text = &reply[HEADER_LEN..];
                let text = &text[..text.len().min(ERROR_KIND_LEN)];
                let kind = str::from_utf8(text).ok().filter(|text| !text.is_empty());
                recorder.failed(slot.intended_ns, Failure::Error(kind.unwrap_or("ERR")));
            }
            Kind::Reply | Kind::Request => {
                recorder.completed(slot.intended_ns, now_ns, Some(slot.service_ns));
            }
        }
    }
}

/// A power of two with room for all requests that can be outstanding.
fn slot_count(rate_rps: f64, plan: &RunPlan, types: usize) -> usize {
    let within_timeout = rate_rps * plan.timeout.as_secs_f64() * 2.0;
    let bounded = (plan.outstanding_max * types) as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the conversion saturates and is then clamped"
    )]
    let count = within_timeout.min(bounded) as usize;
    count.clamp(1024, SLOTS_MAX).next_power_of_two()
}

impl Lane for DatagramLane {
    fn issue(&mut self, arrival: Arrival, _waiter: &Waiter, clock: &RunClock) {
        let Arrival { index, intended_ns } = arrival;
        let free_id = self.requests.free_id();
        let taken_ns = clock.now_ns();
        let ty = &mut self.requests.types[index];
        ty.recorder.scheduled(intended_ns);
        let Some(id) = free_id.filter(|_| ty.in_flight < self.outstanding_max) else {
            ty.recorder.failed(intended_ns, Failure::Dropped);
            return;
        };
        if taken_ns.saturating_sub(intended_ns) >= self.timeout_ns {
            ty.recorder.failed(intended_ns, Failure::Timeout);
            return;
        }
        let service_ns = ty.services.draw(intended_ns);
        let header = Header {
            kind: Kind::Request,
            request_type: ty.request_type,
            id,
            payload_len: 0,
            run_time_ns: service_ns,
        };
        ty.recorder.taken(intended_ns, taken_ns);
        if let Err(kind) = self.link.send(&header.encode()) {
            ty.recorder.failed(intended_ns, Failure::Error(kind));
            return;
        }
        ty.recorder.sent(intended_ns, taken_ns);
        ty.in_flight += 1;
        self.requests.in_flight += 1;
        self.requests.next_id = id.wrapping_add(1);
        self.sent_ns = taken_ns;
        *self.requests.slot_mut(id) = Some(Slot {
            id,
            type_index: index,
            service_ns,
            intended_ns,
        });
    }

    fn flush(&mut self, _waiter: &Waiter, _clock: &RunClock) {
        self.link.flush();
    }

    fn is_polled(&self) -> bool {
        self.link.is_polled()
    }

    fn ready(&mut self, _data: u64, _waiter: &Waiter, clock: &RunClock) {
        let Self { link, requests, .. } = self;
        link.receive(READS_PER_TURN, |reply| {
            requests.take_reply(reply, clock.now_ns());
        });
    }

    fn expire(&mut self, _waiter: &Waiter, clock: &RunClock) {
        let now_ns = clock.now_ns();
        let requests = &mut self.requests;
        for ty in &mut requests.types {
            ty.recorder.tick(now_ns);
        }
        while requests.oldest_id != requests.next_id {
            let id = requests.oldest_id;
            if let Some(slot) = requests.slot_mut(id).filter(|slot| slot.id == id) {
                if now_ns.saturating_sub(slot.intended_ns) < self.timeout_ns {
                    break;
                }
                requests.take(id);
                let recorder = &mut requests.types[slot.type_index].recorder;
                recorder.failed(slot.intended_ns, Failure::Timeout);
            }
            requests.oldest_id = id.wrapping_add(1);
        }
    }

    fn take_ended(&mut self, index: usize) -> u64 {
        self.requests.types[index].recorder.take_ended()
    }

    fn types(&self) -> usize {
        self.requests.types.len()
    }

    fn outstanding(&self) -> usize {
        self.requests.in_flight
    }

    fn sent_ns(&self) -> Option<u64> {
        (self.requests.in_flight > 0).then_some(self.sent_ns)
    }

    fn finish(self) -> Vec<Notes> {
        let Requests {
            mut types, slots, ..
        } = self.requests;
        for slot in slots.into_iter().flatten() {
            let recorder = &mut types[slot.type_index].recorder;
            recorder.failed(slot.intended_ns, Failure::Unfinished);
        }
        types
            .into_iter()
            .map(|ty| ty.recorder.into_notes())
            .collect()
    }
}
