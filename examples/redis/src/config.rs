//! The configuration: built-in defaults, then a TOML file, then flags.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::ensure;
use clap::{ArgAction, Parser};
pub use psp_program::LogLevel;
use psp_program::{CommonSettings, GroupMemory, ProgramConfig, SocketConfig, TlsFiles, number_or_text, replace};
use psp_protocols::resp::Resp;
use psp_server::{Policy, TypeSpec};
use psp_store::{Databases, EvictionPolicy, LfuRates};
use serde::{Deserialize, Deserializer, Serialize};

use crate::acl::{PubSubDefault, UserDefinition, check_names};
use crate::keyspace_events::Classes;
use crate::memory::parse_bytes;
use crate::persistence::{Fsync, SavePoints, check_file_name};
use crate::pubsub::OutputLimit;

/// A Redis-compatible server whose short commands stay fast while long ones run.
///
/// Flags take precedence over the configuration file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Parser)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(name = "psp-redis", version)]
#[command(mut_arg("unix", |unix| unix.long("unixsocket")))]
#[command(mut_arg("unix_mode", |mode| mode.long("unixsocketperm")))]
pub struct Config {
    /// Address to listen on; several are separated by commas [default: 127.0.0.1].
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    #[serde(deserialize_with = "psp_program::one_or_many")]
    pub bind: Vec<IpAddr>,
    /// TCP port [default: 6379].
    #[arg(long, short)]
    pub port: u16,
    /// A Unix socket, and sockets of a service manager.
    #[command(flatten)]
    pub sockets: SocketConfig,
    /// TCP port for TLS; 0 for any free one [default: none]. Beside it, --port 0 is no plain port, as in Redis.
    #[arg(long, value_name = "PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_port: Option<u16>,
    /// Certificates and keys of the TLS port.
    #[command(flatten)]
    pub tls: TlsFiles,
    /// Password that clients must give.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "PASSWORD")]
    pub requirepass: Option<String>,
    /// A user, as a name and rules; may be given several times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[arg(long, value_name = "NAME RULES")]
    pub user: Vec<UserDefinition>,
    /// File of the users, which ACL LOAD reads and ACL SAVE writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "FILE")]
    pub aclfile: Option<PathBuf>,
    /// How many denials ACL LOG has [default: 128].
    #[arg(long, value_name = "N")]
    pub acllog_max_len: u64,
    /// Which channels new users may use [default: resetchannels].
    #[arg(long, value_name = "WHICH")]
    pub acl_pubsub_default: PubSubDefault,
    /// Refuse other machines while no password is set [default: yes].
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no, action = ArgAction::Set)]
    pub protected_mode: bool,
    /// Who may run DEBUG: nobody, everybody, or clients on this machine [default: no].
    #[arg(long, value_name = "WHO")]
    pub enable_debug_command: DebugAccess,
    /// When the data set is saved, as seconds and changes in pairs, such as '3600 1 300 100' [default: never].
    #[arg(long, value_name = "SECONDS CHANGES ..")]
    pub save: SavePoints,
    /// Folder of the saved data set, which is loaded at the start [default: the current one].
    #[arg(long, value_name = "FOLDER")]
    pub dir: PathBuf,
    /// Name of its file [default: dump.rdb].
    #[arg(long, value_name = "NAME")]
    pub dbfilename: String,
    /// Another RDB file to begin with, if there is none in the folder yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "FILE")]
    pub load: Option<PathBuf>,
    /// Compress long strings in the file [default: yes].
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no, action = ArgAction::Set)]
    pub rdbcompression: bool,
    /// Write a checksum at the end of the file, and check that of a file that is loaded [default: yes].
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no, action = ArgAction::Set)]
    pub rdbchecksum: bool,
    /// Refuse writes after a save has failed, if there are save points [default: yes].
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no, action = ArgAction::Set)]
    pub stop_writes_on_bgsave_error: bool,
    /// Log each change in an append-only file, which is loaded at the start [default: no].
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no, action = ArgAction::Set)]
    pub appendonly: bool,
    /// When the disk has to have a change: before its reply, within a second, or at some time [default: everysec].
    #[arg(long, value_name = "WHEN")]
    pub appendfsync: Fsync,
    /// Folder of the append-only file, within `dir` [default: appendonlydir].
    #[arg(long, value_name = "NAME")]
    pub appenddirname: String,
    /// What the names of its files begin with [default: appendonly.aof].
    #[arg(long, value_name = "NAME")]
    pub appendfilename: String,
    /// Growth in percent after which it is rewritten; 0 for never [default: 100].
    #[arg(long, value_name = "PERCENT")]
    pub auto_aof_rewrite_percentage: u64,
    /// Bytes that it has at least when it is rewritten by itself [default: 64mb].
    #[serde(deserialize_with = "bytes_in_file")]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub auto_aof_rewrite_min_size: u64,
    /// Load a file that ends within a command, without that [default: yes].
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no, action = ArgAction::Set)]
    pub aof_load_truncated: bool,
    /// Note the time in the append-only file, once a second [default: no].
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no, action = ArgAction::Set)]
    pub aof_timestamp_enabled: bool,
    /// With appendfsync always, show reads only what the disk has, too [default: no].
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no, action = ArgAction::Set)]
    pub aof_read_durable: bool,
    /// Who may change the folder and the name by CONFIG SET, as for DEBUG [default: no].
    #[arg(long, value_name = "WHO")]
    pub enable_protected_configs: DebugAccess,
    /// How many databases there are [default: 16].
    #[arg(long, value_name = "N")]
    pub databases: usize,
    /// Memory beyond which writes get an error, such as 100mb; 0 for no limit [default: by the control group].
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "maxmemory_in_file")]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub maxmemory: Option<u64>,
    /// Which keys are evicted then, such as allkeys-lru [default: noeviction].
    #[serde(with = "eviction_policy")]
    #[arg(long, value_name = "POLICY")]
    pub maxmemory_policy: EvictionPolicy,
    /// Keys that are looked at for each eviction [default: 5].
    #[arg(long, value_name = "N", value_parser = samples)]
    pub maxmemory_samples: usize,
    /// How slowly the frequency of a key grows under an LFU policy; 10 by default.
    #[arg(skip)]
    pub lfu_log_factor: u32,
    /// Minutes without an access after which the frequency of a key is one less; 1 by default, 0 for never.
    #[arg(skip)]
    pub lfu_decay_time: u32,
    /// What may wait for a client that reads slowly: at once, and for so many seconds [default: pubsub 32mb 8mb 60].
    #[arg(long, value_name = "normal|pubsub HARD SOFT SECONDS")]
    pub client_output_buffer_limit: OutputLimit,
    /// Which events of keys are published, in Redis's letters, such as KEA [default: none].
    #[arg(long, value_name = "CLASSES")]
    pub notify_keyspace_events: Classes,
    /// Milliseconds after which a script stops if the server is to end; 5000 by default.
    #[arg(skip)]
    pub busy_reply_threshold: u64,
    /// Milliseconds after which a script is stopped; 0, the default, for never.
    #[arg(skip)]
    pub script_time_limit_ms: u64,
    /// The least severe level of log messages.
    #[arg(skip)]
    pub log_level: LogLevel,
    /// Serve in the background [default: no].
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no, action = ArgAction::Set)]
    pub daemonize: bool,
    /// File that has the log in the place of standard error [default: none].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "FILE")]
    pub logfile: Option<PathBuf>,
    /// File that has the process's number while the server runs [default: none].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "FILE")]
    pub pidfile: Option<PathBuf>,
    /// What CONFIG SET knows and no flag, as a name and a value; may be given several times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[arg(long, value_name = "NAME VALUE")]
    pub setting: Vec<NamedSetting>,
    /// A redis.conf, as `psp-redis FILE` does; - for standard input. CONFIG REWRITE writes it.
    #[serde(skip)]
    #[arg(long, value_name = "FILE")]
    pub redis_conf: Option<PathBuf>,
    /// Do not start if a setting of Redis has no effect here.
    #[serde(skip)]
    #[arg(long)]
    pub strict: bool,
    /// Most connections at once [default: 10000].
    #[serde(skip)]
    #[arg(long, value_name = "N")]
    pub maxclients: Option<usize>,
    /// Close connections without a request for this many seconds; 0 for never [default: 0].
    #[serde(skip)]
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<u64>,
    /// Limits on requests.
    #[command(flatten)]
    pub limits: Limits,
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
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bind: vec![Ipv4Addr::LOCALHOST.into()],
            port: 6379,
            tls_port: None,
            requirepass: None,
            user: Vec::new(),
            aclfile: None,
            acllog_max_len: 128,
            acl_pubsub_default: PubSubDefault::default(),
            protected_mode: true,
            enable_debug_command: DebugAccess::default(),
            save: SavePoints::default(),
            dir: PathBuf::from("."),
            dbfilename: "dump.rdb".to_owned(),
            load: None,
            rdbcompression: true,
            rdbchecksum: true,
            stop_writes_on_bgsave_error: true,
            appendonly: false,
            appendfsync: Fsync::default(),
            appenddirname: "appendonlydir".to_owned(),
            appendfilename: "appendonly.aof".to_owned(),
            auto_aof_rewrite_percentage: 100,
            auto_aof_rewrite_min_size: 64 << 20,
            aof_load_truncated: true,
            aof_timestamp_enabled: false,
            aof_read_durable: false,
            enable_protected_configs: DebugAccess::default(),
            databases: 16,
            maxmemory: None,
            maxmemory_policy: EvictionPolicy::default(),
            maxmemory_samples: 5,
            lfu_log_factor: LfuRates::default().log_factor,
            lfu_decay_time: LfuRates::default().decay_minutes,
            client_output_buffer_limit: OutputLimit::default(),
            notify_keyspace_events: Classes::default(),
            busy_reply_threshold: 5000,
            script_time_limit_ms: 0,
            log_level: LogLevel::default(),
            daemonize: false,
            logfile: None,
            pidfile: None,
            setting: Vec::new(),
            redis_conf: None,
            strict: false,
            maxclients: None,
            timeout: None,
            sockets: SocketConfig::default(),
            tls: TlsFiles::default(),
            limits: Limits::default(),
            policy: Policy::darc(),
            // A command that takes a second may be a script without an end, whatever its like took.
            server: psp_server::Config::default()
                .stuck_after_ms(1000)
                .stuck_after_means(0)
                .admission(psp_server::AdmissionMode::Off),
            types: Vec::new(),
        }
    }
}

