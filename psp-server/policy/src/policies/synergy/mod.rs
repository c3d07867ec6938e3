//! Synergy (IFIP Networking '25): no dispatcher. Each worker has a queue, idle workers steal, and long
//! requests are preempted for new ones and resumed from a queue that all workers share.
//!
//! ```text
//!              ┌─► queue of worker 0 ─► runs ─── preempted ──┐
//!   at random ─┤      ▲ stolen                               ├──► wait queue ──► any worker
//!              └─► queue of worker 1 ─► runs ─── preempted ──┘    that has nothing else
//!                                         ▲                        (or before it, if congested)
//!                                      timer core
//! ```
//!
//! - An idle worker takes its next request from its own queue, else from the wait queue, else half of
//!   another worker's queue (II-A.1, algorithm 2). It steals only from a queue with more than
//!   `steal_threshold` requests. The published implementation has a lower threshold where the victim
//!   is busy with a long request, and tries that first. While the wait queue has `congestion`, it
//!   comes before the own queue.
//! - A request that was blocked goes on from the head of the own queue of the worker where it ran: what it
//!   waited for has come, and it is no long request that was preempted for others.
//! - `feedback` says which requests are long. Short ones are never preempted.
//! - `quantum` follows the service times of short requests, worker by worker.
//! - The timer core preempts a long request at the end of a quantum if its worker's own queue has another.
//!   Requests that wait elsewhere do not count: idle workers take those.
//!
//! What starves: with `congestion_threshold_us` 0, which is the paper's default, preempted requests
//! resume only when some worker's own queue is empty. They would wait for ever if new requests came
//! faster than all workers can serve them. That goes for `UNKNOWN` as for any long type. No request
//! waits for its first quantum for longer than the requests before it in its worker's queue take.
//! With a threshold, the head of the wait queue resumes within about twice that and a request's time.

mod feedback;
mod quantum;

use crate::distributed::adapter::Distributed;
use crate::distributed::{Knowledge, LaneSet, Local, Look, Next, Plain, Quantum, Requeue, Ways, Word, WorkerPolicy};
use crate::event::{Sample, WorkerId};
use crate::settings;
use crate::setup::SchedulerSetup;
use feedback::LongTypes;
use quantum::ShortRequests;

/// Most requests that are stolen at once; the published implementation's number.
const STOLEN_MAX: u64 = 32;

/// One worker; see the [module](self).
#[derive(Debug)]
pub(crate) struct Synergy {
    settings: settings::Synergy,
    short: ShortRequests,
}

impl Synergy {
    pub(crate) fn new(settings: &settings::Synergy) -> Self {
        Self {
            settings: settings.clone(),
            short: ShortRequests::new(settings),
        }
    }

    /// The worker of which this one takes half the queue.
    fn victim<C: Word>(&self, look: &Look<'_, C>) -> Option<WorkerId> {
        let loses_behind_long = |&victim: &WorkerId| self.loses_behind_long(look, victim);
        let loses = |&victim: &WorkerId| {
            let queued = look.board.line(victim).queued();
            queued > self.settings.steal_threshold as u64 || self.loses_behind_long(look, victim)
        };
        let others = || look.board.others(look.me);
        let behind_long = others().find(loses_behind_long);
        behind_long.or_else(|| others().find(loses))
    }

    fn loses_behind_long<C: Word>(&self, look: &Look<'_, C>, victim: WorkerId) -> bool {
        let line = look.board.line(victim);
        line.queued() > self.settings.steal_threshold_long as u64 && line.runs().is_some_and(|runs| runs.long)
    }

    fn steal<C: Word>(&self, look: &Look<'_, C>) -> Next {
        if !(self.settings.stealing && look.mine.has_context) {
            return Next::Nothing;
        }
        let Some(victim) = self.victim(look) else {
            return Next::Nothing;
        };
        let queued = look.board.line(victim).queued();
        Next::Steal {
            victim,
            lanes: LaneSet::ALL,
            requests: queued.div_ceil(2).min(STOLEN_MAX) as usize,
        }
    }
}

impl<C: Word> WorkerPolicy<C> for Synergy {
    /// Algorithm 2.
    fn next(&mut self, look: &mut Look<'_, C>) -> Next {
        let finds_own = !look.mine.own().is_empty();
        if look.mine.wait_queue && (look.congested || !finds_own) {
            Next::Resume
        } else if finds_own {
            Next::Own(LaneSet::ALL)
        } else {
            self.steal(look)
        }
    }

