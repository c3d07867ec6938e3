//! Connections and datagrams on their way back to the ports that they came from.
//!
//! ```text
//!   worker 1 ran a run of port 0 ── give ──► list of port 0, bell ──► who drives port 0: take_back
//! ```
//!
//! Each is lent once at a time, so a list is no longer than its port has connections and datagrams.

use std::sync::Arc;

use crate::fiber::Bell;
use crate::mailbox::Mailbox;
use crate::runtime::task::Task;
use crate::transport::request_key::PortNumber;

/// See the [module](self). All ports of a server.
pub(crate) struct Returns<C, D> {
    ports: Box<[Way<C, D>]>,
}

/// The way to one port.
struct Way<C, D> {
    mailbox: Mailbox<Task<C, D>>,
    /// Wakes whoever drives the port.
    bell: Arc<dyn Bell>,
}

impl<C, D> Returns<C, D> {
    /// There are as many ports as `bells`, which wake those who drive them.
    pub(crate) fn new<B: Bell + 'static>(bells: impl IntoIterator<Item = Arc<B>>) -> Self {
        let ports = bells.into_iter().map(|bell| Way { mailbox: Mailbox::default(), bell });
        Self { ports: ports.collect() }
    }

    /// Brings a connection or a datagram back to its port, from whichever thread: its turn is over.
    pub(crate) fn give(&self, task: Task<C, D>) {
        let way = &self.ports[task.port().index()];
        way.mailbox.put(task);
        way.bell.ring();
    }

    /// Whether something came back to `port`.
    #[inline]
    pub(super) fn has_some(&self, port: PortNumber) -> bool {
        self.ports[port.index()].mailbox.has_some()
    }

    /// Moves what came back to `port` into `into`. Costs a load if there is nothing.
    #[inline]
    pub(super) fn take(&self, port: PortNumber, into: &mut Vec<Task<C, D>>) {
        self.ports[port.index()].mailbox.take(into);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::transport::connection::Connection;
    use crate::transport::run::{Run, Stream};

    /// Counts how often it rang.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Bell for Counting {
        fn ring(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn each_connection_comes_back_to_its_own_port_and_rings_there() {
        let bells = [(); 2].map(|()| Arc::new(Counting::default()));
        let returns = Returns::<(), ()>::new(bells.clone());
        let ports = [0, 1].map(PortNumber::new);
        let mut clients = Vec::new();
        let mut stream = |port, index| {
            let (connection, client) = Connection::example(port, index);
            clients.push(client);
            let run = Run::default();
            Task::Stream(Box::new(Stream { connection, run }))
        };
        let lent = [(1, 7), (0, 7), (1, 3)].map(|(port, index)| stream(ports[port], index));
        std::thread::scope(|scope| {
            let give = || lent.into_iter().for_each(|task| returns.give(task));
            scope.spawn(give);
        });
        let rung = bells.map(|bell| bell.0.load(Ordering::Relaxed));
        assert_eq!(rung, [1, 2]);
        let taken = ports.map(|port| {
            let mut taken = Vec::new();
            returns.take(port, &mut taken);
            let indices = taken.iter().map(|task| match task {
                Task::Stream(stream) => stream.connection.index.get(),
                Task::Datagram(_) => unreachable!("connections were lent"),
            });
            indices.collect::<Vec<_>>()
        });
        assert_eq!(taken, [vec![7], vec![7, 3]]);
    }
}
