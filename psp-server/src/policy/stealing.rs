//! d-FCFS with work stealing: one queue per worker, arrivals spread by lot; a worker whose own
//! queue is empty takes the oldest request from another's (ZygOS, SOSP '17; the baseline that
//! Shinjuku and Perséphone compare with).
//!
//! The victim: a thief begins at a worker drawn by lot and goes round, and the first queue that is not
//! empty loses its head. That spreads thieves over the victims and asks nobody for the lengths of all
//! queues. No worker is idle while a request waits. Requests are not served in order of arrival,
//! but where every worker is busy each queue is.

use rand::RngExt;

use super::d_fcfs::DFcfs;
use super::workers::{WorkerRange, WorkerSet};
use super::{Action, Backlog, Event, HandOff, Scheduler, SchedulerSetup, TypeStatus};

/// See the [module](self).
pub(super) struct Stealing {
    own: DFcfs,
    idle: WorkerSet,
}

impl Stealing {
    pub(super) fn new(setup: &SchedulerSetup<'_>) -> Self {
        let own = DFcfs::new(setup);
        Self {
            idle: WorkerSet::new(own.workers, setup.inline),
            own,
        }
    }

    /// Whose queue is to lose a request.
    fn victim(&mut self) -> Option<usize> {
        let Self { own, .. } = self;
        let workers = own.workers as usize;
        let first = own.lots.random_range(0..workers);
        (first..workers)
            .chain(0..first)
            .find(|&lane| own.queues.front(lane).is_some())
    }
}

impl Scheduler for Stealing {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        self.own.on_event(now_ns, event);
        if let Event::Completed { worker, .. } | Event::Yielded { worker, .. } = event {
            self.idle.release(worker);
        }
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(action) = self.own.poll(now_ns) {
            if let Action::Run { worker, .. } = action {
                self.idle.take(WorkerRange::new(worker.0, worker.0 + 1));
            }
            return Some(action);
        }
        if self.own.queues.is_empty() {
            return None;
        }
        let thief = self.idle.take(WorkerRange::new(0, self.own.workers))?;
        let lane = self.victim()?;
        let waiting = self.own.queues.pop(lane)?;
        let running = &mut self.own.running;
        Some(running.start(now_ns, thief, waiting, HandOff::Stolen))
    }

    fn hand_over(&mut self) -> Backlog {
        self.own.hand_over()
    }

    fn take_over(&mut self, now_ns: u64, backlog: Backlog) {
        self.own.take_over(now_ns, backlog);
        self.idle = WorkerSet::beside(&self.own.running, self.idle.is_inline());
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.own.type_status(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::super::driven::Driven;
    use super::super::{HandOff, Policy};
    use crate::request_type::{RequestType, TypeSpec, TypeTable};

    fn one_type() -> TypeTable {
        TypeTable::from_iter([TypeSpec::new("A")])
    }

    #[test]
    fn no_worker_idles_while_a_request_waits_in_some_queue() {
        let mut driven = Driven::new(&Policy::stealing(), 4, &one_type());
        for _ in 0..4 {
            driven.arrive(RequestType::new(0));
        }
        let mut ran = driven.poll();
        ran.sort_unstable();
        assert_eq!(
            ran.iter().map(|&(worker, _)| worker).collect::<Vec<_>>(),
            [0, 1, 2, 3],
            "four lots of four workers hit some queue twice, and thieves see to it"
        );
        let stolen = |how: &&HandOff| **how == HandOff::Stolen;
        assert!(driven.hand_offs.iter().any(|how| stolen(&how)));
        let own = driven.hand_offs.iter().take_while(|how| !stolen(how));
        let own = own.count();
        assert!(driven.hand_offs[own..].iter().all(|how| stolen(&how)));
        assert!(own > 0, "own queues come first");
    }

    #[test]
    fn own_requests_go_first_and_thieves_take_the_oldest() {
        let mut driven = Driven::new(&Policy::stealing(), 2, &one_type());
        for _ in 0..40 {
            driven.arrive(RequestType::new(0));
        }
        driven.poll();
        // Only worker 1 completes: it drains its own queue, then worker 0's, each from its head.
        let mut own: Vec<u32> = Vec::new();
        let mut stolen: Vec<u32> = Vec::new();
        driven.hand_offs.clear();
        loop {
            driven.complete(1, 1_000);
            let Some((worker, request)) = driven.poll().pop() else {
                break;
            };
            assert_eq!(worker, 1);
            match driven.hand_offs.pop() {
                Some(HandOff::Own) if stolen.is_empty() => own.push(request),
                Some(HandOff::Stolen) => stolen.push(request),
                other => panic!("{other:?} after {own:?} and {stolen:?}"),
            }
        }
        assert_eq!(own.len() + stolen.len(), 38);
        assert!(own.is_sorted() && stolen.is_sorted());
        assert!(!own.is_empty() && !stolen.is_empty(), "a lot of 40");
    }

    #[test]
    fn one_worker_has_nobody_to_steal_from() {
        let mut driven = Driven::new(&Policy::stealing(), 1, &TypeTable::new());
        for _ in 0..3 {
            driven.arrive(RequestType::UNKNOWN);
        }
        assert_eq!(driven.poll(), [(0, 0)]);
        driven.yields(0, 500);
        assert_eq!(driven.poll(), [(0, 0)], "it was first");
        driven.complete(0, 900);
        assert_eq!(driven.poll(), [(0, 1)]);
        assert!(driven.hand_offs.iter().all(|&how| how == HandOff::Own));
    }

    #[test]
    fn what_waits_and_runs_goes_on_under_another_policy_and_back() {
        let mut driven = Driven::new(&Policy::stealing(), 2, &one_type());
        for _ in 0..5 {
            driven.arrive(RequestType::new(0));
        }
        assert_eq!(driven.poll().len(), 2);
        driven.switch_to(&Policy::c_fcfs());
        assert_eq!(driven.poll(), [], "both are busy");
        driven.complete(0, 1_000);
        assert_eq!(driven.poll().len(), 1);
        driven.switch_to(&Policy::stealing());
        driven.complete(1, 1_000);
        assert_eq!(driven.poll().len(), 1, "its own or worker 0's");
        assert_eq!(driven.status(0).queued, 1);
        assert_eq!(driven.drain().len(), 1);
    }
}