    fn quantum(&self, look: &Look<'_, C>, slot: usize) -> Option<Quantum> {
        look.knowledge.is_long(slot).then(|| Quantum {
            ns: self.short.quantum_ns(look.congested),
            yields_to: LaneSet::ALL,
        })
    }

    fn requeue(&self) -> Requeue {
        if self.settings.wait_queue {
            Requeue::WaitQueue
        } else {
            Requeue::Tail
        }
    }

    fn measured(&mut self, knowledge: &Knowledge<C>, slot: usize, sample: &Sample) {
        if !knowledge.is_long(slot) && sample.count > 0 {
            let mean_ns = sample.service_ns as f64 / f64::from(sample.count);
            self.short.record(sample.count, mean_ns);
        }
    }
}

/// The objects of all workers.
pub(crate) fn local<C: Word>(setup: &SchedulerSetup<'_>, settings: &settings::Synergy) -> Local<C, Synergy, LongTypes> {
    let feedback = |knowledge: &_| LongTypes::new(setup, settings.long_factor, knowledge);
    let ways = Ways {
        conditional: settings.conditional_preemption,
        congestion_ns: (settings.congestion_threshold_us * 1000.0).round() as u64,
        ..Ways::default()
    };
    Local::new(setup, feedback, || Synergy::new(settings)).with(ways)
}

