//! The configuration: built-in defaults, then a TOML file, then flags.

use std::path::PathBuf;

use anyhow::ensure;
use clap::Parser;
use psp_program::{
    CommonSettings, LogLevel, ProgramConfig, ProgramFlags, ServerFlags, SocketConfig, SocketFlags, TlsFiles,
    TransportConfig, TransportFlags, UnixMode, number_or_text, replace,
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

/// The whole configuration. A file sets any part of it; the rest keeps its defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Addresses to listen on; the loopback interface by default.
    #[serde(deserialize_with = "psp_program::one_or_many")]
    pub listen: Vec<ListenAddress>,
    /// TCP port; 11211 by default, 0 for any free one.
    pub port: u16,
    /// UDP port; 0, the default, for none. With a polled transport the default is 11211.
    pub udp_port: u16,
    /// Memory of all items, in MiB; 64 by default.
    pub memory_limit_mib: usize,
    /// Whether to evict items when the memory is full. Otherwise stores then fail.
    pub evict: bool,
    /// Longest item in bytes, or as for the flag: key, value, and about 60 bytes more; 1 MiB by default.
    #[serde(deserialize_with = "item_len")]
    pub item_len_max: usize,
    /// Whether clients may stop the server with `shutdown`.
    pub enable_shutdown: bool,
    /// Whether clients may remove all items with `flush_all`; true by default.
    pub enable_flush: bool,
    /// Whether clients may list keys, with `lru_crawler metadump` and `stats cachedump`; true by default.
    pub enable_dump: bool,
    /// File with the names and passwords of clients, a line `name:password` for each; without one, clients need none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_file: Option<PathBuf>,
    /// Whether clients show a name and a password by SASL, in the binary protocol alone; otherwise in the text protocol
    /// alone.
    pub sasl: bool,
    /// Whether the server runs in the background.
    #[serde(skip)]
    pub daemon: bool,
    /// Flags that were given and have no effect.
    #[serde(skip)]
    pub without_effect: Vec<String>,
    /// File that has the server's process id while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid_file: Option<PathBuf>,
    /// The least severe level of log messages.
    pub log_level: LogLevel,
    /// A Unix socket, in place of TCP and UDP; and sockets of a service manager.
    pub sockets: SocketConfig,
    /// Certificates and keys of the TCP port, which serves TLS if it has them; none by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFiles>,
    /// The transport of datagrams: sockets or a polled port.
    pub transport: TransportConfig,
    /// The scheduling policy.
    pub policy: Policy,
    /// Workers, topology, connections and buffers.
    pub server: psp_server::Config,
    /// Hints for request types, by their names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<TypeSpec>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: vec![ListenAddress::LOCALHOST],
            port: 11211,
            udp_port: 0,
            memory_limit_mib: 64,
            evict: true,
            item_len_max: MIB,
            enable_shutdown: false,
            enable_flush: true,
            enable_dump: true,
            auth_file: None,
            sasl: false,
            daemon: false,
            without_effect: Vec::new(),
            pid_file: None,
            log_level: LogLevel::default(),
            sockets: SocketConfig::default(),
            tls: None,
            transport: TransportConfig::default(),
            policy: Policy::darc(),
            server: psp_server::Config::default()
                .connections_max(1024)
                .datagram_bytes_max(DATAGRAM_LEN_MAX)
                .datagram_bytes_per_source_per_s(DATAGRAM_BYTES_PER_SOURCE_PER_S),
            types: Vec::new(),
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

/// A memcached-compatible server whose short requests stay fast while long ones run.
///
/// Short flags match memcached's. Flags take precedence over the configuration file.
#[derive(Debug, Clone, Default, Parser)]
#[command(name = "psp-memcached", version)]
#[command(mut_arg("unix", |unix| {
    unix.long("unix-socket").short('s').help("Listen on a Unix socket at this path, and on no network")
}))]
#[command(mut_arg("unix_mode", |mode| {
    mode.long("unix-mask").short('a').help("Permissions of the Unix socket's file, in octal [default: 700]")
}))]
#[command(mut_arg("workers", |workers| workers.long("threads").short('t').alias("workers")))]
pub struct Flags {
    /// Address to listen on; several are separated by commas. One with a port, ADDRESS:PORT, has that in place of -p.
    /// Beside TLS, notls:ADDRESS serves plain connections [default: 127.0.0.1].
    #[arg(long, short = 'l', value_name = "ADDRESS", value_delimiter = ',')]
    listen: Vec<ListenAddress>,
    /// TCP port [default: 11211].
    #[arg(long, short)]
    port: Option<u16>,
    #[command(flatten)]
    sockets: SocketFlags,
    /// UDP port; 0 for none [default: 0, and 11211 with --transport dpdk].
    #[arg(long, short = 'U', value_name = "PORT")]
    udp_port: Option<u16>,
    #[command(flatten)]
    transport: TransportFlags,
    #[command(flatten)]
    extended: ExtendedFlags,
    /// Memory of all items, in MiB [default: 64].
    #[arg(long, short, value_name = "MIB")]
    memory_limit: Option<usize>,
    /// When the memory is full, refuse to store instead of evicting items.
    #[arg(long, short = 'M')]
    disable_evictions: bool,
    /// Most connections at once [default: 1024].
    #[arg(long, short, value_name = "N")]
    conn_limit: Option<usize>,
    /// Longest item: bytes, or a number with k or m [default: 1m].
    #[arg(long, short = 'I', value_name = "SIZE", value_parser = parse_bytes)]
    max_item_size: Option<usize>,
    /// Let clients stop the server with `shutdown`.
    #[arg(long, short = 'A')]
    enable_shutdown: bool,
    /// Refuse `flush_all`.
    #[arg(long, short = 'F')]
    disable_flush_all: bool,
    /// Refuse to list keys.
    #[arg(long, short = 'X')]
    disable_dumping: bool,
    /// Names and passwords by SASL PLAIN, in the binary protocol alone. Needs -Y, or MEMCACHED_SASL_PWDB in the
    /// environment.
    #[arg(long, short = 'S')]
    enable_sasl: bool,
    /// File with the names and passwords of clients: a line name:password for each. Without -S they speak the text
    /// protocol alone.
    #[arg(long, short = 'Y', value_name = "FILE")]
    auth_file: Option<PathBuf>,
    /// Run in the background.
    #[arg(long, short = 'd')]
    daemon: bool,
    /// File for the process id.
    #[arg(long, short = 'P', value_name = "FILE")]
    pidfile: Option<PathBuf>,
    /// Log more than --log-level: -v for debugging, -vv for everything.
    #[arg(short, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(flatten)]
    server: ServerFlags,
    // The last, as its heading is for all that follow.
    #[command(flatten)]
    unsupported: UnsupportedFlags,
}

