//! Servers on ports polled through DPDK, without hugepages or a NIC.
//!
//! ```text
//!   DpdkClient ── net_memif ──► server     both in this process
//!   file ── net_pcap ──► server ──► file
//!   kernel socket ── net_tap ──► server    as root
//! ```
//!
//! A process has one DPDK environment, and its memory is small: tests take turns.

#[path = "../common/mod.rs"]
mod common;
mod distributed;
mod envelope;
mod memif;
mod pcap;
mod rig;
mod storm;
mod tap;
