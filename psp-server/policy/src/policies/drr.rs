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

use crate::backlog::{Backlog, Handover};
use crate::event::{Action, Event};
use crate::parts::grouped::Grouped;
use crate::parts::running::Turn;
use crate::scheduler::{Scheduler, TypeStatus};
use crate::settings;
use crate::settings::{Darc, nanoseconds};
use crate::setup::SchedulerSetup;

/// Amounts of service time, wide enough for sums of what any clock can report.
type Nanos = i128;

/// See the [module](self).
pub(crate) struct Drr {
    grouped: Grouped,
    quantum_ns: Nanos,
    /// Per type slot: what it may use.
    deficits_ns: Vec<Nanos>,
    /// Types that have waiting requests, in the order of their turns.
    active: VecDeque<usize>,
    /// Whether the first of them got this turn's quantum.
    granted: bool,
    /// Per worker: what its request was charged. `None` if another policy started the request.
    charged_ns: Vec<Option<Nanos>>,
}

impl Drr {
    pub(crate) fn new(setup: &SchedulerSetup<'_>, settings: &settings::Drr) -> Self {
        let slots = setup.types.len() + 1;
        Self {
            grouped: Grouped::new(setup, &Darc::default()),
            quantum_ns: nanoseconds(settings.quantum_us).into(),
            deficits_ns: vec![0; slots],
            active: VecDeque::with_capacity(slots),
            granted: false,
            charged_ns: vec![None; setup.workers],
        }
    }

    /// What the next request of the type is charged: the type's mean service time, less the service
    /// that the request had before it yielded. `None` if no idle worker can run one.
    fn cost_ns(&self, slot: usize) -> Option<Nanos> {
        let served_ns = self.grouped.next_of(slot)?.served_ns;
        let mean_ns = self.grouped.profile.mean_ns(slot);
        let cost_ns = mean_ns.map_or(self.quantum_ns, |mean_ns| mean_ns as Nanos);
        Some((cost_ns - Nanos::from(served_ns)).max(0))
    }

    /// Gives each type its quantum in turn, for at most one round. Returns the first type that can
    /// afford its next request. A type whose requests all wait for busy workers misses its turn.
    fn go_round(&mut self) -> Option<usize> {
        for _ in 0..=self.active.len() {
            let slot = *self.active.front()?;
            if let Some(cost_ns) = self.cost_ns(slot) {
                if !self.granted {
                    self.deficits_ns[slot] += self.quantum_ns;
                    self.granted = true;
                }
                if cost_ns <= self.deficits_ns[slot] {
                    return Some(slot);
                }
            }
            self.end_turn();
        }
        None
    }

    fn end_turn(&mut self) {
        self.active.rotate_left(1);
        self.granted = false;
    }

    /// Gives each type the quanta of all rounds in which no type could afford its next request.
    fn skip_rounds(&mut self) {
        let rounds = |&slot: &usize| {
            let missing_ns = self.cost_ns(slot)? - self.deficits_ns[slot];
            Some((missing_ns + self.quantum_ns - 1) / self.quantum_ns)
        };
        let next = self.active.iter().filter_map(rounds).min();
        let skipped = next.map_or(0, |next| next - 1);
        for &slot in &self.active {
            if self.grouped.next_of(slot).is_some() {
                self.deficits_ns[slot] += skipped * self.quantum_ns;
            }
        }
    }

    fn next_type(&mut self) -> Option<usize> {
        self.go_round().or_else(|| {
            self.skip_rounds();
            self.go_round()
        })
    }

    /// Puts a type that has waiting requests at the end of the round, unless it is in the round.
    fn activate(&mut self, slot: usize) {
        if !self.active.contains(&slot) {
            self.active.push_back(slot);
        }
    }

