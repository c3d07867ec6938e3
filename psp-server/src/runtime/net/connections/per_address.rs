//! How many connections each address has.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;

use crate::peer::Peer;
use crate::runtime::net::origin::Origin;

/// `None` for a peer without an address.
fn origin_of(peer: &Peer) -> Option<Origin> {
    Some(peer.ip()?.ip().into())
}

/// Counts the open connections of each address, at all ports of a server. It has no entry for an address without
/// connections, so it has no more entries than there are connections.
#[derive(Debug)]
pub(in crate::runtime::net) struct PerAddress {
    /// Connections that an address may have; 0 for no limit. Without a limit nothing is counted.
    max: usize,
    open: Mutex<HashMap<Origin, usize>>,
}

/// A connection that counts for its address, if any, until this is dropped.
#[derive(Default)]
pub(in crate::runtime::net) struct Counted(Option<(Arc<PerAddress>, Origin)>);

impl PerAddress {
    pub(in crate::runtime::net) fn new(max: usize) -> Self {
        Self { max, open: Mutex::default() }
    }

    /// Counts another connection of the peer. `None` if its address has as many as it may have.
    pub(in crate::runtime::net) fn count(self: &Arc<Self>, peer: &Peer) -> Option<Counted> {
        let Some(origin) = origin_of(peer).filter(|_| self.max > 0) else {
            return Some(Counted::default());
        };
        let mut all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let open = all.entry(origin).or_default();
        (*open < self.max).then(|| {
            *open += 1;
            Counted(Some((self.clone(), origin)))
        })
    }

    fn release(&self, origin: Origin) {
        let mut all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = all.get_mut(&origin) {
            *open -= 1;
            if *open == 0 {
                all.remove(&origin);
            }
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some((all, origin)) = self.0.take() {
            all.release(origin);
        }
    }
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = self.0.as_ref().map(|(_, origin)| origin);
        f.debug_tuple("Counted").field(&origin).finish()
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

    fn limited(max: usize) -> Arc<PerAddress> {
        Arc::new(PerAddress::new(max))
    }

    fn entries(all: &PerAddress) -> usize {
        all.open.lock().unwrap().len()
    }

    #[test]
    fn an_address_has_as_many_connections_as_it_may() {
        let open = limited(2);
        let first = open.count(&peer("192.0.2.1")).expect("it has none");
        let second = open.count(&peer("::ffff:192.0.2.1")).expect("it has one");
        assert!(open.count(&peer("192.0.2.1")).is_none());
        assert!(open.count(&peer("192.0.2.2")).is_some());
        drop(first);
        let third = open.count(&peer("192.0.2.1"));
        assert!(third.is_some() && open.count(&peer("192.0.2.1")).is_none());
        drop((second, third));
        assert_eq!(entries(&open), 0, "no entry for a closed connection");
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let open = limited(1);
        let _first = open.count(&peer("2001:db8:1:2::1"));
        assert!(open.count(&peer("2001:db8:1:2:ffff::7")).is_none());
        assert!(open.count(&peer("2001:db8:1:3::1")).is_some());
        assert!(open.count(&peer("::1")).is_some());
    }

    #[test]
    fn local_peers_and_servers_without_a_limit_are_not_counted() {
        let one = limited(1);
        let local = [(); 2].map(|()| one.count(&Peer::Unix(None)));
        assert!(local.iter().all(Option::is_some));
        let unlimited = limited(0);
        let counted = [(); 2].map(|()| unlimited.count(&peer("192.0.2.1")));
        assert!(counted.iter().all(Option::is_some));
        assert_eq!([entries(&one), entries(&unlimited)], [0, 0]);
    }

    #[test]
    fn of_several_threads_no_more_than_the_limit_get_a_connection() {
        let open = limited(3);
        let counted = std::thread::scope(|scope| {
            let count = || open.count(&peer("192.0.2.1"));
            let threads = [(); 8].map(|()| scope.spawn(count));
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(counted.iter().flatten().count(), 3);
        drop(counted);
        assert_eq!(entries(&open), 0);
    }
}