impl ProgramFlags for Flags {
    type Config = Config;

    fn apply_to(self, config: &mut Config) -> anyhow::Result<()> {
        if !self.listen.is_empty() {
            config.listen = self.listen;
        }
        replace(&mut config.port, self.port);
        self.sockets.apply_to(&mut config.sockets);
        self.transport.apply_to(&mut config.transport);
        config.without_effect = self.unsupported.given().collect();
        self.extended.apply_to(config)?;
        self.server.apply_to(config.common());
        config.evict &= !self.disable_evictions;
        config.enable_shutdown |= self.enable_shutdown;
        config.enable_flush &= !self.disable_flush_all;
        config.enable_dump &= !self.disable_dumping;
        config.sasl |= self.enable_sasl;
        config.auth_file = self.auth_file.or(config.auth_file.take());
        if config.sasl && config.auth_file.is_none() {
            config.auth_file = std::env::var_os("MEMCACHED_SASL_PWDB").map(PathBuf::from);
        }
        config.daemon = self.daemon;
        config.pid_file = self.pidfile.or(config.pid_file.take());
        replace(&mut config.server.connections_max, self.conn_limit);
        replace(&mut config.udp_port, self.udp_port);
        replace(&mut config.memory_limit_mib, self.memory_limit);
        replace(&mut config.item_len_max, self.max_item_size);
        let verbose = match self.verbose {
            0 => None,
            1 => Some(LogLevel::Debug),
            _ => Some(LogLevel::Trace),
        };
        replace(&mut config.log_level, verbose);
        if config.transport.is_polled() && config.udp_port == 0 {
            ensure!(
                self.udp_port.is_none(),
                "--transport dpdk carries datagrams and needs a UDP port: remove -U 0"
            );
            config.udp_port = UDP_PORT;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use psp_program::CommandLine;

    fn resolve(flags: &[&str]) -> anyhow::Result<Config> {
        let words = std::iter::once("psp-memcached").chain(flags.iter().copied());
        CommandLine::<Flags>::try_parse_from(words)?.resolve()
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
