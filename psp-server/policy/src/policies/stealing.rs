//! d-FCFS with work stealing: one queue per worker, and each request joins one at random. A worker
//! whose own queue is empty takes the oldest request of another queue (ZygOS, SOSP '17; the baseline
//! of Shinjuku and Perséphone).
//!
//! A thief begins at a random worker and goes round; the first queue that is not empty loses its head.
//! That spreads thieves over the victims, and needs no lengths of queues. No worker is idle while a
//! request waits. Requests are not served in order of arrival, but each queue is while every worker is
//! busy.

use rand::RngExt;

use crate::backlog::{Backlog, Handover};
use crate::event::{Action, Event, HandOff};
use crate::parts::workers::{WorkerRange, WorkerSet};
use crate::policies::d_fcfs::DFcfs;
use crate::scheduler::{Scheduler, TypeStatus};
use crate::setup::SchedulerSetup;

/// See the [module](self).
pub(crate) struct Stealing {
    own: DFcfs,
    idle: WorkerSet,
}

impl Stealing {
    pub(crate) fn new(setup: &SchedulerSetup<'_>) -> Self {
        let own = DFcfs::new(setup);
        Self {
            idle: WorkerSet::new(own.workers, setup.inline),
            own,
        }
    }

    /// The queue that loses a request.
    fn victim(&mut self) -> Option<usize> {
        let Self { own, .. } = self;
        let workers = own.workers as usize;
        let first = own.random.random_range(0..workers);
        (first..workers)
            .chain(0..first)
            .find(|&lane| own.queues.front(lane).is_some())
    }
}

impl Scheduler for Stealing {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        self.own.on_event(now_ns, event);
        match event {
            Event::Completed { worker, .. }
            | Event::Yielded { worker, .. }
            | Event::Blocked { worker, .. } => self.idle.release(worker),
            Event::Workers { .. } => self.idle.set_present(self.own.present),
            Event::Arrived { .. } | Event::Unblocked { .. } | Event::Tick => {}
        }
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(action) = self.own.poll(now_ns) {
            if let Action::Run { worker, .. } = action {
                self.idle.take(WorkerRange::new(worker.0, worker.0 + 1));
            }
            return Some(action);
        }
        if self.own.queues.unbound() == 0 {
            return None;
        }
        let begins = |worker| self.own.queues.has_context(worker);
        let thief = self.idle.find(self.idle.present(), begins)?;
        self.idle.remove(thief);
        let lane = self.victim()?;
        let waiting = self.own.queues.pop(lane)?;
        let running = &mut self.own.running;
        Some(running.start(now_ns, thief, waiting, HandOff::Stolen))
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(self)
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.own.type_status(slot)
    }
}

impl Handover for Stealing {
    fn hand_over(&mut self) -> Backlog {
        self.own.hand_over()
    }

    fn take_over(&mut self, now_ns: u64, backlog: Backlog) {
        self.own.take_over(now_ns, backlog);
        self.idle.take_running(&self.own.running);
    }
}

#[cfg(test)]
mod tests {
    use crate::event::HandOff;
    use crate::policy::Policy;
    use crate::rehearsal::{Rehearsal, UNKNOWN, requests};

    #[test]
    fn no_worker_idles_while_a_request_waits_in_some_queue() {
        let mut stealing = Rehearsal::with_one_type(Policy::stealing(), 4);
        let ran = stealing.arrive_all([0; 4]);
        assert_eq!(requests(&ran).len(), 4, "all four workers have one: {ran}");
        let stolen = |how: &&HandOff| **how == HandOff::Stolen;
        let hand_offs = stealing.hand_offs;
        assert!(
            hand_offs.iter().any(|how| stolen(&how)),
            "four choices of four workers hit some queue twice"
        );
        let own = hand_offs.iter().take_while(|how| !stolen(how));
        let own = own.count();
        assert!(hand_offs[own..].iter().all(|how| stolen(&how)));
        assert!(own > 0, "own queues come first");
    }

    #[test]
    fn own_requests_go_first_and_thieves_take_the_oldest() {
        let mut stealing = Rehearsal::with_one_type(Policy::stealing(), 2);
        stealing.arrive_all([0; 40]);
        // Only worker 1 completes: it drains its own queue, then worker 0's, each from its head.
        let mut own: Vec<u32> = Vec::new();
        let mut stolen: Vec<u32> = Vec::new();
        loop {
            let ran = stealing.finishes(1, 1_000);
            let [request] = requests(&ran)[..] else {
                assert_eq!(ran, "", "one at a time");
                break;
            };
            match stealing.hand_offs.last() {
                Some(HandOff::Own) if stolen.is_empty() => own.push(request),
                Some(HandOff::Stolen) => stolen.push(request),
                other => panic!("{other:?} after {own:?} and {stolen:?}"),
            }
        }
        assert_eq!(own.len() + stolen.len(), 38);
        assert!(own.is_sorted() && stolen.is_sorted());
        assert!(!own.is_empty() && !stolen.is_empty(), "40 random choices");
    }

    #[test]
    fn one_worker_has_no_victim() {
        let mut stealing = Rehearsal::new(Policy::stealing(), 1, []);
        assert_eq!(stealing.arrive_all([UNKNOWN; 3]), "0@0");
        assert_eq!(stealing.gives_way(0, 500), "0@0", "it was first");
        assert_eq!(stealing.finishes(0, 900), "1@0");
        assert_eq!(stealing.hand_offs, [HandOff::Own; 3]);
    }

    #[test]
    fn what_waits_and_runs_goes_on_under_another_policy_and_back() {
        let stealing = || Rehearsal::with_one_type(Policy::stealing(), 2);
        let mut policy = stealing();
        assert_eq!(requests(&policy.arrive_all([0; 5])).len(), 2);
        let c_fcfs = Rehearsal::with_one_type(Policy::c_fcfs(), 2);
        assert_eq!(policy.switches(10, c_fcfs), "", "both are busy");
        assert_eq!(requests(&policy.finishes(0, 1_000)).len(), 1);
        assert_eq!(policy.switches(20, stealing()), "");
        let ran = policy.finishes(1, 1_000);
        assert_eq!(requests(&ran).len(), 1, "its own or worker 0's");
        assert_eq!(policy.type_status(0).queued, 1);
        assert_eq!(policy.drain(1_000).len(), 1);
    }
}