    fn credit(&mut self, slot: usize, nanos: Nanos) {
        let deficit_ns = &mut self.deficits_ns[slot];
        *deficit_ns += nanos;
        if !self.grouped.waits(slot) {
            *deficit_ns = (*deficit_ns).min(0);
        }
    }

    /// Replaces what a request was charged by the service time that it used: in all its turns, by
    /// the samples of its completion, or in the turn that it gave up or in which it was blocked. A dropped request used
    /// none.
    fn charge_used(&mut self, turn: &Turn, event: &Event<'_>) {
        let slot = self.grouped.queues.slot(turn.waiting.request_type);
        match *event {
            Event::Completed { worker, samples, dropped } => {
                let charged_ns = self.charged_ns[worker.index()].take();
                let is_known = dropped || !samples.is_empty();
                let Some(charged_ns) = charged_ns.filter(|_| is_known) else {
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
            Event::Blocked { worker, served_ns } => {
                if let Some(charged_ns) = self.charged_ns[worker.index()].take() {
                    self.credit(slot, charged_ns - Nanos::from(served_ns));
                }
            }
            Event::Unblocked { .. } => {}
            Event::Arrived { .. } | Event::Workers { .. } | Event::Tick => {}
        }
    }
}

impl Scheduler for Drr {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        let queues = &self.grouped.queues;
        let joined = match event {
            Event::Arrived { request_type, .. } => Some(queues.slot(request_type)),
            Event::Unblocked { request } => {
                let blocked = queues.blocked_request(request);
                Some(queues.slot(blocked.waiting.request_type))
            }
            _ => None,
        };
        let ended = self.grouped.record(now_ns, event);
        if let Some(turn) = ended {
            self.charge_used(&turn, &event);
        }
        if let Some(slot) = joined
            && self.grouped.waits(slot)
        {
            self.activate(slot);
        }
        self.grouped.close_window_if_due(now_ns);
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(refused) = self.grouped.queues.pop_refused() {
            return Some(refused);
        }
        if !self.grouped.can_dispatch() {
            return None;
        }
        let slot = self.next_type()?;
        let cost_ns = self.cost_ns(slot)?;
        let (worker, action) = self.grouped.dispatch_type(now_ns, slot)?;
        self.charged_ns[worker.index()] = Some(cost_ns);
        self.credit(slot, -cost_ns);
        if !self.grouped.waits(slot) {
            self.active.pop_front();
            self.granted = false;
        }
        Some(action)
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(self)
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.grouped.type_status(slot)
    }
}

impl Handover for Drr {
    fn hand_over(&mut self) -> Backlog {
        self.grouped.hand_over()
    }

