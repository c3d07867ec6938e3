//! The transport of datagrams.

#[cfg(not(feature = "dpdk"))]
use std::convert::Infallible;
use std::net::IpAddr;
use std::str::FromStr;

use clap::{ArgMatches, Command};
use psp_server::ServerBuilder;
use serde::{Deserialize, Serialize};

use crate::config_file::replace;

/// Why no port can be polled.
#[cfg(not(feature = "dpdk"))]
const WITHOUT_DPDK: &str = "this program was built without the feature `dpdk`";

/// A transport of datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", try_from = "String")]
pub enum Transport {
    /// Sockets of the kernel.
    #[default]
    Kernel,
    /// A port that is polled through DPDK.
    #[cfg(feature = "dpdk")]
    Dpdk,
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "kernel" => Ok(Self::Kernel),
            #[cfg(feature = "dpdk")]
            "dpdk" => Ok(Self::Dpdk),
            #[cfg(not(feature = "dpdk"))]
            "dpdk" => Err(WITHOUT_DPDK.to_owned()),
            _ => Err(format!("unknown transport '{name}' (kernel, dpdk)")),
        }
    }
}

impl TryFrom<String> for Transport {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

/// The transport of a program that serves datagrams, and its settings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct TransportConfig {
    /// The transport.
    pub name: Transport,
    /// The port, if the transport is `dpdk`.
    #[cfg(feature = "dpdk")]
    pub dpdk: psp_server::dpdk::DpdkConfig,
}

impl TransportConfig {
    /// Whether the transport polls a port.
    #[must_use]
    pub fn is_polled(&self) -> bool {
        self.name != Transport::Kernel
    }

    /// Makes the server listen for datagrams at UDP port `port`: on sockets at each address of `bind`, or on
    /// the polled port, whose own settings have its address.
    #[must_use]
    pub fn listen<F, K, H>(
        &self,
        builder: ServerBuilder<F, K, H>,
        bind: &[IpAddr],
        port: u16,
    ) -> ServerBuilder<F, K, H> {
        match self.name {
            Transport::Kernel => bind.iter().fold(builder, |builder, &address| builder.udp((address, port))),
            #[cfg(feature = "dpdk")]
            Transport::Dpdk => builder.listen_dpdk(self.dpdk.clone().port(port)),
        }
    }
}

/// Flags about the transport.
#[derive(Debug, Clone, Default, clap::Args)]
struct TransportFlags {
    /// Transport of datagrams: kernel (sockets) or dpdk (a polled port) [default: kernel]
    #[arg(long, value_name = "NAME", value_parser = Transport::from_str)]
    transport: Option<Transport>,
    #[cfg(feature = "dpdk")]
    #[command(flatten)]
    dpdk: dpdk::DpdkFlags,
    /// Flags of a port, which are known so that the error can say why they are refused.
    #[cfg(not(feature = "dpdk"))]
    #[arg(
        long = "eal",
        aliases = ["device", "ip", "mac", "queues", "rx-burst", "tx-burst"],
        value_name = "VALUE",
        hide = true,
        allow_hyphen_values = true,
        value_parser = refuse
    )]
    refused: Option<Infallible>,
}

#[cfg(not(feature = "dpdk"))]
fn refuse(_: &str) -> Result<Infallible, &'static str> {
    Err(WITHOUT_DPDK)
}

impl clap::FromArgMatches for TransportConfig {
    fn from_arg_matches(given: &ArgMatches) -> clap::error::Result<Self> {
        let mut config = Self::default();
        config.update_from_arg_matches(given).map(|()| config)
    }

    fn update_from_arg_matches(&mut self, given: &ArgMatches) -> clap::error::Result<()> {
        let flags = TransportFlags::from_arg_matches(given)?;
        replace(&mut self.name, flags.transport);
        #[cfg(feature = "dpdk")]
        flags.dpdk.apply_to(&mut self.dpdk);
        Ok(())
    }
}

impl clap::Args for TransportConfig {
    fn augment_args(command: Command) -> Command {
        TransportFlags::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        TransportFlags::augment_args(command)
    }
}

