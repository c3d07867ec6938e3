//! The CONFIG command.

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::path::Path;

use clap::ValueEnum as _;
use psp_program::OldestVersion;
use psp_program::descriptors::make_room;
use psp_server::Policy;
use psp_server::policy::PolicyError;
use psp_store::PackingLimit::{HashBytes, HashEntries, SetEntries, SortedSetBytes, SortedSetEntries};
use psp_store::{LfuRates, PackingLimit, UnknownEvictionPolicy};

use crate::acl::PubSubDefault;
use crate::admission::is_local;
use crate::command::{Context, Flag, ReplyEncoder, Row, Subcommands};
use crate::config::{DebugAccess, Limits, LogLevel, samples, yes_or_no};
use crate::error::CommandError;
use crate::glob::{Pattern, Steps};
use crate::memory::parse_bytes;
use crate::parse::Result;
use crate::persistence::Fsync;
use crate::state::ServerState;
use crate::tls::AUTH_CLIENTS;

use super::subcommand::write_help;

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[Row::container("config", SUBCOMMANDS).flags(&[Flag::Admin, Flag::NoScript])];

const SUBCOMMANDS: Subcommands =
    &[("get", get), ("help", help), ("resetstat", resetstat), ("rewrite", rewrite), ("set", set)];

/// The text of CONFIG HELP, as in Redis.
const HELP: &[&str] = &[
    "GET <pattern>",
    "    Return parameters matching the glob-like <pattern> and their values.",
    "SET <directive> <value>",
    "    Set the configuration <directive> to <value>.",
    "RESETSTAT",
    "    Reset statistics reported by the INFO command.",
    "REWRITE",
    "    Rewrite the configuration file.",
];

fn help(_: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    write_help("config", HELP, out);
    Ok(())
}

/// A parameter of CONFIG.
struct Parameter {
    name: &'static str,
    get: fn(&ServerState) -> String,
    set: Setter,
}

/// Success, or a message that names the possible values.
type Setting = Result<(), Cow<'static, str>>;

const NOT_RUNNING: &str = "the server is not running yet";

/// How to change a parameter.
enum Setter {
    /// The parameter cannot change while the server runs.
    Fixed,
    /// This function sets the parameter. Its error names the possible values.
    By(fn(&ServerState, &[u8]) -> Setting),
    /// The same, for those whom `enable-protected-configs` names.
    Protected(fn(&ServerState, &[u8]) -> Setting),
}

impl Parameter {
    const fn fixed(name: &'static str, get: fn(&ServerState) -> String) -> Self {
        Self { name, get, set: Setter::Fixed }
    }

    const fn protected(
        name: &'static str,
        get: fn(&ServerState) -> String,
        set: fn(&ServerState, &[u8]) -> Setting,
    ) -> Self {
        Self { name, get, set: Setter::Protected(set) }
    }

    /// The function that sets the parameter.
    const fn setter(&self) -> Option<fn(&ServerState, &[u8]) -> Setting> {
        match self.set {
            Setter::Fixed => None,
            Setter::By(set) | Setter::Protected(set) => Some(set),
        }
    }

    const fn new(name: &'static str, get: fn(&ServerState) -> String, set: fn(&ServerState, &[u8]) -> Setting) -> Self {
        Self { name, get, set: Setter::By(set) }
    }
}

/// A limit up to which collections are packed.
macro_rules! packing {
    ($name:literal, $limit:ident) => {
        Parameter::new(
            $name,
            |server| server.databases.packing_limit($limit).to_string(),
            |server, value| set_packing_limit(server, value, $limit),
        )
    };
}

/// A number in a range, and the methods that say and set it.
macro_rules! number {
    ($name:literal => $range:expr, $($get:ident).+, $($set:ident).+) => {
        Parameter::new(
            $name,
            |server| server.$($get).+().to_string(),
            |server, value| {
                server.$($set).+(within(value, $range)?);
                Ok(())
            },
        )
    };
}

