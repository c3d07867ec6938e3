//! A setup of the portfolio's own, from which it makes schedulers while it runs.

use std::time::Duration;

use super::record::Record;
use crate::request_type::TypeTable;
use crate::setup::{Contexts, Preemption, SchedulerSetup, StuckAfter};

/// See the [module](self).
#[derive(Debug, Clone)]
pub(super) struct Owned {
    workers: usize,
    pub(super) present: usize,
    pub(super) types: TypeTable,
    queue_capacity: usize,
    inline: bool,
    preemption: Option<Preemption>,
    contexts: Contexts,
    stuck: Option<StuckAfter>,
    pub(super) seed: u64,
}

impl Owned {
    pub(super) fn new(setup: &SchedulerSetup<'_>) -> Self {
        Self {
            workers: setup.workers,
            present: setup.present,
            types: setup.types.clone(),
            queue_capacity: setup.queue_capacity,
            inline: setup.inline,
            preemption: setup.preemption,
            contexts: setup.contexts,
            stuck: setup.stuck,
            seed: setup.seed,
        }
    }

    pub(super) fn setup(&self) -> SchedulerSetup<'_> {
        SchedulerSetup {
            workers: self.workers,
            present: self.present,
            types: &self.types,
            queue_capacity: self.queue_capacity,
            inline: self.inline,
            preemption: self.preemption,
            contexts: self.contexts,
            stuck: self.stuck,
            flows: None,
            seed: self.seed,
        }
    }

    /// With hints as measured.
    pub(super) fn hinted(mut self, record: &Record) -> Self {
        let specs = self.types.specs().iter().cloned().enumerate();
        let specs = specs.map(|(slot, mut spec)| {
            if let Some(mean_ns) = record.mean_ns(slot) {
                spec.service_time = Some(Duration::from_nanos(mean_ns.round() as u64));
            }
            spec.share = Some(record.share(slot));
            spec
        });
        self.types = specs.collect();
        self
    }
}
