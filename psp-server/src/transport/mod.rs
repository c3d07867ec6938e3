//! How bytes come in and go out: connections (TCP and Unix) and UDP datagrams on kernel sockets, and, with the feature
//! `dpdk`, UDP datagrams on polled ports.
//!
//! A connection, or a datagram, travels as a whole: the net worker reads and frames, lends it to
//! the worker that the policy picked, and gets it back when the replies are sent.
//!
//! ```text
//!             net worker                                      worker
//!   socket ──► InputBuffer ──► frames ──► typed queue ──► Handler ──► OutputQueue ──► socket
//!      ▲                                                                   │
//!      └────────── output that the socket did not take is sent later ◄─────┘
//! ```
//!
//! | file | job |
//! | --- | --- |
//! | `listener.rs` | binds sockets to addresses |
//! | `socket_file.rs` | binds Unix sockets, and removes their files |
//! | `listen_fds.rs` | sockets that a service manager passes |
//! | `socket.rs` | the sockets of connections, and the sockets that accept them |
//! | `input.rs`, `output.rs` | buffers of a connection |
//! | `connection.rs` | a connection: socket, buffers, the handler's state |
//! | `run.rs` | the requests of a connection that travel together |
//! | `endpoint.rs` | sends replies to datagrams |
//! | `datagram.rs` | a datagram, and the pool of all datagrams |
//! | `request_key.rs` | names of connections and datagrams for the scheduler |
//! | `dpdk/` | polled ports |
//! | `no_dpdk.rs` | stands for them in builds without DPDK |

pub(crate) mod connection;
pub(crate) mod datagram;
#[cfg(feature = "dpdk")]
pub mod dpdk;
pub(crate) mod endpoint;
pub(crate) mod input;
pub(crate) mod listen_fds;
pub(crate) mod listener;
#[cfg(not(feature = "dpdk"))]
mod no_dpdk;
pub(crate) mod output;
pub(crate) mod request_key;
pub(crate) mod run;
pub(crate) mod socket;
pub(crate) mod socket_file;

#[cfg(feature = "dpdk")]
pub(crate) use dpdk::{Packet, PacketPort, Packets, Transmitters};
#[cfg(not(feature = "dpdk"))]
pub(crate) use no_dpdk::{Packet, PacketPort, Packets, Transmitters};
