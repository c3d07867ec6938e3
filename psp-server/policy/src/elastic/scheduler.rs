//! A scheduler, and workers that come and go with its load.
//!
//! ```text
//!   driver ── events ──► scheduler ── actions ──► driver
//!               └──────► estimator ◄─────┘
//!                           └── once an interval: Workers { present } ──► scheduler
//! ```

use std::ops::Deref;

use super::Elastic;
use crate::event::{Action, Event};
use crate::scheduler::{Scheduler, switch};

/// A scheduler whose driver need not know whether workers come and go. See [`elastic`](crate::elastic).
pub struct ElasticScheduler {
    scheduler: Box<dyn Scheduler>,
    /// `None` if all workers are always present.
    elastic: Option<Elastic>,
}

impl ElasticScheduler {
    /// A scheduler and, if workers come and go, their estimator. Both have the same setup, in which the fewest
    /// workers are present.
    #[must_use]
    pub fn new(scheduler: Box<dyn Scheduler>, elastic: Option<Elastic>) -> Self {
        Self { scheduler, elastic }
    }

    /// Goes on under another scheduler with all requests and with the workers that are present, if both schedulers
    /// can hand over. Returns whether they can.
    #[must_use]
    pub fn switch_to(&mut self, now_ns: u64, mut next: Box<dyn Scheduler>) -> bool {
        let can_switch = switch(&mut *self.scheduler, &mut *next, now_ns);
        if can_switch {
            self.scheduler = next;
            if let Some(elastic) = &self.elastic {
                let present = elastic.present();
                self.scheduler.on_event(now_ns, Event::Workers { present });
            }
        }
        can_switch
    }

    /// Reports an event.
    #[inline]
    pub fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        if let Some(elastic) = &mut self.elastic {
            elastic.on_event(now_ns, &event);
        }
        self.scheduler.on_event(now_ns, event);
    }

    /// The next action.
    #[inline]
    pub fn poll(&mut self, now_ns: u64) -> Option<Action> {
        let action = self.scheduler.poll(now_ns);
        if let (Some(elastic), Some(action)) = (&mut self.elastic, &action) {
            elastic.on_action(now_ns, action);
        }
        action
    }

    /// When the driver has to tick and [follow the load](Self::follow_load) at the latest: the scheduler's
    /// deadline, or the end of an interval.
    #[must_use]
    pub fn deadline_ns(&self) -> Option<u64> {
        let elastic_ns = self.elastic.as_ref().and_then(Elastic::deadline_ns);
        let deadlines_ns = [self.scheduler.deadline_ns(), elastic_ns];
        deadlines_ns.into_iter().flatten().min()
    }

    /// At the end of an interval, has a worker come or go if the load says so. Returns how many are present, if that
    /// has changed. The driver calls it whenever it ticks, and polls.
    pub fn follow_load(&mut self, now_ns: u64) -> Option<usize> {
        let elastic = self.elastic.as_mut()?;
        let present = elastic.observe(now_ns, &*self.scheduler)?;
        self.scheduler.on_event(now_ns, Event::Workers { present });
        Some(present)
    }
}

/// What does not change the scheduler.
impl Deref for ElasticScheduler {
    type Target = dyn Scheduler;

    fn deref(&self) -> &Self::Target {
        &*self.scheduler
    }
}
