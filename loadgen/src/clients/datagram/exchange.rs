//! The form of requests and replies in datagrams, protocol by protocol.

use std::fmt::Debug;

/// The requests and replies of a protocol.
pub(crate) trait Exchange {
    /// What the exchange remembers of a request until it ends.
    type Pending: Debug;
    /// The header in front of a datagram's payload.
    type Header;

    /// Number of low bits of a request's id that its replies repeat.
    const NAMED: u32;

    /// Appends a request of a type, of its command of that number; `id` has no bits but [`NAMED`](Self::NAMED).
    ///
    /// # Errors
    /// The error kind of a request that cannot be sent.
    fn write(
        &mut self,
        type_index: usize,
        command: u32,
        id: u32,
        intended_ns: u64,
        out: &mut Vec<u8>,
    ) -> Result<Self::Pending, &'static str>;

    /// The id in a datagram of a reply, its header, and its payload; `None` for any other datagram.
    fn open(datagram: &[u8]) -> Option<(u32, Self::Header, &[u8])>;

    /// Takes a datagram of the reply to `pending`. `None` while others are still to come.
    fn take<'a>(
        &'a mut self,
        pending: &'a mut Self::Pending,
        header: Self::Header,
        payload: &'a [u8],
    ) -> Option<Ending<'a>>;

    /// A request was given up.
    fn give_up(&mut self, _pending: Self::Pending) {}
}

/// How an answered request ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending<'a> {
    /// The server spent the service time of the request, and its wait, which counts here too.
    Served { service_ns: u32 },
    /// The request succeeded, with this number of hits and misses.
    Answered { hits_and_misses: (u64, u64) },
    /// The request failed with this kind of error.
    Failed(&'a str),
}
