//! Dispatch: from the arguments of a command to its reply.

use psp_protocols::Sink;
use psp_protocols::resp::{CommandId, Encoder};
use psp_server::{Body, RequestType};
use quanta::Instant;

use crate::acl;
use crate::admission::{self, Verdict};
use crate::blocking::Blocking;
use crate::call;
use crate::client::ClientInfo;
use crate::command::{CommandSpec, CommandTable, Context, Flag};
use crate::error::CommandError;
use crate::monitors::{Moment, show};
use crate::parse::{self, Result};
use crate::pause;
use crate::persistence::Gate;
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
    /// The command has not run: it waits for the end of a pause.
    Pause,
}

/// Runs `command` with `args`, its name first, and writes its reply. Empty arguments get no reply. The classifier found
/// the request to be of `request_type`. Long arguments that are parts of `body` are kept rather than copied.
pub fn dispatch(
    server: &ServerState,
    client: &ClientInfo,
    stats: &WorkerStats,
    (command, request_type, body): (CommandId, RequestType, Body<'_>),
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
        let error = CommandError::unknown_command(args);
        stats.count_error(&error);
        reply.error(&error.to_string());
        return Outcome::Keep;
    };
    let spec = &table.specs()[index];
    let start = Instant::now();
    let recorded = server.databases.journal().end();
    if let Err(mut error) = admit((index, spec), server, client, args, start) {
        client.transaction.fail();
        if spec.name == "exec" {
            client.transaction.take();
            error = CommandError::aborted(&error);
        }
        stats.count_rejected(table.entry_of(index, args));
        stats.count_error(&error);
        reply.error(&error.to_string());
        return Outcome::Keep;
    }
    if pause::holds(server, client, spec, args) {
        return Outcome::Pause;
    }
    let entry = table.entry_of(index, args);
    client.note_command(entry, start);
    if client.transaction.queues(spec.name) {
        let bytes_max = server.settings.config.limits.request_len_max;
        let is_held = pause::may_replicate(server, client, spec, args);
        let transaction = &client.transaction;
        match transaction.queue(index, (args, body), request_type, bytes_max, is_held) {
            Ok(()) => {
                note_select(spec, server, client, args);
                reply.simple("QUEUED");
            }
            Err(error) => reply.error(&error.to_string()),
        }
        return Outcome::Keep;
    }
    let mut context = Context { body, ..Context::new(server, client, stats) };
    let is_monitored = server.clients.monitors.is_any();
    if is_monitored {
        show(&context, entry, args, Moment::Before);
    }
    let result = call::run(spec, &mut context, args, &mut reply);
    if is_monitored {
        show(&context, entry, args, Moment::After);
    }
    if let Err(error) = &result {
        reply.error(&error.to_string());
    }
    if context.database != client.database() {
        client.set_database(context.database);
    }
    let busy = start.elapsed();
    let (error, records) = (result.as_ref().err(), &server.records);
    match &context.blocking {
        None => records.ended((client, stats), entry, args, busy, error),
        Some(_) => records.waits(stats, entry, busy),
    }
    // A key may have expired while it was read.
    server.clients.blocked.serve(server, stats);
    // Others may have recorded something meanwhile.
    if server.databases.journal().end() != recorded && may_have_written(spec) {
        client.note_write();
    }
    match context.blocking {
        Some(mut blocking) => {
            blocking.remember(spec, (entry, busy), args);
            Outcome::Wait(blocking)
        }
        None if context.close => Outcome::Close,
        None => Outcome::Keep,
    }
}

fn may_have_written(spec: &CommandSpec) -> bool {
    spec.flags.contains(Flag::Write) || spec.flags.contains(Flag::MayReplicate) || spec.name == "exec"
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
    (index, spec): (usize, &CommandSpec),
    server: &ServerState,
    client: &ClientInfo,
    args: &[&[u8]],
    now: Instant,
) -> Result<()> {
    spec.check(args)?;
    acl::admit(server, client, index, args)?;
    if spec.flags.contains(Flag::DenyOom) && server.is_out_of_memory(now) {
        return Err(CommandError::OutOfMemory);
    }
    match server.persistence.gate() {
        Gate::Open => {}
        gate => gate.check(server, spec, client, args)?,
    }
    if spec.flags.contains(Flag::NoMulti) && client.transaction.queued().is_some() {
        return Err(CommandError::line("ERR Command not allowed inside a transaction"));
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
