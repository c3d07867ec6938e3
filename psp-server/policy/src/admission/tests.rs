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
    let ticket = admitted(&mut admission, &arrival(1, LONG, 7).deadline_ns(Some(300_000)));
    assert_eq!(admission.places.get(ticket).arrived_ns, 7);
    let other = admitted(&mut admission, &arrival(2, LONG, 8).deadline_ns(Some(300_000)));
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
    // Once those have begun, the others' order is that of priorities again.
    let low = admitted(&mut admission, &arrival(13, LONG, 30).priority(5));
    admitted(&mut admission, &arrival(14, LONG, 31).priority(0));
    assert_eq!(admission.begin(40, low), Turn::new(true, Some(RequestId(14))));
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
        default().tenant_share_max(0.0),
        default().requests_max(0),
    ] {
        assert!(!valid(wrong), "{wrong:?}");
    }
}

/// Types with means and SLOs in microseconds, 0 for none.
fn of_types(workers: usize, types: &[(u64, u64)], settings: AdmissionSettings) -> Admission {
    let some = |us: u64| (us > 0).then(|| Duration::from_micros(us));
    let spec = |(number, &(mean_us, slo_us))| {
        let mut spec = TypeSpec::new(format!("{number}"));
        (spec.service_time, spec.slo) = (some(mean_us), some(slo_us));
        spec
    };
    let types: TypeTable = types.iter().enumerate().map(spec).collect();
    Admission::new(workers, &types, settings)
}

fn slowdown(slowdown: f64) -> AdmissionSettings {
    AdmissionSettings::default().slo_slowdown(slowdown)
}

/// Two types of 100 us, four workers, an SLO of ten times the mean, which one request in ten may miss.
fn equal() -> Admission {
    of_types(4, &[(100, 0); 2], slowdown(10.0).slo_percentile(90.0))
}

#[test]
fn intervals_slos_and_targets_follow_from_means_and_settings() {
    let interval_ns = |types: &[(u64, u64)]| of_types(2, types, slowdown(0.0)).next_interval_ns();
    assert_eq!(interval_ns(&[(1, 0)]), 100e3);
    assert_eq!(interval_ns(&[(1, 0), (150, 0)]), 300e3);
    assert_eq!(interval_ns(&[(1, 0); 20]), 210e3);
    assert_eq!(interval_ns(&[(3_000_000, 0)]), 1e9);

    let infinity = f64::INFINITY;
    for (mean_us, slo_us, factor, slo_ns, target_ns, infeasible) in [
        (100, 0, 10.0, 1e6, [225e3, 500e3], false),
        (100, 450, 10.0, 450e3, [87.5e3, 225e3], false),
        (100, 200, 10.0, 200e3, [25e3, 100e3], false),
        (100, 150, 10.0, 200e3, [25e3, 100e3], true),
        (0, 70, 10.0, 70e3, [17.5e3, 35e3], false),
        (0, 0, 10.0, infinity, [500e3, 1e7], false),
        (100, 0, 0.0, infinity, [500e3, 1e7], false),
    ] {
        let admission = of_types(1, &[(mean_us, slo_us)], slowdown(factor).target_us(500.0));
        assert_eq!((admission.slo_ns(0), admission.target_ns(0)), (slo_ns, target_ns), "{mean_us} {slo_us}");
        let status = admission.status(0);
        assert_eq!(
            (status.slo_infeasible, status.slo_ns),
            (infeasible, if slo_ns < infinity { slo_ns } else { 0.0 })
        );
    }
}

#[test]
fn a_type_has_as_many_in_the_system_as_its_entitlement_and_its_demand_say() {
    let mut admission = of_types(2, &[(1, 0), (100, 0)], slowdown(10.0));
    let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
    let requests = [0, 1, 2].map(|request| admitted(&mut admission, &arrival(request, LONG, 0)));
    for ticket in &requests[..2] {
        admission.begin(0, *ticket);
    }
    admission.demand = Demand::new(3);
    for (slot, offered, used) in [(0, 0.2, 0.1), (1, 0.9, 0.7)] {
        admission.demand.arrived(slot, 3, offered);
        admission.demand.served(slot, used);
    }
    admission.demand.close(1.0);
    // Of two workers the long type may have what the short one leaves, and asks for more.
    let long = admission.status(1);
    assert!(near(long.workers_fair, 1.6) && near(long.workers_offered, 1.8));
    assert!(near(long.in_system_max, 3.25 * 1.6) && near(admission.in_system_max(1, 2), 9.1 * 1.6));
    assert!(near(admission.status(0).in_system_max, 9.1));
    assert_eq!(admission.status(2).in_system_max, f64::INFINITY);
    assert!(near(admission.pressure(1), 2.0 / 1.6));
    // One may be there, whatever was cut.
    (0..100).for_each(|now_ns| _ = admission.types[0].limit.cut(now_ns, 9.0, 0.0, 0.0));
    assert_eq!(admission.in_system_max(0, OVER_SHARE), 1.0);
    admitted(&mut admission, &arrival(3, SHORT, 0));
    assert_eq!(refused(&mut admission, &arrival(4, SHORT, 0)).reason, Reason::OverTarget);
    // Workers were busy for four fifths of the time.
    assert_eq!([0, 1, 2].map(|slot| admission.gets_too_little(slot)), [true, false, false]);
    for (offered, asks) in [(ASKS, false), (0.96, true)] {
        admission.demand = Demand::new(3);
        admission.demand.arrived(0, 3, offered);
        admission.demand.close(1.0);
        assert_eq!(admission.asks_for_all(0, 3), asks);
        assert!(!admission.asks_for_all(0, 2));
    }
}

