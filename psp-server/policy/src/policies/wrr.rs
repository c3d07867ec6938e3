//! Weighted round robin over typed queues (Katevenis, Sidiropoulos and Courcoubetis, JSAC 1991): the
//! queues take turns, and in its turn each may start as many requests as its weight. Any worker will do.
//!
//! It is one of the policies that Perséphone compares DARC with ("(Deficit) (Weighted) Round Robin",
//! table 5). Requests count, whatever their length: a type of long requests gets the more of the
//! workers' time. [`drr`](super::drr) counts service time instead.
//!
//! A type's weight is [`TypeSpec::weight`](crate::TypeSpec::weight), else 1, and `UNKNOWN` has 1. A turn
//! ends when the queue is empty and another is not: what it leaves is lost. The same holds for a queue whose
//! requests all wait for busy workers, which are suspended there. A type thus waits for no more
//! requests of others in a round than their weights together, and nothing starves.

use crate::backlog::Handover;
use crate::event::{Action, Event};
use crate::scheduler::{Scheduler, TypeStatus};
use crate::setup::SchedulerSetup;
use crate::typed_queues::TypedQueues;

/// See the [module](self).
pub(crate) struct Wrr {
    queues: TypedQueues,
    /// Per type slot: requests of a turn, at least 1.
    weights: Vec<u32>,
    /// The slot whose turn it is.
    turn: usize,
    /// Requests that it may still start.
    left: u32,
}

impl Wrr {
    pub(crate) fn new(setup: &SchedulerSetup<'_>) -> Self {
        let specs = setup.types.specs().iter();
        let weights = specs.map(|spec| spec.weight.unwrap_or(1).max(1));
        let weights: Vec<u32> = weights.chain([1]).collect();
        Self {
            queues: TypedQueues::new(setup),
            left: weights[0],
            weights,
            turn: 0,
        }
    }

    /// The type that runs next: that whose turn it is, else the next in the round. `None` if none can.
    fn next_type(&self) -> Option<usize> {
        let slots = self.weights.len();
        let first = usize::from(self.left == 0);
        let mut round = (first..=slots).map(|step| (self.turn + step) % slots);
        round.find(|&slot| self.queues.can_run(slot))
    }

    /// Counts a request of the type at `slot`, whose turn it is from now on.
    fn count(&mut self, slot: usize) {
        if slot != self.turn || self.left == 0 {
            self.turn = slot;
            self.left = self.weights[slot];
        }
        self.left -= 1;
    }

    /// A request that was dropped took no turn, unless another type has had the next one since.
    fn give_back(&mut self, slot: usize) {
        if slot == self.turn {
            self.left = self.weights[slot].min(self.left.saturating_add(1));
        }
    }
}

impl Scheduler for Wrr {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        if let Event::Completed { worker, dropped: true, .. } = event
            && let Some(slot) = self.queues.slot_on(worker)
        {
            self.give_back(slot);
        }
        self.queues.on_event(now_ns, event);
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(refused) = self.queues.next_refused() {
            return Some(refused);
        }
        let slot = self.next_type()?;
        let action = self.queues.run(now_ns, slot)?;
        self.count(slot);
        Some(action)
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(&mut self.queues)
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.queues.type_status(slot)
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::Policy;
    use crate::rehearsal::{Rehearsal, UNKNOWN};
    use crate::request_type::TypeSpec;

    const US: u64 = 1_000;

    /// One worker, and types of these weights; 0 is a type without one.
    fn one_worker<const TYPES: usize>(weights: [u32; TYPES]) -> Rehearsal {
        let types = weights.map(|weight| match weight {
            0 => TypeSpec::new("T"),
            weight => TypeSpec::new("T").weight(weight),
        });
        Rehearsal::new(Policy::wrr(), 1, types)
    }

    #[test]
    fn a_turn_is_as_many_requests_as_the_types_weight() {
        let mut wrr = one_worker([3, 1]);
        let types = [1, 1, 1, 0, 0, 0, 0, 0, 0];
        assert_eq!(wrr.order_of(types, 10 * US), [3, 4, 5, 0, 6, 7, 8, 1, 2], "whatever arrived first");
    }

