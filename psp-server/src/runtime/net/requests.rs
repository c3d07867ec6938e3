//! Lends requests to workers and takes them back, by the scheduler's names.

use std::sync::Arc;

use psp_policy::{RequestId, RequestType, WorkerId};
use psp_protocols::Framing;

use super::commons::Commons;
use super::connections::Connections;
use crate::guarded_framing::GuardedFraming;
use crate::peer::Peer;
use crate::reply::{Completed, refuse};
use crate::runtime::dispatch::dispatcher::Dispatcher;
use crate::runtime::task::Task;
use crate::shared::Receiver;
use crate::transport::datagram::DatagramPool;
use crate::transport::request_key::{DatagramIndex, Names, RequestKey};
use crate::transport::run::{TOO_LATE_NS, TurnedDown};

/// As which of the workers that run a port's requests its driver sends what is no worker's.
const FIRST_WORKER: WorkerId = WorkerId(0);

/// Everything that can be lent.
pub(super) struct Requests<F: Framing, C> {
    pub(super) names: Names,
    pub(super) connections: Connections<F, C>,
    pub(super) datagrams: DatagramPool<C, F::Head>,
    /// Deferred replies that are complete, and for which no worker was here yet.
    pub(super) completed: Vec<Completed>,
    /// What all ports have in common.
    pub(super) commons: Arc<Commons<C, F::Head>>,
    /// What came back. Empty, kept for its memory.
    pub(super) returned: Vec<Task<C, F::Head>>,
}

impl<F: Framing, C> Requests<F, C> {
    /// Lends a request. `None` if it is lent already, because it yielded.
    #[inline]
    pub(super) fn lend(&mut self, request: RequestId) -> Option<Task<C, F::Head>> {
        match self.names.request(request) {
            RequestKey::Connection(index) => self.connections.lend(index).map(Task::Stream),
            RequestKey::Datagram(index) => self.datagrams.take(index).map(Task::Datagram),
        }
    }

    /// Takes a request of this port back from another worker, which completed it or turned it down.
    pub(super) fn receive<K>(&mut self, task: Task<C, F::Head>, dispatcher: &Dispatcher<K>, now_ns: u64) {
        let mut stream = match task {
            Task::Stream(stream) => stream,
            // Without a reply it is free.
            datagram => return self.take_back(datagram, true, dispatcher, now_ns),
        };
        let (index, turned_down) = (stream.connection.index, stream.run.turned_down.take());
        let connections = &mut self.connections;
        match turned_down {
            None => connections.take_back(stream, true, dispatcher, now_ns),
            Some(TurnedDown::Unwanted) => {
                connections.restore(stream);
                // It was too late by the clock of another worker, which may have read it last.
                connections.drop_unwanted(index, TOO_LATE_NS, dispatcher);
            }
            Some(TurnedDown::Rejected) => {
                connections.restore(stream);
                connections.reject(index, dispatcher);
            }
        }
    }

    /// Takes a request back that was completed. `remote` says that the worker is not the net thread.
    #[inline]
    pub(super) fn take_back<K>(
        &mut self,
        task: Task<C, F::Head>,
        remote: bool,
        dispatcher: &Dispatcher<K>,
        now_ns: u64,
    ) {
        match task {
            Task::Stream(stream) => {
                self.connections.take_back(stream, remote, dispatcher, now_ns);
            }
            Task::Datagram(datagram) => {
                if datagram.owed.is_some() {
                    return self.datagrams.keep(datagram);
                }
                let bytes = datagram.body.replied_bytes();
                self.commons.sources.charge(datagram.peer, bytes, now_ns);
                self.datagrams.give(datagram);
            }
        }
    }

    /// Takes back connections and datagrams that other workers had. Returns how many there are.
    #[inline]
    pub(super) fn receive_returned<K>(&mut self, dispatcher: &Dispatcher<K>, now_ns: u64) -> usize {
        let port = self.connections.port();
        let mut returned = std::mem::take(&mut self.returned);
        self.commons.returns.take(port, &mut returned);
        let count = returned.len();
        for task in returned.drain(..) {
            self.receive(task, dispatcher, now_ns);
        }
        self.returned = returned;
        count
    }

