//! Classifies datagrams and hands them to the dispatcher.

use psp_policy::admission::Arrival;
use psp_protocols::Framing;

use super::sources::{Refusal, Sources};
use crate::classifier::Classifier;
use crate::guarded_framing::GuardedFraming;
use crate::runtime::dispatch::dispatcher::Dispatcher;
use crate::telemetry::{NetCounters, PacketCounters};
use crate::transport::datagram::Datagram;

/// What a datagram needs on its way to the scheduler.
pub(crate) struct Intake<'a, F, K> {
    pub(crate) framing: &'a GuardedFraming<F>,
    pub(crate) dispatcher: &'a mut Dispatcher<K>,
    pub(crate) net: &'a NetCounters,
    /// When the datagrams came.
    pub(crate) now_ns: u64,
}

impl<'a, F: Framing, K: Classifier<F::Head>> Intake<'a, F, K> {
    pub(super) fn packet_counters(&self) -> &'a PacketCounters {
        &self.net.packets
    }

    /// A datagram came that is longer than allowed.
    pub(super) fn count_too_long(&self) {
        self.net.datagrams_received.add(1);
        self.net.malformed.add(1);
    }

    /// A datagram is dropped because of its source.
    fn count_refused(&self, refusal: Refusal) {
        self.net.datagrams_received.add(1);
        match refusal {
            Refusal::Own => self.net.datagrams_reflected.add(1),
            Refusal::OverBudget => self.net.datagrams_over_budget.add(1),
        }
    }

    /// Classifies a datagram. `false` if it is not exactly one request.
    #[inline]
    pub(crate) fn classify<C>(&self, datagram: &mut Datagram<C, F::Head>) -> bool {
        self.net.datagrams_received.add(1);
        let request = datagram.request(self.framing.envelope());
        let whole = request.and_then(|request| Some((request, self.framing.head_of(request)?)));
        let Some((request, head)) = whole else {
            self.net.malformed.add(1);
            return false;
        };
        if self.framing.is_reply(request, &head) {
            self.net.datagrams_reflected.add(1);
            return false;
        }
        let request_type = self.dispatcher.classify(request, &head);
        let own = self.framing.deadline(&head);
        let standing = self.dispatcher.standing(request, &head, self.now_ns, own);
        let deadline_ns = self.dispatcher.latest_turn_ns(self.now_ns, request_type, own);
        (datagram.request_type, datagram.arrived_ns) = (request_type, self.now_ns);
        datagram.deadline_ns = deadline_ns;
        datagram.standing = standing.unwrap_or_default();
        datagram.head = head;
        self.dispatcher.count_arrival(request_type);
        true
    }

    /// Tells the scheduler about a classified datagram. `false` if admission does not let it in.
    #[inline]
    pub(crate) fn enqueue<C>(&mut self, datagram: &Datagram<C, F::Head>) -> bool {
        let &Datagram { request_type, arrived_ns, deadline_ns, standing, .. } = datagram;
        let request = datagram.request_id();
        let arrival = || standing.of(Arrival::new(request, request_type, arrived_ns));
        let arrived = self.dispatcher.arrived(arrived_ns, (request, request_type), deadline_ns, arrival);
        let is_in = arrived.is_ok();
        if !is_in {
            self.dispatcher.count_rejection(request_type);
        }
        is_in
    }

    /// Classifies and enqueues a datagram. `false` if it is not exactly one request, or if `sources` or admission
    /// refuse it.
    #[inline]
    pub(super) fn admit<C>(&mut self, sources: &Sources, datagram: &mut Datagram<C, F::Head>) -> bool {
        if let Some(refusal) = sources.refusal(datagram.peer, self.now_ns) {
            self.count_refused(refusal);
            return false;
        }
        self.classify(datagram) && self.enqueue(datagram)
    }
}
