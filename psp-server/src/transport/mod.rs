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
//! | `listening.rs` | a socket that accepts connections, and whether they speak TLS |
//! | `spare.rs` | receives into the unused capacity of a buffer |
//! | `socket.rs` | the sockets of connections, and the sockets that accept them |
//! | `input.rs`, `output.rs` | buffers of a connection |
//! | `budget.rs` | how much all buffers together may hold |
//! | `wire.rs` | a socket, and with TLS the session that encrypts what passes through it |
//! | `connection.rs` | a connection: socket, buffers, the handler's state |
//! | `push.rs` | messages to connections that did not ask for them |
//! | `run.rs` | the requests of a connection that travel together |
//! | `endpoint.rs` | sends replies to datagrams |
//! | `tls/` | TLS between the socket of a connection and its buffers |
//! | `handshake.rs` | what a connection in its TLS handshake does next |
//! | `no_tls.rs` | stands for TLS in builds without it |
//! | `datagram.rs` | a datagram, and the pool of all datagrams |
//! | `request_key.rs` | names of connections and datagrams for the scheduler |
//! | `dpdk/` | polled ports |
//! | `no_dpdk.rs` | stands for them in builds without DPDK |

pub(crate) mod budget;
pub(crate) mod connection;
pub(crate) mod datagram;
#[cfg(feature = "dpdk")]
pub mod dpdk;
pub(crate) mod endpoint;
pub(crate) mod handshake;
pub(crate) mod input;
pub(crate) mod listen_fds;
pub(crate) mod listener;
pub(crate) mod listening;
#[cfg(not(feature = "dpdk"))]
mod no_dpdk;
#[cfg(not(feature = "tls"))]
mod no_tls;
pub(crate) mod output;
pub(crate) mod owed;
pub(crate) mod push;
pub(crate) mod request_key;
pub(crate) mod room;
pub(crate) mod run;
#[cfg(target_os = "linux")]
mod send_queue;
pub(crate) mod socket;
pub(crate) mod socket_file;
mod spare;
#[cfg(feature = "tls")]
pub(crate) mod tls;
pub(crate) mod uptake;
pub(crate) mod wire;

#[cfg(feature = "dpdk")]
pub(crate) use dpdk::{Packet, PacketPort, Packets, PolledBy, Transmitters};
#[cfg(not(feature = "dpdk"))]
pub(crate) use no_dpdk::{Packet, PacketPort, Packets, Transmitters};
#[cfg(not(feature = "tls"))]
pub(crate) use no_tls::{TlsConfig, TlsSession};
#[cfg(feature = "tls")]
pub(crate) use tls::{TlsConfig, TlsSession};
