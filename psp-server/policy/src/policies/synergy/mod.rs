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
//! - `timer` preempts a long request at the end of a quantum if its worker's own queue has another.
//!   Requests that wait elsewhere do not count: idle workers take those.
//!
//! What starves: with `congestion_threshold_us` 0, which is the paper's default, preempted requests
//! resume only when some worker's own queue is empty. They would wait for ever if new requests came
//! faster than all workers can serve them. That goes for `UNKNOWN` as for any long type. No request
//! waits for its first quantum for longer than the requests before it in its worker's queue take.
//! With a threshold, the head of the wait queue resumes within about twice that and a request's time.

mod congestion;
mod feedback;
mod quantum;
mod timer;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::backlog::{Backlog, Handover};
use crate::event::{Action, Event, HandOff, RequestId, Sample, WorkerId};
use crate::parts::handover::backlog;
use crate::parts::queues::Queues;
use crate::parts::ready::ReadyWorkers;
use crate::parts::running::Running;
use crate::parts::suspended::Lanes;
use crate::parts::waiting::Waiting;
use crate::parts::workers::{WorkerSet, worker_count};
use crate::scheduler::{Scheduler, TypeStatus};
use crate::settings;
use crate::setup::SchedulerSetup;
use congestion::Congestion;
use feedback::Feedback;
use quantum::Quantum;
use timer::Timer;

/// Most requests that are stolen at once; the published implementation's number.
const STOLEN_MAX: usize = 32;

/// See the [module](self).
pub(crate) struct Synergy {
    settings: settings::Synergy,
    workers: u32,
    /// How many of them are present.
    present: u32,
    /// A lane per worker, and the wait queue last.
    queues: Queues,
    running: Running,
    idle: WorkerSet,
    ready: ReadyWorkers,
    feedback: Feedback,
    quantum: Quantum,
    timer: Timer,
    congestion: Congestion,
    random: SmallRng,
}

impl Synergy {
    pub(crate) fn new(setup: &SchedulerSetup<'_>, settings: &settings::Synergy) -> Self {
        let workers = worker_count(setup.workers);
        let threshold_ns = (settings.congestion_threshold_us * 1000.0).round() as u64;
        Self {
            settings: settings.clone(),
            workers,
            present: workers,
            queues: Queues::new(setup, Lanes::own_and(setup.workers, 1)),
            running: Running::new(setup),
            idle: WorkerSet::new(workers, setup.inline),
            ready: ReadyWorkers::new(setup.workers),
            feedback: Feedback::new(setup, settings.long_factor),
            quantum: Quantum::new(setup.workers, settings),
            timer: Timer::new(setup, settings.conditional_preemption),
            congestion: Congestion::new(threshold_ns),
            random: SmallRng::seed_from_u64(setup.seed),
        }
    }

    /// The lane of the wait queue.
    const fn wait_queue(&self) -> usize {
        self.workers as usize
    }

    /// The worker whose queue a request joins.
    fn draw(&mut self) -> WorkerId {
        WorkerId(self.random.random_range(0..self.present))
    }

    /// Workers come or go. The queues of those that go join others, request by request.
    fn set_present(&mut self, now_ns: u64, present: usize) {
        let before = std::mem::replace(&mut self.present, worker_count(present));
        self.queues.set_present(present);
        self.running.set_present(present);
        self.idle.set_present(self.present);
        for from in (self.present..self.workers).map(WorkerId) {
            while self.queues.front(from.index()).is_some() {
                let worker = self.draw();
                self.queues
                    .move_first_in_order(from.index(), worker.index());
                self.arrived(now_ns, worker);
            }
        }
        self.ready.keep_able(&self.queues);
        for worker in (before.min(self.present)..before.max(self.present)).map(WorkerId) {
            let turn = self.running.on(worker);
            if self.timer.is_armed(worker) && turn.is_some_and(|turn| !turn.preempted) {
                self.arm(now_ns, worker, false);
            }
        }
    }

    /// A request waits in the own queue of `worker` that did not before. It is the first that the worker could
    /// begin or, if it is busy, be preempted for, unless the queue had one before.
    fn arrived(&mut self, now_ns: u64, worker: WorkerId) {
        let lane = worker.index();
        if self.queues.lane_len(lane) + self.queues.lane_len_at(lane, worker) != 1 {
            return;
        }
        if self.running.is_busy(worker) {
            if self.queues.waits_behind(worker) {
                self.timer.queue_begins(now_ns, worker, &self.running);
            }
        } else {
            self.ready.add_if_able(&self.queues, worker, HandOff::Own);
        }
    }

