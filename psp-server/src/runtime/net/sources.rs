//! From which sources datagrams are taken: not from the server itself, and not from one whose replies have used up its
//! bytes.
//!
//! ```text
//!   datagram ──► refusal(source)? ──► scheduler ──► worker sends the reply ──► charge(source, bytes)
//!                     ▲                                                             │
//!                     └──── slots: until when each has received its bytes ◄─────────┘
//! ```
//!
//! The source of a datagram may be forged. Then each reply goes to a victim. A slot bounds what one victim gets.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::origin::Origin;

/// Slots of a server that limits bytes. Sources share a slot where their keyed hashes meet.
const SLOTS: usize = 1 << 14;
/// A source may be so far ahead of its bytes per second.
const AHEAD_NS: u64 = 1_000_000_000;

/// Why a datagram is dropped before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It comes from the server's own address.
    Own,
    /// Replies to its source have used up the bytes of the source.
    OverBudget,
}

/// What the server knows of the sources of datagrams. All its ports share it.
pub(super) struct Sources {
    /// The addresses of the server's sockets. A polled port drops frames from its own address itself.
    own: Vec<SocketAddr>,
    /// Bytes of replies that a source may get in a second; 0 for no limit.
    bytes_per_s: u64,
    /// By a random key, so that no client can choose sources that share a slot.
    hasher: RandomState,
    /// When each slot's source would have received all bytes sent to it, at its bytes per second.
    received_at_ns: Box<[AtomicU64]>,
}

impl Sources {
    /// `own` has the addresses of the server's sockets. `bytes_per_s` is 0 for no limit.
    pub(super) fn new(own: Vec<SocketAddr>, bytes_per_s: u64) -> Self {
        let slots = if bytes_per_s == 0 { 0 } else { SLOTS };
        Self {
            own,
            bytes_per_s,
            hasher: RandomState::new(),
            received_at_ns: (0..slots).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Why a datagram from `source` is dropped, if it is.
    pub(super) fn refusal(&self, source: SocketAddr, now_ns: u64) -> Option<Refusal> {
        if is_own(&self.own, source) {
            return Some(Refusal::Own);
        }
        let received_at_ns = self.received_at_ns.get(self.slot(source)?)?;
        let received_at_ns = received_at_ns.load(Ordering::Relaxed);
        (received_at_ns > now_ns.saturating_add(AHEAD_NS)).then_some(Refusal::OverBudget)
    }

    /// Counts a reply of so many bytes to `source`.
    pub(super) fn charge(&self, source: SocketAddr, bytes: usize, now_ns: u64) {
        let Some(slot) = self.slot(source) else {
            return;
        };
        let takes_ns = bytes as u64 * 1_000_000_000 / self.bytes_per_s;
        // Nothing else depends on it.
        let _ = self.received_at_ns[slot].fetch_update(Ordering::Relaxed, Ordering::Relaxed, |received_at_ns| {
            Some(received_at_ns.max(now_ns).saturating_add(takes_ns))
        });
    }

    /// The slot of an address, or of an IPv6 network of 64 bits. `None` without a limit.
    fn slot(&self, source: SocketAddr) -> Option<usize> {
        if self.bytes_per_s == 0 {
            return None;
        }
        Some(self.hasher.hash_one(Origin::from(source.ip())) as usize % SLOTS)
    }
}

/// Whether `source` is the address of one of the server's sockets, whose reply would come back as a request. A
/// socket on all addresses has any address with its port.
fn is_own(own: &[SocketAddr], source: SocketAddr) -> bool {
    let ip = source.ip().to_canonical();
    own.iter().any(|own| {
        let on_all = own.ip().is_unspecified();
        own.port() == source.port() && (on_all || own.ip().to_canonical() == ip || ip.is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn source(address: &str) -> SocketAddr {
        address.parse().expect("an address")
    }

    #[test]
    fn own_addresses_are_those_of_sockets() {
        let own = ["10.0.0.1:11211", "[::]:11212"].map(source).to_vec();
        let sources = Sources::new(own, 0);
        for (address, expected) in [
            ("10.0.0.1:11211", true),
            ("127.0.0.1:11211", true),
            ("10.0.0.2:11211", false),
            ("10.0.0.1:40000", false),
            ("10.0.0.1:11212", true),
            ("[::ffff:192.0.2.1]:11212", true),
            ("[2001:db8::1]:11212", true),
            ("[2001:db8::1]:11211", false),
            ("[::ffff:10.0.0.1]:11211", true),
        ] {
            let refusal = sources.refusal(source(address), 0);
            assert_eq!(refusal == Some(Refusal::Own), expected, "{address}");
        }
    }

    #[test]
    fn a_source_gets_its_bytes_per_second() {
        let victim = source("192.0.2.1:53");
        let sources = Sources::new(Vec::new(), 1000);
        let mut sent = 0;
        for now_ns in (0..10 * SECOND_NS).step_by(1_000_000) {
            if sources.refusal(victim, now_ns).is_none() {
                sources.charge(victim, 100, now_ns);
                sent += 100;
            }
        }
        // A second's bytes at once, those of ten seconds, and a reply beyond.
        assert!((10_000..=11_200).contains(&sent), "{sent} bytes");
    }

    #[test]
    fn a_source_that_was_silent_has_a_second_of_bytes() {
        let client = source("192.0.2.1:4000");
        let sources = Sources::new(Vec::new(), 1000);
        let now_ns = 1_000 * SECOND_NS;
        sources.charge(client, 1000, now_ns);
        assert_eq!(sources.refusal(client, now_ns), None);
        sources.charge(client, 500, now_ns);
        assert_eq!(sources.refusal(client, now_ns), Some(Refusal::OverBudget));
        assert_eq!(sources.refusal(client, now_ns + SECOND_NS / 2), None);
    }

    #[test]
    fn ports_of_an_address_and_hosts_of_a_network_are_one_source() {
        let sources = Sources::new(Vec::new(), 1);
        sources.charge(source("192.0.2.1:1"), 100, 0);
        sources.charge(source("[2001:db8::1]:1"), 100, 0);
        for (address, is_refused) in
            [("192.0.2.1:2", true), ("[::ffff:192.0.2.1]:1", true), ("[2001:db8::ffff:1]:1", true)]
        {
            let refusal = sources.refusal(source(address), 0);
            assert_eq!(refusal.is_some(), is_refused, "{address}");
        }
        let others = (0..100).map(|host| source(&format!("198.51.100.{host}:1")));
        let refused = others.filter(|&other| sources.refusal(other, 0).is_some());
        assert!(refused.count() < 10, "others share few slots");
    }

    #[test]
    fn without_a_limit_no_source_runs_out() {
        let sources = Sources::new(Vec::new(), 0);
        sources.charge(source("192.0.2.1:1"), usize::MAX, 0);
        assert_eq!(sources.refusal(source("192.0.2.1:1"), 0), None);
        assert!(sources.received_at_ns.is_empty());
    }
}
