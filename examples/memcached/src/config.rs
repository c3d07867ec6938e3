//! The configuration: built-in defaults, then a TOML file, then flags.

use std::mem::take;
use std::path::PathBuf;

use anyhow::ensure;
use clap::{ArgAction, Command, Parser};
use psp_program::{
    CommonSettings, LogLevel, ProgramConfig, SocketConfig, TlsFiles, TransportConfig, UnixMode, number_or_text, replace,
};
use psp_protocols::memcached::MemcachedFraming;
use psp_server::{Policy, TypeSpec};
use serde::{Deserialize, Deserializer, Serialize};

use crate::extended::ExtendedFlags;
use crate::listen::ListenAddress;
use crate::size::parse_bytes;
use crate::unsupported::UnsupportedFlags;

/// Valid values of `-I`, in bytes.
const ITEM_LEN_RANGE: std::ops::RangeInclusive<usize> = 1 << 10..=1 << 30;

/// Longest request in a datagram, and longest reply in datagrams, in bytes. Both include a header.
const DATAGRAM_LEN_MAX: usize = 16 << 10;

/// Bytes of replies in datagrams that a source gets in a second: a forged source directs them to a victim.
const DATAGRAM_BYTES_PER_SOURCE_PER_S: u64 = 1 << 20;

/// memcached's UDP port: the default if the transport needs datagrams.
const UDP_PORT: u16 = 11211;

const MIB: usize = 1 << 20;

