//! The server's configuration: built-in defaults, then a TOML file, then flags.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::ensure;
use clap::Parser;
use psp_program::{CommonSettings, LogLevel, ProgramConfig, SocketConfig, TransportConfig};
use psp_protocols::rpc::Rpc;
use psp_server::{Policy, TypeSpec};
use serde::{Deserialize, Serialize};

/// A protobuf RPC server whose short requests stay fast while long ones run.
///
/// Flags take precedence over the configuration file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Parser)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(name = "psp-rpc", version)]
pub struct Config {
    /// Address to listen on; several are separated by commas [default: 127.0.0.1].
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    #[serde(deserialize_with = "psp_program::one_or_many")]
    pub bind: Vec<IpAddr>,
    /// TCP port [default: 7100].
    #[arg(long, short)]
    pub port: u16,
    /// A Unix socket, and sockets of a service manager.
    #[command(flatten)]
    pub sockets: SocketConfig,
    /// Also serve UDP on the same port, one message per datagram; --transport dpdk implies it.
    #[arg(long)]
    pub udp: bool,
    /// Longest request in bytes, not counting the length in front of it; 4 MiB by default.
    #[arg(skip)]
    pub message_len_max: u32,
    /// The least severe messages that are logged.
    #[arg(skip)]
    pub log_level: LogLevel,
    /// Transport of datagrams: sockets, or a polled port.
    #[command(flatten)]
    pub transport: TransportConfig,
    /// The servers that Gather asks.
    #[command(flatten)]
    pub upstreams: UpstreamConfig,
    /// How requests are scheduled.
    #[arg(skip)]
    pub policy: Policy,
    /// Workers, topology, connections and buffers.
    #[arg(skip)]
    pub server: psp_server::Config,
    /// Hints for request types, by their names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[arg(skip)]
    pub types: Vec<TypeSpec>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bind: vec![Ipv4Addr::LOCALHOST.into()],
            port: 7100,
            udp: false,
            message_len_max: Rpc::default().message_len_max,
            log_level: LogLevel::default(),
            sockets: SocketConfig::default(),
            transport: TransportConfig::default(),
            upstreams: UpstreamConfig::default(),
            policy: Policy::darc(),
            server: psp_server::Config::default(),
            types: Vec::new(),
        }
    }
}

impl ProgramConfig for Config {
    fn common(&mut self) -> CommonSettings<'_> {
        CommonSettings::new(&mut self.log_level, &mut self.policy, &mut self.server)
    }

    fn settle(&mut self) -> anyhow::Result<()> {
        self.udp |= self.transport.is_polled();
        Ok(())
    }

    fn validate(&self) -> anyhow::Result<()> {
        self.upstreams.validate()
    }
}

/// Most upstreams: each call asks all of them.
const UPSTREAMS_MAX: usize = 64;
/// Longest [`UpstreamConfig::timeout_ms`]: an hour.
const TIMEOUT_MS_MAX: u64 = 3_600_000;

/// The servers that Gather asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct UpstreamConfig {
    /// A server that Gather asks; may be given several times, and replaces those of the file.
    #[arg(long = "upstream", value_name = "IP:PORT")]
    pub addresses: Vec<SocketAddr>,
    /// Most connections to each of them, and so calls that it is asked at once; 32 by default. Further calls wait.
    #[arg(skip)]
    pub connections_max: usize,
    /// Longest time that each may take for a call, in milliseconds; 1000 by default.
    #[arg(skip)]
    pub timeout_ms: u64,
}

impl Default for UpstreamConfig {
    fn default() -> Self {
        Self { addresses: Vec::new(), connections_max: 32, timeout_ms: 1000 }
    }
}

