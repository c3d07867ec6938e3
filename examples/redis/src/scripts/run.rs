//! One run of a script.
//!
//! ```text
//!   EVAL, FCALL ─► fork of the keyspace ─► Run ─► Lua ─► redis.call ─► command on the fork ─► reply ─► Lua
//!                        ▲                  │                                                          │
//!                        └ commit ◄─────────┴───────────────── Transcript ◄────────────────────────────┘
//! ```

use std::cell::Cell;
use std::fmt::Display;

use bytes::Bytes;
use mlua::{BString, Function, Lua, MultiValue, Table, Value};
use psp_protocols::Sink;
use psp_protocols::resp::{CommandId, Encoder};
use psp_store::Databases;
use quanta::Instant;
use smallvec::SmallVec;

use super::control::{Form, Stop};
use super::convert::{self, ReplyReader};
use super::interpreter::{Interpreter, message_of};
use super::native::{self, Raised};
use super::number;
use super::pool::Lease;
use crate::acl;
use crate::call;
use crate::command::{CommandSpec, CommandTable, Context, Flag};
use crate::error::CommandError;
use crate::monitors::{Moment, feed};
use crate::parse::{self, Result};
use crate::tracking;
use crate::transcript::Transcript;

/// Bytes of one reply that a script can take.
const REPLY_BYTES_MAX: usize = 256 << 20;
/// A buffer that has become larger is not kept for the next reply.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// Bytes that a value takes in Lua for each byte of its reply, at most: an empty array (`*0`) in another one.
const BYTES_PER_REPLY_BYTE: usize = 32;

/// What a run works with.
pub(crate) struct Run<'a> {
    /// The context of the command that runs the script.
    pub(crate) context: &'a Context<'a>,
    /// What the script's commands read and change.
    pub(crate) databases: &'a Databases,
    /// The number of the database that the script has selected. Its caller's stays as it is.
    pub(crate) database: Cell<usize>,
    /// Commands that write are refused.
    pub(crate) is_read_only: bool,
    /// Memory was short at the start: commands that may store more are refused until one has written.
    pub(crate) is_out_of_memory: bool,
    /// A command that writes was run.
    pub(crate) has_written: Cell<bool>,
    /// What the script has written cannot be taken back.
    pub(crate) is_within_transaction: bool,
    /// The declared keys.
    pub(crate) keys: &'a [&'a [u8]],
    /// A command has read. All declared keys count as read by then.
    pub(crate) has_read: Cell<bool>,
    /// The buffer of replies.
    pub(crate) reply: Cell<Bounded>,
}

/// The arguments of a call: packed in one text, or as they are. See `packed` in `lbaselib.c`.
type CallArguments = (Option<BString>, MultiValue);

