//! Lends requests to workers and takes them back, by the scheduler's names.

use psp_policy::{RequestId, RequestType, WorkerId};
use psp_protocols::Framing;

use super::connections::Connections;
use super::sources::Sources;
use crate::peer::Peer;
use crate::runtime::dispatch::dispatcher::Dispatcher;
use crate::runtime::task::Task;
use crate::transport::datagram::DatagramPool;
use crate::transport::request_key::RequestKey;

/// Everything that can be lent.
pub(super) struct Requests<F: Framing, C> {
    pub(super) connections: Connections<F, C>,
    pub(super) datagrams: DatagramPool<C, F::Head>,
    pub(super) sources: Sources,
}

impl<F: Framing, C> Requests<F, C> {
    /// Lends a request. `None` if it is lent already, because it yielded.
    #[inline]
    pub(super) fn lend(&mut self, request: RequestId) -> Option<Task<C, F::Head>> {
        match request.into() {
            RequestKey::Connection(index) => self.connections.lend(index).map(Task::Stream),
            RequestKey::Datagram(index) => self.datagrams.take(index).map(Task::Datagram),
        }
    }

    /// Takes a request back that `worker` completed. `remote` says that the worker is not the net thread.
    #[inline]
    pub(super) fn take_back<K>(
        &mut self,
        task: Task<C, F::Head>,
        worker: WorkerId,
        remote: bool,
        dispatcher: &mut Dispatcher<K>,
        now_ns: u64,
    ) {
        match task {
            Task::Stream(stream) => {
                dispatcher.completed(now_ns, worker, &stream.run.samples);
                self.connections
                    .take_back(stream, remote, dispatcher, now_ns);
            }
            Task::Datagram(datagram) => {
                dispatcher.completed(now_ns, worker, datagram.sample.as_slice());
                let bytes = datagram.body.replied_bytes();
                self.sources.charge(datagram.peer, bytes, now_ns);
                self.datagrams.give(datagram);
            }
        }
    }

    /// Drops a request that the scheduler wants to begin, if its peer is gone or it has waited for too long. Returns
    /// whether it did.
    #[inline]
    pub(super) fn drop_unwanted<K>(
        &mut self,
        request: RequestId,
        dispatcher: &Dispatcher<K>,
        now_ns: u64,
    ) -> bool {
        match request.into() {
            RequestKey::Connection(index) => {
                self.connections.drop_unwanted(index, now_ns, dispatcher)
            }
            RequestKey::Datagram(index) => {
                let held = self.datagrams.held(index);
                let late = held.filter(|held| held.deadline_ns.is_some_and(|at_ns| now_ns > at_ns));
                let Some(late) = late else {
                    return false;
                };
                dispatcher.count_expired(late.request_type);
                self.datagrams.discard(index);
                true
            }
        }
    }

    /// Refuses a request that the scheduler rejected.
    pub(super) fn reject<K>(
        &mut self,
        request: RequestId,
        request_type: RequestType,
        dispatcher: &Dispatcher<K>,
    ) {
        match request.into() {
            RequestKey::Connection(index) => self.connections.reject(index, dispatcher),
            RequestKey::Datagram(index) => {
                dispatcher.count_rejection(request_type);
                self.datagrams.discard(index);
            }
        }
    }

    /// Who sent a request, if that is known: of a datagram it is not.
    pub(super) fn peer(&self, request: RequestId) -> Option<Peer> {
        match request.into() {
            RequestKey::Connection(index) => self.connections.peer(index),
            RequestKey::Datagram(_) => None,
        }
    }

    /// Connections that have something left to do, and datagrams that wait or are in flight.
    pub(super) fn unfinished(&self) -> usize {
        self.connections.unfinished() + self.datagrams.in_use()
    }

    /// Connections that are open, and datagrams that wait or are in flight.
    pub(super) fn open(&self) -> usize {
        self.connections.open() + self.datagrams.in_use()
    }
}
