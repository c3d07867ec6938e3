//! UDP on ports that are polled through DPDK, without the kernel.
//!
//! ```text
//!             net thread                                           worker k
//!   port ──► RxQueue 0..n ──► Interface ──► Packet ──► typed queue ──► Handler
//!     ▲                        │ ARP, echo                                │ reply in the same mbuf
//!     ├── TxQueue 0 ◄──────────┘                                          │
//!     └── TxQueue k + 1 ◄─────────────────────────────────────────────────┘
//! ```
//!
//! The net thread polls all receive queues. A request stays in its mbuf, and its reply is written behind it
//! there. Each worker sends on its own queue; if the port has too few, workers share queues.
//!
//! In the topology `distributed` each worker polls receive queues of its own, as a part of its port. Another worker may
//! drive that meanwhile (`runtime/net/lease.rs`): one thread at a time polls a queue. Who runs a request sends its
//! reply on a transmit queue of its own, wherever the request came in, so that no reply waits for a thread that runs
//! something else:
//!
//! ```text
//!   port ──► RxQueue k ──► Interface ──► Packet ──► queue of worker k ──► Handler, on worker k ──► TxQueue k
//!                                                          └─ stolen ───► Handler, on worker j ──► TxQueue j
//! ```
//!
//! | file | |
//! | --- | --- |
//! | `config.rs` | settings |
//! | `client.rs` | a client on a port, for load generators and tests |
//! | `eal.rs` | DPDK's environment, once per process; registered threads |
//! | `memif.rs` | memory interfaces, whose rings must not be polled while they change |
//! | `mempool.rs` | pools of mbufs; mbufs |
//! | `mac.rs` | which address a port has |
//! | `port.rs` | ports: setup, start, close |
//! | `open_port.rs` | a started port with its queues |
//! | `queue.rs` | receive and transmit queues |
//! | `packets.rs` | what the thread that polls does with frames, and how workers send |
//!
//! Devices and their arguments: <https://doc.dpdk.org/guides-22.11/nics/>.

mod client;
mod config;
mod eal;
mod mac;
mod memif;
mod mempool;
mod open_port;
mod packets;
mod port;
mod queue;

pub use client::{DpdkClient, NotSent};
pub use config::DpdkConfig;
pub use mac::Mac;

pub use crate::error::DpdkError;
#[doc(hidden)]
pub use mempool::mbufs_lost;
pub(crate) use packets::{Packet, PacketPort, Packets, PolledBy, Transmitters};
