//! Drops runs that no client waits for, when their turn comes. Until then they keep their places in their queues, where
//! a run costs nothing but its place.

use std::time::Duration;

use psp_policy::RequestType;
use psp_policy::admission::Refusal;
use psp_protocols::{Framing, Rejection};

use super::readiness::Condition;
use super::slot::Phase;
use super::table::Connections;
use crate::runtime::dispatch::dispatcher::Dispatcher;
use crate::transport::request_key::ConnectionIndex;
use crate::transport::run::{Stream, is_late};

impl<F: Framing, C> Connections<F, C> {
    /// A connection whose run was not begun waits in its queue as before it was lent.
    pub(in crate::runtime::net) fn restore(&mut self, stream: Box<Stream<C, F::Head>>) {
        let slot = &mut self.slots[stream.connection.index.get()];
        debug_assert!(matches!(slot.phase, Phase::Lent { .. }));
        slot.phase = Phase::Queued(stream);
    }

    /// Drops the run that the scheduler wants to begin, if the peer is gone or the run has waited for too long.
    /// Returns whether it did. A run that yielded goes on in any case.
    pub(in crate::runtime::net) fn drop_unwanted<K>(
        &mut self,
        index: ConnectionIndex,
        now_ns: u64,
        dispatcher: &Dispatcher<K>,
    ) -> bool {
        let slot = &mut self.slots[index.get()];
        let Phase::Queued(stream) = &mut slot.phase else {
            return false;
        };
        if stream.connection.is_abandoned() {
            for frame in &stream.run.frames {
                dispatcher.count_abandoned(frame.request_type);
            }
            stream.run.clear();
            slot.phase.unqueue();
            // Its next step closes the connection.
            self.ready.push(index);
            return true;
        }
        let is_late = is_late(stream.run.deadline_ns, now_ns);
        if is_late {
            self.refuse_run(index, |request_type| {
                dispatcher.count_expired(request_type);
                Rejection::Expired
            });
        }
        is_late
    }

    /// Refuses the run that the scheduler rejected.
    pub(in crate::runtime::net) fn reject<K>(&mut self, index: ConnectionIndex, dispatcher: &Dispatcher<K>) {
        if self.refuse_handshake(index) {
            return dispatcher.count_rejection(dispatcher.handshake_type());
        }
        self.refuse_run(index, |request_type| {
            dispatcher.count_rejection(request_type);
            Rejection::Busy { type_name: dispatcher.type_name(request_type) }
        });
    }

    /// Refuses the run that admission does not let in.
    #[cold]
    pub(super) fn turn_away<K>(&mut self, index: ConnectionIndex, refusal: Refusal, dispatcher: &Dispatcher<K>) {
        self.refuse_run(index, |request_type| {
            dispatcher.count_rejection(request_type);
            Rejection::Overloaded {
                type_name: dispatcher.type_name(request_type),
                retry_after: Duration::from_nanos(refusal.retry_after_ns),
            }
        });
    }

    /// Tells the peer of each request of a queued run why it is refused. `refuse` gets the request's type.
    fn refuse_run<'a>(&mut self, index: ConnectionIndex, mut refuse: impl FnMut(RequestType) -> Rejection<'a>) {
        let slot = &mut self.slots[index.get()];
        debug_assert!(matches!(slot.phase, Phase::Queued(_)));
        slot.phase.unqueue();
        let Phase::Home(stream) = &mut slot.phase else {
            return;
        };
        let Stream { connection, run } = &mut **stream;
        let refused_flush = run.frames.is_empty();
        slot.readiness.set(Condition::FlushRefused, refused_flush);
        for frame in std::mem::take(&mut run.frames) {
            let rejection = refuse(frame.request_type);
            let request = &connection.input.data()[..frame.len];
            self.framing.encode_rejection(&rejection, request, &mut connection.output);
            connection.input.consume(frame.len);
        }
        stream.end_run();
        self.push_answered(index);
    }
}
