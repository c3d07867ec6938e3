//! Commands about the server.

use crate::command::{Context, Flag, ReplyEncoder, Row, Subcommands};
use crate::error::CommandError;
use crate::parse::{self, Result};

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("cluster", disabled).subcommands(CLUSTER).flags(&[Flag::Admin]),
    Row::new("dbsize", dbsize),
    Row::new("flushall", flushall),
    Row::new("flushdb", flushdb),
    Row::new("monitor", monitor),
    Row::new("time", time),
];

/// The subcommands of CLUSTER.
const CLUSTER: Subcommands = &[
    ("addslots", disabled),
    ("addslotsrange", disabled),
    ("bumpepoch", disabled),
    ("count-failure-reports", disabled),
    ("countkeysinslot", disabled),
    ("delslots", disabled),
    ("delslotsrange", disabled),
    ("failover", disabled),
    ("flushslots", disabled),
    ("forget", disabled),
    ("getkeysinslot", disabled),
    ("help", disabled),
    ("info", disabled),
    ("keyslot", disabled),
    ("links", disabled),
    ("meet", disabled),
    ("myid", disabled),
    ("myshardid", disabled),
    ("nodes", disabled),
    ("replicas", disabled),
    ("replicate", disabled),
    ("reset", disabled),
    ("saveconfig", disabled),
    ("set-config-epoch", disabled),
    ("setslot", disabled),
    ("shards", disabled),
    ("slaves", disabled),
    ("slots", disabled),
];

fn dbsize(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    out.integer(i64::try_from(context.store.len()).unwrap_or(i64::MAX));
    Ok(())
}

fn flushall(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    check_flush_mode(args)?;
    context.databases.clear();
    if !context.databases.is_fork() {
        context.server.persistence.forget_all();
    }
    out.simple("OK");
    Ok(())
}

fn flushdb(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    check_flush_mode(args)?;
    context.store.clear();
    out.simple("OK");
    Ok(())
}

/// ASYNC and SYNC act alike: the keys are gone at the reply and are dropped in the background.
fn check_flush_mode(args: &[&[u8]]) -> Result<()> {
    match args[1..] {
        [] => Ok(()),
        [mode] if parse::is(mode, "ASYNC") || parse::is(mode, "SYNC") => Ok(()),
        _ => Err(CommandError::Syntax),
    }
}

fn monitor(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    if !context.may_block {
        return Err(CommandError::line("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    let clients = &context.server.clients;
    let found = clients.find(context.client.id);
    if let Some((client, outlet)) = found.zip(context.client.take_outlet()) {
        clients.monitors.add(&client, outlet);
    }
    out.simple("OK");
    Ok(())
}

fn time(_: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let now_us = psp_store::unix_time_us();
    out.array(2);
    for part in [now_us / 1_000_000, now_us % 1_000_000] {
        out.bulk(itoa::Buffer::new().format(part).as_bytes());
    }
    Ok(())
}

/// As in Redis without cluster support, not even HELP does anything.
pub(super) fn disabled(_: &mut Context<'_>, _: &[&[u8]], _: &mut ReplyEncoder<'_>) -> Result<()> {
    Err(CommandError::line("ERR This instance has cluster support disabled"))
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    #[test]
    fn flushing_leaves_nothing() {
        Session::new().expect(&[
            ("MSET a 1 b 2", "+OK"),
            ("EXPIRE a 100", ":1"),
            ("DBSIZE", ":2"),
            ("FLUSHDB ASYNC", "+OK"),
            ("DBSIZE", ":0"),
            ("GET a", "$-1"),
            ("SET a 1", "+OK"),
            ("FLUSHALL", "+OK"),
            ("EXISTS a", ":0"),
            ("FLUSHALL NOW", "-ERR syntax error"),
        ]);
    }

    #[test]
    fn time_replies_seconds_and_microseconds() {
        let mut session = Session::new();
        let reply = session.run("TIME");
        let parts: Vec<&str> = reply.split("\r\n").collect();
        let seconds: u64 = parts[2].parse().expect("seconds");
        let micros: u64 = parts[4].parse().expect("microseconds");
        assert!(seconds >= session.server.started_at_ms / 1000);
        assert!(micros < 1_000_000);
    }
}