    fn measured(&mut self, worker: WorkerId, samples: &[Sample]) {
        for sample in samples {
            let slot = self.queues.slot(sample.request_type);
            self.feedback.record(slot, sample);
            if !self.feedback.is_long(slot) && sample.count > 0 {
                let mean_ns = sample.service_ns as f64 / f64::from(sample.count);
                self.quantum.record(worker, sample.count, mean_ns);
            }
        }
    }

    fn gave_up(&mut self, now_ns: u64, worker: WorkerId, waiting: Waiting) {
        if self.settings.wait_queue {
            self.queues.put_back_last(self.wait_queue(), waiting);
            self.congestion.put(1);
        } else if self.queues.keeps(worker) {
            self.queues.put_back_last(worker.index(), waiting);
        } else {
            let other = self.draw();
            self.queues.put_back_last(other.index(), waiting);
            self.arrived(now_ns, other);
        }
    }

    /// A request that was blocked waits at the head of the queue of the worker where it ran, or of another if that
    /// is absent.
    fn unblocked(&mut self, now_ns: u64, request: RequestId) {
        let home = self.queues.blocked_request(request).home;
        let worker = if self.queues.keeps(home) {
            home
        } else {
            self.draw()
        };
        let could_run = self.queues.can_run_own(worker);
        let waited = self.queues.waits_behind(worker);
        let waiting = self.queues.unblock(now_ns, request);
        self.queues.put_back_first(worker.index(), waiting);
        if self.running.is_busy(worker) {
            if !waited && self.queues.waits_behind(worker) {
                self.timer.queue_begins(now_ns, worker, &self.running);
            }
        } else if !could_run {
            self.ready.add_if_able(&self.queues, worker, HandOff::Own);
        }
    }

    fn released(&mut self, worker: WorkerId) {
        self.timer.disarm(worker);
        self.idle.release(worker);
        self.ready.add_if_able(&self.queues, worker, HandOff::Own);
    }

    /// An idle worker selects what it runs.
    fn run_next(&mut self, now_ns: u64) -> Option<Action> {
        if self.queues.is_empty() || self.idle.all_busy() {
            return None;
        }
        let worker = self.idle_worker()?;
        // Congestion as it was when the worker chose: the last request out of the queue ends it.
        let congested = self.congestion.is_congested();
        let (waiting, hand_off) = self.select(now_ns, worker)?;
        let slot = self.queues.slot(waiting.request_type);
        let action = self.running.start(now_ns, worker, waiting, hand_off);
        if self.feedback.is_long(slot) {
            self.arm(now_ns, worker, congested);
        }
        Some(action)
    }

    /// A long request begins, or goes on, on `worker`.
    fn arm(&mut self, now_ns: u64, worker: WorkerId, congested: bool) {
        let quantum_ns = self.quantum.of_ns(worker, congested);
        let waited_for = self.queues.waits_behind(worker);
        self.timer
            .arm(now_ns, worker, &self.running, quantum_ns, waited_for);
        let Self { queues, .. } = self;
        if !queues.has_another_context(worker) && queues.suspended(worker) == 0 {
            self.timer.spare(worker);
        }
    }

    /// An idle worker that finds a request: in its own queue or, if no idle worker does, elsewhere.
    fn idle_worker(&mut self) -> Option<WorkerId> {
        let ready = self.ready.pop().map(|(worker, _)| worker);
        let worker = ready
            .or_else(|| {
                let resumes = |worker| self.queues.next_for(self.wait_queue(), worker).is_some();
                self.idle.find(self.idle.all(), resumes)
            })
            .or_else(|| {
                let can_steal = (0..self.workers).any(|lane| self.can_lose(WorkerId(lane)));
                let begins = |worker| self.queues.has_context(worker);
                can_steal.then(|| self.idle.find(self.idle.present(), begins))?
            })?;
        self.idle.remove(worker);
        Some(worker)
    }

    /// Algorithm 2.
    fn select(&mut self, now_ns: u64, worker: WorkerId) -> Option<(Waiting, HandOff)> {
        let own = worker.index();
        let resumed_first = self.congestion.is_congested();
        let resumed = resumed_first.then(|| self.resume(now_ns, worker)).flatten();
        resumed
            .or_else(|| self.queues.pop_for(own, worker))
            .or_else(|| self.resume(now_ns, worker))
            .map(|waiting| (waiting, HandOff::Own))
            .or_else(|| Some((self.steal(worker)?, HandOff::Stolen)))
    }

    fn resume(&mut self, now_ns: u64, worker: WorkerId) -> Option<Waiting> {
        let waiting = self.queues.pop_for(self.wait_queue(), worker)?;
        self.congestion.took(now_ns);
        Some(waiting)
    }