impl Run<'_> {
    /// Runs `function`, which errors call `name`, with its keys and `args`, and writes its reply. The lease says
    /// whether it is a script or the function of a library.
    ///
    /// # Errors
    /// The script ended with an error, or was stopped.
    pub(crate) fn run(
        &self,
        lease: &Lease<'_>,
        function: &Function,
        name: &dyn Display,
        args: &[&[u8]],
        out: &mut Transcript,
    ) -> Result<(), Ended> {
        let keys = self.keys;
        let interpreter = lease.interpreter().map_err(Ended::Failed)?;
        let control = &interpreter.control;
        control.restart();
        control.set_caller(&self.context.client.account);
        let client_version = self.context.client.version();
        let ended = interpreter.lua.scope(|scope| {
            let arguments = if control.is(Form::Function) {
                Some((interpreter.list(keys)?, interpreter.list(args)?))
            } else {
                interpreter.set_arguments(keys, args)?;
                None
            };
            let call =
                scope.create_function(|lua, args: CallArguments| match self.command(lua, interpreter, &args)? {
                    None => Ok(()),
                    Some(error) => Err(mlua::Error::external(error)),
                })?;
            let pcall =
                scope.create_function(|lua, args: CallArguments| match self.command(lua, interpreter, &args)? {
                    None => Ok(()),
                    Some(error) => {
                        let error = native::error_object(lua, &error.to_string())?;
                        interpreter.results.raw_seti(1, error)
                    }
                })?;
            let (keys, args) = arguments.unzip();
            let (ok, result) = interpreter.run.call::<(bool, Value)>((function, call, pcall, keys, args))?;
            if !ok {
                return Ok(Some(failure(result, name)));
            }
            let out: &mut dyn Sink = out;
            convert::write(&result, control, &mut Encoder::new(out, client_version))?;
            Ok(None)
        });
        match ended {
            Ok(None) => Ok(()),
            Ok(Some(ended)) => Err(ended),
            Err(error) => Err(failure_of(&error, name)),
        }
    }

    /// Runs a command. Stores what its reply becomes in the interpreter's results, or returns its error.
    fn command(
        &self,
        lua: &Lua,
        interpreter: &Interpreter,
        (packed, args): &CallArguments,
    ) -> mlua::Result<Option<Raised>> {
        let control = &interpreter.control;
        control.pause().map_err(mlua::Error::external)?;
        let mut reply = self.reply.take();
        let result = match packed {
            Some(packed) => self.dispatch(interpreter, &unpacked(packed), &mut reply),
            None => arguments(args.iter()).and_then(|args| {
                let args: SmallVec<[&[u8]; 8]> = args.iter().map(Argument::bytes).collect();
                self.dispatch(interpreter, &args, &mut reply)
            }),
        };
        if let Err(error) = result {
            return Ok(Some(Raised::Object(error.to_string())));
        }
        let bytes = &reply.bytes;
        let room = bytes.len().saturating_mul(BYTES_PER_REPLY_BYTE);
        native::with_room(lua, room, || {
            let value = ReplyReader::new(lua, control, bytes).value()?;
            interpreter.results.raw_seti(1, value)
        })?;
        self.keep(reply);
        Ok(None)
    }

    /// Keeps the buffer of a reply.
    fn keep(&self, mut reply: Bounded) {
        if reply.bytes.capacity() <= KEPT_BYTES_MAX {
            reply.bytes.clear();
            self.reply.set(reply);
        }
    }

    fn dispatch(&self, interpreter: &Interpreter, args: &[&[u8]], reply: &mut Bounded) -> Result<()> {
        let id = args.first().map_or(CommandId::UNKNOWN, |name| CommandId::of(name));
        let table = CommandTable::get();
        let index = table
            .index_of(id)
            .ok_or(CommandError::line("ERR Unknown Redis command called from script"))?;
        let spec = &table.specs()[index];
        let entry = table.entry_of(index, args);
        self.admit(spec, entry, args)?;
        if spec.flags.contains(Flag::Write) {
            self.has_written.set(true);
            if self.is_within_transaction {
                interpreter.control.forbid_stop();
            }
        }
        if spec.flags.contains(Flag::Readonly) && !self.has_read.replace(true) {
            tracking::remember(self.context, || self.keys.to_vec());
        }
        let started = Instant::now();
        let mut context = self.context.within(self.databases, self.database.get());
        context.in_script = true;
        let out: &mut dyn Sink = reply;
        let mut encoder = Encoder::new(out, interpreter.control.version());
        let result = call::run(spec, &mut context, args, &mut encoder);
        self.database.set(context.database);
        feed(&context, entry, args, Moment::After);
        let (busy, who) = (started.elapsed(), (self.context.client, self.context.stats));
        let records = &self.context.server.records;
        records.ended(who, entry, args, busy, result.as_ref().err());
        result?;
        if reply.is_too_long {
            return Err(CommandError::line("ERR the command's reply is too long for a script"));
        }
        Ok(())
    }

    fn admit(&self, spec: &CommandSpec, entry: usize, args: &[&[u8]]) -> Result<()> {
        let line = match spec.check(args) {
            Err(CommandError::Arity(_)) => "ERR Wrong number of args calling Redis command from script",
            // A subcommand.
            Err(_unknown) => "ERR Unknown Redis command called from script",
            Ok(()) => return self.allow(spec, entry, args),
        };
        Err(CommandError::line(line))
    }

    fn allow(&self, spec: &CommandSpec, entry: usize, args: &[&[u8]]) -> Result<()> {
        if is_forbidden(spec, args) {
            return Err(CommandError::line("ERR This Redis command is not allowed from script"));
        }
        let Context { server, client, .. } = self.context;
        acl::admit_in_script(server, client, entry, args)?;
        let gate = server.persistence.gate();
        let line = if self.is_read_only && is_write(spec) {
            "ERR Write commands are not allowed from read-only scripts."
        } else if self.is_out_of_memory && !self.has_written.get() && spec.flags.contains(Flag::DenyOom) {
            return Err(CommandError::OutOfMemory);
        } else if !self.has_written.get() && gate.refuses_writes() && spec.flags.contains(Flag::Write) {
            return Err(gate.refusal(server));
        } else {
            return Ok(());
        };
        Err(CommandError::line(line))
    }
}

