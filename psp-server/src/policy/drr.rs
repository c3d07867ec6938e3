//! Deficit round robin over typed queues (Shreedhar and Varghese, SIGCOMM '95), with service time
//! in place of bytes: types that have waiting requests take turns, and in its turn each may use a
//! quantum of service time and what it has left from earlier turns. Any worker will do.
//!
//! A packet's length is known when it is sent; a request's service time is not. It is charged its
//! type's mean when it starts, or one quantum while there is none, and the difference to what was
//! measured when it ends. A type can thus get into debt, by no more than what runs at one time, and
//! waits until the others had as much. A type with an empty queue loses what it had saved, but not
//! its debt.
//!
//! Every type, `UNKNOWN` included, gets the same share of the workers while it asks for it, so
//! nothing starves. Rounds in which no type could afford its next request are skipped at once.

use std::collections::VecDeque;

use super::grouped::Grouped;
use super::profile::Profile;
use super::running::Turn;
use super::settings::{self, Darc, nanoseconds};
use super::{Action, Backlog, Event, Scheduler, SchedulerSetup, TypeStatus};

/// Amounts of service time, wide enough for sums of what any clock can report.
type Nanos = i128;

/// See the [module](self).
pub(super) struct Drr {
    grouped: Grouped,
    profile: Profile,
    quantum_ns: Nanos,
    /// Per type slot: what it may use.
    deficits_ns: Vec<Nanos>,
    /// Types that have waiting requests, in the order of their turns.
    active: VecDeque<usize>,
    /// Whether the first of them got this turn's quantum.
    granted: bool,
    /// Per worker: what its request was charged. Nothing for one that another policy started.
    charged_ns: Vec<Option<Nanos>>,
}

impl Drr {
    pub(super) fn new(setup: &SchedulerSetup<'_>, settings: &settings::Drr) -> Self {
        let slots = setup.types.len() + 1;
        Self {
            grouped: Grouped::new(setup),
            profile: Profile::new(setup, &Darc::default()),
            quantum_ns: nanoseconds(settings.quantum_us).into(),
            deficits_ns: vec![0; slots],
            active: VecDeque::with_capacity(slots),
            granted: false,
            charged_ns: vec![None; setup.workers],
        }
    }

    /// What the first waiting request of the type is charged: its mean service time, less what it
    /// had before it gave way.
    fn cost_ns(&self, slot: usize) -> Nanos {
        let mean_ns = self.profile.mean_ns(slot);
        let cost_ns = mean_ns.map_or(self.quantum_ns, |mean_ns| mean_ns as Nanos);
        let served_ns = self
            .grouped
            .queues
            .front(slot)
            .map_or(0, |first| first.served_ns);
        (cost_ns - Nanos::from(served_ns)).max(0)
    }

    /// Gives each type its quantum in turn, until one can afford its next request: that one. At
    /// most one round.
    fn go_round(&mut self) -> Option<usize> {
        for _ in 0..=self.active.len() {
            let slot = *self.active.front()?;
            if !self.granted {
                self.deficits_ns[slot] += self.quantum_ns;
                self.granted = true;
            }
            if self.cost_ns(slot) <= self.deficits_ns[slot] {
                return Some(slot);
            }
            self.end_turn();
        }
        None
    }

    fn end_turn(&mut self) {
        self.active.rotate_left(1);
        self.granted = false;
    }

    /// Gives everyone what they would get in the rounds in which nobody could afford anything.
    fn skip_rounds(&mut self) {
        let rounds = |&slot: &usize| {
            let missing_ns = self.cost_ns(slot) - self.deficits_ns[slot];
            (missing_ns + self.quantum_ns - 1) / self.quantum_ns
        };
        let skipped = self
            .active
            .iter()
            .map(rounds)
            .min()
            .map_or(0, |next| next - 1);
        for &slot in &self.active {
            self.deficits_ns[slot] += skipped * self.quantum_ns;
        }
    }

    fn next_type(&mut self) -> Option<usize> {
        self.go_round().or_else(|| {
            self.skip_rounds();
            self.go_round()
        })
    }

    /// Puts a type that has waiting requests at the end of the round, if it has no place there.
    fn activate(&mut self, slot: usize) {
        if !self.active.contains(&slot) {
            self.active.push_back(slot);
        }
    }

    fn credit(&mut self, slot: usize, nanos: Nanos) {
        let deficit_ns = &mut self.deficits_ns[slot];
        *deficit_ns += nanos;
        if self.grouped.queues.front(slot).is_none() {
            *deficit_ns = (*deficit_ns).min(0);
        }
    }

