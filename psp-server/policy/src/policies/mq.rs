//! Shinjuku's multi queue: typed queues weighed by SLO, and requests that yield after a quantum
//! while others wait (Shinjuku 3.4, "MQ").
//!
//! The queue is served whose first request has been in the system for the largest part of its
//! type's SLO. A preempted request keeps its time of arrival and goes back to its own queue, to
//! the head or the tail; the best queue is chosen after that, and may be the same again.
//!
//! The SLO is that of the type's registration, else a multiple of its mean service time,
//! measured or hinted. A type of unknown length, and `UNKNOWN`, have the largest SLO of all: they
//! are the last to be urgent, but with time every request is. Where no type has an SLO the queues
//! are served in order of arrival.
//!
//! Where preemption is so dear that the machine [lengthens](crate::Preemption::quantum_ns_min) the quantum, requests of
//! short types outlive it for another reason than their length: they lost their core. To preempt them frees no core. So
//! such a type has a longer quantum, the longer the shorter its mean is.

use crate::backlog::{Backlog, Handover};
use crate::event::{Action, Event, WorkerId};
use crate::parts::dispersion::Dispersion;
use crate::parts::finishing::Finishing;
use crate::parts::grouped::Grouped;
use crate::parts::quanta::Quanta;
use crate::parts::slos::Slos;
use crate::parts::waiting::Waiting;
use crate::scheduler::{Scheduler, TypeStatus};
use crate::settings;
use crate::settings::{Darc, Requeue};
use crate::setup::SchedulerSetup;

/// The most quanta that a request of a short type has before it is preempted, where the machine lengthens the quantum.
const SHORT_QUANTA_MAX: f64 = 5.0;
/// A request may be like those of its type for so many of their mean service times, or quanta if these are longer.
const ALIKE_TIMES: f64 = 10.0;

/// See the [module](self).
pub(crate) struct Mq {
    grouped: Grouped,
    quanta: Quanta,
    quantum_ns: u64,
    /// The machine lengthens the quantum.
    is_lengthened: bool,
    slos: Slos,
    requeue: Requeue,
    dispersion: Dispersion,
    finishing: Finishing,
    /// A request that would be chosen again this long after it is asked to stop is left alone.
    spare_chosen_after_ns: Option<u64>,
}

impl Mq {
    pub(crate) fn new(setup: &SchedulerSetup<'_>, settings: &settings::Mq) -> Self {
        let grouped = Grouped::new(setup, &Darc::default());
        let mut slos = Slos::new(setup, settings.slo_factor);
        slos.update(&grouped.profile);
        let preemption = setup.preemption.filter(|_| settings.spare_chosen);
        let quantum_after = |preemption| settings.quantum_us.ns(settings::Mq::OWN_QUANTUM_US, preemption);
        let quantum_ns = quantum_after(setup.preemption);
        Self {
            grouped,
            quanta: Quanta::new(setup, quantum_ns),
            quantum_ns,
            is_lengthened: quantum_ns > quantum_after(None),
            slos,
            requeue: settings.requeue,
            dispersion: Dispersion::new(setup),
            finishing: Finishing::new(setup, settings.spare_finishing),
            spare_chosen_after_ns: preemption.map(|preemption| preemption.cost_ns),
        }
    }

    /// Whether a preempted request of the type at `slot` that has run for `served_ns` goes to the tail of its queue.
    /// The head until the dispersion of its type's service times is known: a type's requests are alike, as a rule. One
    /// that has run for many times their mean is not like the others, and may never end.
    fn to_tail(&self, slot: usize, served_ns: u64) -> bool {
        let mean_ns = self.grouped.profile.mean_ns(slot).unwrap_or(0.0);
        let alike_ns = ALIKE_TIMES * mean_ns.max(self.quantum_ns as f64);
        let wide = || match served_ns as f64 > alike_ns {
            true => Some(true),
            false => self.dispersion.is_wide(slot),
        };
        self.requeue.is_tail(wide).unwrap_or(false)
    }

    /// The quantum of what runs on `worker` starts.
    fn start_quantum(&mut self, now_ns: u64, worker: WorkerId) {
        let Grouped { queues, profile, running, .. } = &self.grouped;
        let mean_ns = running
            .on(worker)
            .filter(|_| self.is_lengthened)
            .and_then(|turn| profile.mean_ns(queues.slot(turn.waiting.request_type)));
        let quantum_ns = self.quantum_ns as f64;
        let quanta = mean_ns.map_or(1.0, |mean_ns| (quantum_ns / mean_ns.max(1.0)).clamp(1.0, SHORT_QUANTA_MAX));
        let quantum_ns = (quantum_ns * quanta) as u64;
        self.quanta.start_for(now_ns, worker, running, quantum_ns);
    }