/// A switch, and the methods that say and set it.
macro_rules! switch {
    ($name:literal, $($get:ident).+, $($set:ident).+) => {
        Parameter::new(
            $name,
            |server| word_of(server.$($get).+()),
            |server, value| {
                server.$($set).+(yes_or_no(&String::from_utf8_lossy(value))?);
                Ok(())
            },
        )
    };
}

/// All parameters. Fixed parameters without a setting tell clients what the server does not do, such as clusters, or
/// always does, such as releasing values in the background.
const PARAMETERS: &[Parameter] = &[
    Parameter::new("acl-pubsub-default", pubsub_default, set_pubsub_default),
    Parameter::fixed("aclfile", |server| path_of(server.settings.config.aclfile.as_deref())),
    number!("acllog-max-len" => UNSIGNED, acl.log.len_max, acl.log.set_len_max),
    Parameter::fixed("activedefrag", |_| "no".into()),
    switch!("aof-load-truncated", persistence.log.loads_truncated, persistence.log.set_loads_truncated),
    switch!("aof-read-durable", persistence.log.reads_durable, persistence.log.set_reads_durable),
    Parameter::fixed("aof-use-rdb-preamble", |_| "yes".into()),
    Parameter::fixed("appenddirname", |server| server.settings.config.appenddirname.clone()),
    Parameter::fixed("appendfilename", |server| server.settings.config.appendfilename.clone()),
    Parameter::new(
        "appendfsync",
        |server| server.persistence.log.fsync().name().to_owned(),
        |server, value| {
            let fsync = Fsync::from_str(&String::from_utf8_lossy(value), true);
            server
                .persistence
                .log
                .set_fsync(fsync.map_err(|_| "argument(s) must be one of the following: everysec, always, no")?);
            Ok(())
        },
    ),
    Parameter::new(
        "appendonly",
        |server| word_of(server.persistence.log.is_on()),
        |server, value| {
            let is_logged = yes_or_no(&String::from_utf8_lossy(value))?;
            Ok(server.persistence.set_logged(server, is_logged)?)
        },
    ),
    Parameter::new(
        "auto-aof-rewrite-min-size",
        |server| server.persistence.log.rewrite_size_min().to_string(),
        |server, value| {
            server.persistence.log.set_rewrite_size_min(bytes_within(value, UNSIGNED)?);
            Ok(())
        },
    ),
    number!("auto-aof-rewrite-percentage" => 0..=i32::MAX.into(),
        persistence.log.rewrite_percentage, persistence.log.set_rewrite_percentage),
    Parameter::fixed("bind", |server| {
        let addresses = server.settings.config.bind.iter();
        addresses.map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }),
    number!("busy-reply-threshold" => UNSIGNED, settings.busy_reply_threshold_ms, settings.set_busy_reply_threshold_ms),
    Parameter::new(
        "client-output-buffer-limit",
        |server| {
            let limit = server.clients.pubsub.limit();
            limit.with_other_classes(server.output_bytes_max() as u64)
        },
        set_output_limit,
    ),
    Parameter::fixed("client-query-buffer-limit", |server| {
        server.settings.config.limits.request_len_max.to_string()
    }),
    Parameter::fixed("cluster-enabled", |_| "no".into()),
    Parameter::fixed("daemonize", |_| "no".into()),
    Parameter::fixed("databases", |server| server.settings.config.databases.to_string()),
    Parameter::protected(
        "dbfilename",
        |server| server.persistence.file_name(),
        |server, value| Ok(server.persistence.set_file_name(&String::from_utf8_lossy(value))?),
    ),
    Parameter::protected("dir", |server| path_of(Some(&server.persistence.dir())), set_dir),
    Parameter::fixed("enable-debug-command", |server| access_of(server.settings.config.enable_debug_command)),
    Parameter::fixed("enable-protected-configs", |server| {
        access_of(server.settings.config.enable_protected_configs)
    }),
    packing!("hash-max-listpack-entries", HashEntries),
    packing!("hash-max-listpack-value", HashBytes),
    packing!("hash-max-ziplist-entries", HashEntries),
    packing!("hash-max-ziplist-value", HashBytes),
    number!("latency-monitor-threshold" => UNSIGNED, records.latency.threshold_ms, records.set_latency_threshold_ms),
    switch!("latency-tracking", records.keeps_histograms, records.set_keeps_histograms),
    Parameter::new(
        "latency-tracking-info-percentiles",
        |server| {
            let percentiles = server.records.percentiles();
            let texts: Vec<_> = percentiles.iter().map(f64::to_string).collect();
            texts.join(" ")
        },
        set_percentiles,
    ),
    Parameter::fixed("lazyfree-lazy-eviction", |_| "yes".into()),
    Parameter::fixed("lazyfree-lazy-expire", |_| "yes".into()),
    Parameter::fixed("lazyfree-lazy-server-del", |_| "yes".into()),
    Parameter::fixed("lazyfree-lazy-user-del", |_| "yes".into()),
    Parameter::fixed("lazyfree-lazy-user-flush", |_| "yes".into()),
    Parameter::new(
        "lfu-decay-time",
        |server| server.databases.lfu_rates().decay_minutes.to_string(),
        |server, value| set_lfu_rate(server, value, |rates| &mut rates.decay_minutes),
    ),
    Parameter::new(
        "lfu-log-factor",
        |server| server.databases.lfu_rates().log_factor.to_string(),
        |server, value| set_lfu_rate(server, value, |rates| &mut rates.log_factor),
    ),
    Parameter::fixed("logfile", |_| String::new()),
    // Lists are not compressed, and have one form: these change nothing.
    number!("list-compress-depth" => 0..=i32::MAX.into(),
        settings.list_compress_depth, settings.set_list_compress_depth),
    number!("list-max-listpack-size" => SIGNED, settings.list_node_size, settings.set_list_node_size),
    number!("list-max-ziplist-size" => SIGNED, settings.list_node_size, settings.set_list_node_size),
    Parameter::new(
        "loglevel",
        |server| tracing::Level::from(server.settings.log_level()).to_string().to_lowercase(),
        set_log_level,
    ),
    number!("lua-time-limit" => UNSIGNED, settings.busy_reply_threshold_ms, settings.set_busy_reply_threshold_ms),
    Parameter::new("maxclients", |server| server.connections_max().to_string(), set_maxclients),
    Parameter::new("maxmemory", |server| server.settings.maxmemory_bytes().to_string(), set_maxmemory),
    Parameter::fixed("maxmemory-clients", |_| "0".into()),
    Parameter::new("maxmemory-policy", |server| server.evictions.policy().to_string(), set_eviction_policy),
    Parameter::new(
        "maxmemory-samples",
        |server| server.evictions.samples().to_string(),
        |server, value| {
            within::<i64>(value, i64::MIN..=i64::MAX)?;
            let samples = samples(&String::from_utf8_lossy(value))
                .map_err(|_range| "argument must be between 1 and 64 inclusive")?;
            server.evictions.set_samples(samples);
            Ok(())
        },
    ),
    Parameter::new("notify-keyspace-events", |server| server.notifier.classes().to_string(), set_events),
    Parameter::fixed("pidfile", |_| String::new()),
    Parameter::new("policy", |server| server.policy().spelled(), set_policy),
    Parameter::fixed("port", |server| server.settings.config.port.to_string()),
    Parameter::new(
        "proto-max-bulk-len",
        |server| server.settings.value_len_max().to_string(),
        set_value_len_max,
    ),
    Parameter::fixed("psp-topology", |server| server.topology().to_string()),
    Parameter::fixed("psp-workers", |server| server.workers().to_string()),
    switch!("protected-mode", settings.protected_mode, settings.set_protected_mode),
    Parameter::fixed("rdbchecksum", |server| word_of(server.settings.config.rdbchecksum)),
    switch!("rdbcompression", persistence.compresses, persistence.set_compresses),
    Parameter::fixed("replicaof", |_| String::new()),
    Parameter::new(
        "requirepass",
        |server| String::from_utf8_lossy(&server.acl.requirepass()).into_owned(),
        |server, password| {
            server.acl.set_requirepass(&server.clients, password);
            Ok(())
        },
    ),
    Parameter::new(
        "save",
        |server| server.persistence.save_points().to_string(),
        |server, value| {
            server.persistence.set_save_points(String::from_utf8_lossy(value).parse()?);
            Ok(())
        },
    ),
    number!("script-time-limit-ms" => UNSIGNED, settings.script_time_limit_ms, settings.set_script_time_limit_ms),
    packing!("set-max-intset-entries", SetEntries),
    Parameter::fixed("slaveof", |_| String::new()),
    number!("slowlog-log-slower-than" => -1..=i64::MAX,
        records.slow_log.threshold_us, records.set_slow_log_threshold_us),
    number!("slowlog-max-len" => UNSIGNED, records.slow_log.len_max, records.slow_log.set_len_max),
    switch!("stop-writes-on-bgsave-error", persistence.stops_writes, persistence.set_stops_writes),
    Parameter::new(
        "stream-node-max-bytes",
        |server| server.settings.stream_node_bytes_max().to_string(),
        |server, value| {
            let bytes = bytes_within(value, UNSIGNED)?;
            server.settings.set_stream_node_bytes_max(bytes);
            Ok(())
        },
    ),
    number!("stream-node-max-entries" => UNSIGNED,
        settings.stream_node_entries_max, settings.set_stream_node_entries_max),
    Parameter::fixed("supervised", |_| "no".into()),
    Parameter::new("timeout", |server| server.idle_timeout_s().to_string(), set_timeout),
    number!("tracking-table-max-keys" => UNSIGNED, clients.tracking.keys_max, clients.tracking.set_keys_max),
    Parameter::fixed("tls-auth-clients", |server| {
        let choice = server.settings.config.tls.auth_clients;
        choice.unwrap_or(AUTH_CLIENTS).name().to_owned()
    }),
    Parameter::fixed("tls-ca-cert-file", |server| path_of(server.settings.config.tls.ca_cert_file.as_deref())),
    Parameter::fixed("tls-cert-file", |server| path_of(server.settings.config.tls.cert_file.as_deref())),
    Parameter::fixed("tls-key-file", |server| path_of(server.settings.config.tls.key_file.as_deref())),
    Parameter::fixed("tls-port", |server| server.settings.config.tls_port.unwrap_or(0).to_string()),
    Parameter::fixed("tls-protocols", |server| {
        match server.settings.config.tls.oldest_version {
            None => "",
            Some(OldestVersion::Tls12) => "TLSv1.2 TLSv1.3",
            Some(OldestVersion::Tls13) => "TLSv1.3",
        }
        .to_owned()
    }),
    Parameter::fixed("unixsocket", |server| path_of(server.unix_socket())),
    Parameter::fixed("unixsocketperm", |server| {
        let mode = server.settings.config.sockets.unix_mode;
        mode.map_or_else(|| "0".to_owned(), |mode| mode.to_string())
    }),
    packing!("zset-max-listpack-entries", SortedSetEntries),
    packing!("zset-max-listpack-value", SortedSetBytes),
    packing!("zset-max-ziplist-entries", SortedSetEntries),
    packing!("zset-max-ziplist-value", SortedSetBytes),
];

