//! What the dispatcher says of types of requests, and counts by type.

use std::time::Duration;

use psp_policy::RequestType;

use super::Dispatcher;
use crate::classifier::Classifier;
use crate::runtime::dispatch::lengths::Length;
use crate::telemetry::DispatchCounters;

impl<K> Dispatcher<K> {
    /// The request's type. An answer beyond the table, or a panic, is `UNKNOWN`.
    #[inline]
    pub(crate) fn classify<H>(&self, request: &[u8], head: &H) -> RequestType
    where
        K: Classifier<H>,
    {
        let classify = std::panic::AssertUnwindSafe(|| self.classifier.classify(request, head));
        let request_type = std::panic::catch_unwind(classify).unwrap_or(RequestType::UNKNOWN);
        match request_type.index() {
            Some(index) if index < self.shared.types.len() && Some(request_type) != self.shared.handshake => {
                request_type
            }
            _ => RequestType::UNKNOWN,
        }
    }

    /// The type of TLS handshakes, which only servers with TLS have.
    pub(crate) fn handshake_type(&self) -> RequestType {
        self.shared.handshake.unwrap_or(RequestType::UNKNOWN)
    }

    /// Whether requests of two types may travel in one run: because the policy says so, or because both are brief. They
    /// yield by the same mechanism then. Control requests travel with their like alone.
    pub(crate) fn same_run(&self, first: RequestType, next: RequestType) -> bool {
        let [first_slot, next_slot] = [first, next].map(|request_type| self.slot(request_type));
        if self.control.has(first_slot) || self.control.has(next_slot) {
            return first == next;
        }
        let preempt = &self.shared.preempt;
        let are_alike = self.scheduler.same_run(first, next);
        (are_alike || self.brief.are([first_slot, next_slot])) && preempt[first_slot] == preempt[next_slot]
    }

    /// Counts requests that were accepted from a peer.
    #[inline]
    pub(crate) fn count_arrival(&self, request_type: RequestType) {
        self.counters(request_type).arrivals.add(1);
    }

    /// Takes back the count of a request that will arrive again.
    pub(crate) fn uncount_arrival(&self, request_type: RequestType) {
        self.counters(request_type).arrivals.sub(1);
    }

    pub(crate) fn count_rejection(&self, request_type: RequestType) {
        self.counters(request_type).rejections.add(1);
    }

    /// Counts a request that waits for a place in its typed queue.
    pub(crate) fn count_held(&self, request_type: RequestType) {
        self.counters(request_type).held.add(1);
    }

    /// Counts a request that was not run because its peer is gone.
    pub(crate) fn count_abandoned(&self, request_type: RequestType) {
        self.counters(request_type).abandoned.add(1);
    }

    /// Counts a request that was not run because it had waited for too long.
    pub(crate) fn count_expired(&self, request_type: RequestType) {
        self.counters(request_type).expired.add(1);
    }

    fn counters(&self, request_type: RequestType) -> &DispatchCounters {
        self.shared.counters(self.shared.types.slot(request_type))
    }

    /// Until when a request that arrived at `arrived_ns` may wait for its turn: by its type, and by the deadline of
    /// its own. `None` if neither says so.
    #[inline]
    pub(crate) fn latest_turn_ns(
        &self,
        arrived_ns: u64,
        request_type: RequestType,
        own: Option<Duration>,
    ) -> Option<u64> {
        let slot = self.shared.types.slot(request_type);
        let waits = [self.waits_max[slot], own];
        let wait = waits.into_iter().flatten().min()?;
        Some(end_ns(arrived_ns, wait))
    }

    pub(crate) fn type_name(&self, request_type: RequestType) -> &str {
        self.shared.types.name_of_slot(self.shared.types.slot(request_type))
    }

    /// The type's slot in arrays that have one entry for each type.
    #[inline]
    pub(crate) fn slot(&self, request_type: RequestType) -> usize {
        self.shared.types.slot(request_type)
    }

    /// How long requests of a type are. Asked where ports move between threads. Of the steps of handshakes that is
    /// unknown even if most are short: they reach no checkpoint, and some need what others than the server have.
    #[inline]
    pub(crate) fn length(&self, request_type: RequestType) -> Length {
        let slot = self.slot(request_type);
        let known = self.lengths.as_ref().map(|lengths| lengths.of(slot));
        match known {
            Some(Length::Short) if Some(request_type) == self.shared.handshake => Length::Unknown,
            known => known.unwrap_or(Length::Unknown),
        }
    }

    /// Whether requests of a type are known to keep their connections for a short time, whether they run or wait.
    #[inline]
    pub(crate) fn keeps_briefly(&self, request_type: RequestType) -> bool {
        let slot = self.slot(request_type);
        self.keeping.as_ref().is_some_and(|keeping| keeping.of(slot) == Length::Short)
    }
}

/// The time behind so long a time.
pub(super) fn end_ns(from_ns: u64, time: Duration) -> u64 {
    from_ns.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
