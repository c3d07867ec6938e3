//! Settings of a port that a server polls.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::str::FromStr;

use psp_protocols::packet::MacAddr;
use psp_protocols::packet::ethernet::NotAMac;
use serde::{Deserialize, Serialize};

use super::error::DpdkError;
use super::port::PortSetup;
use super::queue::BURST_MAX;

/// Which address a port has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Mac {
    /// Its own.
    #[default]
    Auto,
    /// This one.
    Address(MacAddr),
}

impl FromStr for Mac {
    type Err = NotAMac;

    fn from_str(text: &str) -> Result<Self, NotAMac> {
        match text {
            "auto" => Ok(Self::Auto),
            address => address.parse().map(Self::Address),
        }
    }
}

impl TryFrom<String> for Mac {
    type Error = NotAMac;

    fn try_from(text: String) -> Result<Self, NotAMac> {
        text.parse()
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> Self {
        match mac {
            Mac::Auto => "auto".to_owned(),
            Mac::Address(address) => address.to_string(),
        }
    }
}

/// A port of DPDK that a server listens on. Every field has a default, but no server has the address
/// 0.0.0.0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DpdkConfig {
    /// Arguments of DPDK's environment, one word each. A process has one environment. It runs on one core
    /// unless they say so: only DPDK's own control threads do.
    pub eal: Vec<String>,
    /// Name or number of the device; the first that DPDK found when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// A virtual device to be made for the server and to go with it, in place of `device`: name and
    /// arguments as after `--vdev`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_device: Option<String>,
    /// Address of the server.
    pub ip: Ipv4Addr,
    /// UDP port of the server.
    pub port: u16,
    /// `auto`, or an address that the port shall have.
    pub mac: Mac,
    /// Queues of each kind, as far as the port has them: unless given, a server has one for each worker
    /// and one for the net thread, and a client has one. Both ends of a `net_memif` need as many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues: Option<usize>,
    /// Frames taken from a receive queue at once, up to 256.
    pub rx_burst: usize,
    /// Replies of the net thread that are sent at once, up to 256. Other workers send each at once.
    pub tx_burst: usize,
    /// Descriptors of each receive queue; the port may round them.
    pub rx_descriptors: u16,
    /// Descriptors of each transmit queue; the port may round them.
    pub tx_descriptors: u16,
    /// Whether the port computes and verifies checksums where it can.
    pub offload: bool,
    /// What every mbuf of the pool holds at the start. `net_null`, which receives mbufs as they are,
    /// receives it over and over: for benchmarks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub initial_frame: Vec<u8>,
    /// Where the net thread has no core of its own, it sleeps for this long whenever nothing has come for
    /// 50 us; 0 never.
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
    /// A server at `address`, with arguments of DPDK's environment as on a command line: words between
    /// spaces.
    #[must_use]
    pub fn new(address: SocketAddrV4, eal: &str) -> Self {
        Self {
            eal: eal.split_whitespace().map(str::to_owned).collect(),
            ip: *address.ip(),
            port: address.port(),
            ..Self::default()
        }
    }

    /// What a port is set up for with these settings.
    pub(super) fn setup(&self, queues: usize, mbufs: usize, threads: usize) -> PortSetup {
        PortSetup {
            device: self.device.clone(),
            virtual_device: self.virtual_device.clone(),
            mac: self.mac,
            queues: self.queues.unwrap_or(queues),
            rx_descriptors: self.rx_descriptors,
            tx_descriptors: self.tx_descriptors,
            tx_burst: self.tx_burst,
            offload: self.offload,
            mbufs,
            threads,
        }
    }

    pub(super) fn validate(&self) -> Result<(), DpdkError> {
        let unanswerable =
            self.ip.is_unspecified() || self.ip.is_multicast() || self.ip.is_loopback();
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
            (
                self.rx_descriptors > 0 && self.tx_descriptors > 0,
                "there must be descriptors",
            ),
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
        assert!(refusal(
            |config| config.mac = Mac::Address(MacAddr::BROADCAST)
        ));
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