/// A path that is not set is empty, as in Redis.
fn path_of(path: Option<&Path>) -> String {
    path.map_or_else(String::new, |path| path.display().to_string())
}

/// What Redis gives most numbers that are not below 0.
const UNSIGNED: RangeInclusive<i64> = 0..=i64::MAX;
const SIGNED: RangeInclusive<i64> = i32::MIN as i64..=i32::MAX as i64;

/// A number in the range that Redis gives the parameter.
fn within<T: TryFrom<i64>>(value: &[u8], range: RangeInclusive<i64>) -> Result<T, Cow<'static, str>> {
    let text = std::str::from_utf8(value).ok();
    let number: Option<i64> = text.and_then(|text| text.parse().ok());
    in_range(number.ok_or("argument couldn't be parsed into an integer")?, range)
}

/// The same, of a number of bytes that may have a unit.
fn bytes_within<T: TryFrom<i64>>(value: &[u8], range: RangeInclusive<i64>) -> Result<T, Cow<'static, str>> {
    let bytes = parse_bytes(&String::from_utf8_lossy(value))?;
    in_range(i64::try_from(bytes).unwrap_or(i64::MAX), range)
}

fn in_range<T: TryFrom<i64>>(number: i64, range: RangeInclusive<i64>) -> Result<T, Cow<'static, str>> {
    let fits = T::try_from(number).ok();
    fits.filter(|_| range.contains(&number)).ok_or_else(|| {
        let (min, max) = range.into_inner();
        format!("argument must be between {min} and {max} inclusive").into()
    })
}

