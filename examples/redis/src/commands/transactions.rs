//! MULTI, EXEC, DISCARD, WATCH and UNWATCH.
//!
//! EXEC runs the queued commands on a fork of the keyspace, and one commit stores what they did. Other clients see
//! all of it or nothing. No lock is held while the commands run, so a transaction of thousands of commands delays no
//! other request; if another client changed one of its keys meanwhile, all commands run again.

use psp_protocols::Sink;
use psp_protocols::resp::Encoder;
use quanta::Instant;

use super::pace::Pace;
use crate::acl;
use crate::call;
use crate::command::{CommandSpec, CommandTable, Context, Flag, ReplyEncoder, Row};
use crate::error::CommandError;
use crate::keyspace_events::Read;
use crate::monitors::{Moment, feed};
use crate::parse::Result;
use crate::pubsub::Outbox;
use crate::transaction::{QueuedCommand, TransactionState};
use crate::transcript::Transcript;

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("discard", discard),
    Row::new("exec", exec),
    Row::new("multi", multi),
    Row::new("unwatch", unwatch),
    Row::new("watch", watch).flags(&[Flag::Readonly]).reads(Read::Nothing),
];

fn multi(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    context.client.transaction.begin()?;
    out.simple("OK");
    Ok(())
}

fn discard(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let taken = context.client.transaction.take();
    taken.ok_or(CommandError::line("ERR DISCARD without MULTI"))?;
    out.simple("OK");
    Ok(())
}

fn watch(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    context.server.check_memory()?;
    let transaction = &context.client.transaction;
    let pace = Pace::new();
    transaction.watch(context.store, &args[1..], &|| pace.step())?;
    out.simple("OK");
    Ok(())
}

fn unwatch(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    // Within a transaction its keys are no longer watched.
    if !context.store.is_fork() {
        Pace::new().drop_all(context.client.transaction.unwatch());
    }
    out.simple("OK");
    Ok(())
}

fn exec(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let taken = context.client.transaction.take();
    let transaction = taken.ok_or(CommandError::line("ERR EXEC without MULTI"))?;
    if transaction.failed {
        return Err(CommandError::line("EXECABORT Transaction discarded because of previous errors."));
    }
    let commands = &transaction.commands;
    let stores_more = |command: &QueuedCommand| spec_of(command).flags.contains(Flag::DenyOom);
    if commands.iter().any(stores_more) && context.server.is_out_of_memory(Instant::now()) {
        return Err(CommandError::aborted(&CommandError::OutOfMemory));
    }
    let databases = &context.server.databases;
    let limit_bytes = context.server.settings.config.server.reply_bytes_max;
    let (mut closes, mut database) = (false, context.database);
    let outbox = Outbox::default();
    let replies = TransactionState::commit(databases, &transaction.watched, |fork| {
        let mut replies = Transcript::new(limit_bytes);
        outbox.clear();
        let mut context = Context {
            outbox: Some(&outbox),
            ..context.within(fork, context.database)
        };
        for command in commands {
            run(command, &mut context, &mut replies);
        }
        (closes, database) = (context.close, context.database);
        replies
    });
    context.close |= closes;
    context.select(database);
    if replies.is_some() {
        outbox.publish(&context.server.clients, context.client.id);
    }
    match replies {
        None => out.null_array(),
        Some(replies) if replies.is_too_long() => {
            return Err(CommandError::line(
                "ERR the replies of the transaction, which was carried out, are longer than reply-bytes-max",
            ));
        }
        Some(replies) => {
            out.array(commands.len());
            replies.copy_to(out);
        }
    }
    Pace::new().drop_all(transaction.commands);
    Pace::new().drop_all(transaction.watched);
    Ok(())
}

fn spec_of(command: &QueuedCommand) -> &'static CommandSpec {
    &CommandTable::get().specs()[command.index]
}