impl ProgramConfig for Config {
    fn common(&mut self) -> CommonSettings<'_> {
        CommonSettings::new(&mut self.log_level, &mut self.policy, &mut self.server)
    }

    fn settle(&mut self) -> anyhow::Result<()> {
        check_names(&self.user).map_err(anyhow::Error::msg)?;
        check_file_name(&self.dbfilename).map_err(anyhow::Error::msg)?;
        for name in [&self.appenddirname, &self.appendfilename] {
            ensure!(
                check_file_name(name).is_ok(),
                "'{name}' is no name of a file or folder of the append-only file"
            );
        }
        check_databases(self.databases).map_err(anyhow::Error::msg)?;
        check_samples(self.maxmemory_samples).map_err(anyhow::Error::msg)?;
        let normal_bytes = self.client_output_buffer_limit.normal_bytes;
        let normal_bytes = normal_bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        replace(&mut self.server.output_bytes_max, normal_bytes);
        replace(&mut self.server.connections_max, self.maxclients.take());
        replace(&mut self.server.idle_timeout_s, self.timeout.take());
        Ok(())
    }

    fn log_file(&self) -> Option<&Path> {
        self.logfile.as_deref()
    }

    fn data_bytes(&self) -> u64 {
        self.maxmemory_bytes()
    }

    fn validate(&self) -> anyhow::Result<()> {
        ensure!(
            self.tls_port.is_none() || !self.bind.is_empty(),
            "bind (--bind) is empty: there is no address for the TLS port"
        );
        self.limits.validate()
    }
}