    /// The part of its SLO that a request has been in the system for. The time in which it was blocked does not
    /// count: no worker could have shortened it.
    fn urgency(&self, now_ns: u64, slot: usize, waiting: &Waiting) -> f64 {
        let in_system_ns = now_ns.saturating_sub(waiting.present_since_ns());
        in_system_ns as f64 / self.slos.all_ns()[slot].max(1.0)
    }

    /// The queue whose `first` request is the most urgent, and how urgent that is.
    fn most_urgent<'a>(&'a self, now_ns: u64, first: impl Fn(usize) -> Option<&'a Waiting>) -> Option<(f64, usize)> {
        let mut best: Option<(f64, usize)> = None;
        for slot in 0..self.slos.all_ns().len() {
            let Some(waiting) = first(slot) else {
                continue;
            };
            let urgency = self.urgency(now_ns, slot, waiting);
            let beats = best.is_none_or(|(highest, other)| {
                urgency > highest || (urgency == highest && self.slos.all_ns()[slot] < self.slos.all_ns()[other])
            });
            if beats {
                best = Some((urgency, slot));
            }
        }
        best
    }

    fn dispatch(&mut self, now_ns: u64) -> Option<Action> {
        if !self.grouped.can_dispatch() {
            return None;
        }
        let (_, slot) = self.most_urgent(now_ns, |slot| self.grouped.next_of(slot))?;
        let (worker, action) = self.grouped.dispatch_type(now_ns, slot)?;
        self.start_quantum(now_ns, worker);
        Some(action)
    }

    /// Whether what runs on `worker` would be chosen again by the time that the worker is free.
    fn would_resume(&self, worker: WorkerId, free_ns: u64) -> bool {
        let Grouped { queues, running, .. } = &self.grouped;
        let Some(turn) = running.on(worker) else {
            return false;
        };
        let slot = queues.slot(turn.waiting.request_type);
        let behind = |slot| queues.next_behind(slot, worker);
        if self.to_tail(slot, turn.waiting.served_ns) && behind(slot).is_some() {
            return false;
        }
        let urgency = self.urgency(free_ns, slot, &turn.waiting);
        // The first of its own queue would stand behind it.
        self.most_urgent(free_ns, behind)
            .is_none_or(|(highest, other)| other == slot || urgency >= highest)
    }

    /// Whether what ran on `worker` for `served_ns` goes to the tail of its queue.
    fn goes_to_tail(&self, worker: WorkerId, served_ns: u64) -> bool {
        let turn = self.grouped.running.on(worker);
        turn.is_some_and(|turn| {
            let slot = self.grouped.queues.slot(turn.waiting.request_type);
            self.to_tail(slot, turn.waiting.served_ns.saturating_add(served_ns))
        })
    }

    /// The worker that is expired longest and not about to finish.
    fn expired(&mut self, now_ns: u64) -> Option<WorkerId> {
        let Grouped { queues, running, .. } = &self.grouped;
        self.finishing.expired(&mut self.quanta, now_ns, running, queues, &self.dispersion)
    }

    fn preempt(&mut self, now_ns: u64) -> Option<Action> {
        while let Some(worker) = self.expired(now_ns) {
            let spare = self
                .spare_chosen_after_ns
                .is_some_and(|cost_ns| self.would_resume(worker, now_ns.saturating_add(cost_ns)));
            if !spare {
                return self.quanta.preempt(worker, &mut self.grouped.running);
            }
            self.start_quantum(now_ns, worker);
        }
        None
    }
}

