//! What the server is started with: built-in defaults, then a TOML file, then flags.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context as _;
use clap::Parser;
use psp_protocols::resp::Resp;
use psp_server::{Policy, PreemptPolicy, Topology};
use serde::{Deserialize, Serialize};

/// The whole configuration. A file sets any part of it; what it does not name keeps its default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Addresses to listen on; the loopback interface by default.
    pub bind: Vec<IpAddr>,
    /// TCP port; 6379 by default, 0 for any free one.
    pub port: u16,
    /// Password that clients must give before anything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requirepass: Option<String>,
    /// The least severe messages that are logged.
    pub log_level: LogLevel,
    /// What clients may send.
    pub limits: Limits,
    /// How requests are scheduled.
    pub policy: Policy,
    /// Workers, topology, connections and buffers.
    pub server: psp_server::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bind: vec![Ipv4Addr::LOCALHOST.into()],
            port: 6379,
            requirepass: None,
            log_level: LogLevel::default(),
            limits: Limits::default(),
            policy: Policy::darc(),
            server: psp_server::Config::default(),
        }
    }
}

/// Limits on what clients may send. Exceeding the first is an error for that command, the
/// others close the connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Longest argument and longest string value, in bytes.
    pub proto_max_bulk_len: usize,
    /// Most arguments of one command.
    pub arguments_max: usize,
    /// Longest inline command, in bytes.
    pub inline_len_max: usize,
    /// Longest request, in bytes.
    pub request_len_max: usize,
}

impl Default for Limits {
    /// Those of Redis 7.
    fn default() -> Self {
        let resp = Resp::default();
        Self {
            proto_max_bulk_len: resp.bulk_len_max,
            arguments_max: resp.elements_max,
            inline_len_max: resp.inline_len_max,
            request_len_max: resp.frame_len_max,
        }
    }
}

impl Limits {
    /// The framing that enforces them.
    #[must_use]
    pub fn framing(&self) -> Resp {
        Resp {
            bulk_len_max: self.proto_max_bulk_len,
            elements_max: self.arguments_max,
            inline_len_max: self.inline_len_max,
            frame_len_max: self.request_len_max,
        }
    }
}

/// Severity of log messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// What made something fail.
    Error,
    /// What may become a problem.
    Warn,
    /// Start, stop and what an operator wants to know.
    #[default]
    Info,
    /// What a developer wants to know.
    Debug,
    /// Everything.
    Trace,
}

impl From<LogLevel> for tracing::Level {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

/// A Redis-compatible server whose short commands stay fast while long ones run.
///
/// Flags take precedence over the configuration file.
#[derive(Debug, Clone, Default, Parser)]
#[command(name = "psp-redis", version)]
pub struct Flags {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print the resulting configuration as TOML and exit.
    #[arg(long)]
    pub print_config: bool,
    /// Address to listen on; may be given several times [default: 127.0.0.1].
    #[arg(long, value_name = "ADDRESS")]
    pub bind: Vec<IpAddr>,
    /// TCP port [default: 6379].
    #[arg(long, short)]
    pub port: Option<u16>,
    /// Scheduling policy.
    #[arg(long, value_name = "NAME", value_parser = Policy::from_str, help = policy_help())]
    pub policy: Option<Policy>,
    /// How long commands give way to others: none or cooperative [default: cooperative].
    #[arg(long, value_name = "NAME", value_parser = PreemptPolicy::from_str)]
    pub preempt: Option<PreemptPolicy>,
    /// Number of workers [default: from the number of cores].
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Which threads there are: auto, inline or dedicated [default: auto].
    #[arg(long, value_name = "NAME", value_parser = Topology::from_str)]
    pub topology: Option<Topology>,
    /// Password that clients must give.
    #[arg(long, value_name = "PASSWORD")]
    pub requirepass: Option<String>,
    /// Most connections at once [default: 10000].
    #[arg(long, value_name = "N")]
    pub maxclients: Option<usize>,
    /// Close connections without a request for this many seconds; 0 for never [default: 0].
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<u64>,
    /// Longest argument and string value, in bytes [default: 536870912].
    #[arg(long, value_name = "BYTES")]
    pub proto_max_bulk_len: Option<usize>,
    /// Most arguments of one command [default: 1048576].
    #[arg(long, value_name = "N")]
    pub arguments_max: Option<usize>,
    /// Longest inline command, in bytes [default: 65536].
    #[arg(long, value_name = "BYTES")]
    pub inline_len_max: Option<usize>,
    /// Longest request, in bytes [default: 1073741824].
    #[arg(long, value_name = "BYTES")]
    pub request_len_max: Option<usize>,
    /// Least severe messages that are logged [default: info].
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
}

/// Help for `--policy`.
fn policy_help() -> String {
    let names = Policy::NAMES.join(", ");
    format!(
        "Scheduling policy: {names} [default: darc]. With settings after it, as in 'mq quantum-us=20', or \
         those of the file, else its defaults."
    )
}

impl Flags {
    /// The configuration that the file, if there is one, and the flags make.
    ///
    /// # Errors
    /// When the file cannot be read or says what the server does not understand; names the file and
    /// the line.
    pub fn resolve(self) -> anyhow::Result<Config> {
        let mut config = match &self.config {
            Some(file) => read_file(file)?,
            None => Config::default(),
        };
        self.apply_to(&mut config);
        Ok(config)
    }

