//! The requests of a trial: what arrived lately, again, with service times drawn from those measured.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::record::{Arrival, Record};

/// A request of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) arrived_ns: u64,
    pub(super) service_ns: u64,
    pub(super) slot: usize,
}

/// The same requests closer together, at `factor` times the load.
pub(super) fn at_load(tape: &[Request], factor: f64) -> Vec<Request> {
    let closer = |request: &Request| Request {
        arrived_ns: (request.arrived_ns as f64 / factor) as u64,
        ..*request
    };
    tape.iter().map(closer).collect()
}

/// `requests` requests: the arrivals of the record over and over, each time with other service times. Types of which
/// no service time is known are left out.
pub(super) fn tape(record: &Record, requests: usize, seed: u64) -> Vec<Request> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut now_ns = 0_u64;
    let mut tape = Vec::with_capacity(requests);
    let known = |arrival: &Arrival| !record.services_ns(usize::from(arrival.slot)).is_empty();
    if !record.arrivals().any(|arrival| known(&arrival)) {
        return tape;
    }
    for arrival in record.arrivals().cycle() {
        now_ns += u64::from(arrival.gap_ns);
        if !known(&arrival) {
            continue;
        }
        let slot = usize::from(arrival.slot);
        let services_ns = record.services_ns(slot);
        tape.push(Request {
            arrived_ns: now_ns,
            service_ns: u64::from(services_ns[rng.random_range(0..services_ns.len())]),
            slot,
        });
        if tape.len() == requests {
            break;
        }
    }
    tape
}
