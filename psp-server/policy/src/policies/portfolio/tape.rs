//! The requests of a trial: what arrived lately, again, with service times drawn from those measured.

use std::borrow::Cow;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::record::Record;
use crate::request_type::RequestType;

/// The most turns of all candidates on a [bounded](bounded()) tape,
const BOUNDED_TURNS_MAX: f64 = 4e6;
/// which is no shorter than this for them.
const BOUNDED_LENGTH_MIN: usize = 32_768;

/// A request of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) arrived_ns: u64,
    pub(super) service_ns: u64,
    pub(super) slot: usize,
}

impl Request {
    /// Its type, of so many.
    pub(super) fn request_type(&self, types: usize) -> RequestType {
        if self.slot < types {
            RequestType::new(self.slot as u32)
        } else {
            RequestType::UNKNOWN
        }
    }
}

/// The same requests closer together, at `factor` times the load.
pub(super) fn at_load(tape: &[Request], factor: f64) -> Vec<Request> {
    let closer = |request: &Request| Request {
        arrived_ns: (request.arrived_ns as f64 / factor) as u64,
        ..*request
    };
    tape.iter().map(closer).collect()
}

/// A tape of which each request takes so many turns. One with more than [`BOUNDED_TURNS_MAX`] is cut to half, and half
/// again.
pub(super) fn bounded(tape: &[Request], turns: f64) -> Cow<'_, [Request]> {
    let mut tape = Cow::Borrowed(tape);
    while tape.len() >= 2 * BOUNDED_LENGTH_MIN && tape.len() as f64 * turns > BOUNDED_TURNS_MAX {
        tape = later_halves(&tape).into();
    }
    tape
}

/// The later half of each half of a tape, so that both halves have the same arrivals again.
fn later_halves(tape: &[Request]) -> Vec<Request> {
    let (early, late) = tape.split_at(tape.len() / 2);
    let mut now_ns = 0;
    let mut shorter = Vec::with_capacity(tape.len().div_ceil(2));
    for half in [early, late] {
        let (before, later) = half.split_at(half.len() / 2);
        let mut last_ns = before.last().map_or(0, |request| request.arrived_ns);
        for request in later {
            now_ns += request.arrived_ns - last_ns;
            last_ns = request.arrived_ns;
            shorter.push(Request { arrived_ns: now_ns, ..*request });
        }
    }
    shorter
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

/// At most `requests` requests: the arrivals of the record over and over, each time with other service times. Types of
/// which no service time is known are left out. Both halves of the tape have the same arrivals, if two rounds of the
/// record fit.
pub(super) fn tape(record: &Record, requests: usize, seed: u64) -> Vec<Request> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut now_ns = 0_u64;
    let is_known = |slot: usize| !record.services_ns(slot).is_empty();
    let counts = record.counts().iter().enumerate();
    let counts = counts.filter(|(slot, _)| is_known(*slot));
    let round: usize = counts.map(|(_, &count)| count as usize).sum();
    if round == 0 {
        return Vec::new();
    }
    let rounds = requests / round / 2 * 2;
    let requests = if rounds == 0 { requests } else { rounds * round };
    let mut tape = Vec::with_capacity(requests);
    for arrival in record.arrivals().cycle() {
        now_ns += u64::from(arrival.gap_ns);
        let slot = usize::from(arrival.slot);
        if !is_known(slot) {
            continue;
        }
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
    use crate::request_type::{TypeSpec, TypeTable};

    #[test]
    fn demand_is_work_by_time_and_what_is_not_known_of_it() {
        let request = |number: u64| Request { arrived_ns: number * 100, service_ns: 250, slot: 0 };
        let tape: Vec<Request> = (1..=100).map(request).collect();
        // Of 100 requests of one length a tenth more or less may come.
        assert_eq!(demand(&tape, 100), 2.75);
        assert_eq!(demand(&at_load(&tape, 2.0), 100), 5.5);
        // The tape repeats 25 of them.
        assert_eq!(demand(&tape, 25), 3.0);
        assert_eq!(demand(&[], 0), 0.0);
    }

    #[test]
    fn a_tape_of_many_turns_is_cut_but_not_to_less_than_percentiles_need() {
        let request = |number: usize| Request { arrived_ns: number as u64, service_ns: 1, slot: 0 };
        let tape: Vec<Request> = (0..131_072).map(request).collect();
        let lengths = [30.5, 31.0, 61.0, 62.0, 1e9].map(|turns| bounded(&tape, turns).len());
        assert_eq!(lengths, [131_072, 65_536, 65_536, 32_768, 32_768]);
        assert_eq!(bounded(&tape[..65_535], 1e9).len(), 65_535);
    }

    #[test]
    fn of_each_half_the_later_half_is_left_with_its_gaps() {
        let request = |arrived_ns| Request { arrived_ns, service_ns: 1, slot: 0 };
        let shorter = later_halves(&[1, 3, 6, 10, 15, 21, 28, 36].map(request));
        assert_eq!(shorter, [3, 7, 14, 22].map(request));
        let types = [0, 1, 2].map(|slot| Request { slot, ..request(0) }.request_type(2));
        assert_eq!(types, [RequestType::new(0), RequestType::new(1), RequestType::UNKNOWN]);
    }

    #[test]
    fn both_halves_have_the_same_arrivals_and_other_service_times() {
        let named = ["ONE", "OTHER", "UNSEEN"].map(TypeSpec::new);
        let mut record = Record::new(&named.into_iter().collect());
        for number in 0..100 {
            record.arrived(number * number, (number % 3) as usize);
            record.took((number % 2) as usize, number + 1);
        }
        // 34 and 33 of the arrivals are of types with service times. Five times as many would fit.
        let tape = tape(&record, 5 * 67 + 1, 1);
        assert_eq!(tape.len(), 4 * 67);
        let (early, late) = tape.split_at(2 * 67);
        let slots = |half: &[Request]| half.iter().map(|request| request.slot).collect::<Vec<_>>();
        let gaps = |half: &[Request]| {
            let pairs = half.windows(2);
            let gap_ns = |pair: &[Request]| pair[1].arrived_ns - pair[0].arrived_ns;
            pairs.map(gap_ns).collect::<Vec<_>>()
        };
        assert_eq!(slots(early), slots(late));
        assert_eq!(gaps(early), gaps(late));
        let times = |half: &[Request]| half.iter().map(|request| request.service_ns).sum::<u64>();
        assert_ne!(times(early), times(late));
        assert_eq!((tape[66].arrived_ns, tape[66].slot), (99 * 99, 0), "what is left out takes its time");
        // As have those of a shorter one.
        let shorter = later_halves(&tape);
        let (early, late) = shorter.split_at(67);
        assert_eq!((slots(early), gaps(early)), (slots(late), gaps(late)));
        let services = |tape: &[Request]| tape.iter().map(|it| it.service_ns).collect::<Vec<_>>();
        let later = [&tape[67..2 * 67], &tape[3 * 67..]].concat();
        assert_eq!(services(&shorter), services(&later));
        // Of a tape that is shorter than the record nothing is left out.
        assert_eq!(super::tape(&record, 50, 1).len(), 50);
        assert_eq!(super::tape(&Record::new(&TypeTable::new()), 50, 1), []);
    }
}
