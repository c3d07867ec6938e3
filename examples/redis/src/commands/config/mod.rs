//! The CONFIG command, and the settings of a `redis.conf` that no flag has.

mod parameter;
mod parameters;
mod rewrite;
mod unused;

use std::path::Path;
use std::{fs, io};

use anyhow::{Context as _, bail};

use crate::admission::is_local;
use crate::command::{Context, Flag, ReplyEncoder, Row, Subcommands};
use crate::conf_line::quoted;
use crate::config::Config;
use crate::error::CommandError;
use crate::glob::{Pattern, Steps};
use crate::parse::Result;
use crate::replace_file::replace_file;
use crate::settings::Settings;
use crate::state::ServerState;

use super::subcommand::write_help;
use parameter::Parameter;
use parameters::PARAMETERS;
use rewrite::Line;
use unused::UNUSED;

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[Row::container("config", SUBCOMMANDS).flags(&[Flag::Admin, Flag::NoScript])];

const SUBCOMMANDS: Subcommands = &[
    ("get", get),
    ("help", help),
    ("resetstat", resetstat),
    ("rewrite", rewrite_conf),
    ("set", set),
];

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

/// All parameters.
fn all() -> impl Iterator<Item = &'static Parameter> {
    PARAMETERS.iter().chain(UNUSED)
}

fn find(name: &str) -> Option<&'static Parameter> {
    all().find(|parameter| parameter.name.eq_ignore_ascii_case(name))
}

/// Whether CONFIG has a parameter of this name.
pub(crate) fn is_parameter(name: &str) -> bool {
    find(name).is_some()
}

/// Sets the parameters of the configuration's `setting` before the server runs. Logs which of them it does not take.
///
/// # Errors
/// With `strict`, if one is not taken. Otherwise if the server would be something else than what was asked for.
pub(crate) fn set_at_start(server: &ServerState) -> anyhow::Result<()> {
    const NOT_IGNORED: [&str; 3] = ["cluster-enabled", "replicaof", "slaveof"];
    let config = &server.settings.config;
    for setting in &config.setting {
        let (name, value) = (setting.name(), setting.value());
        let parameter =
            find(name).with_context(|| format!("setting (--setting): '{name}' is no parameter of CONFIG"))?;
        let Err(reason) = parameter.set_at_start(server, value.as_bytes()) else {
            continue;
        };
        let not_taken = format!("'{name} {value}' is not taken: {reason}");
        if config.strict || NOT_IGNORED.contains(&parameter.name) {
            bail!(not_taken);
        }
        tracing::warn!("{not_taken}");
    }
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
    let found: Vec<_> = all().filter(wanted).collect();
    out.map(found.len());
    for parameter in found {
        out.bulk(parameter.name.as_bytes());
        out.bulk(parameter.get(context.server).as_bytes());
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
        let Some(parameter) = find(&name) else {
            let line = format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'");
            return Err(CommandError::Other(line.into()));
        };
        if changes.iter().any(|(other, _): &(&Parameter, _)| other.name == name) {
            return Err(failed(parameter, "duplicate parameter"));
        }
        // A fixed parameter accepts its current value.
        if parameter.is_fixed()
            && let Err(reason) = parameter.set(context.server, value)
        {
            return Err(failed(parameter, &reason));
        }
        let access = context.server.settings.config.enable_protected_configs;
        if parameter.is_protected() && !access.allows(is_local(&context.client.peer)) {
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
        let before = parameter.get(server);
        let Err(reason) = parameter.set(server, value) else {
            made.push((parameter, before));
            continue;
        };
        for (changed, before) in made.iter().rev() {
            let _was_valid = changed.set(server, before.as_bytes());
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

/// A TOML file is not rewritten.
fn rewrite_conf(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let server = context.server;
    let path = server.settings.config.redis_conf.as_deref().filter(|path| *path != Path::new("-"));
    let path = path.ok_or(CommandError::line("ERR The server is running without a config file"))?;
    rewrite_file(server, path).map_err(|error| {
        tracing::warn!(%error, path = %path.display(), "CONFIG REWRITE failed");
        CommandError::Other(format!("ERR Rewriting config file: {error}").into())
    })?;
    tracing::info!(path = %path.display(), "CONFIG REWRITE");
    out.simple("OK");
    Ok(())
}

fn rewrite_file(server: &ServerState, path: &Path) -> io::Result<()> {
    let old = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        old => old?,
    };
    let text = rewrite::rewrite(&String::from_utf8_lossy(&old), &lines(server));
    replace_file(path, text.as_bytes())
}

/// What a `redis.conf` says of each parameter. Those that differ from a server without one are added to it.
fn lines(server: &ServerState) -> Vec<Line> {
    /// Their words are values of their own.
    const LISTS: [&str; 5] = [
        "bind",
        "client-output-buffer-limit",
        "latency-tracking-info-percentiles",
        "oom-score-adj-values",
        "policy",
    ];
    /// What another name says, too, and what no file says.
    const NOT_ADDED: [&str; 4] = ["-ziplist-", "slave", "lua-time-limit", "psp-"];
    let stock = ServerState::new(Settings::new(Config::default()));
    let mut lines: Vec<_> = all()
        .map(|parameter| {
            let (name, value) = (parameter.name, parameter.get(server));
            let is_added = value != parameter.get(&stock) && !NOT_ADDED.iter().any(|other| name.contains(other));
            let is_list = LISTS.contains(&name) || (name == "save" && !value.is_empty());
            let value = if is_list { value } else { quoted(&value) };
            Line { name, values: vec![value], is_added }
        })
        .collect();
    if server.settings.config.aclfile.is_none() {
        let users = |server: &ServerState| -> Vec<String> {
            let lines = server
                .acl
                .users()
                .into_iter()
                .map(|user| String::from_utf8_lossy(&user.line()).into_owned());
            lines.filter_map(|line| line.strip_prefix("user ").map(str::to_owned)).collect()
        };
        let values = users(server);
        let is_added = values != users(&stock);
        lines.push(Line { name: "user", values, is_added });
    }
    lines
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
            ("CONFIG REWRITE", "-ERR The server is running without a config file"),
            ("CONFIG SET hz 20 repl-timeout 9 slave-priority 7", "+OK"),
            ("CONFIG GET hz", "*2 $2 hz $2 20"),
            ("CONFIG GET replica-priority", "*2 $16 replica-priority $1 7"),
            (
                "CONFIG SET dynamic-hz 1",
                "-ERR CONFIG SET failed (possibly related to argument 'dynamic-hz') - argument must be 'yes' or 'no'",
            ),
            (
                "CONFIG SET min-replicas-to-write 1",
                "-ERR CONFIG SET failed (possibly related to argument 'min-replicas-to-write') - can't set immutable \
                 config",
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
