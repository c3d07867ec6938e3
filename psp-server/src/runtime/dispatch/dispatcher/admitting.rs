//! What the dispatcher asks [admission](psp_policy::admission), and tells it.

use std::time::Duration;

use psp_policy::admission::{Arrival, Refusal};
use psp_policy::{Action, RequestId, RequestType};

use super::Dispatcher;
use super::types::end_ns;
use crate::classifier::Classifier;
use crate::shared::Gate;
use crate::transport::run::{Standing, TOO_LATE_NS};

impl<K> Dispatcher<K> {
    /// What admission has to know of a request whose peer waits for `own` from `arrived_ns` on; `None` without
    /// admission. Of one with which the classifier panics it knows nothing.
    #[inline]
    pub(crate) fn standing<H>(
        &self,
        request: &[u8],
        head: &H,
        arrived_ns: u64,
        own: Option<Duration>,
    ) -> Option<Standing>
    where
        K: Classifier<H>,
    {
        self.shared.gate.as_ref()?;
        let ask = std::panic::AssertUnwindSafe(|| Standing {
            priority: self.classifier.priority(request, head),
            tenant: self.classifier.tenant(request, head),
            deadline_ns: own.map(|own| end_ns(arrived_ns, own)),
        });
        Some(std::panic::catch_unwind(ask).unwrap_or_default())
    }

    /// How many requests a run may have that begins with one of this type, where admission says so.
    #[inline]
    pub(crate) fn run_len_max(&self, request_type: RequestType) -> Option<usize> {
        let gate = self.shared.gate.as_ref()?;
        Some(gate.run_len_max(self.slot(request_type)))
    }

    /// A request has come, which may wait for its turn until `latest_ns`. Admission, if there is any, hears of its
    /// `arrival`, and may refuse it. Then nobody else hears of it.
    #[inline]
    pub(crate) fn arrived(
        &mut self,
        now_ns: u64,
        (request, request_type): (RequestId, RequestType),
        latest_ns: Option<u64>,
        arrival: impl FnOnce() -> Arrival,
    ) -> Result<(), Refusal> {
        let name = match &self.shared.gate {
            None => request,
            Some(gate) if self.is_always_let_in(request_type) => gate.name_of(request),
            Some(gate) => gate.arrive(now_ns, arrival())?,
        };
        self.enter(now_ns, (request, name), request_type, latest_ns);
        Ok(())
    }

    /// Whether admission has nothing to say about requests of this type.
    fn is_always_let_in(&self, request_type: RequestType) -> bool {
        self.control.has(self.slot(request_type)) || Some(request_type) == self.shared.handshake
    }

    /// Work has come that admission has nothing to say about.
    pub(crate) fn entered(&mut self, now_ns: u64, request: RequestId, request_type: RequestType) {
        let name = self.shared.gate.as_ref().map_or(request, |gate| gate.name_of(request));
        self.enter(now_ns, (request, name), request_type, None);
    }

    /// The time by which it is told whether a request that is to begin comes too late: now, or the end of all times if
    /// admission says so.
    #[inline]
    pub(crate) fn turn_ns(&self, now_ns: u64, request: RequestId) -> u64 {
        match self.too_late == Some(request) {
            true => TOO_LATE_NS,
            false => now_ns,
        }
    }

    /// Has the load measured, and says if an SLO cannot be held.
    pub(super) fn measure(&self, now_ns: u64, gate: &Gate) {
        if let Some((slot, status)) = gate.measure(now_ns) {
            let request_type = self.shared.types.name_of_slot(slot);
            let service_us = (status.service_ns_mean / 1e3) as u64;
            let slo_us = (status.slo_ns / 1e3) as u64;
            tracing::warn!(
                request_type,
                service_us,
                slo_us,
                "an SLO is shorter than two service times, and counts as two: a longer one, or shorter requests, \
                 would do"
            );
        }
    }

    /// Has an action concern the request that admission says, in the place of the one that the scheduler named, and
    /// notes if it is too late for it.
    #[inline]
    pub(super) fn pass(&mut self, now_ns: u64, action: &mut Action) {
        let Some(gate) = &self.shared.gate else {
            return;
        };
        self.too_late = match action {
            Action::Run { request, .. } => {
                let turn = gate.turn(now_ns, *request);
                *request = turn.request;
                turn.is_too_late.then_some(turn.request)
            }
            Action::Reject { request, .. } => {
                *request = gate.rejected(now_ns, *request);
                None
            }
            Action::Preempt { .. } => None,
        };
    }
}
