//! The table `redis` of scripts, but for `call` and `pcall`.

use std::sync::Arc;

use mlua::{Lua, MultiValue, Table, Value};
use psp_protocols::resp::{CommandId, Version};

use super::control::Control;
use super::digest::Digest;
use super::native::{self, Arguments, Errors, NativeFn, Outcome, one};
use super::run;
use crate::command::CommandTable;
use crate::redis_version::{REDIS_VERSION, REDIS_VERSION_NUMBER};

const LOG_LEVELS: &[(&str, u32)] = &[("LOG_DEBUG", 0), ("LOG_VERBOSE", 1), ("LOG_NOTICE", 2), ("LOG_WARNING", 3)];

const REPLICATION: &[(&str, u32)] =
    &[("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", 3)];

const FUNCTIONS: &[(&str, NativeFn)] = &[
    ("acl_check_cmd", acl_check_cmd),
    ("error_reply", error_reply),
    ("log", log),
    ("set_repl", set_repl),
    ("setresp", setresp),
    ("sha1hex", sha1hex),
    ("status_reply", status_reply),
];

const WRONG_ARGUMENTS: &str = "wrong number or type of arguments";

pub(super) fn table(lua: &Lua) -> mlua::Result<Table> {
    let table = native::table(lua, FUNCTIONS, Errors::Objects)?;
    for (name, value) in REPLICATION {
        table.raw_set(*name, *value)?;
    }
    set_versions_and_levels(&table)?;
    Ok(table)
}

/// Adds the constants that libraries see while they are loaded, too.
pub(super) fn set_versions_and_levels(table: &Table) -> mlua::Result<()> {
    for (name, value) in LOG_LEVELS {
        table.raw_set(*name, *value)?;
    }
    table.raw_set("REDIS_VERSION_NUM", REDIS_VERSION_NUMBER)?;
    table.raw_set("REDIS_VERSION", REDIS_VERSION)
}

fn sha1hex(lua: &Lua, args: &Arguments) -> Outcome {
    if args.len() != 1 {
        return Err("wrong number of arguments".into());
    }
    let text = lua.coerce_string(args.get(0).clone())?;
    let digest = text.map_or_else(|| Digest::of(b""), |text| Digest::of(&text.as_bytes()));
    one(lua, digest.to_string())
}

/// A table with one field, or Redis's error as a table if the argument is no string.
fn reply(lua: &Lua, args: &Arguments, field: &str, text: impl Fn(&[u8]) -> Vec<u8>) -> Outcome {
    let table = lua.create_table()?;
    match (args.len(), args.get(0)) {
        (1, Value::String(given)) => {
            let text = lua.create_string(text(&given.as_bytes()))?;
            table.raw_set(field, text)?;
        }
        _ => table.raw_set("err", format!("ERR {WRONG_ARGUMENTS}"))?,
    }
    one(lua, table)
}

fn status_reply(lua: &Lua, args: &Arguments) -> Outcome {
    reply(lua, args, "ok", <[u8]>::to_vec)
}

fn error_reply(lua: &Lua, args: &Arguments) -> Outcome {
    reply(lua, args, "err", error_line)
}

/// The line of an error: its first word is the code, if there is another one.
fn error_line(given: &[u8]) -> Vec<u8> {
    let line = given.strip_prefix(b"-").unwrap_or(given).trim_ascii_end();
    match memchr::memchr(b' ', line) {
        Some(_) => line.to_vec(),
        None => [b"ERR ", line].concat(),
    }
}

fn setresp(lua: &Lua, args: &Arguments) -> Outcome {
    if args.len() != 1 {
        return Err("redis.setresp() requires one argument.".into());
    }
    let version = match args.number(lua, 0, "setresp") {
        Ok(2.0) => Version::Resp2,
        Ok(3.0) => Version::Resp3,
        _ => return Err("RESP version must be 2 or 3.".into()),
    };
    if let Some(control) = lua.app_data_ref::<Arc<Control>>() {
        control.set_version(version);
    }
    Ok(MultiValue::new())
}

pub(super) fn log(lua: &Lua, args: &Arguments) -> Outcome {
    if args.len() < 2 {
        return Err("redis.log() requires two arguments or more.".into());
    }
    let (Value::Number(_) | Value::Integer(_)) = args.get(0) else {
        return Err("First argument must be a number (log level).".into());
    };
    let level = args.number(lua, 0, "log")?;
    let mut words = Vec::new();
    for arg in args.iter().skip(1) {
        words.extend(lua.coerce_string(arg.clone())?);
    }
    let words: Vec<_> = words.iter().map(mlua::String::to_string_lossy).collect();
    let message = words.join(" ");
    match level {
        0.0 => tracing::trace!("script: {message}"),
        1.0 => tracing::debug!("script: {message}"),
        2.0 => tracing::info!("script: {message}"),
        3.0 => tracing::warn!("script: {message}"),
        _ => return Err("Invalid debug level.".into()),
    }
    Ok(MultiValue::new())
}

/// Nothing is replicated.
fn set_repl(lua: &Lua, args: &Arguments) -> Outcome {
    if args.len() != 1 {
        return Err("redis.set_repl() requires two arguments.".into());
    }
    let flags = args.number(lua, 0, "set_repl")?;
    let is_known = REPLICATION.iter().any(|(_, known)| f64::from(*known) == flags);
    if !is_known {
        return Err("Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.".into());
    }
    Ok(MultiValue::new())
}

/// Whether the caller may run a command.
fn acl_check_cmd(lua: &Lua, args: &Arguments) -> Outcome {
    const UNKNOWN: &str = "Invalid command passed to redis.acl_check_cmd()";
    let words = run::arguments(args.iter()).map_err(|error| {
        let line = error.to_string();
        line.strip_prefix("ERR ").unwrap_or(&line).to_owned()
    })?;
    let words: Vec<&[u8]> = words.iter().map(run::Argument::bytes).collect();
    let table = CommandTable::get();
    let command = table.index_of(CommandId::of(words[0])).ok_or(UNKNOWN)?;
    let entry = table.entry_of(command, &words);
    let has_subcommands = !table.specs()[command].subcommands.is_empty();
    if has_subcommands && entry == command && words.len() > 1 {
        return Err(UNKNOWN.into());
    }
    let caller = lua.app_data_ref::<Arc<Control>>().and_then(|it| it.caller());
    let is_allowed = caller.is_none_or(|caller| caller.user().check(entry, &words).is_ok());
    one(lua, is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_a_code() {
        for (given, expected) in [
            ("MY_ERR custom msg", "MY_ERR custom msg"),
            ("-MY_ERR custom msg", "MY_ERR custom msg"),
            ("single", "ERR single"),
            ("-single", "ERR single"),
            ("", "ERR "),
        ] {
            let line = error_line(given.as_bytes());
            assert_eq!(String::from_utf8_lossy(&line), expected);
        }
    }
}
