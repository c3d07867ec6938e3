//! The parameters that say and change what the server does.

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
use crate::config::{DebugAccess, Limits, LogLevel, log_level, samples, yes_or_no};
use crate::memory::parse_bytes;
use crate::parse::Result;
use crate::persistence::Fsync;
use crate::state::ServerState;
use crate::tls::AUTH_CLIENTS;

use super::parameter::{Parameter, Setting};

const NOT_RUNNING: &str = "the server is not running yet";

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

/// The parameters that have a meaning here. Fixed ones without a setting tell clients what the server does not do, such
/// as clusters.
pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::new("acl-pubsub-default", pubsub_default, set_pubsub_default),
    Parameter::fixed("aclfile", |server| path_of(server.settings.config.aclfile.as_deref())),
    number!("acllog-max-len" => UNSIGNED, acl.log.len_max, acl.log.set_len_max),
    Parameter::fixed("activedefrag", |_| "no".into()),
    switch!("aof-load-truncated", persistence.log.loads_truncated, persistence.log.set_loads_truncated),
    switch!("aof-read-durable", persistence.log.reads_durable, persistence.log.set_reads_durable),
    switch!("aof-timestamp-enabled", persistence.log.notes_times, persistence.log.set_notes_times),
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
    Parameter::fixed("daemonize", |server| word_of(server.settings.config.daemonize)),
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
    Parameter::fixed("logfile", |server| path_of(server.settings.config.logfile.as_deref())),
    // Lists are not compressed, and have one form: these change nothing.
    number!("list-compress-depth" => 0..=i32::MAX.into(),
        settings.list_compress_depth, settings.set_list_compress_depth),
    number!("list-max-listpack-size" => SIGNED, settings.list_node_size, settings.set_list_node_size),
    number!("list-max-ziplist-size" => SIGNED, settings.list_node_size, settings.set_list_node_size),
    Parameter::new("loglevel", |server| in_redis_words(server.settings.log_level()).to_owned(), set_log_level),
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
    Parameter::fixed("pidfile", |server| path_of(server.settings.config.pidfile.as_deref())),
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

/// What Redis calls the level.
const fn in_redis_words(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Error => "nothing",
        LogLevel::Warn => "warning",
        LogLevel::Info => "notice",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    }
}

fn set_log_level(server: &ServerState, value: &[u8]) -> Setting {
    let level = log_level(&String::from_utf8_lossy(value))?;
    server.settings.set_log_level(LogLevel::from_str(level, true)?);
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
