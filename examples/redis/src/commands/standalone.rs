//! What a server answers that has no replicas, no modules and no cluster.

use super::server::disabled;
use super::subcommand::write_help;
use crate::blocking::{Blocking, deadline_ms};
use crate::command::{Context, ReplyEncoder, Row, Subcommands};
use crate::error::CommandError;
use crate::parse::{self, Result};
use crate::redis_version::REDIS_VERSION;

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("asking", disabled),
    Row::new("failover", failover),
    Row::new("lolwut", lolwut),
    Row::container("module", MODULE),
    Row::new("readonly", disabled),
    Row::new("readwrite", disabled),
    Row::new("replicaof", replicaof),
    Row::new("role", role),
    Row::new("slaveof", replicaof),
    Row::new("wait", wait),
];

/// The subcommands of MODULE.
const MODULE: Subcommands = &[
    ("help", |_, _, out| {
        write_help("module", MODULE_HELP, out);
        Ok(())
    }),
    ("list", module_list),
    ("load", module_change),
    ("loadex", module_change),
    ("unload", module_change),
];

/// The text of MODULE HELP, as in Redis.
const MODULE_HELP: &[&str] = &[
    "LIST",
    "    Return a list of loaded modules.",
    "LOAD <path> [<arg> ...]",
    "    Load a module library from <path>, passing to it any optional arguments.",
    "LOADEX <path> [[CONFIG NAME VALUE] [CONFIG NAME VALUE]] [ARGS ...]",
    "    Load a module library from <path>, while passing it module configurations and optional arguments.",
    "UNLOAD <name>",
    "    Unload a module.",
];

fn failover(_: &mut Context<'_>, args: &[&[u8]], _: &mut ReplyEncoder<'_>) -> Result<()> {
    Err(match args[1..] {
        [abort] if parse::is(abort, "ABORT") => CommandError::line("ERR No failover in progress."),
        _ => CommandError::line("ERR FAILOVER requires connected replicas."),
    })
}

fn lolwut(_: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    out.bulk(format!("Redis ver. {REDIS_VERSION}\n").as_bytes());
    Ok(())
}

fn module_list(_: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    out.array(0);
    Ok(())
}

fn module_change(_: &mut Context<'_>, _: &[&[u8]], _: &mut ReplyEncoder<'_>) -> Result<()> {
    Err(CommandError::line("ERR MODULE command not allowed: this server runs no modules"))
}

/// REPLICAOF NO ONE: the server is a master already.
fn replicaof(_: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    if !(parse::is(args[1], "NO") && parse::is(args[2], "ONE")) {
        return Err(CommandError::line("ERR this server cannot be a replica of another one"));
    }
    out.simple("OK");
    Ok(())
}

fn role(_: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    out.array(3);
    out.bulk(b"master");
    out.integer(0);
    out.array(0);
    Ok(())
}

/// `WAIT numreplicas timeout`: how many replicas have the client's writes. There are none, for however long it waits.
fn wait(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (replicas, deadline) = (parse::integer(args[1])?, deadline_ms(args[2])?);
    if replicas <= 0 {
        out.integer(0);
        return Ok(());
    }
    Blocking::for_a_time(deadline, |out| out.integer(0)).run(context, out)
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    #[test]
    fn a_server_alone_has_redis_answers() {
        let mut session = Session::new();
        session.expect(&[
            ("ROLE", "*3 $6 master :0 *0"),
            ("REPLICAOF NO ONE", "+OK"),
            ("SLAVEOF no one", "+OK"),
            ("REPLICAOF 192.0.2.1 6379", "-ERR this server cannot be a replica of another one"),
            ("FAILOVER", "-ERR FAILOVER requires connected replicas."),
            ("FAILOVER ABORT", "-ERR No failover in progress."),
            ("READONLY", "-ERR This instance has cluster support disabled"),
            ("ASKING", "-ERR This instance has cluster support disabled"),
            ("MODULE LIST", "*0"),
            ("LOLWUT", "$17 Redis ver. 7.4.1"),
            ("WAIT 0 0", ":0"),
            ("WAIT -1 5", ":0"),
            ("PING", "+PONG"),
        ]);
    }
}
