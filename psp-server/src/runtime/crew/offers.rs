//! Connections whose requests wait in the queues of workers, by the names of their requests.
//!
//! ```text
//!   who received it   put(request, task) ──► ┌ port 0 ┐
//!                     the name: into a queue └────────┘ ──► take(request) by whoever took the name out of a queue
//! ```
//!
//! A name is in one queue at a time, so a task is taken once. Each port has a list and a short lock of its own; the
//! list grows to the most connections that the port has had.

use std::sync::{Mutex, PoisonError};

use psp_policy::RequestId;

use crate::transport::request_key::{Names, PortNumber, RequestKey};

/// The tasks of one port, by the indices of their connections.
#[derive(Debug)]
#[repr(align(128))]
struct Port<T>(Mutex<Vec<Option<T>>>);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Offers<T> {
    ports: Box<[Port<T>]>,
    names: Names,
}

impl<T> Offers<T> {
    /// Nothing waits at so many ports.
    pub(crate) fn new(ports: usize) -> Self {
        let names = Names::new(PortNumber::default(), ports);
        let ports = (0..ports).map(|_| Port(Mutex::default()));
        Self {
            ports: ports.collect(),
            names,
        }
    }

    /// Puts a task where others find it. A datagram cannot be offered.
    pub(crate) fn put(&self, request: RequestId, task: T) {
        self.at(request, |tasks, index| {
            if tasks.len() <= index {
                tasks.resize_with(index + 1, || None);
            }
            debug_assert!(tasks[index].is_none(), "a connection is lent once");
            tasks[index] = Some(task);
        });
    }

    /// Takes a task. `None` if it has begun: another turn of it follows.
    pub(crate) fn take(&self, request: RequestId) -> Option<T> {
        self.at(request, |tasks, index| tasks.get_mut(index)?.take())?
    }

    fn at<R>(
        &self,
        request: RequestId,
        change: impl FnOnce(&mut Vec<Option<T>>, usize) -> R,
    ) -> Option<R> {
        let RequestKey::Connection(index) = self.names.request(request) else {
            return None;
        };
        let port = &self.ports[self.names.port_of(request).index()];
        let mut tasks = port.0.lock().unwrap_or_else(PoisonError::into_inner);
        Some(change(&mut tasks, index.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::request_key::ConnectionIndex;

    #[test]
    fn a_task_is_found_at_its_port_once() {
        let offers = Offers::new(2);
        let name = |port, index| {
            let index = ConnectionIndex::new(index).unwrap();
            Names::new(PortNumber::new(port), 2).of_run(index)
        };
        assert_eq!(offers.take(name(1, 5)), None);
        offers.put(name(1, 5), "of port 1");
        offers.put(name(0, 5), "of port 0");
        assert_eq!(offers.take(name(1, 5)), Some("of port 1"));
        assert_eq!(offers.take(name(1, 5)), None);
        assert_eq!(offers.take(name(0, 5)), Some("of port 0"));
    }
}