#[test]
fn demand_is_taken_when_an_interval_of_two_long_requests_has_passed() {
    for (workers, offered) in [(1, 2.0), (2, 2.0)] {
        let mut admission = admission();
        admission.workers(0, workers);
        let run = Arrival { count: 3, ..arrival(0, LONG, 0) };
        admitted(&mut admission, &run);
        let one = admitted(&mut admission, &arrival(1, LONG, 199_999));
        assert_eq!(
            (admission.status(1).workers_offered, admission.status(1).workers_fair),
            (0.0, workers as f64)
        );
        admission.cancel(200_000, one);
        assert_eq!((admission.status(1).workers_offered, admission.status(1).in_system), (offered, 3));
    }
    let mut fares = Fares { ended: 16.0, ..Fares::default() };
    fares.close();
    assert_eq!((fares.ended, fares.ended_mean), (0.0, 2.0));
    fares.close();
    assert_eq!(fares.ended_mean, 1.75);
}

/// Whether the types at 0 and 1 are cut when so many requests of each began and so many of the first are hurt.
fn cut_by(admission: &mut Admission, began: [u32; 2], hurt: u32, level: usize, fate: Fate) -> [bool; 2] {
    for (slot, count) in began.into_iter().enumerate() {
        for _ in 0..count {
            let arrival = arrival(0, RequestType::new(slot as u32), 0);
            let ticket = admission.places.insert(slot, 3, &arrival).unwrap();
            admission.places.leave_lane(ticket);
        }
    }
    (0..hurt).for_each(|_| admission.fares(0, (0, level), fate));
    [0, 1].map(|slot| admission.types[slot].limit.factor(1e9) < 1e9)
}

#[test]
fn more_must_be_hurt_than_the_percentile_allows_and_than_come_in_a_burst() {
    for (hurt, ended_mean, cut) in [(4, 0.0, false), (5, 0.0, true), (5, 10.0, false), (6, 10.0, true)] {
        let mut admission = equal();
        admission.types[0].fares.ended_mean = ended_mean;
        assert_eq!(cut_by(&mut admission, [0, 1], hurt, 3, Fate::Late), [false, cut], "{hurt}");
    }
    // Of eight halves no more than four is a burst.
    for (hurt, cut) in [(8, false), (9, true)] {
        let mut admission = of_types(4, &[(100, 0); 2], slowdown(10.0).slo_percentile(50.0));
        assert_eq!(cut_by(&mut admission, [0, 1], hurt, 3, Fate::Late), [false, cut], "{hurt}");
    }
    assert_eq!(cut_by(&mut equal(), [0, 1], 100, OVER_SHARE, Fate::Late), [false; 2]);
    assert_eq!(cut_by(&mut equal(), [0, 1], 100, 3, Fate::InTime), [false; 2]);
}

#[test]
fn who_runs_more_of_its_entitlement_is_cut_and_else_who_asks_for_all_of_it() {
    use Fate::{CrowdedOut, Late};
    for (asks, began, fate, expected) in [
        (false, [2, 3], Late, [false, true]),
        (false, [2, 2], Late, [false, false]),
        // No more than its entitlement crowds nobody out.
        (false, [2, 4], CrowdedOut, [false, false]),
        (false, [2, 5], CrowdedOut, [false, true]),
        // The first type may have all, and the second one half.
        (true, [2, 1], Late, [true, false]),
        (true, [2, 2], Late, [false, true]),
        (true, [2, 1], CrowdedOut, [false, false]),
    ] {
        let mut admission = equal();
        if asks {
            admission.demand.arrived(0, 3, 1.0);
            admission.demand.close(1.0);
        }
        assert_eq!(cut_by(&mut admission, began, 5, 3, fate), expected, "{asks} {began:?} {fate:?}");
    }
    // What has no mean has no limit, and its cut is none.
    let mut admission = of_types(4, &[(100, 0), (0, 0), (100, 0)], slowdown(10.0).slo_percentile(90.0));
    admission.types[2].fares.excess = 1.0;
    assert_eq!(cut_by(&mut admission, [0, 9], 5, 3, Late), [false; 2]);
    assert_eq!(admission.types[2].fares.excess, 1.0);
}

