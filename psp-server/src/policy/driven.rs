//! A scheduler driven by hand, for the unit tests of policies.

use super::{
    Action, Event, HandOff, Policy, RequestId, Sample, Scheduler, SchedulerSetup, TypeStatus,
    WorkerId,
};
use crate::request_type::{RequestType, TypeTable};

/// Requests that may wait per type where the type does not say.
const QUEUE_CAPACITY: usize = 64;

/// See the [module](self). Requests are numbered from 0 as they arrive.
pub(super) struct Driven {
    types: TypeTable,
    scheduler: Box<dyn Scheduler>,
    pub(super) now_ns: u64,
    arrivals: u32,
    /// Type of what runs on each worker.
    running: Vec<Option<RequestType>>,
    /// How each request that ran got to its worker.
    pub(super) hand_offs: Vec<HandOff>,
    pub(super) refused: Vec<u32>,
}

impl Driven {
    pub(super) fn new(policy: &Policy, workers: usize, types: &TypeTable) -> Self {
        Self {
            types: types.clone(),
            scheduler: scheduler(policy, workers, types),
            now_ns: 0,
            arrivals: 0,
            running: vec![None; workers],
            hand_offs: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Goes on under another policy.
    pub(super) fn switch_to(&mut self, policy: &Policy) {
        let backlog = self.scheduler.hand_over();
        self.scheduler = scheduler(policy, self.running.len(), &self.types);
        self.scheduler.take_over(self.now_ns, backlog);
    }

    /// Reports an arrival, one nanosecond after what was before.
    pub(super) fn arrive(&mut self, request_type: RequestType) {
        self.now_ns += 1;
        let request = RequestId(self.arrivals);
        self.arrivals += 1;
        let event = Event::Arrived {
            request,
            request_type,
        };
        self.scheduler.on_event(self.now_ns, event);
    }

    /// Reports an arrival of each of some types, by index.
    pub(super) fn arrive_all(&mut self, types: impl IntoIterator<Item = u32>) {
        for index in types {
            self.arrive(RequestType::new(index));
        }
    }

    /// Reports that `worker` is done, and took `service_ns`.
    pub(super) fn complete(&mut self, worker: u32, service_ns: u64) {
        let request_type = self.end(worker);
        let sample = Sample {
            request_type,
            count: 1,
            service_ns,
        };
        let event = Event::Completed {
            worker: WorkerId(worker),
            samples: &[sample],
        };
        self.scheduler.on_event(self.now_ns, event);
    }

    /// Reports that what runs on `worker` stopped before its end.
    pub(super) fn yields(&mut self, worker: u32, served_ns: u64) {
        self.end(worker);
        let event = Event::Yielded {
            worker: WorkerId(worker),
            served_ns,
        };
        self.scheduler.on_event(self.now_ns, event);
    }

    fn end(&mut self, worker: u32) -> RequestType {
        let running = self.running[worker as usize].take();
        running.expect("nothing runs there")
    }

    /// What runs now that did not before: workers and requests in the order of decisions.
    pub(super) fn poll(&mut self) -> Vec<(u32, u32)> {
        let mut ran = Vec::new();
        while let Some(action) = self.scheduler.poll(self.now_ns) {
            match action {
                Action::Run {
                    worker,
                    request,
                    request_type,
                    hand_off,
                } => {
                    let before = self.running[worker.index()].replace(request_type);
                    assert_eq!(before, None, "worker {} is busy", worker.0);
                    self.hand_offs.push(hand_off);
                    ran.push((worker.0, request.0));
                }
                Action::Reject { request, .. } => self.refused.push(request.0),
                Action::Preempt { .. } => panic!("nothing can be preempted here"),
            }
        }
        ran
    }

    /// Completes the busy worker with the lowest number, as if each request took `service_ns`,
    /// until nothing waits. The requests in the order in which they ran.
    pub(super) fn drain_at(&mut self, service_ns: u64) -> Vec<u32> {
        let mut ran: Vec<u32> = self
            .poll()
            .into_iter()
            .map(|(_, request)| request)
            .collect();
        while let Some(busy) = self.running.iter().position(Option::is_some) {
            self.complete(u32::try_from(busy).unwrap(), service_ns);
            ran.extend(self.poll().into_iter().map(|(_, request)| request));
        }
        ran
    }

    /// [`Driven::drain_at`] a microsecond.
    pub(super) fn drain(&mut self) -> Vec<u32> {
        self.drain_at(1_000)
    }

    pub(super) fn status(&self, slot: usize) -> TypeStatus {
        self.scheduler.type_status(slot)
    }

    pub(super) fn scheduler(&self) -> &dyn Scheduler {
        self.scheduler.as_ref()
    }
}

fn scheduler(policy: &Policy, workers: usize, types: &TypeTable) -> Box<dyn Scheduler> {
    policy.scheduler(&SchedulerSetup {
        workers,
        types,
        queue_capacity: QUEUE_CAPACITY,
        inline: false,
        preemption: None,
        seed: 7,
    })
}
