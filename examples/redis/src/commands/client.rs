//! The CLIENT command.

use std::time::Duration;

use crate::blocking::Unblocked;
use crate::client::{ClientInfo, ClientKind, Replies, RequestBytes};
use crate::command::{Context, Flag, ReplyEncoder, Row, Subcommands};
use crate::error::{CommandError, quotable};
use crate::parse::{self, Result};
use crate::pause::PauseMode;

use super::pace::Pace;
use super::subcommand::write_help;
use super::{client_kill, client_tracking};

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[Row::container("client", SUBCOMMANDS).flags(&[Flag::NoScript])];

const SUBCOMMANDS: Subcommands = &[
    ("caching", client_tracking::caching),
    ("getname", getname),
    ("getredir", client_tracking::getredir),
    ("help", help),
    ("id", id),
    ("info", info),
    ("kill", client_kill::kill),
    ("list", list),
    ("no-evict", no_evict),
    ("no-touch", no_touch),
    ("pause", pause),
    ("reply", reply),
    ("setinfo", setinfo),
    ("setname", setname),
    ("tracking", client_tracking::tracking),
    ("trackinginfo", client_tracking::trackinginfo),
    ("unblock", unblock),
    ("unpause", unpause),
];

/// The text of CLIENT HELP, as in Redis.
const HELP: &[&str] = &[
    "CACHING (YES|NO)",
    "    Enable/disable tracking of the keys for next command in OPTIN/OPTOUT modes.",
    "GETREDIR",
    "    Return the client ID we are redirecting to when tracking is enabled.",
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "KILL <ip:port>",
    "    Kill connection made from <ip:port>.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Kill connections. Options are:",
    "    * ADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made from the specified address",
    "    * LADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made to specified local address",
    "    * TYPE (normal|master|replica|pubsub)",
    "      Kill connections by type.",
    "    * USER <username>",
    "      Kill connections authenticated by <username>.",
    "    * SKIPME (YES|NO)",
    "      Skip killing current connection (default: yes).",
    "    * MAXAGE <maxage>",
    "      Kill connections older than the specified age.",
    "LIST [options ...]",
    "    Return information about client connections. Options:",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Return clients of specified type.",
    "UNPAUSE",
    "    Stop the current client pause, resuming traffic.",
    "PAUSE <timeout> [WRITE|ALL]",
    "    Suspend all, or just write, clients for <timeout> milliseconds.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "UNBLOCK <clientid> [TIMEOUT|ERROR]",
    "    Unblock the specified blocked client.",
    "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
    "         [OPTIN] [OPTOUT] [NOLOOP]",
    "    Control server assisted client side caching.",
    "TRACKINGINFO",
    "    Report tracking status for the current connection.",
    "NO-EVICT (ON|OFF)",
    "    Protect current client connection from eviction.",
    "NO-TOUCH (ON|OFF)",
    "    Will not touch LRU/LFU stats when this mode is on.",
];

fn help(_: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    write_help("client", HELP, out);
    Ok(())
}

/// Longest name of a client in bytes: CLIENT LIST repeats the names of all clients.
const LABEL_LEN_MAX: usize = 1024;

/// `arg` as a name that may appear in `CLIENT LIST`. An error message starts with `what`.
pub(super) fn check_label(what: &str, arg: &[u8]) -> Result<String> {
    if arg.len() > LABEL_LEN_MAX {
        let line = format!("ERR {what} cannot be longer than {LABEL_LEN_MAX} bytes.");
        return Err(CommandError::Other(line.into()));
    }
    if arg.iter().all(u8::is_ascii_graphic) {
        return Ok(String::from_utf8_lossy(arg).into_owned());
    }
    let line = format!("ERR {what} cannot contain spaces, newlines or special characters.");
    Err(CommandError::Other(line.into()))
}

fn id(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    out.integer(i64::try_from(context.client.id).unwrap_or(i64::MAX));
    Ok(())
}

fn getname(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let name = context.client.labels().name;
    if name.is_empty() {
        out.null();
    } else {
        out.bulk(name.as_bytes());
    }
    Ok(())
}

