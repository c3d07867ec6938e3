//! The dispatcher: classifies requests, tells the scheduler, counts.

use std::sync::Arc;

use super::shared::Shared;
use crate::classifier::Classifier;
use crate::policy::{Action, Event, RequestId, Sample, Scheduler, WorkerId};
use crate::request_type::RequestType;

/// How often queue lengths and reservations are copied to where others can read them.
const PUBLISH_INTERVAL_NS: u64 = 10_000_000;
/// How often the scheduler hears of the time when nothing else happens.
const TICK_INTERVAL_NS: u64 = 1_000_000;

/// Runs on the net thread (Perséphone 5.1 puts both on one core, too): on kernel sockets the
/// system calls cost more than the decisions, and a hop between threads would cost more than both.
pub(crate) struct Dispatcher<K> {
    classifier: K,
    scheduler: Box<dyn Scheduler>,
    shared: Arc<Shared>,
    publish_at_ns: u64,
    tick_at_ns: u64,
}

impl<K: Classifier> Dispatcher<K> {
    pub(crate) fn new(classifier: K, scheduler: Box<dyn Scheduler>, shared: Arc<Shared>) -> Self {
        Self {
            classifier,
            scheduler,
            shared,
            publish_at_ns: 0,
            tick_at_ns: 0,
        }
    }

    /// The request's type. An answer beyond the table, or a panic, is `UNKNOWN`.
    pub(crate) fn classify(&self, request: &[u8]) -> RequestType {
        let classify = std::panic::AssertUnwindSafe(|| self.classifier.classify(request));
        let request_type = std::panic::catch_unwind(classify).unwrap_or(RequestType::UNKNOWN);
        match request_type.index() {
            Some(index) if index < self.shared.types.len() => request_type,
            _ => RequestType::UNKNOWN,
        }
    }

    pub(crate) fn same_run(&self, first: RequestType, next: RequestType) -> bool {
        self.scheduler.same_run(first, next)
    }

    /// Counts requests that were accepted from a peer.
    pub(crate) fn count_arrival(&self, request_type: RequestType) {
        self.shared.telemetry.types[self.shared.types.slot(request_type)]
            .0
            .arrivals
            .add(1);
    }

    /// Takes back the count of a request that will arrive again.
    pub(crate) fn uncount_arrival(&self, request_type: RequestType) {
        self.shared.telemetry.types[self.shared.types.slot(request_type)]
            .0
            .arrivals
            .sub(1);
    }

    pub(crate) fn count_rejection(&self, request_type: RequestType) {
        self.shared.telemetry.types[self.shared.types.slot(request_type)]
            .0
            .rejections
            .add(1);
    }

    pub(crate) fn type_name(&self, request_type: RequestType) -> &str {
        self.shared
            .types
            .name_of_slot(self.shared.types.slot(request_type))
    }

    pub(crate) fn arrived(&mut self, now_ns: u64, request: RequestId, request_type: RequestType) {
        self.scheduler.on_event(
            now_ns,
            Event::Arrived {
                request,
                request_type,
            },
        );
    }

    pub(crate) fn completed(&mut self, now_ns: u64, worker: WorkerId, samples: &[Sample]) {
        self.scheduler
            .on_event(now_ns, Event::Completed { worker, samples });
    }

    pub(crate) fn yielded(&mut self, now_ns: u64, worker: WorkerId, served_ns: u64) {
        self.scheduler
            .on_event(now_ns, Event::Yielded { worker, served_ns });
    }

    pub(crate) fn poll(&mut self, now_ns: u64) -> Option<Action> {
        self.scheduler.poll(now_ns)
    }

    /// When the scheduler wants to hear of the time.
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        self.scheduler.deadline_ns()
    }

    /// What has to be done now and then.
    pub(crate) fn tick(&mut self, now_ns: u64) {
        if now_ns >= self.tick_at_ns {
            self.tick_at_ns = now_ns + TICK_INTERVAL_NS;
            self.scheduler.on_event(now_ns, Event::Tick);
        }
        if now_ns >= self.publish_at_ns {
            self.publish_at_ns = now_ns + PUBLISH_INTERVAL_NS;
            for (slot, counters) in self.shared.telemetry.types.iter().enumerate() {
                counters.0.publish(&self.scheduler.type_status(slot));
            }
            self.shared
                .telemetry
                .reservation_updates
                .set(self.scheduler.reservation_updates());
        }
    }
}