fn is_forbidden(spec: &CommandSpec, args: &[&[u8]]) -> bool {
    let is_reset = || args.get(1).is_some_and(|word| parse::is(word, "RESET"));
    spec.flags.contains(Flag::NoScript) || (spec.name == "cluster" && is_reset())
}

/// Whether a script that only reads may not call the command.
fn is_write(spec: &CommandSpec) -> bool {
    spec.flags.contains(Flag::Write) || spec.flags.contains(Flag::MayReplicate)
}

/// How a run ended, if not well.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The script failed; what it wrote stays, as in Redis.
    Failed(CommandError),
    /// The script was stopped, and has written nothing.
    Stopped(CommandError),
}

/// The arguments in `packed`.
fn unpacked(mut packed: &[u8]) -> SmallVec<[&[u8]; 8]> {
    let mut args = SmallVec::new();
    while let Some((&len, rest)) = packed.split_first() {
        let (arg, rest) = rest.split_at(rest.len().min(len.into()));
        args.push(arg);
        packed = rest;
    }
    args
}

/// An argument of a command.
pub(super) enum Argument<'v> {
    Text(mlua::BorrowedBytes<'v>),
    Number(String),
}

impl Argument<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text,
            Self::Number(digits) => digits.as_bytes(),
        }
    }
}

/// The arguments of a command; one at least.
pub(super) fn arguments<'v>(values: impl Iterator<Item = &'v Value>) -> Result<SmallVec<[Argument<'v>; 8]>> {
    let argument = |value| match value {
        &Value::Integer(number) => Ok(Argument::Number(number.to_string())),
        &Value::Number(number) => Ok(Argument::Number(number::general(number, 17))),
        Value::String(text) => Ok(Argument::Text(text.as_bytes())),
        _ => Err(CommandError::line("ERR Lua redis lib command arguments must be strings or integers")),
    };
    let arguments: SmallVec<_> = values.map(argument).collect::<Result<_>>()?;
    if arguments.is_empty() {
        return Err(CommandError::line("ERR Please specify at least one argument for this redis lib call"));
    }
    Ok(arguments)
}

/// A reply of a bounded length.
#[derive(Debug, Default)]
pub(crate) struct Bounded {
    bytes: Vec<u8>,
    is_too_long: bool,
}

impl Sink for Bounded {
    fn put(&mut self, bytes: &[u8]) {
        self.is_too_long |= self.bytes.len() + bytes.len() > REPLY_BYTES_MAX;
        if self.is_too_long {
            self.bytes = Vec::new();
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    fn put_shared(&mut self, bytes: Bytes) {
        self.put(&bytes);
    }

    fn reserve(&mut self, bytes: usize) -> bool {
        self.is_too_long |= self.bytes.len().saturating_add(bytes) > REPLY_BYTES_MAX;
        !self.is_too_long
    }
}

/// The error that `result` is: an error object of `sandbox.lua`, or why the server has stopped the script.
fn failure(result: Value, name: &dyn Display) -> Ended {
    let table = match result {
        Value::Table(table) => table,
        Value::Error(error) => return failure_of(&error, name),
        Value::String(text) => return Ended::Failed(broken(&text.to_string_lossy(), name)),
        _ => return Ended::Failed(broken("execution failure", name)),
    };
    let mut line = text_in(&table, "err").unwrap_or_else(|| "ERR unknown error".to_owned());
    let number = table.raw_get::<Value>("line").ok();
    let number = number.and_then(|number| number.as_usize());
    if let (Some(source), Some(number)) = (text_in(&table, "source"), number) {
        line.push_str(&format!(" script: {name}, on {source}:{number}."));
    }
    Ended::Failed(CommandError::Other(line.into()))
}

fn text_in(table: &Table, field: &str) -> Option<String> {
    match table.raw_get(field) {
        Ok(Value::String(text)) => Some(text.to_string_lossy()),
        _ => None,
    }
}

fn failure_of(error: &mlua::Error, name: &dyn Display) -> Ended {
    let stop = error.chain().find_map(|cause| cause.downcast_ref::<Stop>());
    match stop {
        Some(stop) => Ended::Stopped(CommandError::Other(stop.to_string().into())),
        None => Ended::Failed(broken(&message_of(error), name)),
    }
}

/// Redis's error for a script whose error is no error object.
fn broken(reason: &str, name: &dyn Display) -> CommandError {
    let reason: String = reason.chars().take(100).collect();
    CommandError::Other(format!("ERR Error running script {name}, {reason}").into())
}
