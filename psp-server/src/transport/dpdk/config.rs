//! Settings of a polled port.

use std::net::{Ipv4Addr, SocketAddrV4};

use psp_protocols::packet::MacAddr;
use serde::{Deserialize, Serialize};

use super::mac::Mac;
use crate::error::DpdkError;

/// Most frames of a burst.
pub(crate) const BURST_MAX: usize = dpdk_sys::BURST_MAX as usize;

/// A DPDK port that a server listens on. Every field has a default, but no server has the address 0.0.0.0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct DpdkConfig {
    /// Arguments of DPDK's environment, one word each. A process has one environment. Its control threads run
    /// on one core unless the arguments name cores.
    pub eal: Vec<String>,
    /// Name or number of the device. Without it, the first device that DPDK found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// A virtual device to make for the server, in place of `device`: name and arguments as after `--vdev`. It
    /// is removed with the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_device: Option<String>,
    /// Address of the server.
    pub ip: Ipv4Addr,
    /// UDP port of the server.
    pub port: u16,
    /// `auto`, or an address to give to the port.
    pub mac: Mac,
    /// Queues of each kind, as far as the port has them. By default a server has one for each worker and one for the
    /// net thread, if there is one, and a client has one. In the topology `distributed` there must be one for each
    /// worker. Both ends of a `net_memif` need the same number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues: Option<usize>,
    /// Frames that are taken from a receive queue together, up to 256.
    pub rx_burst: usize,
    /// Replies of a thread that polls which are sent together, up to 256. Other workers send each reply at once.
    pub tx_burst: usize,
    /// Descriptors of each receive queue; the port may round them.
    pub rx_descriptors: u16,
    /// Descriptors of each transmit queue; the port may round them.
    pub tx_descriptors: u16,
    /// Whether the port computes and verifies checksums if it can.
    pub offload: bool,
    /// The content of every mbuf of the pool at the start. `net_null`, which receives mbufs as they are,
    /// receives it over and over: for benchmarks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub initial_frame: Vec<u8>,
    /// A thread that polls and has no core to itself sleeps for this long whenever nothing has come for 50 us; 0 never
    /// sleeps.
    pub idle_sleep_us: u64,
}

impl Default for DpdkConfig {
    fn default() -> Self {
        Self {
            eal: Vec::new(),
            device: None,
            virtual_device: None,
            ip: Ipv4Addr::UNSPECIFIED,
            port: 9000,
            mac: Mac::Auto,
            queues: None,
            rx_burst: 32,
            tx_burst: 32,
            rx_descriptors: 512,
            tx_descriptors: 512,
            offload: true,
            initial_frame: Vec::new(),
            idle_sleep_us: 50,
        }
    }
}

impl DpdkConfig {
    psp_policy::setters! {
        eal: Vec<String>,
        device: Option<String>,
        virtual_device: Option<String>,
        ip: Ipv4Addr,
        port: u16,
        mac: Mac,
        queues: Option<usize>,
        rx_burst: usize,
        tx_burst: usize,
        rx_descriptors: u16,
        tx_descriptors: u16,
        offload: bool,
        initial_frame: Vec<u8>,
        idle_sleep_us: u64,
    }

    /// A server at `address`, with arguments of DPDK's environment as on a command line, separated by spaces.
    #[must_use]
    pub fn new(address: SocketAddrV4, eal: &str) -> Self {
        Self {
            eal: eal.split_whitespace().map(str::to_owned).collect(),
            ip: *address.ip(),
            port: address.port(),
            ..Self::default()
        }
    }

    pub(super) fn validate(&self) -> Result<(), DpdkError> {
        let unanswerable = self.ip.is_unspecified() || self.ip.is_multicast() || self.ip.is_loopback();
        let bursts = 1..=BURST_MAX;
        let not_a_station = matches!(self.mac, Mac::Address(mac) if mac.is_multicast() || mac == MacAddr::default());
        let checks = [
            (!unanswerable, "ip must be an address that a host can have"),
            (self.port != 0, "port must be given"),
            (!not_a_station, "mac must be one station's address"),
            (
                bursts.contains(&self.rx_burst) && bursts.contains(&self.tx_burst),
                "bursts must be between 1 and 256",
            ),
            (self.queues != Some(0), "there must be queues"),
            (self.rx_descriptors > 0 && self.tx_descriptors > 0, "there must be descriptors"),
        ];
        match checks.iter().find(|(valid, _)| !valid) {
            Some((_, reason)) => Err(DpdkError::Setting((*reason).to_owned())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut DpdkConfig)) -> bool {
        let mut config = DpdkConfig::new("10.78.0.1:9000".parse().unwrap(), "--no-huge");
        change(&mut config);
        config.validate().is_err()
    }

    #[test]
    fn settings_have_ranges() {
        assert!(!refusal(|_| {}));
        assert!(refusal(|config| config.ip = Ipv4Addr::UNSPECIFIED));
        assert!(refusal(|config| config.ip = Ipv4Addr::LOCALHOST));
        assert!(refusal(|config| config.port = 0));
        assert!(refusal(|config| config.rx_burst = 0));
        assert!(refusal(|config| config.tx_burst = 257));
        assert!(refusal(|config| config.mac = Mac::Address(MacAddr::BROADCAST)));
    }

    #[test]
    fn files_name_addresses() {
        let text = "ip = '10.78.0.1'\nmac = '02:00:00:00:00:01'\neal = ['--no-huge', '-m', '64']";
        let config: DpdkConfig = toml::from_str(text).unwrap();
        assert_eq!(config.mac, Mac::Address(MacAddr([2, 0, 0, 0, 0, 1])));
        let printed = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<DpdkConfig>(&printed).unwrap(), config);
        assert!(toml::from_str::<DpdkConfig>("mac = 'mine'").is_err());
        assert_eq!(toml::from_str::<DpdkConfig>("").unwrap().mac, Mac::Auto);
    }
}