/// A memcached-compatible server whose short requests stay fast while long ones run.
///
/// Short flags match memcached's. Flags take precedence over the configuration file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Parser)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(name = "psp-memcached", version)]
#[command(mut_arg("unix", |unix| {
    unix.long("unix-socket").short('s').help("Listen on a Unix socket at this path, and on no network")
}))]
#[command(mut_arg("unix_mode", |mode| {
    mode.long("unix-mask").short('a').help("Permissions of the Unix socket's file, in octal [default: 700]")
}))]
pub struct Config {
    /// Address to listen on; several are separated by commas. One with a port, ADDRESS:PORT, has that in place of -p.
    /// Beside TLS, notls:ADDRESS serves plain connections [default: 127.0.0.1].
    #[serde(deserialize_with = "psp_program::one_or_many")]
    #[arg(long, short = 'l', value_name = "ADDRESS", value_delimiter = ',')]
    pub listen: Vec<ListenAddress>,
    /// TCP port [default: 11211].
    #[arg(long, short)]
    pub port: u16,
    /// A Unix socket, in place of TCP and UDP; and sockets of a service manager.
    #[command(flatten)]
    pub sockets: SocketConfig,
    /// UDP port; 0, the default, for none. With a polled transport the default is 11211.
    #[arg(skip)]
    pub udp_port: u16,
    /// UDP port; 0 for none [default: 0, and 11211 with --transport dpdk].
    #[serde(skip)]
    #[arg(long = "udp-port", short = 'U', value_name = "PORT")]
    pub udp_port_asked: Option<u16>,
    /// The transport of datagrams: sockets or a polled port.
    #[command(flatten)]
    pub transport: TransportConfig,
    /// TLS, and the options of `-o`.
    #[serde(skip)]
    #[command(flatten)]
    pub extended: ExtendedFlags,
    /// Memory of all items, in MiB [default: 64].
    #[arg(long = "memory-limit", short, value_name = "MIB")]
    pub memory_limit_mib: usize,
    /// Whether to evict items when the memory is full. Otherwise stores then fail.
    #[arg(long = "disable-evictions", short = 'M', action = ArgAction::SetFalse)]
    #[arg(help = "When the memory is full, refuse to store instead of evicting items")]
    pub evict: bool,
    /// Most connections at once [default: 1024].
    #[serde(skip)]
    #[arg(long, short, value_name = "N")]
    pub conn_limit: Option<usize>,
    /// Longest item: bytes, or a number with k or m [default: 1m].
    #[serde(deserialize_with = "item_len")]
    #[arg(long = "max-item-size", short = 'I', value_name = "SIZE", value_parser = parse_bytes)]
    pub item_len_max: usize,
    /// Let clients stop the server with `shutdown`.
    #[arg(long, short = 'A')]
    pub enable_shutdown: bool,
    /// Whether clients may remove all items with `flush_all`; true by default.
    #[arg(long = "disable-flush-all", short = 'F', action = ArgAction::SetFalse, help = "Refuse `flush_all`")]
    pub enable_flush: bool,
    /// Whether clients may list keys, with `lru_crawler metadump` and `stats cachedump`; true by default.
    #[arg(long = "disable-dumping", short = 'X', action = ArgAction::SetFalse, help = "Refuse to list keys")]
    pub enable_dump: bool,
    /// Names and passwords by SASL PLAIN, in the binary protocol alone. Needs -Y, or MEMCACHED_SASL_PWDB in the
    /// environment.
    #[arg(long = "enable-sasl", short = 'S')]
    pub sasl: bool,
    /// File with the names and passwords of clients: a line name:password for each. Without -S they speak the text
    /// protocol alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, short = 'Y', value_name = "FILE")]
    pub auth_file: Option<PathBuf>,
    /// Run in the background.
    #[serde(skip)]
    #[arg(long, short = 'd')]
    pub daemon: bool,
    /// Flags that were given and have no effect.
    #[serde(skip)]
    #[arg(skip)]
    pub without_effect: Vec<String>,
    /// File for the process id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long = "pidfile", short = 'P', value_name = "FILE")]
    pub pid_file: Option<PathBuf>,
    /// Log more than --log-level: -v for debugging, -vv for everything.
    #[serde(skip)]
    #[arg(short, action = ArgAction::Count)]
    pub verbose: u8,
    /// The least severe level of log messages.
    #[arg(skip)]
    pub log_level: LogLevel,
    /// Certificates and keys of the TCP port, which serves TLS if it has them; none by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(skip)]
    pub tls: Option<TlsFiles>,
    /// The scheduling policy.
    #[arg(skip)]
    pub policy: Policy,
    /// Workers, topology, connections and buffers.
    #[arg(skip)]
    pub server: psp_server::Config,
    /// Hints for request types, by their names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[arg(skip)]
    pub types: Vec<TypeSpec>,
    /// Flags without effect. They are the last, as their heading is for all that follow.
    #[serde(skip)]
    #[command(flatten)]
    pub unsupported: UnsupportedFlags,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: vec![ListenAddress::LOCALHOST],
            port: 11211,
            udp_port: 0,
            udp_port_asked: None,
            extended: ExtendedFlags::default(),
            memory_limit_mib: 64,
            evict: true,
            conn_limit: None,
            item_len_max: MIB,
            enable_shutdown: false,
            enable_flush: true,
            enable_dump: true,
            auth_file: None,
            sasl: false,
            daemon: false,
            without_effect: Vec::new(),
            pid_file: None,
            verbose: 0,
            log_level: LogLevel::default(),
            sockets: SocketConfig::default(),
            tls: None,
            transport: TransportConfig::default(),
            policy: Policy::darc(),
            server: psp_server::Config::default()
                .connections_max(1024)
                .datagram_bytes_max(DATAGRAM_LEN_MAX)
                .datagram_bytes_per_source_per_s(DATAGRAM_BYTES_PER_SOURCE_PER_S)
                .admission(psp_server::AdmissionMode::Off),
            types: Vec::new(),
            unsupported: UnsupportedFlags::default(),
        }
    }
}

impl Config {
    /// Whether the server listens at its TCP and UDP ports. As in memcached, it does not beside a Unix socket.
    #[must_use]
    pub fn serves_network(&self) -> bool {
        self.sockets.unix.is_none()
    }

    /// Permissions of the Unix socket's file: memcached's, if there are no others.
    #[must_use]
    pub fn unix_mode(&self) -> UnixMode {
        self.sockets.unix_mode.unwrap_or(UnixMode(0o700))
    }

    /// Memory of all items in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.memory_limit_mib.saturating_mul(MIB)
    }

    /// The framing with the limits of this configuration.
    #[must_use]
    pub fn framing(&self) -> MemcachedFraming {
        let mut framing = MemcachedFraming::default();
        framing.text.item_len_max = self.item_len_max;
        framing.binary.item_len_max = self.item_len_max;
        framing
    }
}