impl DebugAccess {
    /// Whether a client may that is on this machine, or is not.
    #[must_use]
    pub const fn allows(self, is_local: bool) -> bool {
        match self {
            Self::No => false,
            Self::Yes => true,
            Self::Local => is_local,
        }
    }
}

impl Config {
    /// Memory in bytes beyond which writes get an error; 0 for no limit.
    #[must_use]
    pub fn maxmemory_bytes(&self) -> u64 {
        let default = || GroupMemory::get().map_or(0, |group| group.data_bytes());
        self.maxmemory.unwrap_or_else(default)
    }
}

/// Who may run DEBUG, and change what is protected, in the words of Redis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum DebugAccess {
    /// No client.
    #[default]
    No,
    /// Everybody.
    Yes,
    /// Clients from loopback addresses and Unix sockets.
    Local,
}

/// A parameter of CONFIG and its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NamedSetting {
    name: String,
    value: String,
}

impl NamedSetting {
    /// The parameter.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is set to.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl FromStr for NamedSetting {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, value) = text.split_once(' ').ok_or("it must be a name and a value, such as 'hz 20'")?;
        Ok(Self { name: name.to_owned(), value: value.trim().to_owned() })
    }
}

impl TryFrom<String> for NamedSetting {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<NamedSetting> for String {
    fn from(NamedSetting { name, value }: NamedSetting) -> Self {
        format!("{name} {value}")
    }
}

/// Limits on requests. A command that exceeds the first limit gets an error. A request that exceeds
/// another limit closes the connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    /// Longest argument and string value [default: 512mb].
    #[serde(deserialize_with = "len_in_file")]
    #[arg(long, value_name = "BYTES", value_parser = len)]
    pub proto_max_bulk_len: usize,
    /// Most arguments of one command [default: 1048576].
    #[arg(long, value_name = "N")]
    pub arguments_max: usize,
    /// Longest inline command [default: 64kb].
    #[serde(deserialize_with = "len_in_file")]
    #[arg(long, value_name = "BYTES", value_parser = len)]
    pub inline_len_max: usize,
    /// Longest request [default: 1gb].
    #[serde(deserialize_with = "len_in_file")]
    #[arg(long, value_name = "BYTES", value_parser = len)]
    pub request_len_max: usize,
}

