//! How many connections each address has.

use hashbrown::HashMap;

use crate::peer::Peer;
use crate::runtime::net::origin::Origin;

/// `None` for a peer without an address.
fn origin_of(peer: &Peer) -> Option<Origin> {
    Some(peer.ip()?.ip().into())
}

/// Counts the open connections of each address. It has no entry for an address without connections, so it has no more
/// entries than there are connections.
#[derive(Debug)]
pub(super) struct PerAddress {
    /// Connections that an address may have; 0 for no limit. Without a limit nothing is counted.
    max: usize,
    open: HashMap<Origin, usize>,
}

impl PerAddress {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            open: HashMap::new(),
        }
    }

    /// Whether the peer's address may have another connection.
    pub(super) fn has_room(&self, peer: &Peer) -> bool {
        let open = || origin_of(peer).and_then(|origin| self.open.get(&origin));
        self.max == 0 || open().is_none_or(|&open| open < self.max)
    }

    /// Counts a connection. Returns what [`release`](Self::release) takes when the connection is closed.
    pub(super) fn count(&mut self, peer: &Peer) -> Option<Origin> {
        if self.max == 0 {
            return None;
        }
        let origin = origin_of(peer)?;
        *self.open.entry(origin).or_default() += 1;
        Some(origin)
    }

    /// A connection that was counted is closed.
    pub(super) fn release(&mut self, counted: Option<Origin>) {
        let Some(origin) = counted else {
            return;
        };
        if let Some(open) = self.open.get_mut(&origin) {
            *open -= 1;
            if *open == 0 {
                self.open.remove(&origin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};

    use super::*;

    fn peer(address: &str) -> Peer {
        let address: IpAddr = address.parse().unwrap();
        SocketAddr::from((address, 1)).into()
    }

    #[test]
    fn an_address_has_as_many_connections_as_it_may() {
        let mut open = PerAddress::new(2);
        let first = open.count(&peer("192.0.2.1"));
        assert!(open.has_room(&peer("192.0.2.1")));
        let second = open.count(&peer("::ffff:192.0.2.1"));
        assert!(!open.has_room(&peer("192.0.2.1")));
        assert!(open.has_room(&peer("192.0.2.2")));
        open.release(first);
        assert!(open.has_room(&peer("192.0.2.1")));
        open.release(second);
        assert!(open.open.is_empty(), "no entry for a closed connection");
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let mut open = PerAddress::new(1);
        open.count(&peer("2001:db8:1:2::1"));
        assert!(!open.has_room(&peer("2001:db8:1:2:ffff::7")));
        assert!(open.has_room(&peer("2001:db8:1:3::1")));
        assert!(open.has_room(&peer("::1")));
    }

    #[test]
    fn local_peers_and_servers_without_a_limit_are_not_counted() {
        let mut limited = PerAddress::new(1);
        assert_eq!(limited.count(&Peer::Unix(None)), None);
        assert!(limited.has_room(&Peer::Unix(None)));
        let mut unlimited = PerAddress::new(0);
        assert_eq!(unlimited.count(&peer("192.0.2.1")), None);
        assert!(unlimited.has_room(&peer("192.0.2.1")) && unlimited.open.is_empty());
    }
}
