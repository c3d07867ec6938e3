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

/// How many workers the requests keep busy on average, if it is one standard error more than on the tape. `recorded`
/// arrivals are behind it: a long request in a thousand says little of how many will come.
pub(super) fn demand(tape: &[Request], recorded: usize) -> f64 {
    let (mut work_ns, mut squares) = (0.0, 0.0);
    for request in tape {
        let service_ns = request.service_ns as f64;
        work_ns += service_ns;
        squares += service_ns * service_ns;
    }
    let span_ns = tape.last().map_or(0, |request| request.arrived_ns);
    // Of Poisson arrivals the variance of their work is the sum of its squares.
    let of_record = tape.len() as f64 / recorded.clamp(1, tape.len().max(1)) as f64;
    let error_ns = (squares * of_record).sqrt();
    (work_ns + error_ns) / span_ns.max(1) as f64
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demand_is_work_by_time_and_what_is_not_known_of_it() {
        let request = |number: u64| Request {
            arrived_ns: number * 100,
            service_ns: 250,
            slot: 0,
        };
        let tape: Vec<Request> = (1..=100).map(request).collect();
        // Of 100 requests of one length a tenth more or less may come.
        assert_eq!(demand(&tape, 100), 2.75);
        assert_eq!(demand(&at_load(&tape, 2.0), 100), 5.5);
        // The tape repeats 25 of them.
        assert_eq!(demand(&tape, 25), 3.0);
        assert_eq!(demand(&[], 0), 0.0);
    }
}
