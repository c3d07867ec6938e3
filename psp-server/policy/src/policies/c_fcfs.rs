//! c-FCFS: one queue in order of arrival, served by any idle worker.

use crate::backlog::{Backlog, Handover};
use crate::event::{Action, Event, HandOff};
use crate::parts::eligible;
use crate::parts::handover::backlog;
use crate::parts::queues::Queues;
use crate::parts::running::Running;
use crate::parts::suspended::Lanes;
use crate::parts::workers::{WorkerSet, worker_count};
use crate::scheduler::{Scheduler, TypeStatus};
use crate::setup::SchedulerSetup;

/// The one queue.
pub(crate) const LANE: usize = 0;

/// See the [module](self).
pub(crate) struct CFcfs {
    pub(crate) queues: Queues,
    pub(crate) running: Running,
    pub(crate) workers: WorkerSet,
}

impl CFcfs {
    pub(crate) fn new(setup: &SchedulerSetup<'_>) -> Self {
        Self {
            queues: Queues::new(setup, Lanes::shared(1)),
            running: Running::new(setup),
            workers: WorkerSet::new(worker_count(setup.workers), setup.inline),
        }
    }
}

impl Scheduler for CFcfs {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        match event {
            Event::Arrived { request, request_type, deadline_ns } => {
                self.queues.push(LANE, now_ns, request, request_type, deadline_ns);
            }
            Event::Completed { worker, .. } => {
                self.running.finish(worker);
                self.workers.release(worker);
            }
            Event::Yielded { worker, served_ns } => {
                let waiting = self.running.give_up(worker, served_ns);
                self.queues.put_back_first(LANE, waiting);
                self.workers.release(worker);
            }
            Event::Blocked { worker, served_ns } => {
                let waiting = self.running.give_up(worker, served_ns);
                self.queues.block(now_ns, worker, waiting);
                self.workers.release(worker);
            }
            Event::Unblocked { request } => {
                let waiting = self.queues.unblock(now_ns, request);
                self.queues.put_back_first(LANE, waiting);
            }
            Event::Workers { present } => {
                self.queues.set_present(present);
                self.running.set_present(present);
                self.workers.set_present(worker_count(present));
            }
            Event::Tick => {}
        }
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(refused) = self.queues.pop_refused() {
            return Some(refused);
        }
        let present = self.workers.present();
        let (worker, waiting) = eligible::take_next(&mut self.queues, &mut self.workers, present, LANE)?;
        Some(self.running.start(now_ns, worker, waiting, HandOff::Dispatched))
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(self)
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.queues.type_status(slot)
    }
}

impl Handover for CFcfs {
    fn hand_over(&mut self) -> Backlog {
        backlog(&self.queues, &self.running)
    }

    fn take_over(&mut self, _now_ns: u64, backlog: Backlog) {
        self.queues.fill(&backlog, |_| LANE);
        self.running.fill(&backlog);
        self.workers.take_running(&self.running);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::policy::Policy;
    use crate::rehearsal::{Rehearsal, UNKNOWN};
    use crate::request_type::TypeSpec;
    use crate::scheduler::Relief;
    use crate::setup::Preemption;

    #[test]
    fn no_worker_is_reserved_so_no_type_needs_relief() {
        let policy = Rehearsal::with_one_type(Policy::c_fcfs(), 2);
        assert_eq!((policy.reservation_updates(), policy.relief(0)), (0, Relief::NotNeeded));
    }

    #[test]
    fn types_travel_in_one_run_where_policies_treat_them_alike() {
        let alike = Policy::NAMES.into_iter().filter(|name| {
            let policy: Policy = name.parse().expect("its own name");
            let types = [10, 12, 1_000].map(|us| TypeSpec::new("T").service_time(Duration::from_micros(us)).share(0.3));
            let policy = Rehearsal::new(policy, 4, types);
            assert!(policy.same_run(2, 2) && !policy.same_run(0, 2) && !policy.same_run(0, UNKNOWN), "{name}");
            policy.same_run(0, 1)
        });
        let names = ["darc", "darc-static", "darc-lending", "portfolio", "cscq", "darc-distributed"];
        assert_eq!(alike.collect::<Vec<_>>(), names);
    }

    #[test]
    fn a_worker_that_goes_resumes_what_is_suspended_there_and_begins_nothing() {
        for policy in Policy::NAMES {
            let policy: Policy = policy.parse().expect("its own name");
            let types = [TypeSpec::new("ONE")];
            let mut policy = Rehearsal::at_home(policy, 2, types, Some(Preemption::new(0)), 4);
            let started = policy.arrive_all([0; 8]);
            let on_1 = started.split(", ").find(|run| run.ends_with("@1"));
            let on_1 = on_1.expect("eight requests, two workers").to_owned();
            assert_eq!(policy.has_workers(1), "");
            assert_eq!(policy.yields_now(1, 500), on_1, "it resumes at once");
            assert_eq!(policy.finishes(1, 1_000), "", "seven wait for worker 0");
            let ran = policy.drain(1_000);
            assert_eq!(ran.len(), 6);
            let back = policy.has_workers(2) + &policy.arrive_all([0; 8]);
            assert!(back.contains("@1"), "{back}");
        }
    }
}