    /// Replaces what a request was charged by what it used: in all its turns, as the samples of its
    /// end say, or in the one that it gave up.
    fn settle(&mut self, turn: &Turn, event: &Event<'_>) {
        let slot = self.grouped.queues.slot(turn.waiting.request_type);
        match *event {
            Event::Completed { worker, samples } => {
                let charged_ns = self.charged_ns[worker.index()].take();
                let Some(charged_ns) = charged_ns.filter(|_| !samples.is_empty()) else {
                    return;
                };
                for sample in samples {
                    let slot = self.grouped.queues.slot(sample.request_type);
                    self.credit(slot, -Nanos::from(sample.service_ns));
                }
                self.credit(slot, charged_ns + Nanos::from(turn.waiting.served_ns));
            }
            Event::Yielded { worker, served_ns } => {
                if let Some(charged_ns) = self.charged_ns[worker.index()].take() {
                    self.credit(slot, charged_ns - Nanos::from(served_ns));
                }
                self.activate(slot);
            }
            Event::Arrived { .. } | Event::Tick => {}
        }
    }
}

impl Scheduler for Drr {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        let ended = self.grouped.take_note(now_ns, event, &mut self.profile);
        if let Some(turn) = ended {
            self.settle(&turn, &event);
        }
        if let Event::Arrived { request_type, .. } = event {
            let slot = self.grouped.queues.slot(request_type);
            if self.grouped.queues.front(slot).is_some() {
                self.activate(slot);
            }
        }
        self.profile.close_window_if_due(now_ns);
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(refused) = self.grouped.queues.pop_refused() {
            return Some(refused);
        }
        if !self.grouped.can_dispatch() {
            return None;
        }
        let slot = self.next_type()?;
        let cost_ns = self.cost_ns(slot);
        let (worker, action) = self.grouped.dispatch_type(now_ns, slot)?;
        self.charged_ns[worker.index()] = Some(cost_ns);
        self.credit(slot, -cost_ns);
        if self.grouped.queues.front(slot).is_none() {
            self.active.pop_front();
            self.granted = false;
        }
        Some(action)
    }

    fn hand_over(&mut self) -> Backlog {
        self.grouped.hand_over()
    }

    fn take_over(&mut self, _now_ns: u64, backlog: Backlog) {
        self.grouped.take_over(backlog);
        for slot in 0..self.deficits_ns.len() {
            if self.grouped.queues.front(slot).is_some() {
                self.activate(slot);
            }
        }
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.grouped.type_status(slot, &self.profile)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::driven::Driven;
    use super::super::{Drr, Policy};
    use crate::request_type::{RequestType, TypeSpec, TypeTable};

    const US: u64 = 1_000;

    fn hinted(micros: impl IntoIterator<Item = u64>) -> TypeTable {
        micros
            .into_iter()
            .map(|us| TypeSpec::new("T").service_time(Duration::from_micros(us)))
            .collect()
    }

    fn drr(quantum_us: u32) -> Policy {
        Drr::default().quantum_us(quantum_us).into()
    }

    /// Runs everything on worker 0, where each type takes as long as its hint says.
    fn drain(driven: &mut Driven, types: &TypeTable, order: &[u32]) -> Vec<u32> {
        let mut ran = Vec::new();
        while let Some((worker, request)) = driven.poll().pop() {
            ran.push(request);
            let index = order[request as usize] as usize;
            let service = types.specs()[index].service_time.unwrap();
            driven.complete(worker, u64::try_from(service.as_nanos()).unwrap());
        }
        ran
    }

    #[test]
    fn turns_are_of_equal_service_time() {
        let types = hinted([10, 30]);
        let mut driven = Driven::new(&drr(30), 1, &types);
        let order = [1, 1, 1, 0, 0, 0, 0, 0, 0, 0];
        driven.arrive_all(order);
        assert_eq!(
            drain(&mut driven, &types, &order),
            [0, 3, 4, 5, 1, 6, 7, 8, 2, 9]
        );
    }

    #[test]
    fn what_a_turn_leaves_is_kept_until_the_queue_is_empty() {
        // 20 of 30 us are used in the first turn, and 40 of 30 + 10 in the second.
        let types = hinted([20, 30]);
        let order = [0, 0, 0, 1, 1, 1];
        let mut driven = Driven::new(&drr(30), 1, &types);
        driven.arrive_all(order);
        assert_eq!(drain(&mut driven, &types, &order), [0, 3, 1, 2, 4, 5]);

        // The rest of the first turn is lost with the queue; kept, it would pay for both that come.
        let order = [0, 1, 1, 0, 0];
        let mut driven = Driven::new(&drr(30), 1, &types);
        driven.arrive_all([0, 1, 1]);
        assert_eq!(driven.poll(), [(0, 0)]);
        driven.complete(0, 20 * US);
        assert_eq!(driven.poll(), [(0, 1)]);
        driven.arrive_all([0, 0]);
        driven.complete(0, 30 * US);
        assert_eq!(drain(&mut driven, &types, &order), [3, 2, 4]);
    }

    #[test]
    fn who_took_longer_than_charged_waits_for_the_others() {
        let types = hinted([10, 10]);
        let mut driven = Driven::new(&drr(10), 1, &types);
        driven.arrive_all([0, 0, 1, 1, 1, 1]);
        assert_eq!(driven.poll(), [(0, 0)]);
        driven.complete(0, 30 * US);
        let mut ran = Vec::new();
        while let Some((worker, request)) = driven.poll().pop() {
            ran.push(request);
            driven.complete(worker, 10 * US);
        }
        assert_eq!(ran, [2, 3, 4, 1, 5], "20 us in debt, and 10 to run");
    }

    #[test]
    fn unknown_requests_pay_what_they_used() {
        let types = hinted([10]);
        let mut driven = Driven::new(&drr(10), 1, &types);
        driven.arrive(RequestType::UNKNOWN);
        driven.arrive(RequestType::UNKNOWN);
        driven.arrive_all([0, 0, 0]);
        assert_eq!(driven.poll(), [(0, 0)]);
        driven.complete(0, 20 * US);
        assert_eq!(driven.drain_at(10 * US), [2, 3, 1, 4]);
    }

    #[test]
    fn shares_are_equal_by_what_was_measured_not_by_what_was_charged() {
        let measured_us = [25, 7];
        let mut driven = Driven::new(&drr(10), 1, &hinted([10, 10]));
        let (mut types, mut used_us) = (vec![0, 1], [0_u64; 2]);
        driven.arrive_all([0, 1]);
        for _ in 0..2_000 {
            for index in [0, 1] {
                if driven.status(index as usize).queued < 2 {
                    driven.arrive_all([index]);
                    types.push(index);
                }
            }
            let [(worker, request)] = driven.poll()[..] else {
                panic!("one worker runs one request");
            };
            let index = types[request as usize] as usize;
            driven.complete(worker, measured_us[index] * US);
            used_us[index] += measured_us[index];
            assert!(
                used_us[0].abs_diff(used_us[1]) <= 2 * 10 + 25,
                "{used_us:?}"
            );
        }
    }

    #[test]
    fn what_was_charged_right_leaves_no_debt_with_an_empty_queue() {
        let types = hinted([10, 10]);
        let mut driven = Driven::new(&drr(10), 1, &types);
        for _ in 0..5 {
            driven.arrive_all([0]);
            driven.drain_at(10 * US);
        }
        driven.arrive_all([0, 0, 1, 1]);
        assert_eq!(driven.drain_at(10 * US), [5, 7, 6, 8]);
    }

    #[test]
    fn many_quanta_of_debt_are_skipped_when_nobody_else_waits() {
        let types = hinted([10, 1_000_000]);
        let mut driven = Driven::new(&drr(1), 2, &types);
        driven.arrive_all([1, 1]);
        assert_eq!(driven.poll(), [(0, 0), (1, 1)]);
        driven.complete(0, u64::MAX);
        driven.complete(1, u64::MAX);
        driven.arrive_all([1]);
        assert_eq!(driven.poll(), [(1, 2)], "the most recently active worker");
        driven.arrive(RequestType::UNKNOWN);
        assert_eq!(driven.poll(), [(0, 3)]);
    }

    #[test]
    fn what_yields_pays_for_its_turn_and_goes_on_when_its_type_is_next() {
        let types = hinted([20, 20]);
        let mut driven = Driven::new(&drr(20), 1, &types);
        driven.arrive_all([0, 0, 1, 1]);
        assert_eq!(driven.poll(), [(0, 0)]);
        driven.yields(0, 15 * US);
        assert_eq!(driven.poll(), [(0, 0)], "5 of its 20 us are left");
        driven.complete(0, 20 * US);
        assert_eq!(driven.drain_at(20 * US), [2, 1, 3]);
    }

    #[test]
    fn what_waits_and_runs_goes_on_under_another_policy_and_back() {
        let types = hinted([10, 10]);
        let mut driven = Driven::new(&Policy::c_fcfs(), 1, &types);
        driven.arrive_all([0, 0, 0, 1, 1]);
        assert_eq!(driven.poll(), [(0, 0)]);
        driven.switch_to(&drr(10));
        assert_eq!(driven.poll(), []);
        driven.complete(0, 500 * US);
        assert_eq!(driven.poll(), [(0, 1)], "nothing is owed from before");
        driven.complete(0, 10 * US);
        assert_eq!(driven.poll(), [(0, 3)]);
        driven.switch_to(&Policy::static_partition());
        assert_eq!(driven.drain(), [2, 4]);
    }
}