    /// Sends the deferred replies that are complete. Returns how many there are. Those of requests that workers still
    /// have are kept until these are back.
    #[inline]
    pub(super) fn send_deferred(&mut self, framing: &GuardedFraming<F>, shared: &Receiver, now_ns: u64) -> usize {
        shared.deferrals().take(&mut self.completed);
        if self.completed.is_empty() {
            return 0;
        }
        let before = self.completed.len();
        let completed = std::mem::take(&mut self.completed);
        for completed in completed {
            let kept = match completed.request {
                RequestKey::Connection(index) => self.connections.pay(index, completed, now_ns),
                RequestKey::Datagram(index) => self.pay_datagram(index, completed, framing, shared, now_ns),
            };
            self.completed.extend(kept);
        }
        before - self.completed.len()
    }

    /// Sends a deferred reply to a datagram. Gives the reply back while a worker has the datagram.
    fn pay_datagram(
        &mut self,
        index: DatagramIndex,
        mut completed: Completed,
        framing: &GuardedFraming<F>,
        shared: &Receiver,
        now_ns: u64,
    ) -> Option<Completed> {
        let Some(datagram) = self.datagrams.held(index) else {
            return Some(completed);
        };
        shared.deferrals().forget(&completed);
        if datagram.owed != Some(completed.ticket) {
            return None;
        }
        let (envelope, peer) = (framing.envelope(), datagram.peer);
        let (request, room) = datagram.body.request_and_room(envelope.shape());
        let written = match completed.refusal() {
            Some(rejection) => refuse(framing, &rejection, request, room),
            None => completed.output.copy_to(room),
        };
        let net = shared.net();
        net.deferred_failed.add(u64::from(completed.refusal().is_some()));
        if written > 0
            && let Some(endpoint) = &datagram.endpoint
        {
            let (outlet, body) = (&endpoint.outlet, &mut datagram.body);
            let worker = shared.global(FIRST_WORKER);
            let sent = body.send(written, envelope, outlet, peer, worker, true);
            net.bytes_sent.add(sent.bytes as u64);
            net.deferred_failed.add(sent.dropped as u64);
            self.commons.sources.charge(peer, sent.bytes, now_ns);
        }
        self.datagrams.discard(index);
        None
    }

    /// Drops a request that the scheduler wants to begin, if its peer is gone or it has waited for too long. Returns
    /// whether it did.
    #[inline]
    pub(super) fn drop_unwanted<K>(&mut self, request: RequestId, dispatcher: &Dispatcher<K>, now_ns: u64) -> bool {
        match self.names.request(request) {
            RequestKey::Connection(index) => self.connections.drop_unwanted(index, now_ns, dispatcher),
            RequestKey::Datagram(index) => {
                let held = self.datagrams.held(index);
                let Some(late) = held.filter(|held| held.is_late(now_ns)) else {
                    return false;
                };
                dispatcher.count_expired(late.request_type);
                self.datagrams.discard(index);
                true
            }
        }
    }

    /// Refuses a request that the scheduler rejected.
    pub(super) fn reject<K>(&mut self, request: RequestId, request_type: RequestType, dispatcher: &Dispatcher<K>) {
        match self.names.request(request) {
            RequestKey::Connection(index) => self.connections.reject(index, dispatcher),
            RequestKey::Datagram(index) => {
                dispatcher.count_rejection(request_type);
                self.datagrams.discard(index);
            }
        }
    }

    /// Who sent a request, if that is known: of a datagram and of a request of another port it is not.
    pub(super) fn peer(&self, request: RequestId) -> Option<Peer> {
        match self.names.request(request) {
            RequestKey::Connection(index) if self.names.has(request) => self.connections.peer(index),
            RequestKey::Connection(_) | RequestKey::Datagram(_) => None,
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
