//! A scheduler driven by hand in virtual time, for the unit tests of policies.

use super::{
    Action, Event, HandOff, Policy, Preemption, RequestId, Sample, Scheduler, SchedulerSetup,
    WorkerId,
};
use crate::request_type::{RequestType, TypeSpec, TypeTable};

/// A scheduler, and short words for its events. Each event answers with the actions that follow
/// it: `"3@0"` for request 3 that runs on worker 0, `"stop 0"` for a preemption, `"refuse 3"`,
/// with commas between.
pub(super) struct Rehearsal {
    scheduler: Box<dyn Scheduler>,
    /// How each request that ran got to its worker.
    pub(super) hand_offs: Vec<HandOff>,
}

impl Rehearsal {
    /// `policy` with preemption, and three places in each queue for types without their own.
    pub(super) fn new(
        policy: impl Into<Policy>,
        workers: usize,
        types: impl IntoIterator<Item = TypeSpec>,
    ) -> Self {
        let preemption = Some(Preemption { cost_ns: 1000 });
        Self::with_preemption(policy, workers, types, preemption)
    }

    pub(super) fn with_preemption(
        policy: impl Into<Policy>,
        workers: usize,
        types: impl IntoIterator<Item = TypeSpec>,
        preemption: Option<Preemption>,
    ) -> Self {
        Self::with_lots(policy, workers, types, preemption, 0)
    }

    /// With a seed for policies that draw lots.
    pub(super) fn with_lots(
        policy: impl Into<Policy>,
        workers: usize,
        types: impl IntoIterator<Item = TypeSpec>,
        preemption: Option<Preemption>,
        seed: u64,
    ) -> Self {
        let types: TypeTable = types.into_iter().collect();
        let setup = SchedulerSetup {
            workers,
            types: &types,
            queue_capacity: 3,
            inline: false,
            preemption,
            seed,
        };
        let scheduler = policy.into().scheduler(&setup);
        Self {
            scheduler,
            hand_offs: Vec::new(),
        }
    }

    pub(super) fn arrives(&mut self, now_ns: u64, id: u32, request_type: RequestType) -> String {
        let request = RequestId(id);
        let event = Event::Arrived {
            request,
            request_type,
        };
        self.after(now_ns, event)
    }

    pub(super) fn completes(&mut self, now_ns: u64, worker: u32) -> String {
        self.measures(now_ns, worker, &[])
    }

    /// A completion and what the worker measured.
    pub(super) fn measures(&mut self, now_ns: u64, worker: u32, samples: &[Sample]) -> String {
        let worker = WorkerId(worker);
        self.after(now_ns, Event::Completed { worker, samples })
    }

    pub(super) fn yields(&mut self, now_ns: u64, worker: u32) -> String {
        let worker = WorkerId(worker);
        let served_ns = 1;
        self.after(now_ns, Event::Yielded { worker, served_ns })
    }

    pub(super) fn ticks(&mut self, now_ns: u64) -> String {
        self.after(now_ns, Event::Tick)
    }

    pub(super) fn deadline_ns(&self) -> Option<u64> {
        self.scheduler.deadline_ns()
    }

    /// Goes on under the policy of `next`.
    pub(super) fn switches(&mut self, now_ns: u64, next: Self) -> String {
        let backlog = self.scheduler.hand_over();
        *self = next;
        self.scheduler.take_over(now_ns, backlog);
        self.actions(now_ns)
    }

    fn after(&mut self, now_ns: u64, event: Event<'_>) -> String {
        self.scheduler.on_event(now_ns, event);
        self.actions(now_ns)
    }

    fn actions(&mut self, now_ns: u64) -> String {
        let actions: Vec<String> = std::iter::from_fn(|| self.scheduler.poll(now_ns))
            .map(|action| match action {
                Action::Run {
                    worker,
                    request,
                    hand_off,
                    ..
                } => {
                    self.hand_offs.push(hand_off);
                    format!("{}@{}", request.0, worker.0)
                }
                Action::Preempt { worker } => format!("stop {}", worker.0),
                Action::Reject { request, .. } => format!("refuse {}", request.0),
            })
            .collect();
        actions.join(", ")
    }
}

/// One measured request.
pub(super) const fn sample(request_type: RequestType, service_ns: u64) -> Sample {
    Sample {
        request_type,
        count: 1,
        service_ns,
    }
}
