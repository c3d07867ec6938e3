//! Datagrams on their way to the scheduler: what is one request gets its type and waits.

use psp_protocols::{Framing, Step};

use super::dispatcher::Dispatcher;
use crate::classifier::Classifier;
use crate::policy::RequestId;
use crate::telemetry::NetCounters;
use crate::transport::datagram::Datagram;

/// Request ids from here on are datagrams; below are connections.
pub(super) const DATAGRAM_FIRST: u32 = 1 << 30;

/// Classifies a datagram, which came at `now_ns`. `false` where it is no request, or more than one.
#[inline]
pub(super) fn classify<F: Framing, K: Classifier, C>(
    (framing, dispatcher): (&F, &Dispatcher<K>),
    datagram: &mut Datagram<C>,
    net: &NetCounters,
    now_ns: u64,
) -> bool {
    net.datagrams_received.add(1);
    let request = datagram.request(framing.envelope());
    let whole = request.filter(|request| {
        let step = framing.next_frame(&mut F::Cursor::default(), request);
        matches!(step, Ok(Step::Frame { len }) if len == request.len())
    });
    let Some(request) = whole else {
        net.malformed.add(1);
        return false;
    };
    let request_type = dispatcher.classify(request);
    (datagram.request_type, datagram.arrived_ns) = (request_type, now_ns);
    dispatcher.count_arrival(request_type);
    true
}

/// Tells the scheduler of a datagram that was classified.
#[inline]
pub(super) fn enqueue<K: Classifier, C>(dispatcher: &mut Dispatcher<K>, datagram: &Datagram<C>) {
    let id = RequestId(DATAGRAM_FIRST + datagram.slot);
    dispatcher.arrived(datagram.arrived_ns, id, datagram.request_type);
}

/// Tells the dispatcher of a datagram, if it is one request. Whether it is.
#[inline]
pub(super) fn admit<F: Framing, K: Classifier, C>(
    (framing, dispatcher): (&F, &mut Dispatcher<K>),
    datagram: &mut Datagram<C>,
    net: &NetCounters,
    now_ns: u64,
) -> bool {
    let is_request = classify((framing, &*dispatcher), datagram, net, now_ns);
    if is_request {
        enqueue(dispatcher, datagram);
    }
    is_request
}
