//! From arguments to a reply.

use std::time::Instant;

use psp_protocols::Sink;
use psp_protocols::resp::Encoder;

use crate::client::Client;
use crate::command::{CommandSpec, CommandTable, Context, Flag};
use crate::error::CommandError;
use crate::parse::Result;
use crate::state::ServerState;
use crate::stats::WorkerStats;

/// What becomes of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It stays open.
    Keep,
    /// It is closed after the reply.
    Close,
}

/// Runs the command `args` and writes its reply. No arguments, no reply.
pub fn dispatch(
    server: &ServerState,
    client: &Client,
    stats: &WorkerStats,
    args: &[&[u8]],
    out: &mut dyn Sink,
) -> Outcome {
    let Some(name) = args.first() else {
        return Outcome::Keep;
    };
    let mut reply = Encoder::new(out, client.version());
    let table = CommandTable::get();
    let Some(index) = table.index_of(name) else {
        reply.error(&CommandError::unknown_command(args).to_string());
        return Outcome::Keep;
    };
    let spec = table.specs()[index];
    if let Err(error) = admit(spec, client, args) {
        stats.count_rejected(index);
        reply.error(&error.to_string());
        return Outcome::Keep;
    }
    let start = Instant::now();
    client.note_command(index, start);
    let mut context = Context {
        store: &server.store,
        server,
        client,
        close: false,
    };
    let result = (spec.run)(&mut context, args, &mut reply);
    if let Err(error) = &result {
        reply.error(&error.to_string());
    }
    stats.count_call(index, start.elapsed(), result.is_err());
    if context.close {
        Outcome::Close
    } else {
        Outcome::Keep
    }
}

fn admit(spec: &CommandSpec, client: &Client, args: &[&[u8]]) -> Result<()> {
    if !spec.accepts(args.len()) {
        return Err(spec.arity_error());
    }
    if !client.is_authenticated() && !spec.flags.contains(&Flag::NoAuth) {
        return Err(CommandError::NoAuth);
    }
    Ok(())
}