fn setname(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let name = check_label("Client names", args[2])?;
    context.client.relabel(|labels| labels.name = name);
    out.simple("OK");
    Ok(())
}

fn setinfo(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (attribute, value) = (args[2], args[3]);
    if parse::is(attribute, "LIB-NAME") {
        let value = check_label("lib-name", value)?;
        context.client.relabel(|labels| labels.lib_name = value);
    } else if parse::is(attribute, "LIB-VER") {
        let value = check_label("lib-ver", value)?;
        context.client.relabel(|labels| labels.lib_version = value);
    } else {
        let attribute = String::from_utf8_lossy(attribute);
        return Err(CommandError::Other(format!("ERR Unrecognized option '{attribute}'").into()));
    }
    out.simple("OK");
    Ok(())
}

fn info(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let local = context.server.local_addresses();
    let line = context.client.line(local, RequestBytes::of(args));
    out.verbatim("txt", format!("{line}\n").as_bytes());
    Ok(())
}

fn list(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let clients = context.server.clients.snapshot();
    let local = context.server.local_addresses();
    let own = context.client.id;
    let mut lines = String::new();
    let pace = Pace::new();
    let mut add = |client: &ClientInfo| {
        pace.step();
        let request = match client.id == own {
            true => RequestBytes::of(args),
            false => RequestBytes::default(),
        };
        lines.push_str(&client.line(local, request));
        lines.push('\n');
    };
    match args[2..] {
        [] => clients.values().for_each(|client| add(client)),
        [option, kind] if parse::is(option, "TYPE") => {
            let kind = kind_named(kind)?;
            let of_kind = clients.values().filter(|client| client.kind() == kind);
            of_kind.for_each(|client| add(client));
        }
        [option, ref ids @ ..] if parse::is(option, "ID") && !ids.is_empty() => {
            for id in ids {
                let id = parse::integer(id).ok().and_then(|id| u64::try_from(id).ok());
                let id = id.ok_or(CommandError::line("ERR Invalid client ID"))?;
                if let Some(client) = clients.get(&id) {
                    add(client);
                }
            }
        }
        _ => return Err(CommandError::Syntax),
    }
    out.verbatim("txt", lines.as_bytes());
    Ok(())
}

/// A kind of clients, by its name.
pub(super) fn kind_named(name: &[u8]) -> Result<ClientKind> {
    ClientKind::named(name).ok_or_else(|| {
        let line = format!("ERR Unknown client type '{}'", quotable(name));
        CommandError::Other(line.into())
    })
}

/// `CLIENT PAUSE milliseconds [WRITE|ALL]`.
fn pause(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let mode = match args[3..] {
        [] => PauseMode::All,
        [mode] if parse::is(mode, "ALL") => PauseMode::All,
        [mode] if parse::is(mode, "WRITE") => PauseMode::Writes,
        [_] => return Err(CommandError::line("ERR CLIENT PAUSE mode must be WRITE or ALL")),
        _ => {
            return Err(CommandError::line(
                "ERR unknown subcommand or wrong number of arguments for 'PAUSE'. Try CLIENT HELP.",
            ));
        }
    };
    let timeout_ms =
        parse::integer(args[2]).map_err(|_text| CommandError::line("ERR timeout is not an integer or out of range"))?;
    let timeout_ms = u64::try_from(timeout_ms).map_err(|_negative| CommandError::line("ERR timeout is negative"))?;
    let server = context.server;
    let duration = Duration::from_millis(timeout_ms);
    server.paused.pause(&server.databases, mode, duration);
    out.simple("OK");
    Ok(())
}

fn unpause(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let server = context.server;
    server.paused.unpause(&server.databases);
    out.simple("OK");
    Ok(())
}

/// `CLIENT REPLY ON|OFF|SKIP`. The other two have no reply themselves.
fn reply(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let client = context.client;
    if parse::is(args[2], "ON") {
        client.set_replies(Replies::All);
        out.simple("OK");
    } else if parse::is(args[2], "OFF") {
        client.set_replies(Replies::None);
    } else if parse::is(args[2], "SKIP") {
        if client.replies() != Replies::None {
            client.set_replies(Replies::SkipNext);
        }
    } else {
        return Err(CommandError::Syntax);
    }
    Ok(())
}