    fn take_over(&mut self, now_ns: u64, backlog: Backlog) {
        self.grouped.take_over(now_ns, backlog);
        for slot in 0..self.deficits_ns.len() {
            if self.grouped.waits(slot) {
                self.activate(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::policy::Policy;
    use crate::rehearsal::{Rehearsal, UNKNOWN, requests};
    use crate::request_type::TypeSpec;
    use crate::settings::Drr;

    const US: u64 = 1_000;

    /// Types of these service times.
    fn hinted<const TYPES: usize>(micros: [u64; TYPES]) -> [TypeSpec; TYPES] {
        micros.map(|us| TypeSpec::new("T").service_time(Duration::from_micros(us)))
    }

    fn one_worker<const TYPES: usize>(quantum_us: u32, micros: [u64; TYPES]) -> Rehearsal {
        Rehearsal::new(Drr::default().quantum_us(quantum_us), 1, hinted(micros))
    }

    /// What runs on worker 0 after `first`, where requests of `types`, which are all that arrived,
    /// take `micros`.
    fn drain(drr: &mut Rehearsal, first: &str, types: &[u32], micros: [u64; 2]) -> Vec<u32> {
        let mut ran = requests(first);
        while let Some(&request) = ran.last() {
            let index = types[request as usize] as usize;
            let next = requests(&drr.finishes(0, micros[index] * US));
            if next.is_empty() {
                break;
            }
            ran.extend(next);
        }
        ran
    }

    #[test]
    fn turns_are_of_equal_service_time() {
        let micros = [10, 30];
        let mut drr = one_worker(30, micros);
        let types = [1, 1, 1, 0, 0, 0, 0, 0, 0, 0];
        let first = drr.arrive_all(types);
        let order = drain(&mut drr, &first, &types, micros);
        assert_eq!(order, [0, 3, 4, 5, 1, 6, 7, 8, 2, 9]);
    }

    #[test]
    fn rounds_in_which_no_type_can_pay_count_as_if_each_had_had_its_turns() {
        // In quanta of 10 us: a request of 25 us every two or three rounds, and one of 95 us every nine or ten.
        let micros = [25, 95];
        let types: Vec<u32> = [[0; 8], [1; 8]].concat();
        let mut drr = one_worker(10, micros);
        let first = drr.arrive_all(types.iter().copied());
        let order = drain(&mut drr, &first, &types, micros);
        let order: String = order[..12].iter().map(|&id| ["A", "B"][types[id as usize] as usize]).collect();
        assert_eq!(order, "AAAABAAABABB");
    }

    #[test]
    fn what_a_turn_leaves_is_kept_until_the_queue_is_empty() {
        // 20 of 30 us are used in the first turn, and 40 of 30 + 10 in the second.
        let micros = [20, 30];
        let types = [0, 0, 0, 1, 1, 1];
        let mut drr = one_worker(30, micros);
        let first = drr.arrive_all(types);
        let order = drain(&mut drr, &first, &types, micros);
        assert_eq!(order, [0, 3, 1, 2, 4, 5]);

        // The rest of the first turn is lost with the queue; kept, it would pay for both that come.
        let mut drr = one_worker(30, micros);
        assert_eq!(drr.arrive_all([0, 1, 1]), "0@0");
        assert_eq!(drr.finishes(0, 20 * US), "1@0");
        assert_eq!(drr.arrive_all([0, 0]), "");
        let next = drr.finishes(0, 30 * US);
        let order = drain(&mut drr, &next, &[0, 1, 1, 0, 0], micros);
        assert_eq!(order, [3, 2, 4]);
    }

    #[test]
    fn a_request_that_yields_or_blocks_has_paid_for_what_it_used() {
        let mut drr = one_worker(10, [10, 10]);
        assert_eq!(drr.arrive_all([0, 0, 1, 1]), "0@0");
        assert_eq!(drr.yields_now(0, 9 * US), "0@0", "the rest of its turn is enough");
        assert_eq!(drr.finishes(0, 10 * US), "2@0");

        let mut drr = one_worker(10, [10, 10]);
        assert_eq!(drr.arrive_all([0, 0, 1, 1]), "0@0");
        let now_ns = drr.now_ns;
        assert_eq!(drr.blocks(now_ns, 0, 9 * US), "2@0");
        assert_eq!(drr.unblocks(now_ns, 0), "");
        assert_eq!(drr.finishes(0, 10 * US), "0@0");
        assert_eq!(drr.finishes(0, 10 * US), "1@0", "the turn pays for the rest of one and for another");
    }

    #[test]
    fn a_type_that_used_more_than_charged_waits_for_the_others() {
        let mut drr = one_worker(10, [10, 10]);
        assert_eq!(drr.arrive_all([0, 0, 1, 1, 1, 1]), "0@0");
        assert_eq!(drr.finishes(0, 30 * US), "2@0");
        let order = drr.drain(10 * US);
        assert_eq!(order, [3, 4, 1, 5], "20 us in debt, and 10 to run");
    }

    #[test]
    fn a_dropped_request_costs_its_type_nothing() {
        let mut drr = one_worker(10, [10, 10]);
        assert_eq!(drr.arrive_all([0, 0, 0, 1]), "0@0");
        assert_eq!(drr.drops(5, 0), "1@0", "the turn is still type 0's");
        assert_eq!(drr.finishes(0, 10 * US), "3@0");
        assert_eq!(drr.drain(10 * US), [2]);
    }

    #[test]
    fn unknown_requests_pay_what_they_used() {
        let mut drr = one_worker(10, [10]);
        assert_eq!(drr.arrive_all([UNKNOWN, UNKNOWN, 0, 0, 0]), "0@0");
        assert_eq!(drr.finishes(0, 20 * US), "2@0");
        assert_eq!(drr.drain(10 * US), [3, 1, 4]);
    }

    #[test]
    fn shares_are_equal_by_what_was_measured_not_by_what_was_charged() {
        let measured_us = [25, 7];
        let mut drr = one_worker(10, [10, 10]);
        let (mut types, mut used_us) = (vec![0, 1, 0, 1, 0, 1], [0_u64; 2]);
        let mut ran = drr.arrive_all(types.clone());
        for _ in 0..2_000 {
            for index in [0, 1] {
                if drr.type_status(index as usize).queued < 2 {
                    assert_eq!(drr.arrive_all([index]), "", "the worker is busy");
                    types.push(index);
                }
            }
            let [request] = requests(&ran)[..] else {
                panic!("one worker runs one request");
            };
            let index = types[request as usize] as usize;
            ran = drr.finishes(0, measured_us[index] * US);
            used_us[index] += measured_us[index];
            assert!(used_us[0].abs_diff(used_us[1]) <= 2 * 10 + 25, "{used_us:?}");
        }
    }

    #[test]
    fn what_was_charged_right_leaves_no_debt_with_an_empty_queue() {
        let mut drr = one_worker(10, [10, 10]);
        for id in 0..5 {
            assert_eq!(drr.order_of([0], 10 * US), [id]);
        }
        assert_eq!(drr.order_of([0, 0, 1, 1], 10 * US), [5, 7, 6, 8]);
    }

    #[test]
    fn many_quanta_of_debt_are_skipped_when_no_other_type_waits() {
        let types = hinted([10, 1_000_000]);
        let mut drr = Rehearsal::new(Drr::default().quantum_us(1), 2, types);
        assert_eq!(drr.arrive_all([1, 1]), "0@0, 1@1");
        assert_eq!(drr.finishes(0, u64::MAX), "");
        assert_eq!(drr.finishes(1, u64::MAX), "");
        let next = drr.arrive_all([1]);
        assert_eq!(next, "2@1", "the most recently active worker");
        assert_eq!(drr.arrive_all([UNKNOWN]), "3@0");
    }

    #[test]
    fn what_yields_pays_for_its_turn_and_goes_on_when_its_type_is_next() {
        let mut drr = one_worker(20, [20, 20]);
        assert_eq!(drr.arrive_all([0, 0, 1, 1]), "0@0");
        let next = drr.yields_now(0, 15 * US);
        assert_eq!(next, "0@0", "5 of its 20 us are left");
        assert_eq!(drr.drain(20 * US), [2, 1, 3]);
    }

    #[test]
    fn what_waits_and_runs_goes_on_under_another_policy_and_back() {
        let micros = [10, 10];
        let mut policy = Rehearsal::new(Policy::c_fcfs(), 1, hinted(micros));
        assert_eq!(policy.arrive_all([0, 0, 0, 1, 1]), "0@0");
        assert_eq!(policy.switches(10, one_worker(10, micros)), "");
        let next = policy.finishes(0, 500 * US);
        assert_eq!(next, "1@0", "nothing is owed from before");
        assert_eq!(policy.finishes(0, 10 * US), "3@0");
        let partition = Rehearsal::new(Policy::static_partition(), 1, hinted(micros));
        assert_eq!(policy.switches(20, partition), "");
        assert_eq!(policy.drain(1_000), [2, 4]);
    }
}