impl UpstreamConfig {
    fn validate(&self) -> anyhow::Result<()> {
        ensure!(self.addresses.len() <= UPSTREAMS_MAX, "there may be at most {UPSTREAMS_MAX} upstreams");
        for address in &self.addresses {
            ensure!(
                address.port() != 0 && !address.ip().is_unspecified(),
                "the upstream {address} needs the address and the port of a server"
            );
        }
        ensure!(
            (1..=usize::from(u16::MAX)).contains(&self.connections_max),
            "upstreams.connections-max must be from 1 to {}",
            u16::MAX
        );
        ensure!(
            (1..=TIMEOUT_MS_MAX).contains(&self.timeout_ms),
            "upstreams.timeout-ms must be from 1 to {TIMEOUT_MS_MAX}"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use psp_program::CommandLine;

    fn resolve(flags: &[&str]) -> anyhow::Result<Config> {
        let words = std::iter::once("psp-rpc").chain(flags.iter().copied());
        CommandLine::<Config>::try_parse_from(words)?.resolve()
    }

    #[test]
    fn a_printed_configuration_is_read_back_unchanged() {
        let flags = "--bind 127.0.0.1,::1 -p 0 --udp --workers 3 --log-level warn --topology dedicated";
        let mut words: Vec<&str> = flags.split(' ').collect();
        words.extend(["--policy", "mq quantum-us=20"]);
        let config = resolve(&words).unwrap();
        assert!(config.udp && config.bind.len() == 2);
        assert_eq!(config.policy, Policy::mq().quantum_us(20));
        assert_eq!(config.server.workers, Some(3.into()));
        let printed = toml::to_string(&config).expect("serialises");
        assert_eq!(toml::from_str::<Config>(&printed).expect("parses"), config);
        assert_eq!(resolve(&[]).unwrap(), Config::default());
    }

    #[test]
    #[cfg(feature = "dpdk")]
    fn a_port_that_is_polled_serves_udp() {
        let config = resolve(&["--transport", "dpdk", "--ip", "10.78.0.1"]).unwrap();
        assert!(config.udp && config.transport.is_polled());
    }

    #[test]
    fn unknown_settings_are_refused() {
        for flags in [["--policy", "best"], ["--port", "70000"], ["--topology", "round"]] {
            assert!(resolve(&flags).is_err(), "{flags:?}");
        }
        assert!(toml::from_str::<Config>("colour = 1").is_err());
    }

    #[test]
    fn a_file_has_one_address_or_several_and_hints_of_types() {
        let one: Config = toml::from_str("bind = '::1'\n[[types]]\nname = 'echo'\nshare = 0.1").unwrap();
        let several: Config = toml::from_str("bind = ['::1', '127.0.0.1']").unwrap();
        assert_eq!((one.bind.len(), several.bind.len()), (1, 2));
        assert_eq!(one.types[0].share, Some(0.1));
    }

    #[test]
    fn flags_name_the_upstreams_in_place_of_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("psp-rpc.toml");
        let text = "[upstreams]\naddresses = ['127.0.0.1:1']\ntimeout-ms = 70\n";
        std::fs::write(&file, text).unwrap();
        let file = file.to_str().unwrap();
        let of_file = resolve(&["--config", file]).unwrap().upstreams;
        assert_eq!(of_file.addresses, ["127.0.0.1:1".parse().unwrap()]);
        let named = ["--config", file, "--upstream", "10.0.0.1:2", "--upstream", "[::1]:3"];
        let of_flags = resolve(&named).unwrap().upstreams;
        let expected: Vec<SocketAddr> =
            { ["10.0.0.1:2", "[::1]:3"].iter() }.map(|address| address.parse().unwrap()).collect();
        assert_eq!((of_flags.addresses, of_flags.timeout_ms), (expected, 70));
    }

    #[test]
    fn upstreams_that_cannot_be_asked_are_refused_with_their_name() {
        for address in ["localhost", "127.0.0.1", "127.0.0.1:0", "0.0.0.0:7100", "[::]:7100"] {
            let refused = resolve(&["--upstream", address]).unwrap_err().to_string();
            assert!(refused.contains(address), "{refused}");
        }
        for (setting, name) in [
            ("addresses = ['127.0.0.1:seven']", "line 2, column 14: invalid"),
            ("connections-max = 0", "upstreams.connections-max"),
            ("connections-max = 65536", "upstreams.connections-max"),
            ("timeout-ms = 0", "upstreams.timeout-ms"),
            ("timeout-ms = 3600001", "upstreams.timeout-ms"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("psp-rpc.toml");
            std::fs::write(&file, format!("[upstreams]\n{setting}\n")).unwrap();
            let refused = resolve(&["--config", file.to_str().unwrap()]).unwrap_err();
            assert!(format!("{refused:#}").contains(name), "{refused:#}");
        }
        let many = ["--upstream", "127.0.0.1:1"].repeat(UPSTREAMS_MAX + 1);
        let refused = resolve(&many).unwrap_err().to_string();
        assert!(refused.contains("at most 64"), "{refused}");
        assert!(resolve(&many[2..]).is_ok());
    }
}
