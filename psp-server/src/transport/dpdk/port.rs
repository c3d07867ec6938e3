//! A port: configured, started, and closed when its last user is gone.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char};
use std::sync::{Arc, Mutex, PoisonError};

use dpdk_sys as sys;
use psp_protocols::packet::{Checksums, MacAddr};

use super::config::DpdkConfig;
use super::eal::{Eal, VirtualDevice, c_string, check};
use super::mac::Mac;
use super::memif::Rings;
use super::mempool::{CACHE_LEN, Mempool};
use crate::error::DpdkError;

/// Ports of this process that are in use. A port has one owner.
static CLAIMED: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Room for a frame's header, a tag and its checksum beyond the MTU.
const FRAME_OVERHEAD: usize = 18;
/// Drivers round a buffer's room down to a multiple of this.
const ROOM_STEP: usize = 1024;

/// What a port is set up for.
#[derive(Debug, Clone)]
pub(crate) struct PortSetup {
    /// Name or number of the device; `None`: the first device.
    pub(crate) device: Option<String>,
    /// A virtual device to make for the port, as after `--vdev`.
    pub(crate) virtual_device: Option<String>,
    /// The port's address.
    pub(crate) mac: Mac,
    /// Queues of each kind to set up; the port may have fewer.
    pub(crate) queues: usize,
    /// With fewer the port is refused.
    pub(crate) queues_min: usize,
    /// Descriptors of each queue.
    pub(crate) rx_descriptors: u16,
    pub(crate) tx_descriptors: u16,
    /// Frames that are sent together at most.
    pub(crate) tx_burst: usize,
    /// Whether the port computes and verifies checksums if it can.
    pub(crate) offload: bool,
    /// Mbufs beyond those in queues and caches.
    pub(crate) mbufs: usize,
    /// Threads that will have a cache of mbufs.
    pub(crate) threads: usize,
}

/// A started port. See [`Port::start`].
#[derive(Debug)]
pub(crate) struct Port {
    claim: Claim,
    info: sys::PortInfo,
    offload: bool,
    /// Declared after the claim, which is dropped first: the pool outlives it.
    pool: Arc<Mempool>,
}

/// The right to use a port. Dropping it stops and closes the port.
#[derive(Debug)]
struct Claim {
    eal: Eal,
    id: u16,
    rings: Rings,
    started: bool,
    /// The virtual device that was made for the port, if any.
    device: Option<VirtualDevice>,
}

impl PortSetup {
    /// The setup for these settings: `queues` is the number of queues unless the settings have one.
    pub(super) fn new(config: &DpdkConfig, queues: usize, mbufs: usize, threads: usize) -> Self {
        Self {
            device: config.device.clone(),
            virtual_device: config.virtual_device.clone(),
            mac: config.mac,
            queues: config.queues.unwrap_or(queues),
            queues_min: 1,
            rx_descriptors: config.rx_descriptors,
            tx_descriptors: config.tx_descriptors,
            tx_burst: config.tx_burst,
            offload: config.offload,
            mbufs,
            threads,
        }
    }
}

impl Port {
    /// Sets a port up and starts it. Returns the number of queues of each kind as well.
    ///
    /// # Errors
    /// When there is no such port, it is in use in this process, or it refuses.
    pub(super) fn start(eal: Eal, setup: &PortSetup) -> Result<(Self, u16), DpdkError> {
        let mut claim = Claim::new(eal, setup)?;
        let id = claim.id;
        let mut info = sys::PortInfo::default();
        // SAFETY: the port is valid, and `info` has room for what is written.
        check("describe", unsafe { sys::psp_dpdk_port_info(id, &raw mut info) })?;
        claim.rings = Rings::of(&info);
        let queues_max = info.rx_queues_max.min(info.tx_queues_max).max(1);
        let queues = u16::try_from(setup.queues).map_or(queues_max, |queues| queues.min(queues_max));
        if usize::from(queues) < setup.queues_min {
            return Err(DpdkError::TooFewQueues {
                workers: setup.queues_min,
                asked: setup.queues,
                port_has: queues_max,
            });
        }
        let (mut rx_descriptors, mut tx_descriptors) = (setup.rx_descriptors, setup.tx_descriptors);
        // SAFETY: the port is valid and stopped, and no other thread configures it: it is claimed.
        let configured = unsafe {
            sys::psp_dpdk_port_configure(
                id,
                queues,
                &raw mut rx_descriptors,
                &raw mut tx_descriptors,
                setup.offload.into(),
            )
        };
        check("configure", configured)?;
        let in_queues = usize::from(queues) * (usize::from(rx_descriptors) + usize::from(tx_descriptors));
        // A cache holds up to one and a half times its length.
        let in_caches = setup.threads * (CACHE_LEN + CACHE_LEN / 2);
        let frame_len = usize::from(info.mtu) + FRAME_OVERHEAD;
        let pool = Arc::new(Mempool::new(
            eal,
            setup.mbufs + in_queues + in_caches,
            // A request and its reply.
            (2 * frame_len).next_multiple_of(ROOM_STEP),
            info.socket,
        )?);
        let socket = info.socket.cast_unsigned();
        let mut port = Self { claim, info, offload: setup.offload, pool };
        if let Mac::Address(mac) = setup.mac {
            port.set_mac(mac)?;
        }
        for queue in 0..queues {
            // SAFETY: the port is configured with this queue and stopped; the pool lives until the port is
            // closed.
            let status = unsafe {
                sys::rte_eth_rx_queue_setup(id, queue, rx_descriptors, socket, std::ptr::null(), port.pool.as_ptr())
            };
            check("set up receive queues of", status)?;
            // SAFETY: as above.
            let status = unsafe { sys::rte_eth_tx_queue_setup(id, queue, tx_descriptors, socket, std::ptr::null()) };
            check("set up transmit queues of", status)?;
        }
        // SAFETY: the port is configured, with all its queues.
        let start = || unsafe { sys::rte_eth_dev_start(id) };
        let is_connected = || port.link_is_up();
        let status = port.rings().connect(eal, queues.into(), start, is_connected);
        check("start", status)?;
        port.claim.started = true;
        Ok((port, queues))
    }