fn word_of(switch: bool) -> String {
    if switch { "yes" } else { "no" }.to_owned()
}

fn pubsub_default(server: &ServerState) -> String {
    let default = server.acl.pubsub_default().to_possible_value();
    default.map_or_else(String::new, |value| value.get_name().to_owned())
}

fn set_pubsub_default(server: &ServerState, value: &[u8]) -> Setting {
    let default = PubSubDefault::from_str(&String::from_utf8_lossy(value), true)
        .map_err(|_| "argument(s) must be one of the following: allchannels, resetchannels")?;
    server.acl.set_pubsub_default(default);
    Ok(())
}

fn set_percentiles(server: &ServerState, value: &[u8]) -> Setting {
    let text = String::from_utf8_lossy(value);
    let percentile = |word: &str| word.parse().ok().filter(|it| (0.0..=100.0).contains(it));
    let percentiles: Option<Vec<f64>> = text.split_ascii_whitespace().map(percentile).collect();
    let percentiles = percentiles.ok_or("latency percentile parameters must be numbers between 0 and 100")?;
    server.records.set_percentiles(percentiles);
    Ok(())
}

fn access_of(access: DebugAccess) -> String {
    let word = access.to_possible_value();
    word.map_or_else(String::new, |value| value.get_name().to_owned())
}