impl ProgramConfig for Config {
    fn common(&mut self) -> CommonSettings<'_> {
        CommonSettings::new(&mut self.log_level, &mut self.policy, &mut self.server)
    }

    fn adapt(command: Command) -> Command {
        command.mut_arg("workers", |workers| workers.long("threads").short('t').alias("workers"))
    }

    fn settle(&mut self) -> anyhow::Result<()> {
        self.without_effect = take(&mut self.unsupported).given().collect();
        take(&mut self.extended).apply_to(self)?;
        if self.sasl && self.auth_file.is_none() {
            self.auth_file = std::env::var_os("MEMCACHED_SASL_PWDB").map(PathBuf::from);
        }
        replace(&mut self.server.connections_max, self.conn_limit.take());
        match take(&mut self.verbose) {
            0 => {}
            1 => self.log_level = LogLevel::Debug,
            _ => self.log_level = LogLevel::Trace,
        }
        let udp_port = self.udp_port_asked.take();
        replace(&mut self.udp_port, udp_port);
        if self.transport.is_polled() && self.udp_port == 0 {
            ensure!(udp_port.is_none(), "--transport dpdk carries datagrams and needs a UDP port: remove -U 0");
            self.udp_port = UDP_PORT;
        }
        Ok(())
    }

    fn data_bytes(&self) -> u64 {
        self.memory_bytes() as u64
    }

    fn validate(&self) -> anyhow::Result<()> {
        ensure!(
            ITEM_LEN_RANGE.contains(&self.item_len_max),
            "the item size limit (-I) must be from 1k to 1024m"
        );
        ensure!(
            self.item_len_max <= self.memory_bytes() / 2,
            "the item size limit (-I) must be at most half of the memory limit (-m)"
        );
        ensure!(
            !self.sasl || self.auth_file.is_some(),
            "SASL (-S) needs a file of names and passwords (-Y)"
        );
        ensure!(
            self.auth_file.is_none() || self.udp_port == 0,
            "datagrams have no password: with --auth-file (-Y), leave UDP off (-U 0)"
        );
        ensure!(
            self.tls.is_none() || !self.sockets.listen_fds,
            "TLS (-Z) is for the TCP port: it cannot be on the sockets of --listen-fds"
        );
        Ok(())
    }
}