impl Scheduler for Mq {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        match event {
            Event::Completed { worker, samples, .. } => {
                self.quanta.stop(worker);
                for sample in samples {
                    let slot = self.grouped.queues.slot(sample.request_type);
                    self.dispersion.record(slot, sample);
                }
            }
            Event::Yielded { worker, .. } => self.quanta.stop(worker),
            Event::Blocked { worker, .. } => self.quanta.stop(worker),
            Event::Unblocked { .. } => {}
            Event::Arrived { .. } | Event::Workers { .. } | Event::Tick => {}
        }
        match event {
            Event::Yielded { worker, served_ns } if self.goes_to_tail(worker, served_ns) => {
                let waiting = self.grouped.running.give_up(worker, served_ns);
                let slot = self.grouped.queues.slot(waiting.request_type);
                self.grouped.queues.put_back_last(slot, waiting);
                self.grouped.workers.release(worker);
            }
            event => {
                self.grouped.record(now_ns, event);
            }
        }
        if self.grouped.close_window_if_due(now_ns).is_some() {
            self.slos.update(&self.grouped.profile);
        }
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(refused) = self.grouped.queues.pop_refused() {
            return Some(refused);
        }
        if self.grouped.queues.is_empty() {
            return None;
        }
        self.dispatch(now_ns).or_else(|| self.preempt(now_ns))
    }

    fn deadline_ns(&self) -> Option<u64> {
        self.quanta.deadline_for(&self.grouped.queues)
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(self)
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.grouped.type_status(slot)
    }
}

impl Handover for Mq {
    fn hand_over(&mut self) -> Backlog {
        self.grouped.hand_over()
    }

