//! Names of connections and datagrams, packed into the scheduler's [`RequestId`].
//!
//! ```text
//!   0 ─────────── connections ─────────── 2^30 ─────────── datagrams ─────────── 2^32
//! ```
//!
//! Where there are several ports, the lowest bits of a name are the number of the port.

use psp_policy::RequestId;

use crate::limits::CONNECTION_INDEX_LIMIT;

/// The largest index of a datagram, where there is one port.
const DATAGRAM_INDEX_MAX: u32 = u32::MAX - CONNECTION_INDEX_LIMIT;

/// Number of an event queue with its connections: that of the worker to which it belongs in the topology
/// `distributed`. A server with a net thread has one, number 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PortNumber(u32);

impl PortNumber {
    pub(crate) fn new(index: usize) -> Self {
        Self(u32::try_from(index).expect("ports are counted in u32"))
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Index of a connection in its port's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionIndex(u32);

impl ConnectionIndex {
    /// `None` beyond [`CONNECTION_INDEX_LIMIT`].
    #[inline]
    pub(crate) fn new(index: usize) -> Option<Self> {
        let index = u32::try_from(index).ok()?;
        (index < CONNECTION_INDEX_LIMIT).then_some(Self(index))
    }

    #[inline]
    pub(crate) fn get(self) -> usize {
        self.0 as usize
    }
}

/// Index of a datagram in its pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DatagramIndex(u32);

impl DatagramIndex {
    /// `None` if the index does not fit beside those of connections.
    #[inline]
    pub(crate) fn new(index: usize) -> Option<Self> {
        let index = u32::try_from(index).ok()?;
        (index <= DATAGRAM_INDEX_MAX).then_some(Self(index))
    }

    #[inline]
    pub(crate) fn get(self) -> usize {
        self.0 as usize
    }
}

/// A request of one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKey {
    Connection(ConnectionIndex),
    Datagram(DatagramIndex),
}

/// The names that the scheduler has for the requests of one port. Those of several ports differ.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Names {
    port: PortNumber,
    port_bits: u32,
}

impl Names {
    /// The names of one of so many ports.
    pub(crate) fn new(port: PortNumber, ports: usize) -> Self {
        Self { port, port_bits: ports.next_power_of_two().trailing_zeros() }
    }

    /// The port whose requests have these names.
    #[inline]
    pub(crate) fn port(self) -> PortNumber {
        self.port
    }

    /// How many connections of the port have names.
    pub(crate) fn connections_max(self) -> usize {
        (CONNECTION_INDEX_LIMIT >> self.port_bits) as usize
    }

    /// The name for a run of a connection's requests.
    #[inline]
    pub(crate) fn of_run(self, index: ConnectionIndex) -> RequestId {
        RequestId(index.0 << self.port_bits | self.port.0)
    }

    /// The name for the request in a datagram.
    #[inline]
    pub(crate) fn of_datagram(self, index: DatagramIndex) -> RequestId {
        RequestId(CONNECTION_INDEX_LIMIT + (index.0 << self.port_bits | self.port.0))
    }

    /// The port of a request of any port.
    #[inline]
    pub(crate) fn port_of(self, RequestId(id): RequestId) -> PortNumber {
        PortNumber(id & ((1 << self.port_bits) - 1))
    }

    /// Whether the request of this name is one of this port.
    #[inline]
    pub(crate) fn has(self, request: RequestId) -> bool {
        self.port_of(request) == self.port
    }

    /// The request of this name, in its port.
    #[inline]
    pub(crate) fn request(self, RequestId(id): RequestId) -> RequestKey {
        match id.checked_sub(CONNECTION_INDEX_LIMIT) {
            None => RequestKey::Connection(ConnectionIndex(id >> self.port_bits)),
            Some(id) => RequestKey::Datagram(DatagramIndex(id >> self.port_bits)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_the_scheduler() {
        const LIMIT: usize = CONNECTION_INDEX_LIMIT as usize;
        let names = Names::default();
        for index in [0, 1, LIMIT - 1] {
            let index = ConnectionIndex::new(index).unwrap();
            assert_eq!(names.request(names.of_run(index)), RequestKey::Connection(index));
        }
        for index in [0, 1, u32::MAX as usize - LIMIT] {
            let index = DatagramIndex::new(index).unwrap();
            assert_eq!(names.request(names.of_datagram(index)), RequestKey::Datagram(index));
        }
        assert_eq!(ConnectionIndex::new(LIMIT), None);
        assert_eq!(DatagramIndex::new(u32::MAX as usize - LIMIT + 1), None);
    }

    #[test]
    fn names_of_several_ports_differ_and_name_their_ports() {
        for ports in [1, 2, 3, 1024] {
            let mut named = std::collections::HashSet::new();
            for port in (0..ports).map(PortNumber::new) {
                let names = Names::new(port, ports);
                for index in [0, 1, names.connections_max() - 1] {
                    let index = ConnectionIndex::new(index).unwrap();
                    let name = names.of_run(index);
                    assert!(named.insert(name), "{ports} ports: {name:?}");
                    let other = Names::new(PortNumber::default(), ports);
                    assert_eq!(other.port_of(name), port);
                    assert_eq!(other.request(name), RequestKey::Connection(index));
                }
                for index in [0, 1, 3 * names.connections_max() - 1] {
                    let index = DatagramIndex::new(index).unwrap();
                    let name = names.of_datagram(index);
                    assert!(named.insert(name), "{ports} ports: {name:?}");
                    let other = Names::new(PortNumber::default(), ports);
                    assert_eq!(other.port_of(name), port);
                    assert_eq!(other.request(name), RequestKey::Datagram(index));
                }
            }
        }
    }
}