    #[test]
    fn without_weights_types_and_unknown_alternate() {
        let mut wrr = one_worker([0, 0]);
        let types = [0, 0, 0, 1, 1, UNKNOWN, UNKNOWN];
        assert_eq!(wrr.order_of(types, 10 * US), [0, 3, 5, 1, 4, 6, 2]);
    }

    #[test]
    fn an_empty_queue_is_skipped_and_keeps_nothing() {
        let mut wrr = one_worker([2, 2]);
        assert_eq!(wrr.arrive_all([0, 1, 1, 1]), "0@0");
        assert_eq!(wrr.finishes(0, US), "1@0", "type 0 leaves half its turn");
        assert_eq!(wrr.arrive_all([0, 0, 0]), "");
        assert_eq!(wrr.drain(US), [2, 4, 5, 3, 6]);
    }

    #[test]
    fn a_turn_goes_on_while_no_other_type_waits() {
        let mut wrr = one_worker([2, 1]);
        assert_eq!(wrr.arrive_all([0]), "0@0");
        assert_eq!(wrr.finishes(0, US), "");
        assert_eq!(wrr.arrive_all([0, 0, 1]), "1@0", "the second of the turn");
        assert_eq!(wrr.drain(US), [3, 2]);
    }

    #[test]
    fn a_dropped_request_takes_no_turn() {
        let mut wrr = one_worker([0, 0]);
        assert_eq!(wrr.arrive_all([0, 0, 1]), "0@0");
        assert_eq!(wrr.drops(5, 0), "1@0", "the turn is still type 0's");
        assert_eq!(wrr.finishes(0, US), "2@0");
    }

    #[test]
    fn a_dropped_request_of_a_turn_that_is_over_gives_nothing_back() {
        let mut wrr = Rehearsal::new(Policy::wrr(), 2, [0, 1].map(|_| TypeSpec::new("T")));
        assert_eq!(wrr.arrive_all([0, 0, 1, 1]), "0@0, 2@1");
        assert_eq!(wrr.drops(5, 0), "1@0");
        assert_eq!(wrr.finishes(1, US), "3@1");
    }

    #[test]
    fn what_began_under_another_policy_and_is_dropped_gives_nothing_back() {
        let types = || [TypeSpec::new("T").weight(u32::MAX)];
        let mut policy = Rehearsal::new(Policy::c_fcfs(), 1, types());
        assert_eq!(policy.arrive_all([0, 0]), "0@0");
        let wrr = Rehearsal::new(Policy::wrr(), 1, types());
        assert_eq!(policy.switches(10, wrr), "");
        assert_eq!(policy.drops(20, 0), "1@0");
    }

    #[test]
    fn weights_of_0_count_as_1() {
        let types = [0, 2].map(|weight| TypeSpec::new("T").weight(weight));
        let mut wrr = Rehearsal::new(Policy::wrr(), 1, types);
        assert_eq!(wrr.order_of([0, 0, 1, 1, 1], US), [0, 2, 3, 1, 4]);
    }

    #[test]
    fn what_waits_and_runs_goes_on_under_another_policy_and_back() {
        let mut policy = Rehearsal::new(Policy::c_fcfs(), 1, [0, 1].map(|_| TypeSpec::new("T")));
        assert_eq!(policy.arrive_all([0, 0, 0, 1, 1]), "0@0");
        assert_eq!(policy.switches(10, one_worker([0, 0])), "");
        assert_eq!(policy.finishes(0, US), "1@0", "a new round");
        assert_eq!(policy.finishes(0, US), "3@0");
        let first_come = Rehearsal::new(Policy::c_fcfs(), 1, [0, 1].map(|_| TypeSpec::new("T")));
        assert_eq!(policy.switches(20, first_come), "");
        assert_eq!(policy.drain(US), [2, 4]);
    }
}
