//! The server's configuration: built-in defaults, then a TOML file, then flags.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::ensure;
use clap::{Command, Parser};
use psp_program::{CommonSettings, LogLevel, ProgramConfig, TransportConfig};
use psp_server::{Policy, Topology};
use serde::{Deserialize, Serialize};

use crate::handler::Mode;

/// A server that spins or sleeps for as long as each request asks, for measuring policies.
///
/// The protocol is the psp header over UDP. psp-loadgen sends named workloads to psp:// targets. Flags
/// take precedence over the configuration file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Parser)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(name = "psp-synthetic", version)]
pub struct Config {
    /// Address to listen on [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    pub bind: IpAddr,
    /// Port [default: 9000]
    #[arg(long, short)]
    pub port: u16,
    /// Serve TCP instead of UDP
    #[arg(long)]
    pub tcp: bool,
    /// Transport of datagrams: sockets, or a polled port.
    #[command(flatten)]
    pub transport: TransportConfig,
    /// How workers spend run times; sleeping workers may outnumber cores [default: spin]
    #[arg(long, value_enum)]
    pub mode: Mode,
    /// Workload whose types are registered: high-bimodal, extreme-bimodal, tpcc, or a .toml file as for
    /// psp-loadgen [default: high-bimodal]
    #[arg(long, value_name = "NAME")]
    pub workload: String,
    /// Tell the policy the workload's service times and shares at the start
    #[arg(long)]
    pub hints: bool,
    /// Factor by which the client multiplies service times, for --hints [default: 1]
    #[arg(long, value_name = "N")]
    pub dilate: u32,
    /// Work N times as long as requests ask for [default: 1]
    #[arg(long, value_name = "N")]
    pub stretch: u32,
    /// The least severe messages that are logged.
    #[arg(skip)]
    pub log_level: LogLevel,
    /// How requests are scheduled.
    #[arg(skip)]
    pub policy: Policy,
    /// Workers, topology and limits.
    #[arg(skip)]
    pub server: psp_server::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bind: Ipv4Addr::LOCALHOST.into(),
            port: 9000,
            tcp: false,
            mode: Mode::default(),
            workload: "high-bimodal".to_owned(),
            hints: false,
            dilate: 1,
            stretch: 1,
            log_level: LogLevel::default(),
            transport: TransportConfig::default(),
            policy: Policy::darc(),
            server: psp_server::Config::default(),
        }
    }
}

impl ProgramConfig for Config {
    fn common(&mut self) -> CommonSettings<'_> {
        CommonSettings::new(&mut self.log_level, &mut self.policy, &mut self.server)
    }

    fn adapt(command: Command) -> Command {
        let preempt = "Preemption of long requests: none, cooperative, kernel-thread, signal [default: cooperative]";
        let topology = "Threads: auto, inline, dedicated [default: auto, and dedicated with --mode sleep]";
        { command.mut_arg("preempt", |flag| flag.help(preempt)) }.mut_arg("topology", |flag| flag.help(topology))
    }

    fn settle(&mut self) -> anyhow::Result<()> {
        if self.mode == Mode::Sleep && self.server.topology == Topology::Auto {
            // With inline topology, the net thread runs requests. While it slept, it would receive nothing.
            self.server.topology = Topology::Dedicated;
        }
        Ok(())
    }

    fn validate(&self) -> anyhow::Result<()> {
        ensure!(
            !self.tcp || !self.transport.is_polled(),
            "TCP needs sockets of the kernel, so it excludes the transport dpdk"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use psp_program::CommandLine;
    use psp_server::PreemptPolicy;

    use super::*;

    fn resolve(flags: &[&str]) -> anyhow::Result<Config> {
        let words = std::iter::once("psp-synthetic").chain(flags.iter().copied());
        CommandLine::<Config>::try_parse_from(words)?.resolve()
    }

    #[test]
    fn a_printed_configuration_is_read_back() {
        let flags = ["--policy", "c-fcfs", "--workers", "14", "--mode", "sleep", "--hints"];
        let config = resolve(&flags).unwrap();
        let printed = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<Config>(&printed).unwrap(), config);
        assert_eq!(config.server.workers, Some(14.into()));
        assert_eq!(config.server.topology, Topology::Dedicated);
        assert_eq!(config.policy, Policy::c_fcfs());
    }

    #[test]
    fn a_policy_may_have_settings_after_its_name() {
        let flags = ["--policy", "mq quantum-us=20", "--preempt", "signal"];
        let config = resolve(&flags).unwrap();
        assert_eq!(config.policy, Policy::mq().quantum_us(20));
        assert_eq!(config.server.preempt, PreemptPolicy::Signal);
    }

    #[test]
    fn unknown_names_are_refused() {
        for flags in [
            ["--log-level", "loud"],
            ["--policy", "best"],
            ["--mode", "rest"],
            ["--policy", "mq quantum=1"],
            ["--preempt", "softly"],
        ] {
            assert!(resolve(&flags).is_err(), "{flags:?}");
        }
        assert!(toml::from_str::<Config>("colour = 1").is_err());
    }
}
