//! Earliest deadline first, without preemption: the waiting request whose deadline is nearest, on
//! any idle worker (Liu and Layland 1973; Perséphone, table 5).
//!
//! A request may have a deadline of its own, which its peer or the longest wait of its type gives. Any
//! other request's deadline is its arrival plus the SLO of its type, and plus the time for which it was blocked. A type
//! without an SLO has `slo-factor` mean service times: the hinted, later the measured ones. Types of unknown length,
//! and `UNKNOWN`, have the longest SLO of all types. Their requests lose against requests that arrived with them, but
//! not against requests that arrive much later, so none starves. If no length is known at all, the order is that of
//! arrival.

use crate::backlog::Handover;
use crate::event::{Action, Event, HandOff};
use crate::parts::eligible;
use crate::parts::grouped::Grouped;
use crate::parts::slos::Slos;
use crate::parts::waiting::Waiting;
use crate::scheduler::{Scheduler, TypeStatus};
use crate::settings;
use crate::settings::Darc;
use crate::setup::SchedulerSetup;

/// What runs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// The next request of the type at this slot that has no deadline of its own, or has run.
    OfType(usize),
    /// The first of its other requests.
    Due(usize),
}

/// See the [module](self).
pub(crate) struct Edf {
    grouped: Grouped,
    slos: Slos,
}

impl Edf {
    pub(crate) fn new(setup: &SchedulerSetup<'_>, settings: &settings::Edf) -> Self {
        let mut grouped = Grouped::new(setup, &Darc::default());
        let mut slos = Slos::new(setup, settings.slo_factor);
        slos.update(&grouped.profile);
        grouped.queues = grouped.queues.by_deadline();
        Self { grouped, slos }
    }

    /// Where the request with the earliest deadline waits. Of equal deadlines, that of the request
    /// that arrived first.
    fn most_urgent(&self) -> Option<Next> {
        let rank = |waiting: &Waiting, slo_ns: f64, next| {
            let by_slo = || waiting.present_since_ns().saturating_add(slo_ns as u64);
            let deadline_ns = waiting.deadline_ns.unwrap_or_else(by_slo);
            (deadline_ns, waiting.sequence, next)
        };
        let first = |(slot, &slo_ns): (usize, &f64)| {
            let next = self.grouped.next_of(slot);
            let next = next.map(|waiting| rank(waiting, slo_ns, Next::OfType(slot)));
            let due = self.next_due(slot);
            next.into_iter().chain(due.map(|waiting| rank(waiting, slo_ns, Next::Due(slot)))).min()
        };
        let all = self.slos.all_ns().iter().enumerate();
        all.filter_map(first).min().map(|(_, _, next)| next)
    }

    /// The first of a type's requests with deadlines of their own, if an idle worker can begin it.
    fn next_due(&self, slot: usize) -> Option<&Waiting> {
        let grouped = &self.grouped;
        let due = grouped.queues.first_due(slot)?;
        let open = grouped.open_to(slot);
        eligible::worker_for_new(&grouped.queues, &grouped.workers, open).map(|_| due)
    }

    fn dispatch(&mut self, now_ns: u64, next: Next) -> Option<Action> {
        let grouped = &mut self.grouped;
        match next {
            Next::OfType(slot) => grouped.dispatch_type(now_ns, slot).map(|(_, action)| action),
            Next::Due(slot) => {
                let open = grouped.open_to(slot);
                let (queues, workers) = (&mut grouped.queues, &mut grouped.workers);
                let (worker, waiting) = eligible::take_due(queues, workers, open, slot)?;
                let hand_off = HandOff::Dispatched;
                Some(grouped.running.start(now_ns, worker, waiting, hand_off))
            }
        }
    }
}

impl Scheduler for Edf {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        self.grouped.record(now_ns, event);
        if self.grouped.close_window_if_due(now_ns).is_some() {
            self.slos.update(&self.grouped.profile);
        }
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(refused) = self.grouped.queues.pop_refused() {
            return Some(refused);
        }
        if !self.grouped.can_dispatch() {
            return None;
        }
        let next = self.most_urgent()?;
        self.dispatch(now_ns, next)
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(&mut self.grouped)
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.grouped.type_status(slot)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::policy::Policy;
    use crate::rehearsal::{Rehearsal, UNKNOWN};
    use crate::request_type::TypeSpec;
    use crate::settings::Edf;

    const US: fn(u64) -> Duration = Duration::from_micros;

    /// A is long and urgent, B has 10 times 2 us, nothing is known of C.
    fn types() -> [TypeSpec; 3] {
        [
            TypeSpec::new("A").service_time(US(100)).slo(US(5)),
            TypeSpec::new("B").service_time(US(2)),
            TypeSpec::new("C"),
        ]
    }

