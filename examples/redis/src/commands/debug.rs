//! DEBUG, for whom the configuration lets use it.

use std::time::Duration;

use psp_server::is_abandoned;

use crate::admission::is_local;
use crate::command::{Context, ReplyEncoder, Row};
use crate::error::CommandError;
use crate::parse::{self, Result};
use crate::persistence::{Present, Reload};
use crate::rdb;

use super::digest;
use super::keys::encoding;
use super::pace::{self, Pace};
use super::strings::{check_len, store_absent};
use super::subcommand::{self, Subcommand};

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[Row::new("debug", debug)];

const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand::new("digest", 2, digest::all),
    Subcommand::new("digest-value", -3, digest::of_values),
    Subcommand::new("error", 3, error),
    Subcommand::new("loadaof", 2, load_log),
    Subcommand::new("object", 3, object),
    Subcommand::new("populate", -3, populate),
    Subcommand::new("reload", -2, reload),
    Subcommand::new("sleep", 3, sleep),
];

/// Longest part of a DEBUG SLEEP between two looks at its client.
const NAP_MAX: Duration = Duration::from_millis(50);

/// Longest number of a DEBUG SLEEP.
const NUMBER_LEN_MAX: usize = 32;

/// Longest DEBUG SLEEP.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

const DEBUG_REFUSED: CommandError = CommandError::line(
    "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it \
     from a local connection, otherwise you need to set this option in the configuration file, and then \
     restart the server.",
);

fn debug(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let access = context.server.settings.config.enable_debug_command;
    if !access.allows(is_local(&context.client.peer)) {
        return Err(DEBUG_REFUSED);
    }
    subcommand::run_one_of("debug", SUBCOMMANDS, context, args, out)
}

/// The text is the error, so that clients can be tried with any.
fn error(_: &mut Context<'_>, args: &[&[u8]], _: &mut ReplyEncoder<'_>) -> Result<()> {
    let text = String::from_utf8_lossy(args[2]).replace(['\r', '\n'], " ");
    Err(CommandError::Other(text.into()))
}

/// Waits without a worker. Ends when its client leaves.
fn sleep(_: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    // As in Redis, what follows the number does not count, and no number is 0. Clients of tests send such.
    let ends = (1..=args[2].len().min(NUMBER_LEN_MAX)).rev();
    let mut numbers = ends.filter_map(|end| parse::float(&args[2][..end]).ok());
    let pause = Duration::try_from_secs_f64(numbers.next().unwrap_or(0.0)).ok();
    let pause = pause.filter(|pause| *pause <= SLEEP_MAX);
    let mut left = pause.ok_or(CommandError::line("ERR sleep time is out of range"))?;
    while !left.is_zero() && !is_abandoned() {
        let nap = left.min(NAP_MAX);
        psp_server::sleep(nap);
        left -= nap;
    }
    out.simple("OK");
    Ok(())
}

/// The form in which Redis would store the value, and the length of its payload by DUMP. A value has no address here.
fn object(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let store = context.store;
    let found = store.peek(args[2], |entry| entry.map(|entry| (entry.value().clone(), store.idle_s(entry))));
    let (value, idle_s) = found.ok_or(CommandError::line("ERR no such key"))?;
    let bytes = value.memory_bytes().saturating_mul(2);
    let _reserved = context.server.reserve_for_reply(bytes)?;
    let pace = Pace::new();
    let mut parts = Vec::new();
    rdb::put_value(&value, &|| pace.step(), &mut parts);
    // Without the type, which is a byte.
    let len = parts.len() - 1;
    out.simple(&format!(
        "Value at:0x0 refcount:1 encoding:{} serializedlength:{len} lru:0 lru_seconds_idle:{}",
        encoding(&value),
        idle_s
    ));
    Ok(())
}

/// `POPULATE count [prefix] [size]` stores strings that are not there yet, and notifies no client.
fn populate(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    if !context.may_block {
        return Err(CommandError::line("ERR DEBUG POPULATE isn't allowed in a transaction"));
    }
    let (count, prefix, size) = match args[2..] {
        [count] => (count, &b"key"[..], None),
        [count, prefix] => (count, prefix, None),
        [count, prefix, size] => (count, prefix, Some(size)),
        _ => return Err(CommandError::Syntax),
    };
    let positive = |word| {
        parse::integer(word).and_then(|number| {
            usize::try_from(number).map_err(|_| CommandError::line("ERR value is out of range, must be positive"))
        })
    };
    let count = positive(count)?;
    let size = size.map(positive).transpose()?.filter(|&size| size > 0);
    check_len(context, size.unwrap_or(0))?;
    pace::begins(count);
    let pace = Pace::new();
    for number in 0..count {
        if pace.is_abandoned() {
            break;
        }
        let mut bytes = format!("value:{number}").into_bytes();
        if let Some(size) = size {
            bytes.resize(size, 0);
        }
        let key = [prefix, b":", number.to_string().as_bytes()].concat();
        store_absent(context, &key, &bytes)?;
        pace.step();
    }
    out.simple("OK");
    Ok(())
}

