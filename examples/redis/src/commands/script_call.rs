//! One call of a script or of a function, as EVAL and FCALL make it.
//!
//! It runs on a fork of the keyspace, as a transaction does: other clients see all that it did or nothing, and no
//! lock is held while it runs. If another client changed one of its keys meanwhile, it runs again.

use std::cell::Cell;
use std::fmt::Display;

use mlua::Function;
use psp_store::Databases;
use quanta::Instant;

use crate::command::{Context, ReplyEncoder};
use crate::error::CommandError;
use crate::parse::Result;
use crate::pubsub::Outbox;
use crate::scripts::control::{Bounds, Task};
use crate::scripts::pool::Lease;
use crate::scripts::run::{Ended, Run};
use crate::scripts::shebang::Flags;
use crate::state::ServerState;
use crate::transaction::TransactionState;
use crate::transcript::Transcript;

/// How long a script may run that begins while the server drains.
const DRAIN_MS_MAX: u64 = 1000;

/// An interpreter for a task.
pub(super) fn lease<'s>(server: &'s ServerState, task: Task<'_>) -> Result<Lease<'s>> {
    server.check_memory_of_group()?;
    let settings = &server.settings;
    let drain_ms = settings.busy_reply_threshold_ms();
    let bounds = Bounds {
        limit_ms: settings.script_time_limit_ms(),
        drain_ms: match server.is_stopping() {
            true => drain_ms.min(DRAIN_MS_MAX),
            false => drain_ms,
        },
        runtime: server.runtime.get().cloned(),
    };
    server.scripts.pool.lease(task, bounds)
}

/// The keys and the other arguments of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arguments<'a> {
    keys: &'a [&'a [u8]],
    args: &'a [&'a [u8]],
}

impl<'a> Arguments<'a> {
    /// Divides what follows the number `count` of the keys.
    pub(super) fn divide(count: i64, rest: &'a [&'a [u8]]) -> Result<Self> {
        let count =
            usize::try_from(count).map_err(|_negative| CommandError::line("ERR Number of keys can't be negative"))?;
        let (keys, args) = rest
            .split_at_checked(count)
            .ok_or(CommandError::line("ERR Number of keys can't be greater than number of args"))?;
        Ok(Self { keys, args })
    }
}

/// One call.
pub(super) struct Call<'a> {
    /// What errors call the script or the function.
    pub(super) name: &'a dyn Display,
    pub(super) function: &'a Function,
    pub(super) arguments: Arguments<'a>,
    /// What it declares; `None` for a script without a first line for that.
    pub(super) flags: Option<Flags>,
    /// The command is one of those that write nothing.
    pub(super) is_read_only: bool,
}

impl Call<'_> {
    /// Runs the call and writes its reply.
    pub(super) fn run(&self, context: &mut Context<'_>, lease: &Lease<'_>, out: &mut ReplyEncoder<'_>) -> Result<()> {
        let server = context.server;
        let is_out_of_memory = self.is_out_of_memory(context)?;
        let flags = self.flags.unwrap_or_default();
        let limit_bytes = server.settings.config.server.reply_bytes_max;
        let is_within_transaction = context.databases.is_fork();
        let Arguments { keys, args } = self.arguments;
        let own_outbox = Outbox::default();
        let run = |databases: &Databases| {
            own_outbox.clear();
            let context = &Context {
                outbox: context.outbox.or(Some(&own_outbox)),
                ..context.within(databases, context.database)
            };
            let mut reply = Transcript::new(limit_bytes);
            let run = Run {
                context,
                databases,
                database: Cell::new(context.database),
                is_read_only: self.is_read_only || flags.has_any(Flags::NO_WRITES),
                is_out_of_memory,
                has_written: Cell::new(false),
                is_within_transaction,
                keys,
                has_read: Cell::new(false),
                reply: Cell::default(),
            };
            let ended = run.run(lease, self.function, self.name, args, &mut reply);
            if let Err(Ended::Stopped(_)) = ended
                && !is_within_transaction
            {
                databases.roll_back();
                own_outbox.clear();
            }
            ended.map(|()| reply)
        };
        let ended = if is_within_transaction {
            run(context.databases)
        } else {
            TransactionState::commit(&server.databases, &[], run)
                .ok_or(CommandError::line("ERR the script was not carried out"))?
        };
        own_outbox.publish(&server.clients, context.client.id);
        match ended {
            Ok(reply) if reply.is_too_long() => Err(CommandError::line(
                "ERR the reply of the script, which was carried out, is longer than reply-bytes-max",
            )),
            Ok(reply) => {
                reply.copy_to(out);
                Ok(())
            }
            Err(Ended::Failed(error) | Ended::Stopped(error)) => Err(error),
        }
    }

    /// Whether commands that may store more get an error because memory is short.
    ///
    /// # Errors
    /// The call declares what it does, and may not do this now.
    fn is_out_of_memory(&self, context: &Context<'_>) -> Result<bool> {
        let is_out_of_memory = context.server.is_out_of_memory(Instant::now());
        let Some(flags) = self.flags else {
            return Ok(is_out_of_memory);
        };
        if is_out_of_memory && !flags.has_any(Flags::ALLOW_OOM.with(Flags::NO_WRITES)) {
            return Err(CommandError::OutOfMemory);
        }
        let gate = context.server.persistence.gate();
        if gate.refuses_writes() && !flags.has_any(Flags::NO_WRITES) {
            return Err(gate.refusal(context.server));
        }
        if self.is_read_only && !flags.has_any(Flags::NO_WRITES) {
            return Err(CommandError::line("ERR Can not execute a script with write flag using *_ro command."));
        }
        Ok(false)
    }
}