impl Default for Limits {
    /// The limits of Redis 7.
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
    /// The least of `proto-max-bulk-len` and of the length of a request, as in Redis.
    pub(crate) const LEN_MIN: usize = 1 << 20;

    fn validate(&self) -> anyhow::Result<()> {
        let least = [
            ("proto-max-bulk-len", self.proto_max_bulk_len, Self::LEN_MIN),
            ("arguments-max", self.arguments_max, 1),
            ("inline-len-max", self.inline_len_max, 1),
            ("request-len-max", self.request_len_max, Self::LEN_MIN),
        ];
        for (name, value, min) in least {
            ensure!(value >= min, "limits.{name} (--{name}) is {value}, it must be at least {min}");
        }
        // The default is not what somebody asked for.
        let (len, request_len) = (self.proto_max_bulk_len, self.request_len_max);
        ensure!(
            len <= request_len || len == Self::default().proto_max_bulk_len,
            "limits.proto-max-bulk-len (--proto-max-bulk-len) is {len}: an argument of that length is longer than a \
             request may be, limits.request-len-max (--request-len-max) is {request_len}"
        );
        Ok(())
    }

    /// The framing that enforces these limits.
    #[must_use]
    pub fn framing(&self) -> Resp {
        Resp::default()
            .bulk_len_max(self.proto_max_bulk_len)
            .elements_max(self.arguments_max)
            .inline_len_max(self.inline_len_max)
            .frame_len_max(self.request_len_max)
    }
}

/// The name of an eviction policy in a configuration file.
mod eviction_policy {
    use psp_store::EvictionPolicy;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(policy: &EvictionPolicy, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(policy.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<EvictionPolicy, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(Error::custom)
    }
}

/// What is no number of bytes.
const NOT_BYTES: &str = "it must be a number of bytes, at least 0, such as 104857600 or 100mb";

/// A number of bytes, with one of Redis' units or without.
fn bytes(text: &str) -> Result<u64, &'static str> {
    parse_bytes(text).map_err(|_not_bytes| NOT_BYTES)
}

/// The same, of something that is in memory.
fn len(text: &str) -> Result<usize, &'static str> {
    usize::try_from(bytes(text)?).map_err(|_too_large| NOT_BYTES)
}

fn maxmemory_in_file<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    number_or_text(deserializer, bytes).map(Some)
}