fn set_dir(server: &ServerState, value: &[u8]) -> Setting {
    let set = server.persistence.set_dir(Path::new(&*String::from_utf8_lossy(value)));
    set.map_err(|error| {
        let text = error.to_string();
        // Redis shows no numbers.
        let text = text.split_once(" (os error").map_or(&*text, |(text, _)| text);
        text.to_owned().into()
    })
}

fn set_maxclients(server: &ServerState, value: &[u8]) -> Setting {
    let connections_max = within(value, 1..=u32::MAX.into())?;
    let runtime = server.runtime.get().ok_or(NOT_RUNNING)?;
    match make_room(connections_max) {
        room if room < connections_max => Err(format!(
            "The operating system is not able to handle the specified number of clients, try with {room}"
        )
        .into()),
        _ => {
            runtime.set_connections_max(connections_max);
            Ok(())
        }
    }
}

fn set_maxmemory(server: &ServerState, value: &[u8]) -> Setting {
    let bytes = parse_bytes(&String::from_utf8_lossy(value))?;
    server.settings.set_maxmemory_bytes(bytes);
    Ok(())
}

fn set_eviction_policy(server: &ServerState, value: &[u8]) -> Setting {
    let policy = String::from_utf8_lossy(value).parse();
    let policy = policy.map_err(|unknown: UnknownEvictionPolicy| unknown.to_string())?;
    server.set_eviction_policy(policy);
    Ok(())
}

