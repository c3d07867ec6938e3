//! A setup of the portfolio's own, from which it makes schedulers while it runs.

use std::time::Duration;

use super::record::Record;
use crate::request_type::TypeTable;
use crate::setup::{History, SchedulerSetup};

static NO_TYPES: TypeTable = TypeTable::new();

/// See the [module](self).
#[derive(Debug, Clone)]
pub(super) struct Owned {
    pub(super) types: TypeTable,
    /// Everything but the types.
    pub(super) rest: SchedulerSetup<'static>,
}

impl Owned {
    pub(super) fn new(setup: SchedulerSetup<'_>) -> Self {
        Self {
            types: setup.types.clone(),
            rest: SchedulerSetup { types: &NO_TYPES, history: History::default(), ..setup },
        }
    }

    pub(super) fn setup(&self) -> SchedulerSetup<'_> {
        SchedulerSetup { types: &self.types, ..self.rest.clone() }
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
