use std::cmp::Reverse;

use psp_policy::{Action, Event, Handover, Policy, Scheduler, SchedulerSetup, TypeStatus, TypedQueues};

/// The type with the longest queue first, on any idle worker.
struct LongestQueueFirst {
    queues: TypedQueues,
}

impl LongestQueueFirst {
    fn new(setup: &SchedulerSetup<'_>) -> Self {
        let queues = TypedQueues::new(setup);
        Self { queues }
    }

    /// Of equally long queues, the one whose next request arrived first.
    fn longest(&self) -> Option<usize> {
        let runnable = (0..self.queues.slots()).filter_map(|slot| {
            let arrived_ns = self.queues.arrived_ns(slot)?;
            Some((self.queues.queued(slot), Reverse(arrived_ns), slot))
        });
        runnable.max().map(|(_, _, slot)| slot)
    }
}

impl Scheduler for LongestQueueFirst {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        self.queues.on_event(now_ns, event);
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(refused) = self.queues.next_refused() {
            return Some(refused);
        }
        let slot = self.longest()?;
        self.queues.run(now_ns, slot)
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(&mut self.queues)
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.queues.type_status(slot)
    }
}

/// Longest queue first, as servers and simulators take it.
pub fn longest_queue_first() -> Policy {
    Policy::custom("longest-queue-first", |setup| Box::new(LongestQueueFirst::new(setup)))
}
