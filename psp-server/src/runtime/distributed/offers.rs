//! Connections and datagrams whose requests wait in the queues of workers, by the names of their requests.
//!
//! ```text
//!   who received it   put(request, task) ──► ┌ port 0 ┐
//!                     the name: into a queue └────────┘ ──► take(request) by whoever took the name out of a queue
//! ```
//!
//! A name is in one queue at a time, so a task is taken once. Each port has lists and a short lock of its own; the
//! lists grow to the most connections and datagrams that the port has had.
//!
//! A request on offer has a [place](Places) of the worker that received it, whosever its port is and wherever it waits:
//! a worker receives no more of a type than its typed queue holds, until others take some.

use std::sync::{Arc, Mutex, PoisonError};

use psp_policy::{RequestId, WorkerId};

use crate::runtime::dispatch::places::Places;
use crate::transport::request_key::{Names, PortNumber, RequestKey};

/// A task that waits.
#[derive(Debug)]
struct Offer<T> {
    task: T,
    /// Who received it.
    receiver: WorkerId,
    /// Slot of its type.
    slot: usize,
}

/// Tasks by their indices.
type List<T> = Vec<Option<Offer<T>>>;

/// The tasks of one port.
#[derive(Debug)]
struct Lists<T> {
    connections: List<T>,
    datagrams: List<T>,
}

#[derive(Debug)]
#[repr(align(128))]
struct Port<T>(Mutex<Lists<T>>);

impl<T> Default for Port<T> {
    fn default() -> Self {
        Self(Mutex::new(Lists { connections: Vec::new(), datagrams: Vec::new() }))
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Offers<T> {
    ports: Box<[Port<T>]>,
    names: Names,
    /// Per worker.
    places: Box<[Arc<Places>]>,
}

impl<T> Offers<T> {
    /// Nothing waits at the ports of workers with these places.
    pub(crate) fn new(places: impl IntoIterator<Item = Arc<Places>>) -> Self {
        let places: Box<[_]> = places.into_iter().collect();
        Self {
            ports: places.iter().map(|_| Port::default()).collect(),
            names: Names::new(PortNumber::default(), places.len()),
            places,
        }
    }

    /// The places of a worker.
    pub(crate) fn places(&self, worker: WorkerId) -> &Arc<Places> {
        &self.places[worker.index()]
    }

    /// Puts a task of the type at `slot` where others find it. It has a place of `receiver`.
    pub(crate) fn put(&self, receiver: WorkerId, slot: usize, request: RequestId, task: T) {
        let offer = Offer { task, receiver, slot };
        self.at(request, |offers, index| {
            if offers.len() <= index {
                offers.resize_with(index + 1, || None);
            }
            debug_assert!(offers[index].is_none(), "a request is lent once");
            offers[index] = Some(offer);
        });
    }

    /// Takes a task, and gives its place back. Also returns the worker that received it, if that had no other place of
    /// this type. `None` if the request has begun: another turn of it follows.
    pub(crate) fn take(&self, request: RequestId) -> Option<(T, Option<WorkerId>)> {
        let offer = self.at(request, |offers, index| offers.get_mut(index)?.take())?;
        let was_full = self.places(offer.receiver).give_back(offer.slot);
        Some((offer.task, was_full.then_some(offer.receiver)))
    }

    fn at<R>(&self, request: RequestId, change: impl FnOnce(&mut List<T>, usize) -> R) -> R {
        let port = &self.ports[self.names.port_of(request).index()];
        let mut lists = port.0.lock().unwrap_or_else(PoisonError::into_inner);
        match self.names.request(request) {
            RequestKey::Connection(index) => change(&mut lists.connections, index.get()),
            RequestKey::Datagram(index) => change(&mut lists.datagrams, index.get()),
        }
    }
}

#[cfg(test)]
mod tests {
    use psp_policy::{TypeSpec, TypeTable};

    use super::*;
    use crate::config::Config;
    use crate::transport::request_key::{ConnectionIndex, DatagramIndex};

    fn offers() -> Offers<&'static str> {
        let types: TypeTable = [TypeSpec::new("any")].into_iter().collect();
        let config = Config::default().queue_capacity(1);
        Offers::new([(); 2].map(|()| Arc::new(Places::shared(&types, &config))))
    }

    fn name(port: usize, index: usize) -> RequestId {
        let index = ConnectionIndex::new(index).unwrap();
        Names::new(PortNumber::new(port), 2).of_run(index)
    }

    #[test]
    fn a_task_is_found_at_its_port_once() {
        let (offers, me) = (offers(), WorkerId(0));
        assert_eq!(offers.take(name(1, 5)), None);
        for (port, task) in [(1, "of port 1"), (0, "of port 0")] {
            offers.places(me).take(0);
            offers.put(me, 0, name(port, 5), task);
        }
        let take = |port| offers.take(name(port, 5)).map(|(task, _)| task);
        assert_eq!(take(1), Some("of port 1"));
        assert_eq!(take(1), None);
        assert_eq!(take(0), Some("of port 0"));
    }

    #[test]
    fn a_datagram_and_a_connection_of_one_index_are_two_tasks() {
        let (offers, me) = (offers(), WorkerId(0));
        let index = DatagramIndex::new(5).unwrap();
        let datagram = Names::new(PortNumber::new(1), 2).of_datagram(index);
        for (name, task) in [(name(1, 5), "connection"), (datagram, "datagram")] {
            offers.places(me).take(0);
            offers.put(me, 0, name, task);
        }
        let take = |name| offers.take(name).map(|(task, _)| task);
        assert_eq!(take(datagram), Some("datagram"));
        assert_eq!(take(datagram), None);
        assert_eq!(take(name(1, 5)), Some("connection"));
    }

    #[test]
    fn a_request_has_a_place_of_its_receiver_until_it_is_taken() {
        let (offers, receiver) = (offers(), WorkerId(1));
        offers.places(receiver).take(0);
        offers.put(receiver, 0, name(0, 3), "received elsewhere than at its port");
        let have_free = || [0, 1].map(|worker| offers.places(WorkerId(worker)).has_free(0));
        assert_eq!(have_free(), [true, false]);
        let (_, full) = offers.take(name(0, 3)).expect("it waits");
        assert_eq!(full, Some(receiver), "it has room again");
        assert!(offers.take(name(0, 3)).is_none());
        assert_eq!(have_free(), [true, true]);
    }
}