/// `RELOAD [MERGE] [NOFLUSH] [NOSAVE]` saves the data set and loads it again.
fn reload(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    if !context.may_block {
        return Err(CommandError::line("ERR DEBUG RELOAD isn't allowed in a transaction"));
    }
    let mut reload = Reload { saves: true, flushes: true, present: Present::IsError };
    for option in &args[2..] {
        if parse::is(option, "NOSAVE") {
            reload.saves = false;
        } else if parse::is(option, "NOFLUSH") {
            reload.flushes = false;
        } else if parse::is(option, "MERGE") {
            reload.present = Present::IsReplaced;
        } else {
            return Err(CommandError::line(
                "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.",
            ));
        }
    }
    context.server.persistence.reload(context.server, reload)?;
    out.simple("OK");
    Ok(())
}

/// What the append-only file has takes the place of what there is.
fn load_log(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    if !context.may_block {
        return Err(CommandError::line("ERR DEBUG LOADAOF isn't allowed in a transaction"));
    }
    context.server.persistence.reload_log(context.server)?;
    out.simple("OK");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::DEBUG_REFUSED;
    use crate::config::{Config, DebugAccess};
    use crate::testing::Session;

    fn session(enable_debug_command: DebugAccess) -> Session {
        Session::with(Config { enable_debug_command, ..Config::default() })
    }

    #[test]
    fn debug_is_for_whom_the_configuration_names() {
        let refused = format!("-{DEBUG_REFUSED}");
        Session::new().expect(&[("DEBUG SLEEP 0", &refused), ("DEBUG NOPE", &refused)]);
        session(DebugAccess::Yes).expect(&[("DEBUG SLEEP 0", "+OK")]);
        let mut local = session(DebugAccess::Local);
        local.expect(&[("DEBUG SLEEP 0", "+OK")]);
        let address = std::net::SocketAddr::from(([192, 0, 2, 1], 1));
        let mut other = Session::from(local.server, address.into());
        other.expect(&[("DEBUG SLEEP 0", &refused)]);
    }

    #[test]
    fn any_error_can_be_asked_for() {
        let mut session = session(DebugAccess::Yes);
        session.expect(&[
            ("DEBUG ERROR CODE", "-CODE"),
            ("DEBUG ERROR", "-ERR wrong number of arguments for 'debug|error' command"),
        ]);
        assert_eq!(session.run_args(&[b"DEBUG", b"ERROR", b"MOVED 1 a:1\r\nb"]), "-MOVED 1 a:1  b\r\n");
    }

    #[test]
    fn sleeping_takes_at_least_its_time() {
        let start = Instant::now();
        session(DebugAccess::Yes).expect(&[
            ("DEBUG SLEEP 0.01", "+OK"),
            ("DEBUG SLEEP -1", "-ERR sleep time is out of range"),
            ("DEBUG SLEEP 1e9", "-ERR sleep time is out of range"),
            ("DEBUG SLEEP 0.01abc", "+OK"),
            ("DEBUG SLEEP x", "+OK"),
        ]);
        assert!(start.elapsed() >= Duration::from_millis(10));
    }

    #[test]
    fn objects_are_described_as_in_redis() {
        let mut session = session(DebugAccess::Yes);
        for (command, described) in [
            ("SET k 12", "encoding:int serializedlength:3 "),
            ("SET k hello", "encoding:embstr serializedlength:6 "),
            ("RPUSH k a", "encoding:quicklist "),
        ] {
            session.run("DEL k");
            session.run(command);
            let reply = session.run("DEBUG OBJECT k");
            assert!(reply.starts_with("+Value at:0x"), "{reply}");
            assert!(reply.contains(described), "{command}: {reply}");
        }
        session.expect(&[("DEBUG OBJECT none", "-ERR no such key")]);
    }

    #[test]
    fn many_strings_are_stored_at_once() {
        let mut session = session(DebugAccess::Yes);
        session.expect(&[
            ("SET key:1 mine", "+OK"),
            ("DEBUG POPULATE 200", "+OK"),
            ("DBSIZE", ":200"),
            ("GET key:1", "$4 mine"),
            ("GET key:199", "$9 value:199"),
            ("DEBUG POPULATE 2 p 10", "+OK"),
            ("STRLEN p:1", ":10"),
            ("GETRANGE p:1 0 6", "$7 value:1"),
            ("DEBUG POPULATE 1 short 3", "+OK"),
            ("GET short:0", "$3 val"),
            ("DEBUG POPULATE -1", "-ERR value is out of range, must be positive"),
            ("DEBUG POPULATE x", "-ERR value is not an integer or out of range"),
            ("DEBUG POPULATE 1 p 1 more", "-ERR syntax error"),
            ("MULTI", "+OK"),
            ("DEBUG POPULATE 1", "+QUEUED"),
        ]);
        let reply = session.run("EXEC");
        assert!(reply.contains("isn't allowed in a transaction"), "{reply}");
    }
}
