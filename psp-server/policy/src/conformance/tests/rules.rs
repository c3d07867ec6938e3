//! What the kit takes promises to mean: tables of the order of requests, and of the workers that types may use.

use crate::conformance::promises::Place;
use crate::conformance::seen::Seen;
use crate::conformance::{AllowedWorkers, Order};
use crate::event::{Action, Event, WorkerId};
use crate::scheduler::{Scheduler, TypeStatus};
use crate::settings::Darc;

/// What a scheduler says of each type slot, and how often it has reserved workers.
struct Says([TypeStatus; 4], u64);

impl Scheduler for Says {
    fn on_event(&mut self, _: u64, _: Event<'_>) {}

    fn poll(&mut self, _: u64) -> Option<Action> {
        None
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.0[slot]
    }

    fn reservation_updates(&self) -> u64 {
        self.1
    }
}

const SHORT: usize = 0;
const LONG: usize = 1;
/// A type of which nothing is known.
const NEW: usize = 2;
const UNKNOWN: usize = 3;

/// Of four workers the first is reserved for SHORT, and two for LONG.
fn says() -> Says {
    let of = |group, first, workers_reserved, service_ns_mean| TypeStatus {
        group: Some(group),
        worker_first: Some(WorkerId(first)),
        workers_reserved,
        service_ns_mean,
        ..TypeStatus::default()
    };
    let nothing = TypeStatus::default();
    Says([of(0, 0, 1, 1_000.0), of(1, 1, 2, 100_000.0), nothing, nothing], 1)
}

fn seen<'a>(scheduler: &'a Says, workers: usize, running: &[usize], blocked: &[usize]) -> Seen<'a> {
    Seen {
        scheduler,
        workers,
        types: 3,
        running: running.to_vec(),
        blocked: blocked.to_vec(),
        unmeasured: &[false, false, true, false],
    }
}

const fn new(slot: usize, id: u32) -> Place {
    Place { slot, id, deadline_ns: None, resumes: false }
}

const fn due(slot: usize, id: u32, deadline_ns: u64) -> Place {
    Place { deadline_ns: Some(deadline_ns), ..new(slot, id) }
}

const fn resumes(place: Place) -> Place {
    Place { resumes: true, ..place }
}

#[test]
fn an_order_says_which_of_two_requests_goes_first() {
    let says = says();
    let seen = seen(&says, 4, &[], &[]);
    for (order, one, other, before) in [
        (Order::None, new(SHORT, 1), new(SHORT, 2), false),
        (Order::ArrivalAtWorker, new(SHORT, 1), new(SHORT, 2), false),
        (Order::ArrivalInTypeAtWorker, new(SHORT, 1), new(SHORT, 2), false),
        (Order::Arrival, new(LONG, 1), new(SHORT, 2), true),
        (Order::Arrival, new(SHORT, 2), new(LONG, 1), false),
        (Order::Arrival, new(SHORT, 1), new(SHORT, 1), false),
        (Order::ArrivalInType, new(LONG, 1), new(LONG, 2), true),
        (Order::ArrivalInType, new(LONG, 2), new(LONG, 1), false),
        (Order::ArrivalInType, new(LONG, 1), new(SHORT, 2), false),
        (Order::ArrivalInHalf, new(LONG, 1), new(NEW, 2), true),
        (Order::ArrivalInHalf, new(LONG, 2), new(NEW, 1), false),
        (Order::ArrivalInHalf, new(LONG, 1), new(SHORT, 2), false),
        (Order::ArrivalInPartition, new(NEW, 1), new(LONG, 2), true),
        (Order::ArrivalInPartition, new(NEW, 2), new(LONG, 1), false),
        (Order::ArrivalInPartition, new(SHORT, 1), new(LONG, 2), false),
        (Order::Deadline, due(LONG, 2, 5), due(SHORT, 1, 7), true),
        (Order::Deadline, due(LONG, 1, 7), due(SHORT, 2, 5), false),
        (Order::Deadline, due(LONG, 1, 5), due(SHORT, 2, 5), true),
        (Order::Deadline, due(LONG, 1, 5), due(SHORT, 1, 5), false),
        (Order::Deadline, resumes(due(LONG, 2, 5)), due(SHORT, 1, 7), false),
        (Order::Deadline, due(LONG, 2, 5), resumes(due(SHORT, 1, 7)), false),
        (Order::Deadline, new(LONG, 1), new(LONG, 2), true),
        (Order::Deadline, new(LONG, 2), new(LONG, 1), false),
        (Order::Deadline, new(LONG, 1), new(SHORT, 2), false),
        (Order::Deadline, due(LONG, 1, 5), new(LONG, 2), false),
        (Order::ShortestGroup, new(SHORT, 2), new(LONG, 1), true),
        (Order::ShortestGroup, new(LONG, 1), new(SHORT, 2), false),
        (Order::ShortestGroup, new(LONG, 1), new(LONG, 2), true),
        (Order::ShortestGroup, new(LONG, 1), new(LONG, 1), false),
        (Order::ShortestGroup, new(LONG, 2), new(UNKNOWN, 1), true),
        (Order::ShortestGroup, new(NEW, 2), new(SHORT, 1), true),
    ] {
        assert_eq!(order.is_before(&seen, one, other), before, "{order:?}: {one:?}, {other:?}");
    }
    assert_eq!(
        [Order::ArrivalAtWorker, Order::ArrivalInTypeAtWorker, Order::Arrival].map(Order::is_at_workers),
        [true, true, false]
    );
    assert_eq!(
        [Order::ArrivalAtWorker, Order::ArrivalInTypeAtWorker].map(|order| order.class_at_worker(LONG)),
        [0, LONG]
    );
}

