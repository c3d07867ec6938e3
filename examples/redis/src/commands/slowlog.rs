//! SLOWLOG.

use crate::command::{Context, ReplyEncoder, Row, Subcommands};
use crate::error::CommandError;
use crate::parse::{self, Result};

use super::subcommand::write_help;

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] =
    &[Row::container("commandlog", OF_COMMANDS), Row::container("slowlog", SUBCOMMANDS)];

/// COMMANDLOG has several logs in Valkey, of which there is one here: `slow`.
const OF_COMMANDS: Subcommands = &[
    ("get", |context, args, out| get(context, &of_slow(args, 3)?, out)),
    ("help", |_, _, out| {
        write_help("commandlog", HELP_OF_COMMANDS, out);
        Ok(())
    }),
    ("len", |context, args, out| len(context, &of_slow(args, 2)?, out)),
    ("reset", |context, args, out| reset(context, &of_slow(args, 2)?, out)),
];

const HELP_OF_COMMANDS: &[&str] = &[
    "GET <count> <type>",
    "    Return top <count> entries from the log of a type (-1 means all). The type is slow.",
    "LEN <type>",
    "    Return the length of the log of a type.",
    "RESET <type>",
    "    Reset the log of a type.",
];

/// The arguments without the type of the log, which is argument `at`.
fn of_slow<'a>(args: &[&'a [u8]], at: usize) -> Result<Vec<&'a [u8]>> {
    match args.get(at) {
        Some(kind) if parse::is(kind, "slow") => Ok(args[..at].to_vec()),
        _ => Err(CommandError::line("ERR type should be one of the following: slow")),
    }
}

const SUBCOMMANDS: Subcommands = &[("get", get), ("help", help), ("len", len), ("reset", reset)];

/// The text of SLOWLOG HELP, as in Redis.
const HELP: &[&str] = &[
    "GET [<count>]",
    "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
    "    Entries are made of:",
    "    id, timestamp, time in microseconds, arguments array, client IP and port,",
    "    client name",
    "LEN",
    "    Return the length of the slowlog.",
    "RESET",
    "    Reset the slowlog.",
];

/// Commands that `SLOWLOG GET` shows without a count.
const COUNT_DEFAULT: usize = 10;

fn help(_: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    write_help("slowlog", HELP, out);
    Ok(())
}

fn get(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let count = match args[2..] {
        [] => COUNT_DEFAULT,
        [count] => match parse::integer(count) {
            Ok(-1) => usize::MAX,
            count => {
                let count = count.ok().and_then(|count| usize::try_from(count).ok());
                count.ok_or(CommandError::line("ERR count should be greater than or equal to -1"))?
            }
        },
        _ => return Err(CommandError::Arity("slowlog|get".into())),
    };
    let commands = context.server.records.slow_log.last(count);
    out.array(commands.len());
    for command in commands {
        out.array(6);
        for number in [command.id, command.ended_at_s, command.busy_us] {
            out.integer(i64::try_from(number).unwrap_or(i64::MAX));
        }
        out.array(command.args.len());
        for arg in &command.args {
            out.bulk(arg);
        }
        let (address, _) = context.server.local_addresses().of(&command.peer);
        out.bulk(address.as_bytes());
        out.bulk(command.client_name.as_bytes());
    }
    Ok(())
}

fn len(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let len = context.server.records.slow_log.len();
    out.integer(i64::try_from(len).unwrap_or(i64::MAX));
    Ok(())
}

fn reset(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    context.server.records.slow_log.clear();
    out.simple("OK");
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    #[test]
    fn slow_commands_are_kept_up_to_a_number() {
        let mut session = Session::new();
        session.expect(&[
            ("PING", "+PONG"),
            ("SLOWLOG LEN", ":0"),
            ("CONFIG SET slowlog-max-len 3 slowlog-log-slower-than 0", "+OK"),
            ("CLIENT SETNAME me", "+OK"),
            ("SET a b", "+OK"),
            ("MULTI", "+OK"),
            ("GET a", "+QUEUED"),
            ("EXEC", "*1 $1 b"),
            ("CONFIG SET slowlog-log-slower-than -1", "+OK"),
            ("SLOWLOG LEN", ":3"),
        ]);
        // The last CONFIG SET has ended after its own change.
        let reply = session.run("SLOWLOG GET 2").replace("\r\n", " ");
        assert!(reply.starts_with("*2 *6 :4 :"), "{reply}");
        let last = " *2 $3 GET $1 a $15 127.0.0.1:50000 $2 me *6 :3 :";
        assert!(reply.contains(last), "{reply}");
        assert!(reply.ends_with(" *1 $5 MULTI $15 127.0.0.1:50000 $2 me "), "{reply}");
        session.expect(&[
            ("COMMANDLOG LEN slow", ":3"),
            ("COMMANDLOG LEN large-reply", "-ERR type should be one of the following: slow"),
            ("SLOWLOG GET -2", "-ERR count should be greater than or equal to -1"),
            ("SLOWLOG GET x", "-ERR count should be greater than or equal to -1"),
            ("COMMANDLOG RESET slow", "+OK"),
            ("COMMANDLOG GET -1 slow", "*0"),
            ("SLOWLOG RESET", "+OK"),
            ("SLOWLOG GET -1", "*0"),
        ]);
    }
}