    /// Takes half of another worker's queue, the first request to run it.
    fn steal(&mut self, thief: WorkerId) -> Option<Waiting> {
        let others = || {
            let after = thief.0 + 1..self.workers;
            after.chain(0..thief.0).map(WorkerId)
        };
        let victim = others()
            .find(|&victim| self.can_lose_behind_long(victim))
            .or_else(|| others().find(|&victim| self.can_lose(victim)))?;
        let from = victim.index();
        let stolen = self.queues.lane_len(from).div_ceil(2).min(STOLEN_MAX);
        let first = self.queues.pop(from);
        for _ in 1..stolen {
            self.queues.move_first(from, thief.index());
        }
        if !self.queues.waits_behind(victim) {
            self.timer.queue_is_empty(victim);
        }
        first
    }

    fn can_lose(&self, victim: WorkerId) -> bool {
        let queued = self.queues.lane_len(victim.index());
        self.settings.stealing
            && (queued > self.settings.steal_threshold || self.can_lose_behind_long(victim))
    }

    fn can_lose_behind_long(&self, victim: WorkerId) -> bool {
        let queued = self.queues.lane_len(victim.index());
        self.settings.stealing
            && queued > self.settings.steal_threshold_long
            && self.running.on(victim).is_some_and(|turn| {
                let slot = self.queues.slot(turn.waiting.request_type);
                self.feedback.is_long(slot)
            })
    }
}

impl Scheduler for Synergy {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        self.congestion.passes(now_ns);
        match event {
            Event::Arrived {
                request,
                request_type,
                deadline_ns,
            } => {
                let worker = self.draw();
                let lane = worker.index();
                if self
                    .queues
                    .push(lane, now_ns, request, request_type, deadline_ns)
                {
                    self.arrived(now_ns, worker);
                }
            }
            Event::Completed {
                worker, samples, ..
            } => {
                self.running.finish(worker);
                self.measured(worker, samples);
                self.released(worker);
            }
            Event::Yielded { worker, served_ns } => {
                let waiting = self.running.give_up(worker, served_ns);
                self.gave_up(now_ns, worker, waiting);
                self.released(worker);
            }
            Event::Blocked { worker, served_ns } => {
                let blocked = self.running.give_up(worker, served_ns);
                self.queues.block(now_ns, worker, blocked);
                self.released(worker);
            }
            Event::Unblocked { request } => self.unblocked(now_ns, request),
            Event::Workers { present } => self.set_present(now_ns, present),
            Event::Tick => {}
        }
        self.feedback.passes(now_ns);
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        self.queues
            .pop_refused()
            .or_else(|| self.run_next(now_ns))
            .or_else(|| self.timer.preempt_next(now_ns, &mut self.running))
    }

    fn deadline_ns(&self) -> Option<u64> {
        let deadlines = [self.timer.deadline_ns(), self.congestion.deadline_ns()];
        deadlines.into_iter().flatten().min()
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(self)
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        TypeStatus {
            service_ns_mean: self.feedback.profile.mean_ns(slot).unwrap_or(0.0),
            share: self.feedback.profile.share(slot),
            ..self.queues.type_status(slot)
        }
    }
}

impl Handover for Synergy {
    fn hand_over(&mut self) -> Backlog {
        backlog(&self.queues, &self.running)
    }