#[test]
fn a_type_is_untried_until_a_request_of_it_began_if_any_other_is_known() {
    let (says, nothing) = (says(), Says([TypeStatus::default(); 4], 0));
    for (scheduler, running, blocked, untried) in [
        (&says, &[SHORT][..], &[LONG][..], true),
        (&says, &[NEW], &[], false),
        (&says, &[], &[NEW], false),
        (&nothing, &[], &[], false),
    ] {
        let seen = seen(scheduler, 4, running, blocked);
        assert_eq!([SHORT, NEW, UNKNOWN].map(|slot| seen.is_untried(slot)), [false, untried, false]);
    }
    let seen = seen(&says, 4, &[], &[]);
    assert_eq!([SHORT, LONG, NEW].map(|slot| seen.knows_length(slot)), [true, true, false]);
    assert!(!Seen { types: 1, ..seen }.knows_length(LONG), "it is not registered");
}

/// The workers that each type may use.
fn allowed(allowed: &AllowedWorkers, seen: &Seen<'_>) -> [Vec<usize>; 4] {
    let workers = |slot| (0..5).filter(|&worker| allowed.allow(seen, slot, worker)).collect();
    [SHORT, LONG, NEW, UNKNOWN].map(workers)
}

#[test]
fn a_rule_says_which_workers_a_type_may_use() {
    let (says, nothing) = (says(), Says([TypeStatus::default(); 4], 0));
    let of = |rule: &AllowedWorkers| allowed(rule, &seen(&says, 4, &[], &[]));
    let unknown = |rule: &AllowedWorkers| allowed(rule, &seen(&nothing, 4, &[LONG; 4], &[]));
    let all = || vec![0, 1, 2, 3];
    let but = |reserved| AllowedWorkers::AllButReserved { reserved };
    let by_darc = |stealing| AllowedWorkers::Reservation(Darc::default().stealing(stealing).spillway(1));
    assert_eq!(of(&AllowedWorkers::All), [all(), all(), all(), all()]);
    assert_eq!(of(&but(1)), [all(), vec![1, 2, 3], vec![1, 2, 3], vec![1, 2, 3]]);
    assert_eq!(of(&but(9)), [all(), vec![3], vec![3], vec![3]]);
    assert_eq!(of(&AllowedWorkers::Partition), [vec![0], vec![1, 2], vec![1, 2], vec![1, 2]]);
    assert_eq!(of(&by_darc(true)), [all(), vec![1, 2, 3], vec![3], vec![3]]);
    assert_eq!(of(&by_darc(false)), [vec![0, 3], vec![1, 2, 3], vec![3], vec![3]]);
    for rule in [but(1), AllowedWorkers::Partition, by_darc(true), AllowedWorkers::AnyWithLimit] {
        assert_eq!(unknown(&rule), [all(), all(), all(), all()], "{rule:?}");
    }
}

#[test]
fn longer_types_run_on_as_many_workers_as_are_left_to_them() {
    let says = says();
    let limit = AllowedWorkers::AnyWithLimit;
    for (workers, running, longs) in [
        (4, &[LONG, NEW, SHORT, SHORT][..], true),
        (4, &[LONG, NEW, UNKNOWN], false),
        (1, &[LONG], true),
    ] {
        let seen = seen(&says, workers, running, &[]);
        for (slot, allowed) in [(SHORT, true), (LONG, longs), (NEW, longs)] {
            assert_eq!(limit.allow(&seen, slot, 0), allowed, "{running:?}");
            assert_eq!(limit.allow_at_home(&seen, slot), allowed, "{running:?}");
            assert!(AllowedWorkers::Partition.allow_at_home(&seen, slot));
        }
    }
}

#[test]
fn types_are_alike_that_may_use_the_same_workers() {
    let says = says();
    let seen = seen(&says, 4, &[], &[]);
    for (rule, alike) in [
        (AllowedWorkers::All, [false, false, true]),
        (AllowedWorkers::Partition, [false, true, true]),
        (AllowedWorkers::AnyWithLimit, [false, true, true]),
    ] {
        let pairs = [(SHORT, LONG), (LONG, NEW), (NEW, UNKNOWN)];
        assert_eq!(pairs.map(|(one, other)| rule.are_alike(&seen, one, other)), alike, "{rule:?}");
    }
}