fn bytes_in_file<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    number_or_text(deserializer, bytes)
}

fn len_in_file<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    number_or_text(deserializer, len)
}

/// A number of keys to look at for each eviction.
///
/// # Errors
/// A message with the range.
pub fn samples(text: &str) -> Result<usize, &'static str> {
    check_samples(text.parse().unwrap_or(0))
}

fn check_samples(samples: usize) -> Result<usize, &'static str> {
    /// As in Redis.
    const SAMPLES_MAX: usize = 64;
    match samples {
        1..=SAMPLES_MAX => Ok(samples),
        _ => Err("maxmemory-samples must be between 1 and 64 inclusive"),
    }
}

fn check_databases(count: usize) -> Result<(), String> {
    let max = Databases::COUNT_MAX;
    match count {
        1.. if count <= max => Ok(()),
        _ => Err(format!("databases must be between 1 and {max} inclusive")),
    }
}

/// A switch in Redis' words.
///
/// # Errors
/// A message that names both words.
pub fn yes_or_no(word: &str) -> Result<bool, &'static str> {
    match word {
        _ if word.eq_ignore_ascii_case("yes") => Ok(true),
        _ if word.eq_ignore_ascii_case("no") => Ok(false),
        _ => Err("argument must be 'yes' or 'no'"),
    }
}

/// The log level that Redis calls `word`; other words are the program's own.
///
/// # Errors
/// A message with the words.
pub fn log_level(word: &str) -> Result<&'static str, &'static str> {
    const LEVELS: [(&str, &str); 9] = [
        ("nothing", "error"),
        ("warning", "warn"),
        ("notice", "info"),
        ("verbose", "debug"),
        ("error", "error"),
        ("warn", "warn"),
        ("info", "info"),
        ("debug", "debug"),
        ("trace", "trace"),
    ];
    let level = LEVELS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
    let (_, level) =
        level.ok_or("argument(s) must be one of the following: debug, verbose, notice, warning, nothing")?;
    Ok(level)
}

#[cfg(test)]
mod tests {
    use psp_program::CommandLine;
    use std::io::Write;

    use psp_server::policy::Darc;

    use super::*;

