//! Foreign functions of DPDK 22.11, as few as psp-server needs.
//!
//! Types are opaque: what is in an mbuf or a port is read and set by functions of `shim/shim.c`, which
//! the C compiler checks against DPDK's headers. Functions named `rte_..` are DPDK's own, and
//! documented at <https://doc.dpdk.org/api-22.11/>; those named `psp_dpdk_..` are the shim's.
//!
//! Nothing here is safe to call as it is; psp-server's `transport::dpdk` is the wrapper.

// Declaring them is.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_void};

/// Longest name of a port, its final zero included.
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
                /// Neither `Send` nor `Sync` nor `Unpin`.
                marker: std::marker::PhantomData<(*mut u8, std::marker::PhantomPinned)>,
            }
        )*
    };
}

opaque! {
    /// A packet buffer, `struct rte_mbuf`.
    Mbuf
    /// A pool of them, `struct rte_mempool`.
    Mempool
}

/// What a port is and can do.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortInfo {
    /// Receive queues it can have.
    pub rx_queues_max: u16,
    /// Transmit queues it can have.
    pub tx_queues_max: u16,
    /// Longest payload of a frame.
    pub mtu: u16,
    /// Its address.
    pub mac: [u8; 6],
    /// Its NUMA node, or [`SOCKET_ID_ANY`].
    pub socket: i32,
    /// Whether it computes IPv4's and UDP's checksum of what it sends.
    pub tx_checksums: u8,
    /// Whether it verifies them of what it receives.
    pub rx_checksums: u8,
    /// Whether it is a memory interface, of the driver `net_memif`.
    pub memory_interface: u8,
    /// 0.
    pub reserved: u8,
}

const _: () = assert!(size_of::<PortInfo>() == 20);

/// Most frames of one burst.
pub const BURST_MAX: u16 = 256;

/// A frame that is in one mbuf alone.
#[repr(C)]
#[derive(Debug)]
pub struct Packet {
    /// Its mbuf.
    pub mbuf: *mut Mbuf,
    /// The mbuf's buffer.
    pub buffer: *mut u8,
    /// Bytes of the buffer.
    pub buffer_len: u16,
    /// Where the frame starts in it.
    pub start: u16,
    /// Bytes of the frame.
    pub len: u16,
    /// What the port says of IPv4's and UDP's checksum: 1, they are right; -1, one is wrong; 0,
    /// nothing.
    pub checksums: i16,
}

const _: () = assert!(size_of::<Packet>() == 24);

#[expect(missing_docs, reason = "functions of DPDK are documented there")]
unsafe extern "C" {
    pub fn rte_version() -> *const c_char;
    pub fn rte_eal_init(argc: c_int, argv: *mut *mut c_char) -> c_int;
    pub fn rte_strerror(errno: c_int) -> *const c_char;
    pub fn rte_eal_hotplug_add(
        bus: *const c_char,
        device: *const c_char,
        arguments: *const c_char,
    ) -> c_int;
    pub fn rte_eal_hotplug_remove(bus: *const c_char, device: *const c_char) -> c_int;
    pub fn rte_eal_alarm_set(
        us: u64,
        callback: extern "C" fn(*mut c_void),
        argument: *mut c_void,
    ) -> c_int;
    pub fn rte_eal_alarm_cancel(
        callback: extern "C" fn(*mut c_void),
        argument: *mut c_void,
    ) -> c_int;
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
    /// `config` may be null: the port's defaults.
    pub fn rte_eth_rx_queue_setup(
        port: u16,
        queue: u16,
        descriptors: u16,
        socket: c_uint,
        config: *const c_void,
        pool: *mut Mempool,
    ) -> c_int;
    /// `config` may be null: the port's defaults.
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

    /// `rte_errno` of this thread.
    pub fn psp_dpdk_errno() -> c_int;
    /// Bytes in front of a frame in a fresh mbuf.
    pub fn psp_dpdk_headroom() -> u16;
    /// 0, or a negative errno.
    pub fn psp_dpdk_port_info(port: u16, out: *mut PortInfo) -> c_int;
    /// Configures as many queues of either kind, with checksums computed by the port where it can and
    /// `offload` is not 0. Numbers of descriptors that suit the port are written back. 0, or a negative
    /// errno.
    pub fn psp_dpdk_port_configure(
        port: u16,
        queues: u16,
        rx_descriptors: *mut u16,
        tx_descriptors: *mut u16,
        offload: c_int,
    ) -> c_int;
    /// Gives it the address of six bytes at `mac`. 0, or a negative errno.
    pub fn psp_dpdk_port_set_mac(port: u16, mac: *const u8) -> c_int;
    /// Not 0 when it is.
    pub fn psp_dpdk_link_is_up(port: u16) -> c_int;
    /// Receives up to `count` frames, at most [`BURST_MAX`]. One that is in several mbufs, or in one that
    /// others share, is freed and counted in `odd`.
    pub fn psp_dpdk_rx_burst(
        port: u16,
        queue: u16,
        packets: *mut Packet,
        count: u16,
        odd: *mut u16,
    ) -> u16;
    /// Sends up to `count` frames. Those it took are the port's.
    pub fn psp_dpdk_tx_burst(port: u16, queue: u16, mbufs: *mut *mut Mbuf, count: u16) -> u16;
    /// Takes an mbuf with an empty frame; 0 when the pool has none.
    pub fn psp_dpdk_mbuf_alloc(pool: *mut Mempool, packet: *mut Packet) -> c_int;
    /// Gives it back to its pool.
    pub fn psp_dpdk_mbuf_free(mbuf: *mut Mbuf);
    /// Makes `len` bytes from `start` in its buffer the frame to be sent, as UDP over IPv4 whose checksums
    /// the port computes where `offload` is not 0.
    pub fn psp_dpdk_mbuf_set_frame(mbuf: *mut Mbuf, start: u16, len: u16, offload: c_int);
}
