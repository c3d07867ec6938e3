//! Foreign functions of DPDK 22.11, as few as psp-server needs.
//!
//! Types are opaque: functions of `shim/shim.c` read and set the contents of mbufs and ports, and the C
//! compiler checks these functions against DPDK's headers. Functions named `rte_..` are DPDK's own, and
//! documented at <https://doc.dpdk.org/api-22.11/>. Functions named `psp_dpdk_..` are the shim's.
//!
//! No function here is safe to call; psp-server's `transport::dpdk` is the safe wrapper.

// Declarations of foreign functions are unsafe code.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_void};

/// Longest name of a port, including its final zero.
pub const PORT_NAME_LEN: usize = 64;

/// Any NUMA node.
pub const SOCKET_ID_ANY: c_int = -1;

macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident)*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Debug)]
            pub struct $name {
                opaque: [u8; 0],
                /// Makes the type neither `Send` nor `Sync` nor `Unpin`.
                marker: std::marker::PhantomData<(*mut u8, std::marker::PhantomPinned)>,
            }
        )*
    };
}

opaque! {
    /// A packet buffer, `struct rte_mbuf`.
    Mbuf
    /// A pool of mbufs, `struct rte_mempool`.
    Mempool
}

/// The properties and capabilities of a port.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortInfo {
    /// Most receive queues.
    pub rx_queues_max: u16,
    /// Most transmit queues.
    pub tx_queues_max: u16,
    /// Longest payload of a frame.
    pub mtu: u16,
    /// MAC address.
    pub mac: [u8; 6],
    /// NUMA node, or [`SOCKET_ID_ANY`].
    pub socket: i32,
    /// Whether the port computes the checksums of IPv4 and UDP in frames that it sends.
    pub tx_checksums: u8,
    /// Whether the port verifies the checksums of IPv4 and UDP in frames that it receives.
    pub rx_checksums: u8,
    /// Whether the port is a memory interface, of the driver `net_memif`.
    pub memory_interface: u8,
    /// Whether the port spreads frames over its receive queues by their addresses or UDP ports.
    pub spreads_flows: u8,
}

const _: () = assert!(size_of::<PortInfo>() == 20);

/// Most frames of one burst.
pub const BURST_MAX: u16 = 256;

/// A frame in a single mbuf.
#[repr(C)]
#[derive(Debug)]
pub struct Packet {
    /// The mbuf.
    pub mbuf: *mut Mbuf,
    /// The mbuf's buffer.
    pub buffer: *mut u8,
    /// Length of the buffer.
    pub buffer_len: u16,
    /// Offset of the frame in the buffer.
    pub start: u16,
    /// Length of the frame.
    pub len: u16,
    /// The port's verdict on the checksums of IPv4 and UDP: 1, both are correct; -1, one is wrong; 0,
    /// unknown.
    pub checksums: i16,
}

const _: () = assert!(size_of::<Packet>() == 24);

#[expect(missing_docs, reason = "functions of DPDK are documented there")]
unsafe extern "C" {
    pub fn rte_version() -> *const c_char;
    pub fn rte_eal_init(argc: c_int, argv: *mut *mut c_char) -> c_int;
    pub fn rte_strerror(errno: c_int) -> *const c_char;
    pub fn rte_eal_hotplug_add(bus: *const c_char, device: *const c_char, arguments: *const c_char) -> c_int;
    pub fn rte_eal_hotplug_remove(bus: *const c_char, device: *const c_char) -> c_int;
    pub fn rte_eal_alarm_set(us: u64, callback: extern "C" fn(*mut c_void), argument: *mut c_void) -> c_int;
    pub fn rte_eal_alarm_cancel(callback: extern "C" fn(*mut c_void), argument: *mut c_void) -> c_int;
    pub fn rte_thread_register() -> c_int;
    pub fn rte_thread_unregister();

    pub fn rte_pktmbuf_pool_create(
        name: *const c_char,
        count: c_uint,
        cache_len: c_uint,
        private_len: u16,
        data_room_len: u16,
        socket: c_int,
    ) -> *mut Mempool;
    pub fn rte_mempool_free(pool: *mut Mempool);
    pub fn rte_mempool_in_use_count(pool: *const Mempool) -> c_uint;

    pub fn rte_eth_dev_count_avail() -> u16;
    pub fn rte_eth_dev_get_port_by_name(name: *const c_char, port: *mut u16) -> c_int;
    pub fn rte_eth_dev_get_name_by_port(port: u16, name: *mut c_char) -> c_int;
    pub fn rte_eth_dev_is_valid_port(port: u16) -> c_int;
    /// `config` may be null for the port's defaults.
    pub fn rte_eth_rx_queue_setup(
        port: u16,
        queue: u16,
        descriptors: u16,
        socket: c_uint,
        config: *const c_void,
        pool: *mut Mempool,
    ) -> c_int;
    /// `config` may be null for the port's defaults.
    pub fn rte_eth_tx_queue_setup(
        port: u16,
        queue: u16,
        descriptors: u16,
        socket: c_uint,
        config: *const c_void,
    ) -> c_int;
    pub fn rte_eth_dev_start(port: u16) -> c_int;
    pub fn rte_eth_dev_stop(port: u16) -> c_int;
    pub fn rte_eth_dev_close(port: u16) -> c_int;
    pub fn rte_eth_promiscuous_enable(port: u16) -> c_int;

    /// Returns `rte_errno` of this thread.
    pub fn psp_dpdk_errno() -> c_int;
    /// Returns the number of bytes in front of a frame in a fresh mbuf.
    pub fn psp_dpdk_headroom() -> u16;
    /// Fills in `out`. Returns 0, or a negative errno.
    pub fn psp_dpdk_port_info(port: u16, out: *mut PortInfo) -> c_int;
    /// Configures the same number of receive and transmit queues. The port computes checksums if it can
    /// and `offload` is not 0. Writes back numbers of descriptors that suit the port. Returns 0, or a
    /// negative errno.
    pub fn psp_dpdk_port_configure(
        port: u16,
        queues: u16,
        rx_descriptors: *mut u16,
        tx_descriptors: *mut u16,
        offload: c_int,
    ) -> c_int;
    /// Sets the MAC address to the six bytes at `mac`. Returns 0, or a negative errno.
    pub fn psp_dpdk_port_set_mac(port: u16, mac: *const u8) -> c_int;
    /// Returns 0 if the link is down.
    pub fn psp_dpdk_link_is_up(port: u16) -> c_int;
    /// Receives up to `count` frames, at most [`BURST_MAX`]. Frees a frame in several mbufs or in a shared
    /// mbuf, and counts it in `odd`.
    pub fn psp_dpdk_rx_burst(port: u16, queue: u16, packets: *mut Packet, count: u16, odd: *mut u16) -> u16;
    /// Sends up to `count` frames, and returns how many the port took. The port owns these mbufs.
    pub fn psp_dpdk_tx_burst(port: u16, queue: u16, mbufs: *mut *mut Mbuf, count: u16) -> u16;
    /// Takes an mbuf with an empty frame from the pool; returns 0 when the pool has none.
    pub fn psp_dpdk_mbuf_alloc(pool: *mut Mempool, packet: *mut Packet) -> c_int;
    /// Returns the mbuf to its pool.
    pub fn psp_dpdk_mbuf_free(mbuf: *mut Mbuf);
    /// Makes the `len` bytes from `start` of the mbuf's buffer the frame to send. It is UDP over IPv4; the
    /// port computes its checksums if `offload` is not 0.
    pub fn psp_dpdk_mbuf_set_frame(mbuf: *mut Mbuf, start: u16, len: u16, offload: c_int);
}
