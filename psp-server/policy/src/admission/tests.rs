use std::time::Duration;

use super::*;
use crate::event::RequestId;
use crate::request_type::{RequestType, TypeSpec, TypeTable};

const SHORT: RequestType = RequestType::new(0);
const LONG: RequestType = RequestType::new(1);

/// One worker, requests of 1 and of 100 us, SLOs of ten times that.
fn admission() -> Admission {
    let of = |name, us| TypeSpec::new(name).service_time(Duration::from_micros(us));
    let types: TypeTable = [of("short", 1), of("long", 100)].into_iter().collect();
    Admission::new(1, &types, AdmissionSettings::default().slo_slowdown(10.0).requests_max(64))
}

fn arrival(request: u32, request_type: RequestType, now_ns: u64) -> Arrival {
    Arrival::new(RequestId(request), request_type, now_ns)
}

fn admitted(admission: &mut Admission, arrival: &Arrival) -> Ticket {
    match admission.arrive(arrival.arrived_ns, arrival) {
        Verdict::Admit(ticket) => ticket,
        Verdict::Refuse(refusal) => panic!("{refusal:?}"),
    }
}

fn refused(admission: &mut Admission, arrival: &Arrival) -> Refusal {
    match admission.arrive(arrival.arrived_ns, arrival) {
        Verdict::Admit(_) => panic!("let in"),
        Verdict::Refuse(refusal) => refusal,
    }
}

#[test]
fn a_queue_is_bounded_by_the_time_that_it_takes() {
    let mut admission = admission();
    // While a type asks for little, a queue may take nine tenths of its slack: 810 us of 100 us each, and one runs.
    for request in 0..9 {
        admitted(&mut admission, &arrival(request, LONG, 0));
    }
    let refusal = refused(&mut admission, &arrival(9, LONG, 0));
    assert_eq!(refusal.reason, Reason::OverTarget);
    assert!(refusal.retry_after_ns >= 100_000);
    admitted(&mut admission, &arrival(9, SHORT, 0));
    let [short, long] = [0, 1].map(|slot| admission.status(slot));
    assert_eq!((short.admitted, long.admitted, long.refused, long.in_system), (1, 9, [0, 1, 0, 0], 9));
    assert_eq!((long.slo_ns, long.service_ns_mean), (1e6, 1e5));
}

#[test]
fn what_cannot_end_before_its_deadline_is_refused_or_dropped() {
    let mut admission = admission();
    let near = arrival(0, LONG, 0).deadline_ns(Some(99_999));
    assert_eq!(refused(&mut admission, &near).reason, Reason::Infeasible);
    let ticket = admitted(&mut admission, &arrival(1, LONG, 0).deadline_ns(Some(300_000)));
    let other = admitted(&mut admission, &arrival(2, LONG, 0).deadline_ns(Some(300_000)));
    assert_eq!(admission.begin(200_000, ticket), Turn::RUN);
    assert_eq!(admission.begin(200_001, other), Turn::new(false, None));
    admission.end(300_000, ticket, 100_000, 1);
    let long = admission.status(1);
    assert_eq!((long.admitted, long.dropped, long.in_system), (2, 1, 0));
}

#[test]
fn the_urgent_request_takes_the_turn_of_one_that_came_before() {
    let mut admission = admission();
    let first = admitted(&mut admission, &arrival(10, LONG, 0).priority(5));
    let second = admitted(&mut admission, &arrival(11, LONG, 1).priority(5));
    let urgent = admitted(&mut admission, &arrival(12, LONG, 2).priority(0));
    assert_eq!(admission.begin(10, first), Turn::new(true, Some(RequestId(12))));
    // The first request waits under the name of the urgent one now.
    assert_eq!(admission.begin(20, second), Turn::new(true, Some(RequestId(12))));
    assert_eq!(admission.begin(30, second), Turn::RUN);
    for ticket in [urgent, first, second] {
        admission.end(300_000, ticket, 100_000, 1);
    }
    assert_eq!(admission.status(1).in_system, 0);
}

#[test]
fn requests_that_share_a_connection_keep_their_order() {
    let mut admission = admission();
    let first = admitted(&mut admission, &arrival(10, LONG, 0).priority(5).ordered(true));
    let urgent = admitted(&mut admission, &arrival(12, LONG, 2).priority(0));
    assert_eq!(admission.begin(10, first), Turn::RUN);
    assert_eq!(admission.begin(20, urgent), Turn::RUN);
}

#[test]
fn the_newest_goes_first_once_requests_wait_for_long() {
    let mut admission = admission();
    let mut tickets = Vec::new();
    // The target is a quarter of 900 us, the interval half of the SLO of 1 ms.
    for step in 0..10 {
        let now_ns = step * 240_000;
        for request in 0..2 {
            let arrival = arrival(request + step as u32 * 2, LONG, now_ns);
            if let Verdict::Admit(ticket) = admission.arrive(now_ns, &arrival) {
                tickets.push(ticket);
            }
        }
        if step > 0 {
            let turn = admission.begin(now_ns, tickets[0]);
            if admission.status(1).under_pressure && turn.runs {
                assert!(turn.instead.is_some(), "not the oldest: {turn:?}");
                return;
            }
            let ended = tickets.remove(0);
            if turn.runs {
                admission.end(now_ns, ended, 100_000, 1);
            }
        }
    }
    panic!("never under pressure");
}

#[test]
fn the_table_of_requests_is_bounded_and_unknown_types_count_only_there() {
    let types = TypeTable::new();
    let mut admission = Admission::new(1, &types, AdmissionSettings::default().requests_max(3));
    for request in 0..3 {
        admitted(&mut admission, &arrival(request, RequestType::UNKNOWN, 0));
    }
    let refusal = refused(&mut admission, &arrival(3, RequestType::UNKNOWN, 0));
    assert_eq!(refusal, Refusal { reason: Reason::OutOfRoom, retry_after_ns: 1 });
}

#[test]
fn who_takes_more_than_the_fair_part_makes_room_for_who_is_late() {
    let mut admission = admission();
    let before = admission.status(1).in_system_max;
    let long = admitted(&mut admission, &arrival(0, LONG, 0));
    admission.begin(0, long);
    // Short ones come too late, one after the other.
    for step in 1..=20 {
        let came_ns = step * 10_000;
        let short = admitted(&mut admission, &arrival(1, SHORT, came_ns));
        assert!(!admission.begin(came_ns + 9_500, short).runs);
    }
    assert_eq!(admission.status(0).dropped, 20);
    assert!(admission.status(1).in_system_max < before / 2.0);
}

#[test]
fn settings_have_ranges() {
    let valid = |settings: AdmissionSettings| settings.validate().is_ok();
    let default = AdmissionSettings::default;
    assert!(valid(default()) && valid(default().slo_slowdown(2.0).tenant_share_max(0.5)));
    for wrong in [
        default().slo_slowdown(1.0),
        default().slo_percentile(100.0),
        default().target_us(0.0),
        default().tenant_share_max(1.1),
        default().requests_max(0),
    ] {
        assert!(!valid(wrong), "{wrong:?}");
    }
}