fn set_lfu_rate(server: &ServerState, value: &[u8], rate: fn(&mut LfuRates) -> &mut u32) -> Setting {
    let mut rates = server.databases.lfu_rates();
    *rate(&mut rates) = within(value, 0..=i32::MAX.into())?;
    server.databases.set_lfu_rates(rates);
    Ok(())
}

fn set_packing_limit(server: &ServerState, value: &[u8], limit: PackingLimit) -> Setting {
    let most = match limit {
        HashBytes | SortedSetBytes => bytes_within(value, UNSIGNED)?,
        _ => within(value, UNSIGNED)?,
    };
    server.databases.set_packing_limit(limit, most);
    Ok(())
}

fn set_output_limit(server: &ServerState, value: &[u8]) -> Setting {
    let pubsub = &server.clients.pubsub;
    let limit = pubsub.limit().parse_classes(&String::from_utf8_lossy(value))?;
    let before = server.output_bytes_max();
    let bytes = limit.normal_bytes.map_or(before, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    if bytes != before {
        let runtime = server.runtime.get().ok_or(NOT_RUNNING)?;
        runtime.set_output_bytes_max(bytes);
    }
    pubsub.set_limit(limit);
    Ok(())
}

fn set_events(server: &ServerState, value: &[u8]) -> Setting {
    let classes = String::from_utf8_lossy(value).parse()?;
    server.notifier.set_classes(classes);
    Ok(())
}

fn set_timeout(server: &ServerState, value: &[u8]) -> Setting {
    let seconds = within(value, 0..=i32::MAX.into())?;
    let runtime = server.runtime.get().ok_or(NOT_RUNNING)?;
    runtime.set_idle_timeout_s(seconds);
    Ok(())
}

/// Sets the policy from one line in the form of `--policy`: a name, then settings.
fn set_policy(server: &ServerState, value: &[u8]) -> Setting {
    let policy: Policy = String::from_utf8_lossy(value).parse().map_err(reason)?;
    let runtime = server.runtime.get().ok_or(NOT_RUNNING)?;
    runtime.set_policy(policy).map_err(reason)
}

fn reason(error: PolicyError) -> Cow<'static, str> {
    error.to_string().into()
}

fn set_log_level(server: &ServerState, value: &[u8]) -> Setting {
    let level = LogLevel::from_str(&String::from_utf8_lossy(value), true)
        .map_err(|_| "argument must be one of error, warn, info, debug, trace")?;
    server.settings.set_log_level(level);
    Ok(())
}

/// The limit can only be at or below the request limit that the server started with.
fn set_value_len_max(server: &ServerState, value: &[u8]) -> Setting {
    let least = Limits::LEN_MIN as i64;
    let bytes = bytes_within(value, least..=i64::MAX)?;
    if bytes > server.settings.config.limits.proto_max_bulk_len {
        return Err("argument must not exceed the value that the server was started with".into());
    }
    server.settings.set_value_len_max(bytes);
    Ok(())
}

fn get(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let patterns: Vec<_> = args[2..].iter().map(|pattern| pattern.to_ascii_lowercase()).collect();
    let patterns: Vec<_> = patterns.iter().map(|text| Pattern::new(text)).collect();
    let steps = Steps::new();
    let wanted = |parameter: &&Parameter| {
        let mut patterns = patterns.iter();
        patterns.any(|pattern| pattern.matches(parameter.name.as_bytes(), &steps))
    };
    let found: Vec<_> = PARAMETERS.iter().filter(wanted).collect();
    out.map(found.len());
    for parameter in found {
        out.bulk(parameter.name.as_bytes());
        out.bulk((parameter.get)(context.server).as_bytes());
    }
    Ok(())
}

