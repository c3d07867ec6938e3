//! Dispatch: from the arguments of a command to its reply.

use std::time::Instant;

use psp_protocols::Sink;
use psp_protocols::resp::{CommandId, Encoder};
use psp_server::RequestType;

use crate::admission::{self, Verdict};
use crate::blocking::Blocking;
use crate::client::ClientInfo;
use crate::command::{CommandSpec, CommandTable, Context, Flag};
use crate::error::CommandError;
use crate::keyspace_events;
use crate::parse::{self, Result};
use crate::state::ServerState;
use crate::stats::WorkerStats;

/// What a client may do that has subscriptions and speaks RESP2.
const SUBSCRIBED: &[&str] = &[
    "ping",
    "psubscribe",
    "punsubscribe",
    "quit",
    "reset",
    "ssubscribe",
    "subscribe",
    "sunsubscribe",
    "unsubscribe",
];

/// What follows a command.
#[derive(Debug)]
pub enum Outcome {
    /// The connection stays open.
    Keep,
    /// The server closes the connection after the reply.
    Close,
    /// There is no reply yet: the client waits.
    Wait(Box<Blocking>),
}

/// Runs `command` with `args`, its name first, and writes its reply. Empty arguments get no reply. The classifier found
/// the request to be of `request_type`.
pub fn dispatch(
    server: &ServerState,
    client: &ClientInfo,
    stats: &WorkerStats,
    (command, request_type): (CommandId, RequestType),
    args: &[&[u8]],
    out: &mut dyn Sink,
) -> Outcome {
    if args.is_empty() {
        return Outcome::Keep;
    }
    let mut reply = Encoder::new(out, client.version());
    match admission::verdict(client, command, args) {
        Verdict::Run => {}
        Verdict::Close => return Outcome::Close,
    }
    let table = CommandTable::get();
    let Some(index) = table.index_of(command) else {
        client.transaction.fail();
        reply.error(&CommandError::unknown_command(args).to_string());
        return Outcome::Keep;
    };
    let spec = table.specs()[index];
    let start = Instant::now();
    if let Err(mut error) = admit(spec, server, client, args, start) {
        client.transaction.fail();
        if spec.name == "exec" {
            client.transaction.take();
            error = CommandError::aborted(&error);
        }
        stats.count_rejected(index);
        reply.error(&error.to_string());
        return Outcome::Keep;
    }
    client.note_command(index, start);
    if client.transaction.queues(spec.name) {
        let bytes_max = server.settings.config.limits.request_len_max;
        match client
            .transaction
            .queue(index, args, request_type, bytes_max)
        {
            Ok(()) => {
                note_select(spec, server, client, args);
                reply.simple("QUEUED");
            }
            Err(error) => reply.error(&error.to_string()),
        }
        return Outcome::Keep;
    }
    let mut context = Context::new(server, client, stats);
    let result = keyspace_events::run(spec, &mut context, args, &mut reply);
    if let Err(error) = &result {
        reply.error(&error.to_string());
    }
    stats.count_call(index, start.elapsed(), result.is_err());
    if context.database != client.database() {
        client.set_database(context.database);
    }
    // A key may have expired while it was read.
    server.clients.blocked.serve(server, stats);
    match context.blocking {
        Some(mut blocking) => {
            blocking.remember(spec, args, &server.notifier);
            Outcome::Wait(blocking)
        }
        None if context.close => Outcome::Close,
        None => Outcome::Keep,
    }
}

/// Commands that are queued behind a SELECT will run in its database.
fn note_select(spec: &CommandSpec, server: &ServerState, client: &ClientInfo, args: &[&[u8]]) {
    if spec.name == "select"
        && let Ok(number) = parse::integer(args[1])
        && let Ok(number) = usize::try_from(number)
        && number < server.databases.count()
    {
        client.transaction.note_select(number);
    }
}

fn admit(
    spec: &CommandSpec,
    server: &ServerState,
    client: &ClientInfo,
    args: &[&[u8]],
    now: Instant,
) -> Result<()> {
    spec.check(args)?;
    if !client.is_authenticated() && !spec.flags.contains(&Flag::NoAuth) {
        return Err(CommandError::NoAuth);
    }
    if spec.flags.contains(&Flag::DenyOom) && server.is_out_of_memory(now) {
        return Err(CommandError::OutOfMemory);
    }
    if client.is_in_subscribed_mode() && !SUBSCRIBED.contains(&spec.name) {
        let name = spec.full_name(args);
        let line = format!(
            "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
             allowed in this context"
        );
        return Err(CommandError::Other(line.into()));
    }
    Ok(())
}