    #[test]
    fn the_nearest_deadline_goes_first_whatever_the_length() {
        let mut edf = Rehearsal::new(Policy::edf(), 1, types());
        let order = edf.order_of([UNKNOWN, 2, 1, 0, 1, 0], 1_000);
        assert_eq!(order, [3, 5, 0, 1, 2, 4]);
    }

    #[test]
    fn the_factor_makes_slos_of_service_times() {
        for (factor, expected) in [(10.0, [1, 0]), (5.0, [0, 1])] {
            let types = [TypeSpec::new("A").slo(US(15)), TypeSpec::new("B").service_time(US(2))];
            let mut edf = Rehearsal::new(Edf::default().slo_factor(factor), 1, types);
            assert_eq!(edf.order_of([1, 0], 1_000), expected, "{factor}");
        }
    }

    #[test]
    fn a_request_that_waited_for_the_longest_slo_is_not_overtaken_any_more() {
        let mut edf = Rehearsal::new(Policy::edf(), 1, types());
        assert_eq!(edf.arrive_all([UNKNOWN, 2, 0]), "2@0");
        edf.now_ns += 14_000;
        assert_eq!(edf.arrive_all([0]), "");
        edf.now_ns += 2_000;
        assert_eq!(edf.arrive_all([0]), "");
        let first = edf.finishes(0, 100_000);
        assert_eq!(first, "3@0", "due after 19 us, the unknown after 20");
        let next = edf.finishes(0, 100_000);
        assert_eq!(next, "0@0", "the second A is due after 21");
        assert_eq!(edf.drain(1_000), [1, 4]);
    }

    #[test]
    fn without_any_knowledge_the_order_is_that_of_arrival() {
        let types = [TypeSpec::new("A"), TypeSpec::new("B")];
        let mut edf = Rehearsal::new(Policy::edf(), 2, types);
        assert_eq!(edf.arrive_all([1, 9, 0, 1]), "0@0, 1@1");
        assert_eq!(edf.drain(1_000), [2, 3]);
    }

    #[test]
    fn measurements_give_a_type_its_deadline() {
        let types = [TypeSpec::new("A").slo(US(50)), TypeSpec::new("B")];
        let mut edf = Rehearsal::new(Policy::edf(), 1, types);
        for id in 0..10 {
            assert_eq!(edf.order_of([1], 1_000), [id]);
        }
        let order = edf.order_of([0, 1], 1_000);
        assert_eq!(order, [10, 11], "as urgent as A");
        edf.now_ns += 100_000_000;
        assert_eq!(edf.order_of([1], 1_000), [12]);
        let order = edf.order_of([0, 1], 1_000);
        assert_eq!(order, [14, 13], "due after 10 us");
    }

    #[test]
    fn deadlines_of_their_own_go_before_slos_and_order_requests_of_one_type() {
        let mut edf = Rehearsal::new(Policy::edf(), 1, types());
        assert_eq!(edf.arrive_all([2]), "0@0", "it keeps the worker");
        for (id, due_ns) in [(1, Some(90_000)), (2, Some(9_000)), (3, None), (4, Some(40_000))] {
            let type_index = if id == 4 { 2 } else { 1 };
            assert_eq!(edf.arrives_due(10, id, type_index, due_ns), "");
        }
        let first = edf.finishes(0, 1_000);
        assert_eq!(first, "2@0", "due after 9 us");
        assert_eq!(edf.drain(1_000), [3, 4, 1], "B's SLO is 20 us");
    }

    #[test]
    fn a_deadline_of_its_own_survives_other_policies() {
        let one_worker = |policy| Rehearsal::new(policy, 1, types());
        let mut policy = one_worker(Policy::edf());
        assert_eq!(policy.arrive_all([2]), "0@0");
        for (id, due_ns) in [(1, 90_000), (2, 9_000)] {
            assert_eq!(policy.arrives_due(10, id, 1, Some(due_ns)), "");
        }
        assert_eq!(policy.type_status(1).queued, 2);
        assert_eq!(policy.switches(20, one_worker(Policy::c_fcfs())), "");
        assert_eq!(policy.switches(30, one_worker(Policy::edf())), "");
        assert_eq!(policy.drain(1_000), [2, 1]);
    }

    #[test]
    fn what_waits_and_runs_goes_on_under_another_policy_and_back() {
        let one_worker = |policy| Rehearsal::new(policy, 1, types());
        let mut policy = one_worker(Policy::c_fcfs());
        assert_eq!(policy.arrive_all([1, 1, 0]), "0@0");
        assert_eq!(policy.switches(10, one_worker(Policy::edf())), "");
        assert_eq!(policy.yields_now(0, 500), "2@0");
        let next = policy.finishes(0, 100_000);
        assert_eq!(next, "0@0", "before the one that arrived later");
        assert_eq!(policy.switches(20, one_worker(Policy::darc())), "");
        assert_eq!(policy.drain(1_000), [1]);
    }
}