#[test]
fn a_type_is_under_pressure_once_its_oldest_has_waited_for_too_long_for_an_interval() {
    let mut admission = admission();
    admitted(&mut admission, &arrival(0, LONG, 0));
    for (now_ns, since_ns, under_pressure) in [
        (224_999, None, false),
        (225_000, Some(225_000), false),
        (724_999, Some(225_000), false),
        (725_000, Some(225_000), true),
    ] {
        admission.note_waiting(now_ns, 1);
        let long = &admission.types[1];
        assert_eq!((long.over_target_since_ns, long.under_pressure), (since_ns, under_pressure));
    }
}

#[test]
fn what_arrives_is_expected_to_wait_its_turn_and_is_refused_if_that_is_too_late() {
    let mut admission = admission();
    let first = admitted(&mut admission, &arrival(0, LONG, 1_000).priority(255).deadline_ns(Some(101_000)));
    assert_eq!(admission.places.get(first).level, usize::from(PRIORITIES) - 1);
    let second = admitted(&mut admission, &arrival(1, LONG, 1_000).priority(255));
    assert_eq!(admission.places.get(second).in_line, 2.0);
    let near = |admission: &mut Admission, deadline_ns| {
        refused(admission, &arrival(2, LONG, 1_000).deadline_ns(Some(deadline_ns)))
    };
    let infeasible = Refusal { reason: Reason::Infeasible, retry_after_ns: 100_000 };
    assert_eq!(near(&mut admission, 100_999), infeasible);
    // A place in line costs what it cost lately.
    let line = &mut admission.types[1].lines[3];
    *line = Line::new();
    line.began(1_000, 64_000.0, 1.0, 0.0);
    let wait_ns = line.wait_ns(1_000, 1.0, 1e9) as u64;
    assert!(wait_ns > 100);
    assert_eq!(near(&mut admission, 101_000 + wait_ns - 1), infeasible);
    admitted(&mut admission, &arrival(2, LONG, 1_000).deadline_ns(Some(101_001 + wait_ns)));

    // Nobody is to blame for a deadline of the request's own.
    for (short_of, deadline_ns, ended) in [(false, None, 0.0), (true, Some(960_000), 0.0), (true, None, 1.0)] {
        let mut admission = self::admission();
        if short_of {
            admission.demand.arrived(1, 3, 1.0);
            admission.demand.served(0, 1.0);
            admission.demand.close(1.0);
        }
        let late = Arrival { deadline_ns, ..arrival(0, LONG, 0) };
        assert!(matches!(admission.arrive(950_000, &late), Verdict::Refuse(it) if it.reason == Reason::Infeasible));
        assert_eq!(admission.types[1].fares.ended, ended);
    }
}

#[test]
fn a_request_is_late_after_its_slo_and_a_longer_one_after_as_much_more() {
    for (count, served_ns, took_ns, late, mean_ns) in [
        (1, 100_000, 1_000_000, false, 100_000.0),
        (1, 100_000, 1_000_001, true, 100_000.0),
        (1, 50_000, 1_000_000, false, 50_000.0),
        (1, 250_000, 2_500_000, false, 250_000.0),
        (1, 250_000, 2_500_001, true, 250_000.0),
        (4, 400_000, 1_000_001, true, 100_000.0),
    ] {
        let mut admission = admission();
        let ticket = admitted(&mut admission, &Arrival { count, ..arrival(0, LONG, 0) });
        admission.begin(0, ticket);
        admission.block(0, ticket);
        assert_eq!(admission.status(1).in_system, 0);
        admission.unblock(0, ticket);
        assert_eq!(admission.status(1).in_system, u64::from(count));
        admission.end(took_ns, ticket, served_ns, count);
        assert_eq!(admission.types[1].fares.excess > 0.5, late, "{served_ns} {took_ns}");
        assert_eq!(admission.status(1).service_ns_mean, mean_ns);
    }
}

#[test]
fn a_tenant_is_charged_for_what_its_requests_take() {
    let mut admission = admission();
    let run = |now_ns| Arrival { count: 2, ..arrival(0, LONG, now_ns).tenant(7) };
    let [ends, goes, late] = [0; 3].map(|now_ns| admitted(&mut admission, &run(now_ns)));
    assert_eq!(admission.tenants.used_ns(7), 600e3);
    admission.cancel(0, goes);
    assert_eq!(admission.tenants.used_ns(7), 400e3);
    admission.begin(0, ends);
    admission.end(150_000, ends, 150_000, 2);
    assert_eq!(admission.tenants.used_ns(7), 350e3);
    assert!(!admission.begin(2_000_000, late).runs);
    assert_eq!(admission.tenants.used_ns(7), 150e3);
}
