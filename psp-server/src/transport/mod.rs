//! How bytes come in and go out: TCP streams and UDP datagrams on kernel sockets, and, with the feature
//! `dpdk`, UDP datagrams on ports that are polled.
//!
//! A connection, or a datagram, travels as a whole: the net worker reads and frames, lends it to
//! the worker that the policy picked, and gets it back when the replies are sent.
//!
//! ```text
//!             net worker                                      worker
//!   socket ──► InputBuffer ──► frames ──► typed queue ──► Handler ──► OutputQueue ──► socket
//!      ▲                                                                   │
//!      └────────── what the socket did not take is sent later ◄────────────┘
//! ```

#[cfg(not(feature = "dpdk"))]
mod absent;
pub(crate) mod datagram;
#[cfg(feature = "dpdk")]
pub mod dpdk;
pub(crate) mod input;
pub(crate) mod listener;
pub(crate) mod output;
pub(crate) mod stream;

#[cfg(not(feature = "dpdk"))]
pub(crate) use absent::{Packet, PacketPort, Packets, Transmitters};
#[cfg(feature = "dpdk")]
pub(crate) use dpdk::{Packet, PacketPort, Packets, Transmitters};