    fn take_over(&mut self, now_ns: u64, backlog: Backlog) {
        let wait_queue = self.wait_queue();
        let (random, present) = (&mut self.random, self.present);
        let resumes = self.settings.wait_queue;
        let mut resumed = 0;
        self.queues.fill(&backlog, |waiting| match waiting.home {
            _ if resumes && waiting.served_ns > 0 => {
                resumed += 1;
                wait_queue
            }
            Some(home) => home.index(),
            None => random.random_range(0..present) as usize,
        });
        self.congestion.passes(now_ns);
        self.congestion.put(resumed);
        self.running.fill(&backlog);
        self.idle.take_running(&self.running);
        self.timer.take_over(now_ns, &self.running);
        for worker in (0..self.workers).map(WorkerId) {
            let Some(turn) = self.running.on(worker) else {
                self.ready.add_if_able(&self.queues, worker, HandOff::Own);
                continue;
            };
            let slot = self.queues.slot(turn.waiting.request_type);
            if self.feedback.is_long(slot) {
                self.arm(now_ns, worker, false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            TypeSpec::new(name)
                .service_time(service_time)
                .queue_capacity(20)
        };
        [spec("SHORT", 1), spec("LONG", 100)]
    }

    /// Synergy, whose random put the first requests where `lands` says.
    fn rehearsal(policy: impl Into<Policy>, workers: u32, lands: &[u32]) -> Rehearsal {
        let draws = |seed: &u64| {
            let mut random = SmallRng::seed_from_u64(*seed);
            lands
                .iter()
                .all(|&worker| random.random_range(0..workers) == worker)
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
        assert_eq!(
            synergy.hand_offs,
            [HandOff::Own, HandOff::Stolen, HandOff::Own, HandOff::Own]
        );
    }

    #[test]
    fn no_request_is_left_behind_a_long_one_while_a_worker_is_idle() {
        let mut synergy = rehearsal(Policy::synergy(), 2, &[0; 3]);
        assert_eq!(synergy.arrives(0, 0, LONG), "0@0");
        assert_eq!(synergy.arrives(100, 1, SHORT), "1@1");
        assert_eq!(synergy.hand_offs[1], HandOff::Stolen);
        assert_eq!(synergy.deadline_ns(), None, "nobody waits");
        assert_eq!(synergy.arrives(200, 2, SHORT), "");
        assert_eq!(synergy.deadline_ns(), Some(10_000));
        assert_eq!(synergy.completes(300, 1), "2@1");
        assert_eq!(synergy.deadline_ns(), None, "it was stolen away");
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
        assert_eq!(
            synergy.deadline_ns(),
            None,
            "short ones are never preempted"
        );
        assert_eq!(synergy.measures(61_000, 0, &[sample(SHORT, 1_000)]), "2@0");
        assert_eq!(synergy.measures(62_000, 0, &[sample(SHORT, 1_000)]), "0@0");
        assert_eq!(synergy.arrives(63_000, 3, LONG), "");
        assert_eq!(
            synergy.deadline_ns(),
            Some(66_000),
            "twice the mean of 3 and 1 us"
        );
        assert_eq!(synergy.measures(64_000, 0, &[sample(LONG, 55_900)]), "3@0");
        assert_eq!(synergy.arrives(64_500, 4, SHORT), "");
        assert_eq!(
            synergy.deadline_ns(),
            Some(68_000),
            "long ones do not count"
        );
    }

    #[test]
    fn unconditionally_every_quantum_ends_with_a_preemption() {
        let mut synergy = rehearsal(
            settings::Synergy::default().conditional_preemption(false),
            1,
            &[],
        );
        assert_eq!(synergy.arrives(0, 0, LONG), "0@0");
        assert_eq!(synergy.deadline_ns(), Some(10_000));
        assert_eq!(synergy.ticks(10_000), "stop 0");
        assert_eq!(synergy.yields(10_100, 0), "0@0");
        assert_eq!(synergy.deadline_ns(), Some(20_100));
    }

    #[test]
    fn preempted_requests_are_resumed_by_any_worker_that_has_nothing_else() {
        for (wait_queue, resumed) in [(true, "0@1"), (false, "")] {
            let settings = settings::Synergy::default()
                .stealing(false)
                .wait_queue(wait_queue);
            let mut synergy = rehearsal(settings, 2, &[0, 1, 0]);
            assert_eq!(synergy.arrives(0, 0, LONG), "0@0");
            assert_eq!(synergy.arrives(0, 1, SHORT), "1@1");
            assert_eq!(synergy.arrives(0, 2, SHORT), "");
            assert_eq!(synergy.ticks(10_000), "stop 0");
            assert_eq!(synergy.yields(10_100, 0), "2@0");
            assert_eq!(synergy.completes(10_200, 1), resumed);
            assert_eq!(
                synergy.hand_offs,
                vec![HandOff::Own; synergy.hand_offs.len()]
            );
        }
    }

    #[test]
    fn a_congested_wait_queue_goes_before_new_requests_and_for_longer() {
        for (threshold_us, then, deadline_ns) in [(0.0, "3@0", None), (20.0, "0@0", Some(141_000))]
        {
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
            assert_eq!(
                synergy.deadline_ns(),
                (threshold_us > 0.0).then_some(40_000)
            );
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
        assert_eq!(
            (synergy.ticks(50_000).as_str(), synergy.deadline_ns()),
            ("", None)
        );
        assert_eq!(synergy.yields(60_000, 0), "1@0", "the handler gave way");
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
        assert_eq!(
            policy.switches(10_150, synergy()),
            "",
            "it is still stopping"
        );
        assert_eq!(policy.deadline_ns(), None);
        assert_eq!(policy.yields(10_200, 0), "1@0");
        assert_eq!(policy.switches(10_300, c_fcfs()), "");
        assert_eq!(policy.completes(11_000, 0), "0@0");
        assert_eq!(policy.switches(11_000, synergy()), "");
        assert_eq!(policy.arrives(12_000, 2, SHORT), "");
        assert_eq!(policy.ticks(21_000), "stop 0");
        assert_eq!(policy.yields(21_100, 0), "2@0");
        assert_eq!(
            policy.switches(21_200, synergy()),
            "",
            "the wait queue, too"
        );
        assert_eq!(policy.completes(22_000, 0), "0@0");
    }
}
