//! The options of a polled port in place of a socket.

use std::net::Ipv4Addr;

use clap::Args;
use psp_server::dpdk::{DpdkConfig, Mac};

/// UDP port of the generator.
const PORT: u16 = 40_000;

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PortArgs {
    /// Arguments of DPDK's environment; targets over UDP are then reached through a port of DPDK
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
    /// Queues of each kind, which send in turn; over net_memif the number of the server's queues
    #[arg(long, value_name = "N", default_value_t = 1, requires = "eal", help_heading = "DPDK")]
    queues: usize,
}

impl PortArgs {
    /// The port, if the options have one.
    pub(crate) fn config(&self) -> Option<DpdkConfig> {
        let eal = self.eal.as_ref()?;
        Some(
            DpdkConfig::default()
                .eal(eal.split_whitespace().map(str::to_owned).collect())
                .device(self.device.clone())
                .ip(self.ip?)
                .port(PORT)
                .mac(self.mac)
                .queues(Some(self.queues)),
        )
    }
}