/// An item's length in a file.
fn item_len<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    number_or_text(deserializer, parse_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use psp_program::CommandLine;

    fn resolve(flags: &[&str]) -> anyhow::Result<Config> {
        let words = std::iter::once("psp-memcached").chain(flags.iter().copied());
        CommandLine::<Config>::try_parse_from(words)?.resolve()
    }

    #[test]
    fn short_flags_match_memcached() {
        let flags = "-l 127.0.0.1,::1 -p 11222 -t 3 -m 100 -c 50 -I 2m -vv -A -M -U 11223";
        let words: Vec<&str> = flags.split(' ').collect();
        let config = resolve(&words).unwrap();
        assert_eq!(config.listen.len(), 2);
        assert_eq!((config.port, config.udp_port), (11222, 11223));
        assert_eq!(config.memory_limit_mib, 100);
        assert_eq!(config.server.workers, Some(3.into()));
        assert_eq!(config.server.connections_max, 50);
        assert_eq!(config.framing().text.item_len_max, 2 << 20);
        assert_eq!(config.framing().binary.item_len_max, 2 << 20);
        assert_eq!(config.log_level, LogLevel::Trace);
        assert!(config.enable_shutdown && !config.evict);
        assert_eq!(resolve(&[]).unwrap(), Config::default());
    }

    #[test]
    fn log_level_and_workers_have_long_flags() {
        let config = resolve(&["--log-level", "warn", "--workers", "3"]).unwrap();
        assert_eq!(config.log_level, LogLevel::Warn);
        assert_eq!(config.server.workers, Some(3.into()));
    }

    #[test]
    fn options_of_tls_are_those_of_memcached() {
        assert_eq!(resolve(&["-Z"]).unwrap().tls, Some(TlsFiles::default()));
        let options = "ssl_chain_cert=a.pem,ssl_key=a.key,ssl_ca_cert=ca.pem,ssl_verify_mode=2,\
                       ssl_min_version=tlsv1.3";
        let config = resolve(&["--enable-ssl", "-o", options]).unwrap();
        let files = TlsFiles {
            cert_file: Some("a.pem".into()),
            key_file: Some("a.key".into()),
            ca_cert_file: Some("ca.pem".into()),
            auth_clients: Some(psp_program::AuthClients::Yes),
            oldest_version: Some(psp_program::OldestVersion::Tls13),
        };
        assert_eq!(config.tls, Some(files));
        let printed = toml::to_string(&config).expect("serialises");
        assert_eq!(toml::from_str::<Config>(&printed).expect("parses"), config);
    }

    #[test]
    fn clients_may_have_certificates_where_nobody_can_check_them() {
        let config = resolve(&["-Z", "-o", "ssl_verify_mode=1"]).unwrap();
        let tls = config.tls.expect("settings of TLS");
        assert_eq!(tls.auth_clients, Some(psp_program::AuthClients::No));
        let named = &config.without_effect;
        assert_eq!(named[..], ["-o ssl_verify_mode=1 without ssl_ca_cert"]);
    }

    #[test]
    #[cfg(feature = "dpdk")]
    fn a_polled_transport_has_a_udp_port() {
        let udp_port = |flags: &[&str]| {
            let flags = [&["--transport", "dpdk"], flags].concat();
            resolve(&flags).map(|config| config.udp_port)
        };
        assert_eq!(udp_port(&[]).unwrap(), 11211);
        assert_eq!(udp_port(&["-U", "7"]).unwrap(), 7);
        let refusal = udp_port(&["-U", "0"]).unwrap_err().to_string();
        assert!(refusal.contains("-U 0"), "{refusal}");
    }

    #[test]
    fn a_file_may_be_written_as_flags_are() {
        let file: Config = toml::from_str("listen = '::1'\nitem-len-max = '2m'").unwrap();
        let flags = resolve(&["-l", "::1", "-I", "2m"]).unwrap();
        assert_eq!(file, flags);
        let number: Config = toml::from_str("item-len-max = 2097152").unwrap();
        assert_eq!(number.item_len_max, flags.item_len_max);
    }

    #[test]
    fn types_of_a_file_are_hints() {
        let text = "[[types]]\nname = 'bulk'\nservice-time-us = 5.0\n";
        let config: Config = toml::from_str(text).unwrap();
        assert_eq!(config.types.len(), 1);
        let printed = toml::to_string(&config).expect("serialises");
        assert_eq!(toml::from_str::<Config>(&printed).expect("parses"), config);
    }

    #[test]
    fn flags_without_effect_are_named() {
        let config = |flags: &str| resolve(&flags.split(' ').collect::<Vec<_>>()).unwrap();
        // Debian's /etc/memcached.conf.
        let debian = config("-d -m 64 -p 11211 -u memcache -l 127.0.0.1 -P /run/memcached.pid");
        assert!(debian.daemon);
        assert_eq!(debian.pid_file, Some("/run/memcached.pid".into()));
        assert_eq!(debian.without_effect, ["-u"]);
        let config = config("-F -X -C -B auto -b 1024 -R 20 -e f -o modern,idle_timeout=7,slab_reassign");
        assert!(!config.enable_flush && !config.enable_dump && !config.daemon);
        assert_eq!(config.server.idle_timeout_s, 7);
        assert_eq!(config.without_effect, ["-b", "-C", "-e", "-R", "-o modern", "-o slab_reassign"]);
    }

    #[test]
    fn unsupported_flags_are_refused() {
        for (flags, word) in [
            (&["-I", "100"][..], "-I"),
            (&["-a", "999"], "999"),
            (&["-Z", "--listen-fds"], "--listen-fds"),
            (&["-o", "ssl_key=a"], "-Z"),
            (&["-Z", "-o", "ssl_verify_mode=4"], "between 0 and 3"),
            (&["-Z", "-o", "slab_bogus"], "slab_bogus"),
            (&["-Z", "-o", "ssl_min_version=tlsv2"], "ssl_min_version"),
            (&["-o", "idle_timeout=x"], "idle_timeout"),
            (&["-Y", "passwords", "-U", "11211"], "UDP"),
            (&["-S"], "-Y"),
            (&["-B", "udp"], "udp"),
            (&["-l", "localhost"], "IP address"),
            (&["-I", "33m"], "-m"),
            (&["-c", "0"], "server.connections-max (--conn-limit) is 0"),
            (&["-c", "-1"], "'-1' is out of range for '--conn-limit <N>'"),
            (&["-t", "0"], "0"),
            (&["--policy", "best"], "darc"),
        ] {
            let message = format!("{:#}", resolve(flags).unwrap_err());
            assert!(message.contains(word), "{message}");
        }
    }

    #[test]
    fn a_printed_configuration_reads_back_the_same() {
        let config = resolve(&["--policy", "c-fcfs", "-t", "3", "-m", "512"]).unwrap();
        let printed = toml::to_string(&config).expect("serialises");
        assert_eq!(toml::from_str::<Config>(&printed).expect("parses"), config);
    }
}