    fn resolve(file: &str, flags: &[&str]) -> anyhow::Result<Config> {
        let mut on_disk = tempfile::NamedTempFile::new()?;
        on_disk.write_all(file.as_bytes())?;
        let path = on_disk.path().to_str().expect("a path of ASCII").to_owned();
        let args = ["psp-redis", "--config", &path];
        CommandLine::<Config>::try_parse_from(args.iter().chain(flags))?.resolve()
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
        assert_eq!(config.server.workers, Some(3.into()));
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
    fn a_topology_without_a_policy_has_one_that_it_can_run() {
        let policy = |flags: &[&str]| resolve("", flags).unwrap().policy;
        let distributed = ["--topology", "distributed"];
        assert_eq!(policy(&distributed), Policy::darc_distributed());
        let chosen = [&distributed[..], &["--policy", "jsq"]].concat();
        assert_eq!(policy(&chosen).name(), "jsq");
        assert_eq!(policy(&["--topology", "inline"]), Policy::darc());
    }

    #[test]
    fn a_printed_configuration_reads_back_the_same() {
        let config = Config { requirepass: Some("x".into()), ..Config::default() };
        let printed = toml::to_string(&config).expect("serialises");
        assert_eq!(toml::from_str::<Config>(&printed).expect("parses"), config);
    }

    #[test]
    fn errors_name_the_line_the_flag_or_the_file() {
        let message = format!("{:#}", resolve("port = 1\nprot = 2", &[]).expect_err("a typo"));
        assert!(message.contains("line 2") && message.contains("prot"), "{message}");
        let message = format!("{:#}", resolve("", &["--policy", "best"]).expect_err("no policy"));
        assert!(message.contains("--policy") && message.contains("darc"), "{message}");
        let flags = ["psp-redis", "--config", "/does/not/exist"];
        let flags = CommandLine::<Config>::try_parse_from(flags).expect("known flags");
        let message = format!("{:#}", flags.resolve().expect_err("no file"));
        assert!(message.contains("/does/not/exist"), "{message}");
    }

    #[test]
    fn there_are_as_many_databases_as_the_setting_says() {
        let databases = |file: &str, flags: &[&str]| {
            resolve(file, flags).map(|config| config.databases).map_err(|error| error.to_string())
        };
        assert_eq!(databases("", &[]), Ok(16));
        assert_eq!(databases("databases = 4", &[]), Ok(4));
        assert_eq!(databases("databases = 4", &["--databases", "20"]), Ok(20));
        for wrong in ["0", "16385"] {
            let error = databases("", &["--databases", wrong]).expect_err(wrong);
            assert!(error.contains("between 1 and 16384"), "{error}");
        }
    }

    #[test]
    fn a_file_may_be_written_as_flags_are() {
        let file = "bind = '::1'\nmaxmemory = '100mb'\nlimits.proto_max_bulk_len = '2mb'\n\
                    limits.inline-len-max = '1kb'\nlimits.request-len-max = '1g'";
        let flags = "--bind ::1 --maxmemory 100mb --proto-max-bulk-len 2mb --inline-len-max 1kb --request-len-max 1g";
        let flags: Vec<&str> = flags.split(' ').collect();
        let config = resolve(file, &[]).expect("valid");
        assert_eq!(config, resolve("", &flags).expect("valid"));
        assert_eq!(config.maxmemory, Some(100 << 20));
        let numbers = "bind = ['::1']\nmaxmemory = 104857600\nlimits.proto-max-bulk-len = 2097152\n\
                       limits.inline-len-max = 1024\nlimits.request-len-max = 1000000000";
        assert_eq!(config, resolve(numbers, &[]).expect("valid"));
    }

    #[test]
    fn settings_that_cannot_be_are_refused_by_their_names() {
        for (file, flags, expected) in [
            ("", "--maxclients 0", "server.connections-max (--maxclients) is 0, it must be"),
            ("server.connections-max = 0", "", "server.connections-max (--maxclients) is 0"),
            ("", "--timeout -1", "'-1' is out of range for '--timeout <SECONDS>'"),
            ("", "--maxmemory -5", "'--maxmemory <BYTES>': it must be a number of bytes, at least 0"),
            ("", "--port -1", "-1 is not in 0..=65535"),
            ("maxmemory = -5", "", "line 1, column 13: -5 is out of range"),
            ("maxmemory = 'much'", "", "line 1, column 13: `much`: it must be a number of bytes"),
            ("", "--proto-max-bulk-len 0", "limits.proto-max-bulk-len (--proto-max-bulk-len) is 0"),
            (
                "limits.proto-max-bulk-len = 99999999999",
                "",
                "limits.request-len-max (--request-len-max) is 1073741824",
            ),
            ("", "--request-len-max 10", "(--request-len-max) is 10, it must be at least 1048576"),
            ("", "--arguments-max 0", "(--arguments-max) is 0, it must be at least 1"),
            (
                "[server]\nbuffered-bytes-max = 1",
                "",
                "server.buffered-bytes-max is 1, it must be between",
            ),
            ("bind = []", "--tls-port 0", "bind (--bind) is empty"),
            ("[policy]\nname = 'mq'\nfoo = 1", "", "line 3, column 1: unknown field `foo`"),
        ] {
            let flags: Vec<&str> = flags.split_whitespace().collect();
            let message = format!("{:#}", resolve(file, &flags).expect_err(expected));
            assert!(message.contains(expected), "{message}");
        }
        let smaller = resolve("limits.request-len-max = '64mb'", &[]);
        assert!(smaller.is_ok(), "an argument is as long as a request then");
    }

    #[test]
    fn types_of_a_file_are_hints() {
        let text = "[[types]]\nname = 'health'\ncontrol = false\n";
        let config = resolve(text, &[]).expect("valid");
        assert_eq!(config.types[0].control, Some(false));
        let printed = toml::to_string(&config).expect("serialises");
        assert_eq!(toml::from_str::<Config>(&printed).expect("parses"), config);
    }

    #[test]
    fn limits_reach_the_framing() {
        let limits = Limits { arguments_max: 7, ..Limits::default() };
        assert_eq!(limits.framing().elements_max, 7);
    }
}