fn set(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (pairs, rest) = args[2..].as_chunks::<2>();
    if !rest.is_empty() {
        return Err(CommandError::Arity("config|set".into()));
    }
    let mut changes = Vec::with_capacity(pairs.len());
    for [name, value] in pairs {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let parameter = PARAMETERS.iter().find(|parameter| parameter.name == name);
        let Some(parameter) = parameter else {
            let line = format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'");
            return Err(CommandError::Other(line.into()));
        };
        if changes.iter().any(|(other, _): &(&Parameter, _)| other.name == name) {
            return Err(failed(parameter, "duplicate parameter"));
        }
        // A fixed parameter accepts its current value.
        if matches!(parameter.set, Setter::Fixed) && (parameter.get)(context.server).as_bytes() != *value {
            return Err(failed(parameter, "can't set immutable config"));
        }
        let access = context.server.settings.config.enable_protected_configs;
        if matches!(parameter.set, Setter::Protected(_)) && !access.allows(is_local(&context.client.peer)) {
            return Err(failed(parameter, "can't set protected config"));
        }
        changes.push((parameter, *value));
    }
    apply(context.server, &changes)?;
    out.simple("OK");
    Ok(())
}

/// Makes all changes, or none if one of them fails.
fn apply(server: &ServerState, changes: &[(&Parameter, &[u8])]) -> Result<()> {
    let mut made: Vec<(&Parameter, String)> = Vec::with_capacity(changes.len());
    for (parameter, value) in changes {
        let Some(set) = parameter.setter() else {
            continue;
        };
        let before = (parameter.get)(server);
        let Err(reason) = set(server, value) else {
            made.push((parameter, before));
            continue;
        };
        for (changed, before) in made.iter().rev() {
            if let Some(set) = changed.setter() {
                let _was_valid = set(server, before.as_bytes());
            }
        }
        return Err(failed(parameter, &reason));
    }
    Ok(())
}

fn failed(parameter: &Parameter, reason: &str) -> CommandError {
    let name = parameter.name;
    let line = format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}");
    CommandError::Other(line.into())
}

fn resetstat(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    context.server.reset_stats();
    out.simple("OK");
    Ok(())
}