/// `CLIENT UNBLOCK id [TIMEOUT|ERROR]`.
fn unblock(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let end = match args[3..] {
        [] => Unblocked::TimedOut,
        [reason] if parse::is(reason, "TIMEOUT") => Unblocked::TimedOut,
        [reason] if parse::is(reason, "ERROR") => Unblocked::ByError,
        [_] => {
            return Err(CommandError::line("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
        }
        _ => return Err(CommandError::Syntax),
    };
    let client = u64::try_from(parse::integer(args[2])?).unwrap_or(u64::MAX);
    let unblocked = context.server.clients.blocked.unblock(client, end);
    out.integer(unblocked.into());
    Ok(())
}

/// The server never evicts a client, so this only shows in CLIENT LIST.
fn no_evict(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    context.client.set_no_evict(is_on(args[2])?);
    out.simple("OK");
    Ok(())
}

fn no_touch(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    context.client.set_no_touch(is_on(args[2])?);
    out.simple("OK");
    Ok(())
}

fn is_on(arg: &[u8]) -> Result<bool> {
    let is_on = parse::is(arg, "ON");
    if is_on || parse::is(arg, "OFF") {
        Ok(is_on)
    } else {
        Err(CommandError::Syntax)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    #[test]
    fn clients_have_names_and_numbers() {
        let mut session = Session::new();
        session.expect(&[
            ("CLIENT ID", ":1"),
            ("CLIENT GETNAME", "$-1"),
            ("CLIENT SETNAME worker-1", "+OK"),
            ("CLIENT GETNAME", "$8 worker-1"),
            ("CLIENT SETINFO LIB-NAME lib", "+OK"),
            ("CLIENT SETINFO lib-ver 1.2", "+OK"),
            ("CLIENT SETINFO color red", "-ERR Unrecognized option 'color'"),
            ("CLIENT NO-EVICT on", "+OK"),
            ("CLIENT NO-EVICT maybe", "-ERR syntax error"),
            ("CLIENT NOPE", "-ERR unknown subcommand 'NOPE'. Try CLIENT HELP."),
            ("CLIENT SETNAME", "-ERR wrong number of arguments for 'client|setname' command"),
            ("CLIENT", "-ERR wrong number of arguments for 'client' command"),
        ]);
        let refused = session.run_args(&[b"CLIENT", b"SETNAME", b"a b"]);
        assert!(refused.starts_with("-ERR Client names cannot contain spaces"), "{refused}");
        let long = "a".repeat(super::LABEL_LEN_MAX);
        assert_eq!(session.run(&format!("CLIENT SETINFO LIB-VER {long}")), "+OK\r\n");
        let refused = session.run(&format!("CLIENT SETNAME {long}b"));
        assert!(refused.starts_with("-ERR Client names cannot be longer"), "{refused}");
        session.run("CLIENT SETINFO LIB-VER 1.2");
        let line = session.run("CLIENT INFO");
        for part in [
            "id=1 ",
            "addr=127.0.0.1:50000 ",
            "name=worker-1 ",
            "lib-name=lib lib-ver=1.2",
            "cmd=client",
            " multi=-1 watch=0 qbuf=",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
    }

    #[test]
    fn the_list_holds_open_connections_only() {
        let mut first = Session::new();
        let second = first.beside();
        assert_eq!(first.run("CLIENT LIST").matches("id=").count(), 2);
        assert_eq!(first.run("CLIENT LIST ID 2 77").matches("id=").count(), 1);
        assert_eq!(first.run("CLIENT LIST TYPE normal").matches("id=").count(), 2);
        assert_eq!(first.run("CLIENT LIST TYPE pubsub"), "$0\r\n\r\n");
        drop(second);
        assert_eq!(first.run("CLIENT LIST").matches("id=").count(), 1);
    }
}