#[cfg(feature = "dpdk")]
mod dpdk {
    use std::net::Ipv4Addr;
    use std::str::FromStr;

    use psp_server::dpdk::{DpdkConfig, Mac};

    use crate::config_file::replace;

    /// Flags about a port of DPDK.
    #[derive(Debug, Clone, Default, clap::Args)]
    pub(super) struct DpdkFlags {
        /// Arguments of DPDK's environment layer, as in '--no-huge -m 512 --vdev=net_tap0'
        #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
        eal: Option<String>,
        /// Name or number of DPDK's port [default: the first port]
        #[arg(long, value_name = "NAME")]
        device: Option<String>,
        /// IPv4 address of DPDK's port
        #[arg(long, value_name = "ADDRESS")]
        ip: Option<Ipv4Addr>,
        /// MAC address of DPDK's port, or auto for the port's own [default: auto]
        #[arg(long, value_name = "MAC", value_parser = Mac::from_str)]
        mac: Option<Mac>,
        /// Queues of DPDK's port, of each kind [default: one for each thread]
        #[arg(long, value_name = "N")]
        queues: Option<usize>,
        /// Frames received at once [default: 32]
        #[arg(long, value_name = "N")]
        rx_burst: Option<usize>,
        /// Frames sent at once by the net thread [default: 32]
        #[arg(long, value_name = "N")]
        tx_burst: Option<usize>,
    }

    impl DpdkFlags {
        pub(super) fn apply_to(self, config: &mut DpdkConfig) {
            let words = |eal: String| eal.split_whitespace().map(str::to_owned).collect();
            replace(&mut config.eal, self.eal.map(words));
            replace(&mut config.ip, self.ip);
            replace(&mut config.mac, self.mac);
            replace(&mut config.rx_burst, self.rx_burst);
            replace(&mut config.tx_burst, self.tx_burst);
            config.device = self.device.or(config.device.take());
            config.queues = self.queues.or(config.queues);
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        transport: TransportConfig,
    }

    fn given(flags: &[&str]) -> Result<TransportConfig, String> {
        let words = std::iter::once("program").chain(flags.iter().copied());
        let program = Program::try_parse_from(words).map_err(|error| error.to_string())?;
        Ok(program.transport)
    }

    #[test]
    fn the_default_transport_is_the_kernel() {
        assert_eq!(given(&[]), Ok(TransportConfig::default()));
        assert_eq!(given(&["--transport", "kernel"]), given(&[]));
        assert!(given(&["--transport", "pigeon"]).is_err());
    }

    #[test]
    #[cfg(not(feature = "dpdk"))]
    fn a_program_without_dpdk_refuses_its_flags() {
        for flags in [
            &["--transport", "dpdk"][..],
            &["--transport", "dpdk", "--eal", "--no-huge -m 512"],
            &["--ip", "10.78.0.1", "--transport", "dpdk"],
            &["--mac", "auto"],
        ] {
            let refusal = given(flags).unwrap_err();
            assert!(refusal.contains("without the feature `dpdk`"), "{refusal}");
        }
        let refusal = toml::from_str::<TransportConfig>("name = 'dpdk'").unwrap_err();
        let refusal = refusal.to_string();
        assert!(refusal.contains("without the feature `dpdk`"), "{refusal}");
    }

    #[test]
    #[cfg(feature = "dpdk")]
    fn flags_of_a_port_become_its_settings() {
        let config = given(&[
            "--transport",
            "dpdk",
            "--eal",
            "--no-huge -m 512",
            "--ip",
            "10.78.0.1",
            "--mac",
            "auto",
            "--rx-burst",
            "64",
        ]);
        let config = config.unwrap();
        assert_eq!(config.name, Transport::Dpdk);
        assert_eq!(config.dpdk.eal, ["--no-huge", "-m", "512"]);
        assert_eq!(config.dpdk.ip.to_string(), "10.78.0.1");
        assert_eq!((config.dpdk.rx_burst, config.dpdk.tx_burst), (64, 32));
    }
}