/// All workers as one scheduler.
pub(crate) fn scheduler(setup: &SchedulerSetup<'_>, settings: &settings::Synergy) -> Distributed<Synergy, LongTypes> {
    Distributed::new(setup, local::<Plain>(setup, settings))
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::event::HandOff;
    use crate::policy::Policy;
    use crate::rehearsal::{Rehearsal, sample};
    use crate::request_type::RequestType;
    use crate::request_type::TypeSpec;
    use crate::setup::Preemption;

    const SHORT: RequestType = RequestType::new(0);
    const LONG: RequestType = RequestType::new(1);
    const PREEMPTION: Option<Preemption> = Some(Preemption::new(0));

    fn types() -> [TypeSpec; 2] {
        let spec = |name, micros| {
            let service_time = std::time::Duration::from_micros(micros);
            TypeSpec::new(name).service_time(service_time).queue_capacity(20)
        };
        [spec("SHORT", 1), spec("LONG", 100)]
    }

    /// Synergy, whose random put the first requests where `lands` says.
    fn rehearsal(policy: impl Into<Policy>, workers: u32, lands: &[u32]) -> Rehearsal {
        let draws = |seed: &u64| {
            let mut random = SmallRng::seed_from_u64(*seed);
            lands.iter().all(|&worker| random.random_range(0..workers) == worker)
        };
        let seed = (0..100_000).find(draws).expect("some seed");
        Rehearsal::with_random(policy, workers as usize, types(), PREEMPTION, seed)
    }

    #[test]
    fn thieves_take_half_of_a_queue_that_is_longer_than_the_threshold() {
        let mut synergy = rehearsal(settings::Synergy::default().steal_threshold(3), 2, &[0; 5]);
        assert_eq!(synergy.arrives(0, 0, SHORT), "0@0");
        for id in 1..4 {
            assert_eq!(synergy.arrives(0, id, SHORT), "", "not more than three");
        }
        assert_eq!(synergy.arrives(0, 4, SHORT), "1@1");
        assert_eq!(synergy.completes(10, 1), "2@1");
        assert_eq!(synergy.completes(20, 1), "", "two are too few");
        assert_eq!(synergy.completes(30, 0), "3@0");
        assert_eq!(synergy.hand_offs, [HandOff::Own, HandOff::Stolen, HandOff::Own, HandOff::Own]);
    }

    #[test]
    fn no_request_is_left_behind_a_long_one_while_a_worker_is_idle() {
        let mut synergy = rehearsal(Policy::synergy(), 2, &[0; 3]);
        assert_eq!(synergy.arrives(0, 0, LONG), "0@0");
        assert_eq!(synergy.arrives(100, 1, SHORT), "1@1");
        assert_eq!(synergy.hand_offs[1], HandOff::Stolen);
        assert_eq!(synergy.deadline_ns(), None, "no request waits");
        assert_eq!(synergy.arrives(200, 2, SHORT), "");
        assert_eq!(synergy.deadline_ns(), Some(10_000));
        assert_eq!(synergy.completes(300, 1), "2@1");
        assert_eq!(synergy.deadline_ns(), None, "it was stolen away");
    }

    #[test]
    fn behind_a_long_request_a_queue_has_a_threshold_of_its_own() {
        let settings = settings::Synergy::default().steal_threshold(9).steal_threshold_long(1);
        let mut synergy = rehearsal(settings, 2, &[0; 3]);
        assert_eq!(synergy.arrives(0, 0, LONG), "0@0");
        assert_eq!(synergy.arrives(0, 1, SHORT), "", "not more than one");
        assert_eq!(synergy.arrives(0, 2, SHORT), "1@1");
    }

    #[test]
    fn without_stealing_queues_stay_apart() {
        let mut synergy = rehearsal(settings::Synergy::default().stealing(false), 2, &[0; 4]);
        assert_eq!(synergy.arrives(0, 0, LONG), "0@0");
        for id in 1..4 {
            assert_eq!(synergy.arrives(0, id, SHORT), "");
        }
    }

    #[test]
    fn a_long_request_is_preempted_at_the_end_of_a_quantum_for_those_behind_it() {
        let mut synergy = rehearsal(Policy::synergy(), 1, &[]);
        assert_eq!(synergy.arrives(0, 0, LONG), "0@0");
        assert_eq!(synergy.ticks(50_000), "", "renewed five times");
        assert_eq!(synergy.arrives(53_000, 1, SHORT), "");
        assert_eq!(synergy.arrives(54_000, 2, SHORT), "");
        assert_eq!(synergy.deadline_ns(), Some(60_000));
        assert_eq!(synergy.ticks(60_000), "stop 0");
        assert_eq!(synergy.yields(60_100, 0), "1@0");
        assert_eq!(synergy.deadline_ns(), None, "short ones are never preempted");
        let two = Sample { count: 2, ..sample(SHORT, 2 * 1_000) };
        assert_eq!(synergy.measures(61_000, 0, &[two]), "2@0");
        let none = Sample { count: 0, ..sample(SHORT, 0) };
        assert_eq!(synergy.measures(62_000, 0, &[none]), "0@0");
        assert_eq!(synergy.arrives(63_000, 3, LONG), "");
        assert_eq!(synergy.deadline_ns(), Some(66_000), "twice the mean of 3 and 1 us");
        assert_eq!(synergy.measures(64_000, 0, &[sample(LONG, 55_900)]), "3@0");
        assert_eq!(synergy.arrives(64_500, 4, SHORT), "");
        assert_eq!(synergy.deadline_ns(), Some(68_000), "long ones do not count");
    }

    #[test]
    fn unconditionally_every_quantum_ends_with_a_preemption() {
        let mut synergy = rehearsal(settings::Synergy::default().conditional_preemption(false), 1, &[]);
        assert_eq!(synergy.arrives(0, 0, LONG), "0@0");
        assert_eq!(synergy.deadline_ns(), Some(10_000));
        assert_eq!(synergy.ticks(10_000), "stop 0");
        assert_eq!(synergy.yields(10_100, 0), "0@0");
        assert_eq!(synergy.deadline_ns(), Some(20_100));
    }

    #[test]
    fn a_quantum_goes_on_when_another_worker_goes() {
        let settings = settings::Synergy::default().conditional_preemption(false);
        let mut synergy = rehearsal(settings, 3, &[0]);
        assert_eq!(synergy.arrives(0, 0, LONG), "0@0");
        assert_eq!(synergy.ticks(5_000), "");
        assert_eq!(synergy.has_workers(2), "");
        assert_eq!(synergy.deadline_ns(), Some(10_000));
    }

    #[test]
    fn preempted_requests_are_resumed_by_any_worker_that_has_nothing_else() {
        for (wait_queue, resumed) in [(true, "0@1"), (false, "")] {
            let settings = settings::Synergy::default().stealing(false).wait_queue(wait_queue);
            let mut synergy = rehearsal(settings, 2, &[0, 1, 0]);
            assert_eq!(synergy.arrives(0, 0, LONG), "0@0");
            assert_eq!(synergy.arrives(0, 1, SHORT), "1@1");
            assert_eq!(synergy.arrives(0, 2, SHORT), "");
            assert_eq!(synergy.ticks(10_000), "stop 0");
            assert_eq!(synergy.yields(10_100, 0), "2@0");
            assert_eq!(synergy.completes(10_200, 1), resumed);
            assert_eq!(synergy.hand_offs, vec![HandOff::Own; synergy.hand_offs.len()]);
        }
    }

    #[test]
    fn a_congested_wait_queue_goes_before_new_requests_and_for_longer() {
        for (threshold_us, then, deadline_ns) in [(0.0, "3@0", None), (20.0, "0@0", Some(141_000))] {
            let settings = settings::Synergy::default().congestion_threshold_us(threshold_us);
            let mut synergy = rehearsal(settings.congested_quantum_factor(20.0), 1, &[]);
            assert_eq!(synergy.arrives(0, 0, LONG), "0@0");
            assert_eq!(synergy.arrives(1_000, 1, SHORT), "");
            assert_eq!(synergy.ticks(10_000), "stop 0");
            assert_eq!(synergy.yields(10_100, 0), "1@0");
            assert_eq!(synergy.arrives(11_000, 2, SHORT), "");
            assert_eq!(synergy.ticks(20_000), "");
            assert_eq!(synergy.completes(21_000, 0), "2@0", "not yet");
            assert_eq!(synergy.arrives(22_000, 3, SHORT), "");
            assert_eq!(synergy.deadline_ns(), (threshold_us > 0.0).then_some(40_000));
            assert_eq!(synergy.ticks(40_000), "");
            assert_eq!(synergy.completes(41_000, 0), then);
            assert_eq!(synergy.deadline_ns(), deadline_ns, "20 times 5 us");
        }
    }

    #[test]
    fn requests_of_unknown_length_are_preempted_too() {
        let mut synergy = Rehearsal::new(Policy::synergy(), 1, []);
        assert_eq!(synergy.arrives(0, 0, RequestType::UNKNOWN), "0@0");
        assert_eq!(synergy.arrives(0, 1, RequestType::UNKNOWN), "");
        assert_eq!(synergy.ticks(10_000), "stop 0");
        assert_eq!(synergy.yields(10_000, 0), "1@0");
        assert_eq!(synergy.completes(11_000, 0), "0@0");
    }

    #[test]
    fn what_cannot_be_preempted_runs_to_its_end() {
        let policy = Policy::synergy();
        let mut synergy = Rehearsal::with_preemption(policy, 1, types(), None);
        assert_eq!(synergy.arrives(0, 0, LONG), "0@0");
        assert_eq!(synergy.arrives(0, 1, SHORT), "");
        assert_eq!((synergy.ticks(50_000).as_str(), synergy.deadline_ns()), ("", None));
        assert_eq!(synergy.yields(60_000, 0), "1@0", "the handler yielded");
        assert_eq!(synergy.completes(61_000, 0), "0@0");
    }

    #[test]
    fn it_takes_over_and_hands_over() {
        let c_fcfs = || Rehearsal::new(Policy::c_fcfs(), 1, types());
        let mut policy = c_fcfs();
        assert_eq!(policy.arrives(0, 0, LONG), "0@0");
        assert_eq!(policy.arrives(1, 1, SHORT), "");
        let synergy = || Rehearsal::new(Policy::synergy(), 1, types());
        assert_eq!(policy.switches(100, synergy()), "");
        assert_eq!(policy.ticks(10_100), "stop 0");
        assert_eq!(policy.switches(10_150, synergy()), "", "it is still stopping");
        assert_eq!(policy.deadline_ns(), None);
        assert_eq!(policy.yields(10_200, 0), "1@0");
        assert_eq!(policy.switches(10_300, c_fcfs()), "");
        assert_eq!(policy.completes(11_000, 0), "0@0");
        assert_eq!(policy.switches(11_000, synergy()), "");
        assert_eq!(policy.arrives(12_000, 2, SHORT), "");
        assert_eq!(policy.ticks(21_000), "stop 0");
        assert_eq!(policy.yields(21_100, 0), "2@0");
        assert_eq!(policy.switches(21_200, synergy()), "", "the wait queue, too");
        assert_eq!(policy.completes(22_000, 0), "0@0");
    }
}