/// The file that the server may have read is TOML, and flags take precedence over it: a line that CONFIG REWRITE adds
/// could have no effect at the next start.
fn rewrite(_: &mut Context<'_>, _: &[&[u8]], _: &mut ReplyEncoder<'_>) -> Result<()> {
    Err(CommandError::line(
        "ERR psp-redis does not rewrite its configuration file: change the file and send SIGHUP, or start the server \
         with --print-config to get one",
    ))
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    #[test]
    fn parameters_are_read_by_pattern() {
        Session::new().expect(&[
            ("CONFIG GET save", "*2 $4 save $0"),
            ("CONFIG GET APPENDONLY nothing", "*2 $10 appendonly $2 no"),
            ("CONFIG GET proto-*", "*2 $18 proto-max-bulk-len $9 536870912"),
            ("CONFIG GET tls-port", "*2 $8 tls-port $1 0"),
            ("CONFIG GET unixsocketp*", "*2 $14 unixsocketperm $1 0"),
            ("CONFIG GET maxclients", "*2 $10 maxclients $5 10000"),
            ("CONFIG GET nothing", "*0"),
        ]);
        assert!(Session::new().resp3().run("CONFIG GET *").starts_with('%'));
    }

    #[test]
    fn changeable_parameters_change_and_fixed_ones_do_not() {
        let mut session = Session::new();
        session.expect(&[
            ("CONFIG SET proto-max-bulk-len 1mb", "+OK"),
            ("CONFIG GET proto-max-bulk-len", "*2 $18 proto-max-bulk-len $7 1048576"),
            ("SETRANGE a 1048576 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
            (
                "CONFIG SET proto-max-bulk-len x",
                "-ERR CONFIG SET failed (possibly related to argument 'proto-max-bulk-len') - \
                 argument must be a memory value",
            ),
            (
                "CONFIG SET proto-max-bulk-len 3",
                "-ERR CONFIG SET failed (possibly related to argument 'proto-max-bulk-len') - \
                 argument must be between 1048576 and 9223372036854775807 inclusive",
            ),
            (
                "CONFIG SET timeout -1",
                "-ERR CONFIG SET failed (possibly related to argument 'timeout') - argument must be between 0 and \
                 2147483647 inclusive",
            ),
            (
                "CONFIG SET timeout 1 TimeOut 2",
                "-ERR CONFIG SET failed (possibly related to argument 'timeout') - duplicate parameter",
            ),
            ("CONFIG SET hash-max-ziplist-value 65 list-compress-depth 1", "+OK"),
            ("CONFIG GET hash-max-listpack-value", "*2 $23 hash-max-listpack-value $2 65"),
            ("CONFIG SET list-max-ziplist-size -5", "+OK"),
            ("CONFIG GET list-max-listpack-size", "*2 $22 list-max-listpack-size $2 -5"),
            (
                "CONFIG SET set-max-intset-entries -1",
                "-ERR CONFIG SET failed (possibly related to argument 'set-max-intset-entries') - \
                 argument must be between 0 and 9223372036854775807 inclusive",
            ),
            ("CONFIG SET daemonize no", "+OK"),
            (
                "CONFIG SET daemonize yes",
                "-ERR CONFIG SET failed (possibly related to argument 'daemonize') - can't set \
                 immutable config",
            ),
            (
                "CONFIG SET nothing 1",
                "-ERR Unknown option or number of arguments for CONFIG SET - 'nothing'",
            ),
            ("CONFIG SET save", "-ERR wrong number of arguments for 'config|set' command"),
            (
                "CONFIG REWRITE",
                "-ERR psp-redis does not rewrite its configuration file: change the file and send SIGHUP, or start the \
                 server with --print-config to get one",
            ),
            ("CONFIG RESETSTAT", "+OK"),
        ]);
        assert_eq!(session.run_args(&[b"CONFIG", b"SET", b"save", b""]), "+OK\r\n");
    }

    #[test]
    fn several_parameters_change_together_or_not_at_all() {
        let mut session = Session::new();
        session.expect(&[
            ("CONFIG SET slowlog-max-len 7 latency-monitor-threshold 9", "+OK"),
            (
                "CONFIG SET slowlog-max-len 8 latency-monitor-threshold x timeout 1",
                "-ERR CONFIG SET failed (possibly related to argument 'latency-monitor-threshold') - argument couldn't be \
                 parsed into an integer",
            ),
            ("CONFIG GET slowlog-max-len", "*2 $15 slowlog-max-len $1 7"),
            ("CONFIG GET latency-monitor-threshold", "*2 $25 latency-monitor-threshold $1 9"),
            (
                "CONFIG SET slowlog-max-len 8 daemonize yes",
                "-ERR CONFIG SET failed (possibly related to argument 'daemonize') - can't set immutable config",
            ),
            (
                "CONFIG SET slowlog-max-len 8 nope 1",
                "-ERR Unknown option or number of arguments for CONFIG SET - 'nope'",
            ),
            (
                "CONFIG SET slowlog-max-len 8 SLOWLOG-max-len 9",
                "-ERR CONFIG SET failed (possibly related to argument 'slowlog-max-len') - duplicate parameter",
            ),
            ("CONFIG GET slowlog-max-len", "*2 $15 slowlog-max-len $1 7"),
            ("CONFIG SET slowlog-log-slower-than -2", "-ERR CONFIG SET failed (possibly related to argument \
              'slowlog-log-slower-than') - argument must be between -1 and 9223372036854775807 inclusive"),
            (
                "CONFIG SET latency-tracking-info-percentiles 101",
                "-ERR CONFIG SET failed (possibly related to argument 'latency-tracking-info-percentiles') - latency \
                 percentile parameters must be numbers between 0 and 100",
            ),
        ]);
        let percentiles = b"latency-tracking-info-percentiles";
        assert_eq!(session.run_args(&[b"CONFIG", b"SET", percentiles, b"0.0 50.0 99.9"]), "+OK\r\n");
        assert!(session.run("CONFIG GET latency-tracking-info-*").contains("0 50 99.9"));
    }
}
