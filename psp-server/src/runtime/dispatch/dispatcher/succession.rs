//! The dispatcher under one scheduler after another, and requests that other workers may run meanwhile.

use std::sync::Arc;

use psp_policy::{BacklogRequest, Event, Policy, RequestId, RequestState, RequestType, Scheduler};

use super::{Arrived, Dispatcher};
use crate::runtime::dispatch::places::Places;

/// Requests that arrive between two polls and for which memory is set aside.
const OFFERED_PREALLOCATED: usize = 1024;

impl<K> Dispatcher<K> {
    /// As this, with a scheduler whose requests other workers may run. They give back the `places` of these.
    pub(crate) fn offering(mut self, places: Arc<Places>) -> Self {
        self.offer_on(places);
        self
    }

    fn offer_on(&mut self, places: Arc<Places>) {
        self.places = places;
        self.offered = Some(Vec::with_capacity(OFFERED_PREALLOCATED));
    }

    /// A request that arrived since the last call and that others may run. Its task must be where they find it before
    /// the scheduler is polled.
    #[inline]
    pub(crate) fn next_offered(&mut self) -> Option<Arrived> {
        self.offered.as_mut()?.pop()
    }

    /// Goes on under another policy with all waiting and running requests.
    pub(crate) fn switch_to(&mut self, now_ns: u64, policy: &Policy) {
        self.keep_counts();
        let next = self.shared.scheduler(policy);
        if self.scheduler.switch_to(now_ns, next) {
            self.is_switched();
        }
        self.publish_at_ns = now_ns;
    }

    /// Goes on under another scheduler with all requests that wait or began here, between two turns. With `offers`, the
    /// places of these, other workers may run what waits from now on.
    pub(crate) fn succeed(&mut self, now_ns: u64, next: Box<dyn Scheduler>, offers: Option<Arc<Places>>) {
        self.keep_counts();
        let was_offering = self.offered.is_some();
        let mut waiting: Vec<BacklogRequest> = Vec::new();
        let is_switched = self.scheduler.switch_seeing(now_ns, next, |backlog| {
            let requests = backlog.requests.iter();
            waiting.extend(requests.filter(|request| request.waits()));
        });
        if is_switched {
            self.is_switched();
        }
        match offers {
            Some(places) if !was_offering => self.offer_on(places),
            None if was_offering => {
                self.places = Arc::new(Places::new(&self.shared.types, &self.shared.config));
                self.offered = None;
            }
            _ => waiting.clear(),
        }
        for request in waiting {
            let slot = self.slot(request.request_type);
            let is_new = request.state == RequestState::Waiting;
            match &mut self.offered {
                None => self.places.take(slot),
                Some(offered) if is_new => {
                    self.places.take(slot);
                    offered.push(Arrived { request: request.request, slot });
                }
                Some(_) => {}
            }
        }
        self.publish_at_ns = now_ns;
    }

    /// Takes a request over that is on offer and in no queue.
    pub(crate) fn adopt(&mut self, now_ns: u64, request: RequestId, request_type: RequestType) {
        if self.counts_all() {
            self.places.take(self.slot(request_type));
        }
        let deadline_ns = None;
        let arrived = Event::Arrived { request, request_type, deadline_ns };
        self.scheduler.on_event(now_ns, arrived);
    }

    /// Keeps what the scheduler counted, which ends.
    fn keep_counts(&mut self) {
        for slot in 0..=self.shared.types.len() {
            let status = self.scheduler.type_status(slot);
            self.before.steals[slot] += status.steals;
            self.before.relieved[slot] += status.relieved;
        }
        self.before.reservation_updates += self.scheduler.reservation_updates();
    }

    /// Another scheduler is in force.
    fn is_switched(&mut self) {
        if let Some(studies) = &mut self.studies {
            studies.scheduler_is_replaced();
        }
    }
}
