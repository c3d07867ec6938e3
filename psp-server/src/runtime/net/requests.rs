//! Lends requests to workers and takes them back, by the scheduler's names.

use std::sync::Arc;

use psp_policy::{RequestId, RequestType, WorkerId};
use psp_protocols::Framing;

use super::connections::Connections;
use super::returns::Returns;
use super::sources::Sources;
use crate::peer::Peer;
use crate::reply::{Completed, refuse};
use crate::runtime::crew::Offers;
use crate::runtime::dispatch::dispatcher::Dispatcher;
use crate::runtime::task::Task;
use crate::shared::Receiver;
use crate::transport::datagram::DatagramPool;
use crate::transport::request_key::{DatagramIndex, Names, RequestKey};
use crate::transport::run::Stream;

/// As which worker the net thread sends what is no worker's.
const NET_THREAD: WorkerId = WorkerId(0);

/// Everything that can be lent.
pub(super) struct Requests<F: Framing, C> {
    pub(super) names: Names,
    pub(super) connections: Connections<F, C>,
    pub(super) datagrams: DatagramPool<C, F::Head>,
    pub(super) sources: Sources,
    /// Deferred replies that are complete, and for which nobody was here yet.
    pub(super) completed: Vec<Completed>,
    /// The ways to all ports.
    pub(super) returns: Arc<Returns<C, F::Head>>,
    /// Connections that came back. Empty, kept for its memory.
    pub(super) returned: Vec<Box<Stream<C, F::Head>>>,
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

    /// Puts a request of this port where all workers find it.
    pub(super) fn offer(&mut self, offers: &Offers<Task<C, F::Head>>, request: RequestId) {
        if let Some(task) = self.lend(request) {
            offers.put(request, task);
        }
    }

    /// Keeps a request from running, if nobody waits for it any more or it has waited for too long: gives back a task
    /// that is to run.
    pub(super) fn keep_wanted<K>(
        &mut self,
        task: Task<C, F::Head>,
        dispatcher: &Dispatcher<K>,
        now_ns: u64,
    ) -> Option<Task<C, F::Head>> {
        match task {
            Task::Stream(mut stream) if stream.is_unwanted(now_ns) => {
                if stream.connection.port == self.connections.port() {
                    self.drop_returned(stream, dispatcher, now_ns);
                } else {
                    stream.run.unwanted = true;
                    self.returns.give(stream);
                }
                None
            }
            wanted => Some(wanted),
        }
    }

    /// Drops a run of this port that was lent and did not begin.
    fn drop_returned<K>(
        &mut self,
        mut stream: Box<Stream<C, F::Head>>,
        dispatcher: &Dispatcher<K>,
        now_ns: u64,
    ) {
        let index = stream.connection.index;
        stream.run.unwanted = false;
        self.connections.restore(stream);
        self.connections.drop_unwanted(index, now_ns, dispatcher);
    }

    /// Refuses a request of this port that is offered: it found no room.
    pub(super) fn reject_offered<K>(
        &mut self,
        offers: &Offers<Task<C, F::Head>>,
        request: RequestId,
        dispatcher: &Dispatcher<K>,
    ) {
        if let Some(Task::Stream(stream)) = offers.take(request) {
            let index = stream.connection.index;
            self.connections.restore(stream);
            self.connections.reject(index, dispatcher);
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
                self.connections
                    .take_back(stream, remote, dispatcher, now_ns);
            }
            Task::Datagram(datagram) => {
                if datagram.owed.is_some() {
                    return self.datagrams.keep(datagram);
                }
                let bytes = datagram.body.replied_bytes();
                self.sources.charge(datagram.peer, bytes, now_ns);
                self.datagrams.give(datagram);
            }
        }
    }

    /// Takes back connections whose runs other workers completed. Returns how many there are.
    #[inline]
    pub(super) fn receive_returned<K>(
        &mut self,
        dispatcher: &mut Dispatcher<K>,
        now_ns: u64,
    ) -> usize {
        let port = self.connections.port();
        let mut returned = std::mem::take(&mut self.returned);
        self.returns.take(port, &mut returned);
        let count = returned.len();
        for stream in returned.drain(..) {
            dispatcher.returned(self.connections.type_of_run(stream.connection.index));
            if stream.run.unwanted {
                self.drop_returned(stream, dispatcher, now_ns);
            } else {
                self.connections.take_back(stream, true, dispatcher, now_ns);
            }
        }
        self.returned = returned;
        count
    }

    /// Sends the deferred replies that are complete. Returns how many there are. Those of requests that workers still
    /// have are kept until these are back.
    #[inline]
    pub(super) fn send_deferred(&mut self, framing: &F, shared: &Receiver, now_ns: u64) -> usize {
        shared.deferrals().take(&mut self.completed);
        if self.completed.is_empty() {
            return 0;
        }
        let before = self.completed.len();
        let completed = std::mem::take(&mut self.completed);
        for completed in completed {
            let kept = match completed.request {
                RequestKey::Connection(index) => self.connections.pay(index, completed, now_ns),
                RequestKey::Datagram(index) => {
                    self.pay_datagram(index, completed, framing, shared, now_ns)
                }
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
        framing: &F,
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
        net.deferred_failed
            .add(u64::from(completed.refusal().is_some()));
        if written > 0
            && let Some(endpoint) = &datagram.endpoint
        {
            let (outlet, body) = (&endpoint.outlet, &mut datagram.body);
            let sent = body.send(written, envelope, outlet, peer, NET_THREAD, true);
            net.bytes_sent.add(sent.bytes as u64);
            net.deferred_failed.add(sent.dropped as u64);
            self.sources.charge(peer, sent.bytes, now_ns);
        }
        self.datagrams.discard(index);
        None
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
        match self.names.request(request) {
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
            RequestKey::Connection(index) if self.names.has(request) => {
                self.connections.peer(index)
            }
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