    /// Gives the port another address. A port that cannot have it receives frames for all addresses.
    fn set_mac(&mut self, mac: MacAddr) -> Result<(), DpdkError> {
        if mac == self.mac() {
            return Ok(());
        }
        // SAFETY: the port is valid, and an address is six bytes.
        let mut status = unsafe { sys::psp_dpdk_port_set_mac(self.id(), mac.0.as_ptr()) };
        if status < 0 {
            // SAFETY: the port is valid.
            status = unsafe { sys::rte_eth_promiscuous_enable(self.id()) };
        }
        check("change the address of", status)?;
        self.info.mac = mac.0;
        Ok(())
    }

    pub(super) fn eal(&self) -> Eal {
        self.claim.eal
    }

    pub(super) fn id(&self) -> u16 {
        self.claim.id
    }

    /// How the port's queues may be polled.
    pub(super) fn rings(&self) -> Rings {
        self.claim.rings
    }

    /// The port's pool.
    pub(crate) fn pool(&self) -> &Arc<Mempool> {
        &self.pool
    }

    /// The port's address.
    pub(crate) fn mac(&self) -> MacAddr {
        MacAddr(self.info.mac)
    }

    /// Whether frames of different flows come to different receive queues: the port spreads them, or the peer of a
    /// memory interface, which chooses the queue.
    pub(crate) fn spreads_flows(&self) -> bool {
        self.info.spreads_flows != 0 || self.rings() == Rings::Shared
    }

    /// Longest payload of a frame.
    pub(crate) fn mtu(&self) -> u16 {
        self.info.mtu
    }

    /// Whether the port or psp computes the checksums of sent frames.
    pub(super) fn tx_checksums(&self) -> Checksums {
        if self.offload && self.info.tx_checksums != 0 {
            Checksums::Port
        } else {
            Checksums::Software
        }
    }

    /// Whether there is a link.
    pub(crate) fn link_is_up(&self) -> bool {
        // SAFETY: the port is valid.
        unsafe { sys::psp_dpdk_link_is_up(self.id()) != 0 }
    }

    /// The device's name.
    pub(crate) fn name(&self) -> String {
        let mut name = [0_u8; sys::PORT_NAME_LEN];
        // SAFETY: the port is valid, and its name has up to `PORT_NAME_LEN` bytes.
        unsafe { sys::rte_eth_dev_get_name_by_port(self.id(), name.as_mut_ptr().cast::<c_char>()) };
        CStr::from_bytes_until_nul(&name).map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned())
    }
}

impl Claim {
    fn new(eal: Eal, setup: &PortSetup) -> Result<Self, DpdkError> {
        let mut device = None;
        let id = match (&setup.virtual_device, &setup.device) {
            (Some(description), _) => {
                let (name, arguments) = description.split_once(',').unwrap_or((description, ""));
                device = Some(eal.plug(name, arguments)?);
                by_name(name)?
            }
            (None, Some(device)) => match device.parse() {
                Ok(id) => id,
                Err(_) => by_name(device)?,
            },
            (None, None) => 0,
        };
        // SAFETY: the environment is initialised.
        if unsafe { sys::rte_eth_dev_is_valid_port(id) } == 0 {
            // SAFETY: as above.
            let ports = unsafe { sys::rte_eth_dev_count_avail() };
            return Err(DpdkError::NoPort { id, ports });
        }
        let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
        if !claimed.insert(id) {
            return Err(DpdkError::InUse(id));
        }
        Ok(Self { eal, id, rings: Rings::Fixed, started: false, device })
    }
}

fn by_name(name: &str) -> Result<u16, DpdkError> {
    let text = c_string(name)?;
    let mut id = 0;
    // SAFETY: the environment is initialised, and `text` and `id` outlive the call.
    let status = unsafe { sys::rte_eth_dev_get_port_by_name(text.as_ptr(), &raw mut id) };
    if status < 0 {
        return Err(DpdkError::NoDevice(name.to_owned()));
    }
    Ok(id)
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Ports are closed one at a time.
        let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
        self.rings.part(self.eal, || {
            // SAFETY: the port is valid and belongs to this process. None of its queues is left, because they
            // hold the port. Closing it frees the mbufs that its queues hold, whose pool is dropped later.
            let stopped = unsafe {
                let stopped = match self.started {
                    true => sys::rte_eth_dev_stop(self.id),
                    false => 0,
                };
                sys::rte_eth_dev_close(self.id);
                stopped
            };
            if let Err(error) = check("stop", stopped) {
                tracing::warn!(port = self.id, %error, "a port did not stop");
            }
        });
        self.device = None;
        claimed.remove(&self.id);
    }
}