    fn take_over(&mut self, now_ns: u64, backlog: Backlog) {
        self.grouped.take_over(now_ns, backlog);
        self.quanta.take_over(now_ns, &self.grouped.running);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::event::Sample;
    use crate::policy::Policy;
    use crate::rehearsal::{Rehearsal, sample};
    use crate::request_type::RequestType;
    use crate::request_type::TypeSpec;
    use crate::setup::Preemption;

    const SHORT: RequestType = RequestType::new(0);
    const LONG: RequestType = RequestType::new(1);
    const UNKNOWN: RequestType = RequestType::UNKNOWN;
    const US: u64 = 1_000;

    /// SLOs of 10 us and 1 ms.
    fn hinted() -> [TypeSpec; 2] {
        [
            TypeSpec::new("SHORT").service_time(Duration::from_micros(1)),
            TypeSpec::new("LONG")
                .service_time(Duration::from_micros(500))
                .slo(Duration::from_millis(1)),
        ]
    }

    fn bare() -> [TypeSpec; 2] {
        [TypeSpec::new("SHORT"), TypeSpec::new("LONG")]
    }

    fn one_worker(policy: impl Into<Policy>) -> Rehearsal {
        Rehearsal::new(policy, 1, hinted())
    }

    #[test]
    fn the_request_that_used_most_of_its_slo_runs_next() {
        let mut mq = one_worker(Policy::mq());
        assert_eq!(mq.arrives(0, 0, LONG), "0@0");
        assert_eq!(mq.arrives(0, 1, LONG), "");
        assert_eq!(mq.arrives(US, 2, SHORT), "");
        assert_eq!(mq.completes(2 * US, 0), "2@0", "0.1 beside 0.002");
        assert_eq!(mq.arrives(990 * US, 3, SHORT), "stop 0");
        assert_eq!(mq.completes(995 * US, 0), "1@0", "0.5 beside 0.995");
        assert_eq!(mq.completes(999 * US, 0), "3@0");
    }

    #[test]
    fn of_equally_urgent_requests_that_of_the_shorter_slo_runs_next_or_else_that_of_the_first_type() {
        let types = [1000, 10, 10].map(|us| {
            let spec = TypeSpec::new(us.to_string()).service_time(Duration::from_micros(1));
            spec.slo(Duration::from_micros(us))
        });
        let mut mq = Rehearsal::new(Policy::mq(), 1, types);
        assert_eq!(mq.arrives(0, 0, LONG), "0@0");
        for (id, index) in [(1, 0), (2, 2), (3, 1)] {
            assert_eq!(mq.arrives(US, id, RequestType::new(index)), "");
        }
        assert_eq!(mq.completes(US, 0), "3@0");
        assert_eq!(mq.drain(0), [2, 1]);
    }

    #[test]
    fn a_preempted_request_keeps_its_time_of_arrival() {
        let mut mq = one_worker(Policy::mq());
        assert_eq!(mq.arrives(0, 0, LONG), "0@0");
        assert_eq!(mq.arrives(50 * US, 1, SHORT), "stop 0");
        assert_eq!(mq.yields(51 * US, 0), "1@0", "0.1 beside 0.051");
        assert_eq!(mq.completes(52 * US, 0), "0@0");
        assert_eq!(mq.arrives(800 * US, 2, SHORT), "stop 0");
        assert_eq!(mq.yields(801 * US, 0), "0@0", "0.1 beside 0.801");
        assert_eq!(mq.deadline_ns(), Some(806 * US));
        assert_eq!(mq.ticks(806 * US), "stop 0");
        assert_eq!(mq.yields(809 * US, 0), "2@0", "0.9 beside 0.809");
    }

    #[test]
    fn a_lengthened_quantum_is_longer_for_short_types() {
        let types = || {
            [
                TypeSpec::new("TINY").service_time(Duration::from_micros(1)),
                TypeSpec::new("SHORT").service_time(Duration::from_micros(80)),
                TypeSpec::new("LONG").service_time(Duration::from_micros(500)),
            ]
        };
        let ends_us = |policy: settings::Mq, quantum_ns_min| {
            let preemption = Preemption::new(1_000).quantum_ns_min(quantum_ns_min);
            [0, 1, 2].map(|index| {
                let mut mq = Rehearsal::with_preemption(policy.clone(), 1, types(), Some(preemption));
                mq.arrives(0, 0, RequestType::new(index));
                mq.arrives(0, 1, LONG);
                mq.deadline_ns().unwrap() / US
            })
        };
        let default = settings::Mq::default;
        assert_eq!(ends_us(default(), 0), [5, 5, 5]);
        assert_eq!(ends_us(default(), 200 * US), [1000, 500, 200]);
        assert_eq!(
            ends_us(default().quantum_us(200.0), 200 * US),
            [200; 3],
            "a quantum that is set is used as it is"
        );
    }

    #[test]
    fn what_would_be_chosen_again_can_be_spared() {
        let mut mq = one_worker(settings::Mq::default().spare_chosen(true));
        assert_eq!(mq.arrives(0, 0, LONG), "0@0");
        assert_eq!(mq.arrives(0, 1, LONG), "");
        assert_eq!(mq.ticks(5 * US), "", "it is the first of its queue");
        assert_eq!(mq.arrives(800 * US, 2, SHORT), "");
        assert_eq!(mq.deadline_ns(), Some(805 * US), "another quantum");
        assert_eq!(mq.ticks(805 * US), "");
        assert_eq!(mq.ticks(810 * US), "stop 0");
        assert_eq!(mq.yields(811 * US, 0), "2@0");
    }

    #[test]
    fn head_and_tail_decide_within_a_type() {
        for (requeue, next) in [(Requeue::Head, "0@0"), (Requeue::Tail, "1@0")] {
            for spare_chosen in [false, true] {
                let mut mq = one_worker(settings::Mq::default().requeue(requeue).spare_chosen(spare_chosen));
                assert_eq!(mq.arrives(0, 0, LONG), "0@0");
                assert_eq!(mq.arrives(10, 1, LONG), "");
                if mq.ticks(5 * US) == "stop 0" {
                    assert_eq!(mq.yields(6 * US, 0), next);
                } else {
                    assert_eq!((requeue, spare_chosen), (Requeue::Head, true));
                }
            }
        }
    }

    #[test]
    fn the_automatic_choice_follows_each_types_own_dispersion() {
        let mut mq = one_worker(Policy::mq());
        let alike = std::iter::repeat_n(sample(SHORT, 1000), 500);
        let apart = [1000, 1_000_000].map(|service_ns| sample(LONG, service_ns));
        let samples: Vec<Sample> = alike.chain(apart.repeat(250)).collect();
        mq.arrives(0, 9, SHORT);
        mq.measures(1, 0, &samples);
        for (request_type, next) in [(SHORT, "0@0"), (LONG, "1@0")] {
            let now_ns = u64::from(next == "1@0") * 100 * US + 2;
            assert_eq!(mq.arrives(now_ns, 0, request_type), "0@0");
            assert_eq!(mq.arrives(now_ns, 1, request_type), "");
            assert_eq!(mq.ticks(now_ns + 5 * US), "stop 0");
            assert_eq!(mq.yields(now_ns + 6 * US, 0), next);
            mq.completes(now_ns + 7 * US, 0);
            mq.completes(now_ns + 8 * US, 0);
        }
    }

    #[test]
    fn a_request_that_outlasts_its_like_lets_them_pass() {
        for (requeue, turns) in [(Requeue::Automatic, 11), (Requeue::Head, 40)] {
            let mut mq = one_worker(settings::Mq::default().requeue(requeue));
            assert_eq!(mq.arrives(0, 0, SHORT), "0@0");
            assert_eq!(mq.arrives(1, 1, SHORT), "");
            let mut turn = |number: u64| {
                assert_eq!(mq.ticks(number * 5 * US), "stop 0");
                mq.yields_after(number * 5 * US, 0, 5 * US)
            };
            let again = (1..40).take_while(|&number| turn(number) == "0@0").count();
            assert_eq!(again + 1, turns, "{requeue:?}");
        }
    }

    #[test]
    fn what_is_of_no_known_length_is_last_but_not_forever() {
        let mut mq = one_worker(Policy::mq());
        assert_eq!(mq.arrives(0, 0, LONG), "0@0");
        assert_eq!(mq.arrives(0, 1, UNKNOWN), "");
        let mut order = Vec::new();
        for round in 1..200 {
            let now_ns = round * 9 * US;
            mq.arrives(now_ns, 2, SHORT);
            order.push(mq.completes(now_ns + 5 * US, 0));
            if order.last().is_some_and(|ran| ran == "1@0") {
                break;
            }
        }
        assert_eq!(order[0], "2@0");
        assert_eq!(order.last().map(String::as_str), Some("1@0"));
    }

    #[test]
    fn without_hints_it_serves_in_order_of_arrival_until_it_measured() {
        let mut mq = Rehearsal::new(Policy::mq(), 1, bare());
        assert_eq!(mq.arrives(0, 0, LONG), "0@0");
        let arrive = |mq: &mut Rehearsal, now_ns| {
            mq.arrives(now_ns, 1, LONG);
            mq.arrives(now_ns + 1, 2, UNKNOWN);
            mq.arrives(now_ns + 2, 3, SHORT);
        };
        arrive(&mut mq, 10);
        let order = [20, 21, 22].map(|now_ns| mq.completes(now_ns, 0));
        assert_eq!(order, ["1@0", "2@0", "3@0"]);
        arrive(&mut mq, 30);
        let counted = |request_type, service_ns| Sample { count: 25_000, ..sample(request_type, service_ns) };
        let means = [counted(SHORT, 25_000_000), counted(LONG, 25_000_000_000)];
        assert_eq!(mq.measures(1040, 0, &means), "3@0", "1 us beside 1 ms");
        let order = [1050, 1051].map(|now_ns| mq.completes(now_ns, 0));
        assert_eq!(order, ["1@0", "2@0"]);
    }

    #[test]
    fn without_preemption_nothing_stops() {
        let policy = settings::Mq::default().spare_chosen(true);
        let mut mq = Rehearsal::with_preemption(policy, 1, hinted(), None);
        assert_eq!(mq.arrives(0, 0, LONG), "0@0");
        assert_eq!(mq.arrives(0, 1, SHORT), "");
        assert_eq!((mq.ticks(90 * US).as_str(), mq.deadline_ns()), ("", None));
        assert_eq!(mq.completes(91 * US, 0), "1@0");
    }

    #[test]
    fn expired_workers_stop_one_by_one_as_requests_arrive() {
        let mut mq = Rehearsal::new(Policy::mq().quantum_us(10), 2, hinted());
        assert_eq!(mq.arrives(0, 0, LONG), "0@0");
        assert_eq!(mq.arrives(1, 1, LONG), "1@1");
        assert_eq!((mq.ticks(90 * US).as_str(), mq.deadline_ns()), ("", None));
        assert_eq!(mq.arrives(91 * US, 2, SHORT), "stop 0");
        assert_eq!(mq.arrives(91 * US, 3, SHORT), "stop 1");
        assert_eq!(mq.arrives(91 * US, 4, SHORT), "", "all are stopping");
        assert_eq!(mq.yields(101 * US, 1), "2@1");
        assert_eq!(mq.yields(101 * US, 0), "3@0");
    }

    #[test]
    fn what_is_taken_over_goes_back_to_its_own_queue() {
        for other in ["c-fcfs", "d-fcfs", "fixed-priority", "sq"] {
            let other: Policy = other.parse().unwrap();
            let mut policy = one_worker(other.clone());
            assert_eq!(policy.arrives(0, 0, LONG), "0@0");
            assert_eq!(policy.arrives(1, 1, LONG), "");
            assert_eq!(policy.arrives(2, 2, SHORT), "");
            assert_eq!(policy.switches(3 * US, one_worker(Policy::mq())), "");
            assert_eq!(policy.deadline_ns(), Some(8 * US), "{other}");
            assert_eq!(policy.ticks(8 * US), "stop 0");
            assert_eq!(policy.yields(9 * US, 0), "2@0");
            assert_eq!(policy.completes(10 * US, 0), "0@0");
            assert_eq!(policy.switches(11 * US, one_worker(other)), "");
            assert_eq!(policy.completes(12 * US, 0), "1@0");
        }
    }
}
