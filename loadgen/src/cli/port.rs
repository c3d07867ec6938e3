//! The options of a port that is polled in place of a socket.

use std::net::Ipv4Addr;

use clap::Args;
use psp_server::dpdk::{DpdkConfig, Mac};

/// UDP port of the generator.
const PORT: u16 = 40_000;

#[derive(Debug, Clone, Default, Args)]
pub(super) struct PortArgs {
    /// Arguments of DPDK's environment: targets over UDP are reached through a port of it
    #[arg(
        long,
        value_name = "WORDS",
        allow_hyphen_values = true,
        requires = "ip",
        help_heading = "DPDK"
    )]
    eal: Option<String>,
    /// Name or number of DPDK's port [default: the first]
    #[arg(long, value_name = "NAME", requires = "eal", help_heading = "DPDK")]
    device: Option<String>,
    /// The generator's IPv4 address
    #[arg(long, value_name = "ADDRESS", requires = "eal", help_heading = "DPDK")]
    ip: Option<Ipv4Addr>,
    /// The generator's station address, or auto for the port's own
    #[arg(
        long,
        value_name = "MAC",
        requires = "eal",
        default_value = "auto",
        value_parser = str::parse::<Mac>,
        help_heading = "DPDK"
    )]
    mac: Mac,
    /// Queues of each kind: over net_memif, as many as the server has
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        requires = "eal",
        help_heading = "DPDK"
    )]
    queues: usize,
}

impl PortArgs {
    /// The port, if one was asked for.
    pub(super) fn config(&self) -> Option<DpdkConfig> {
        let eal = self.eal.as_ref()?;
        Some(DpdkConfig {
            eal: eal.split_whitespace().map(str::to_owned).collect(),
            device: self.device.clone(),
            ip: self.ip?,
            port: PORT,
            mac: self.mac,
            queues: Some(self.queues),
            ..DpdkConfig::default()
        })
    }
}
