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
//! The net thread polls all receive queues. A request stays in its mbuf, and its reply is written behind
//! it there. Each worker sends on a queue of its own; a port with too few has workers that share one.
//!
//! | file | |
//! | --- | --- |
//! | `config.rs` | settings |
//! | `client.rs` | a client on a port, for load generators and tests |
//! | `eal.rs` | DPDK's environment, once per process; registered threads |
//! | `memif.rs` | memory interfaces, whose rings must not be polled while they change |
//! | `mempool.rs` | pools of mbufs; mbufs |
//! | `port.rs` | ports: setup, start, close |
//! | `queue.rs` | receive and transmit queues |
//! | `packets.rs` | what the net thread does with frames, and how workers send |
//!
//! Devices and their arguments: <https://doc.dpdk.org/guides-22.11/nics/>.

mod client;
mod config;
mod eal;
mod error;
mod memif;
mod mempool;
mod packets;
mod port;
mod queue;

#[doc(hidden)]
pub use crate::runtime::stages::{Side, Stages};
pub use client::{DpdkClient, NotSent};
pub use config::{DpdkConfig, Mac};
pub use error::DpdkError;
pub use mempool::mbufs_lost;
pub(crate) use packets::{Packet, PacketPort, Packets, Transmitters};