/// Runs one command of a transaction. Its context finds which database is selected then, and whether the connection
/// closes after the reply.
fn run(command: &QueuedCommand, transaction: &mut Context<'_>, replies: &mut dyn Sink) {
    let started = Instant::now();
    let mut context = Context {
        body: command.body(),
        ..transaction.within(transaction.databases, transaction.database)
    };
    let mut reply = Encoder::new(replies, context.client.version());
    let (spec, args) = (spec_of(command), command.args());
    let entry = CommandTable::get().entry_of(command.index, &args);
    if let Err(error) = acl::admit_queued(context.server, context.client, entry, &args) {
        context.stats.count_error(&error);
        return reply.error(&error.to_string());
    }
    feed(&context, entry, &args, Moment::Before);
    let result = call::run(spec, &mut context, &args, &mut reply);
    feed(&context, entry, &args, Moment::After);
    if let Err(error) = &result {
        reply.error(&error.to_string());
    }
    let (busy, who) = (started.elapsed(), (context.client, context.stats));
    let records = &context.server.records;
    records.ended(who, entry, &args, busy, result.as_ref().err());
    // A transaction of many short commands yields as one long command does.
    Pace::new().pause();
    transaction.close |= context.close;
    transaction.select(context.database);
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::testing::Session;

    #[test]
    fn nothing_runs_before_exec() {
        let mut session = Session::new();
        let mut other = session.beside();
        session.expect(&[("MULTI", "+OK"), ("SET a 1", "+QUEUED"), ("INCR a", "+QUEUED"), ("GET a", "+QUEUED")]);
        other.expect(&[("GET a", "$-1")]);
        assert!(session.run("CLIENT LIST").contains("QUEUED"));
        let list = other.run("CLIENT LIST");
        let line = list.lines().find(|line| line.contains(" multi=4 "));
        assert!(line.is_some_and(|line| line.contains(" watch=0 ")), "{list}");
        let reply = session.run("EXEC");
        assert!(reply.starts_with("*4\r\n+OK\r\n:2\r\n$1\r\n2\r\n$"), "{reply}");
        other.expect(&[("GET a", "$1 2")]);
        session.expect(&[
            ("EXEC", "-ERR EXEC without MULTI"),
            ("DISCARD", "-ERR DISCARD without MULTI"),
            ("MULTI", "+OK"),
            ("EXEC", "*0"),
        ]);
    }

    #[test]
    fn a_command_that_cannot_be_queued_spoils_the_transaction() {
        let aborted = "-EXECABORT Transaction discarded because of previous errors.";
        for (wrong, error) in [
            ("NOPE", "-ERR unknown command 'NOPE', with args beginning with:"),
            ("GET", "-ERR wrong number of arguments for 'get' command"),
        ] {
            let mut session = Session::new();
            session.expect(&[
                ("MULTI", "+OK"),
                ("SET a 1", "+QUEUED"),
                (wrong, error),
                ("SET b 1", "+QUEUED"),
                ("EXEC", aborted),
                ("EXISTS a b", ":0"),
            ]);
        }
        let mut session = Session::new();
        session.expect(&[
            ("MULTI", "+OK"),
            ("MULTI", "-ERR MULTI calls can not be nested"),
            ("WATCH a", "-ERR WATCH inside MULTI is not allowed"),
            ("SET a 1", "+QUEUED"),
            ("EXEC", "*1 +OK"),
        ]);
    }

    #[test]
    fn a_command_that_fails_leaves_the_others() {
        Session::new().expect(&[
            ("SET text x", "+OK"),
            ("MULTI", "+OK"),
            ("LPUSH text y", "+QUEUED"),
            ("SET a 1", "+QUEUED"),
            ("EXEC", "*2 -WRONGTYPE Operation against a key holding the wrong kind of value +OK"),
            ("GET a", "$1 1"),
        ]);
    }

    #[test]
    fn discard_and_reset_forget_everything() {
        let mut session = Session::new();
        let mut other = session.beside();
        session.expect(&[("WATCH a", "+OK"), ("MULTI", "+OK"), ("SET a 1", "+QUEUED"), ("DISCARD", "+OK")]);
        other.expect(&[("SET a 2", "+OK")]);
        session.expect(&[("MULTI", "+OK"), ("GET a", "+QUEUED"), ("EXEC", "*1 $1 2")]);
        session.expect(&[("WATCH a", "+OK"), ("MULTI", "+OK"), ("RESET", "+RESET")]);
        other.expect(&[("SET a 3", "+OK")]);
        session.expect(&[("MULTI", "+OK"), ("GET a", "+QUEUED"), ("EXEC", "*1 $1 3")]);
    }

    #[test]
    fn a_watched_key_that_changed_stops_it() {
        let mut session = Session::new();
        let mut other = session.beside();
        session.expect(&[("SET a 1", "+OK"), ("WATCH a b", "+OK"), ("GET a", "$1 1")]);
        other.expect(&[("SET b x", "+OK")]);
        session.expect(&[
            ("MULTI", "+OK"),
            ("INCR a", "+QUEUED"),
            ("EXEC", "*-1"),
            ("GET a", "$1 1"),
            ("WATCH a", "+OK"),
        ]);
        other.expect(&[("SET a 1", "+OK")]);
        session.expect(&[
            ("UNWATCH", "+OK"),
            ("MULTI", "+OK"),
            ("INCR a", "+QUEUED"),
            ("UNWATCH", "+QUEUED"),
            ("EXEC", "*2 :2 +OK"),
        ]);
        let mut resp3 = session.beside().resp3();
        resp3.expect(&[("WATCH a", "+OK")]);
        other.expect(&[("DEL a", ":1")]);
        resp3.expect(&[("MULTI", "+OK"), ("EXEC", "_")]);
        session.expect(&[("WATCH none", "+OK")]);
        other.expect(&[("SET none 1", "+OK")]);
        session.expect(&[("GET none", "$1 1")]);
        other.expect(&[("DEL none", ":1")]);
        session.expect(&[("MULTI", "+OK"), ("EXEC", "*-1")]);
        session.expect(&[
            ("SET mine 1", "+OK"),
            ("WATCH mine", "+OK"),
            ("SET mine 2", "+OK"),
            ("MULTI", "+OK"),
            ("EXEC", "*-1"),
        ]);
    }

    #[test]
    fn all_kinds_of_commands_run_in_it() {
        let mut session = Session::new();
        session.expect(&[
            ("MSET a 1 b 2 c 3", "+OK"),
            ("MULTI", "+OK"),
            ("RENAME a d", "+QUEUED"),
            ("DBSIZE", "+QUEUED"),
            ("KEYS d", "+QUEUED"),
            ("FLUSHALL", "+QUEUED"),
            ("SET e 5", "+QUEUED"),
            ("DBSIZE", "+QUEUED"),
            ("SCAN 0", "+QUEUED"),
            ("SELECT 0", "+QUEUED"),
            ("EXEC", "*8 +OK :3 *1 $1 d +OK +OK :1 *2 $1 0 *1 $1 e +OK"),
            ("DBSIZE", ":1"),
            ("GET e", "$1 5"),
        ]);
    }

    #[test]
    fn commands_and_replies_are_bounded() {
        let mut config = Config::default();
        config.limits.request_len_max = 4096;
        config.server.reply_bytes_max = 4096;
        let mut session = Session::with(config);
        let long = "x".repeat(3000);
        session.expect(&[
            ("MULTI", "+OK"),
            (&format!("SET a {long}"), "+QUEUED"),
            (
                &format!("SET b {long}"),
                "-ERR the commands of the transaction are longer than request-len-max",
            ),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            (&format!("SET a {long}"), "+OK"),
            ("MULTI", "+OK"),
            ("GET a", "+QUEUED"),
            ("GET a", "+QUEUED"),
            ("SET b 1", "+QUEUED"),
            (
                "EXEC",
                "-ERR the replies of the transaction, which was carried out, are longer than reply-bytes-max",
            ),
            ("GET b", "$1 1"),
        ]);
    }

    #[test]
    fn quit_closes_and_the_last_hello_counts() {
        let mut session = Session::new();
        session.expect(&[("MULTI", "+OK"), ("QUIT", "+OK")]);
        assert!(session.closed);
        let mut session = Session::new();
        session.expect(&[("MULTI", "+OK"), ("HELLO 3", "+QUEUED"), ("GET none", "+QUEUED")]);
        let reply = session.run("EXEC");
        assert!(reply.starts_with("*2\r\n%7\r\n"), "{reply}");
        assert!(reply.ends_with("_\r\n"), "{reply}");
    }
}