    fn apply_to(self, config: &mut Config) {
        if !self.bind.is_empty() {
            config.bind = self.bind;
        }
        if let Some(policy) = self.policy {
            // A name alone leaves the file its settings.
            let settings = policy.name().parse().as_ref() != Ok(&policy);
            if settings || policy.name() != config.policy.name() {
                config.policy = policy;
            }
        }
        config.requirepass = self.requirepass.or(config.requirepass.take());
        config.server.workers = self.workers.or(config.server.workers);
        let Config { limits, server, .. } = config;
        replace(&mut limits.proto_max_bulk_len, self.proto_max_bulk_len);
        replace(&mut limits.arguments_max, self.arguments_max);
        replace(&mut limits.inline_len_max, self.inline_len_max);
        replace(&mut limits.request_len_max, self.request_len_max);
        replace(&mut server.topology, self.topology);
        replace(&mut server.preempt, self.preempt);
        replace(&mut server.connections_max, self.maxclients);
        replace(&mut server.idle_timeout_s, self.timeout);
        replace(&mut config.port, self.port);
        replace(&mut config.log_level, self.log_level);
    }
}

fn replace<T>(setting: &mut T, flag: Option<T>) {
    if let Some(value) = flag {
        *setting = value;
    }
}

fn read_file(file: &Path) -> anyhow::Result<Config> {
    let name = file.display();
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the configuration file {name}"))?;
    // The error of the parser shows line and column.
    toml::from_str(&text).with_context(|| format!("in the configuration file {name}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use psp_server::policy::Darc;

    use super::*;

    fn resolve(file: &str, flags: &[&str]) -> anyhow::Result<Config> {
        let mut on_disk = tempfile::NamedTempFile::new()?;
        on_disk.write_all(file.as_bytes())?;
        let path = on_disk.path().to_str().expect("a path of ASCII").to_owned();
        let args = ["psp-redis", "--config", &path];
        Flags::try_parse_from(args.iter().chain(flags))?.resolve()
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let file = "
            port = 7000
            requirepass = 'from file'
            [policy]
            name = 'darc'
            delta = 5.0
            [server]
            workers = 3
            connections_max = 50
        ";
        let config = resolve(file, &["--port", "7001", "--maxclients", "60"]).expect("valid");
        assert_eq!(config.port, 7001);
        assert_eq!(config.requirepass.as_deref(), Some("from file"));
        assert_eq!(config.server.workers, Some(3));
        assert_eq!(config.server.connections_max, 60);
        assert_eq!(config.bind, Config::default().bind);
        assert_eq!(config.limits, Limits::default());
        let same_policy = resolve(file, &["--policy", "darc"]).expect("valid");
        assert_eq!(same_policy.policy, config.policy);
        assert_ne!(config.policy, Policy::darc());
        let other_policy = resolve(file, &["--policy", "c-fcfs"]).expect("valid");
        assert_eq!(other_policy.policy, Policy::c_fcfs());
        let settings = resolve(file, &["--policy", "darc delta=7"]).expect("valid");
        assert_eq!(settings.policy, Darc::default().delta(7.0).into());
    }

    #[test]
    fn a_printed_configuration_reads_back_the_same() {
        let config = Config {
            requirepass: Some("x".into()),
            ..Config::default()
        };
        let printed = toml::to_string(&config).expect("serialises");
        assert_eq!(toml::from_str::<Config>(&printed).expect("parses"), config);
    }

    #[test]
    fn errors_say_where() {
        let message = format!(
            "{:#}",
            resolve("port = 1\nprot = 2", &[]).expect_err("a typo")
        );
        assert!(
            message.contains("line 2") && message.contains("prot"),
            "{message}"
        );
        let message = format!(
            "{:#}",
            resolve("", &["--policy", "best"]).expect_err("no policy")
        );
        assert!(
            message.contains("--policy") && message.contains("darc"),
            "{message}"
        );
        let flags = Flags {
            config: Some("/does/not/exist".into()),
            ..Flags::default()
        };
        let message = format!("{:#}", flags.resolve().expect_err("no file"));
        assert!(message.contains("/does/not/exist"), "{message}");
    }

    #[test]
    fn limits_reach_the_framing() {
        let limits = Limits {
            arguments_max: 7,
            ..Limits::default()
        };
        assert_eq!(limits.framing().elements_max, 7);
    }
}
