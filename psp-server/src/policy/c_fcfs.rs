//! c-FCFS: one queue in order of arrival, served by any idle worker.

use std::collections::VecDeque;

use super::{Action, Event, RequestId, Scheduler, SchedulerSetup, TypeStatus, WorkerId};
use crate::request_type::RequestType;

/// See the [module](self).
pub(super) struct CFcfs {
    queue: VecDeque<(RequestId, RequestType)>,
    rejected: VecDeque<(RequestId, RequestType)>,
    idle: Vec<WorkerId>,
    capacity: usize,
}

impl CFcfs {
    pub(super) fn new(setup: &SchedulerSetup<'_>) -> Self {
        let workers = u32::try_from(setup.workers).expect("fewer than 2^32 workers");
        Self {
            queue: VecDeque::with_capacity(setup.queue_capacity),
            rejected: VecDeque::new(),
            idle: (0..workers).rev().map(WorkerId).collect(),
            capacity: setup.queue_capacity,
        }
    }
}

impl Scheduler for CFcfs {
    fn on_event(&mut self, _now_ns: u64, event: Event<'_>) {
        match event {
            Event::Arrived {
                request,
                request_type,
            } => {
                if self.queue.len() < self.capacity {
                    self.queue.push_back((request, request_type));
                } else {
                    self.rejected.push_back((request, request_type));
                }
            }
            Event::Completed { worker, .. } => self.idle.push(worker),
            Event::Tick => {}
        }
    }

    fn poll(&mut self, _now_ns: u64) -> Option<Action> {
        if let Some((request, request_type)) = self.rejected.pop_front() {
            return Some(Action::Reject {
                request,
                request_type,
            });
        }
        if self.queue.is_empty() {
            return None;
        }
        let worker = self.idle.pop()?;
        let (request, request_type) = self.queue.pop_front()?;
        Some(Action::Run {
            worker,
            request,
            request_type,
        })
    }

    fn type_status(&self, _slot: usize) -> TypeStatus {
        TypeStatus {
            queued: self.queue.len(),
            ..TypeStatus::default()
        }
    }
}
