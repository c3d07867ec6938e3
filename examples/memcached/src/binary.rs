//! The binary protocol: turns requests into operations, and outcomes into replies.

use std::num::NonZeroU64;

use psp_protocols::Sink;
use psp_protocols::memcached::binary::{
    Command, Extras, HEADER_LEN, Header, Opcode, ReplyHead, Request, Status, error, reply, reply_shared,
};
use psp_protocols::memcached::text::StoreMode;

use crate::cache::{OutOfMemory, Value};
use crate::counters::Counter;
use crate::exptime::expire_at_ms;
use crate::handler::{Context, Outcome};
use crate::operations::{Arithmetic, Computed, Condition, Delete, Deleted, Found, Operations, Store, Stored, Vivify};
use crate::report::{self, MEMCACHED_VERSION, Report};
use crate::text::SHARED_LEN_MIN;

/// Expiration time that tells arithmetic not to create a missing number.
const NO_VIVIFY: u32 = u32::MAX;

/// The mechanism of SASL that there is.
const PLAIN: &[u8] = b"PLAIN";

/// The outcome of a request.
enum Answer {
    /// Done. The reply carries only this CAS value.
    Done { cas: u64 },
    /// Done. The reply carries a number.
    Number { value: u64, cas: u64 },
    /// The item was found.
    Found(Found),
    /// The request failed.
    Failed(Status),
    /// The reply has been written.
    Written,
}

/// Runs the request in `frame` and writes its reply.
pub fn run(context: Context<'_>, frame: &[u8], out: &mut dyn Sink) -> Outcome {
    let request = match Request::parse(frame) {
        Some(Ok(request)) => request,
        Some(Err(refusal)) => {
            if refusal.status == Status::ValueTooLarge && context.login.is_done() {
                refuse_too_large(context.operations, frame, &refusal.header);
            }
            refusal.encode(out);
            return if refusal.closes { Outcome::Close } else { Outcome::Keep };
        }
        // The framing does not pass such a frame.
        None => return Outcome::Close,
    };
    let command = request.opcode.command;
    if !context.login.is_done() && !is_open_to_all(command) {
        error(out, &request.header, Status::AuthError);
        return Outcome::Close;
    }
    let quiet = request.opcode.quiet;
    match answer(context, &request, out) {
        Answer::Written => {}
        Answer::Done { .. } | Answer::Number { .. } if quiet => {}
        Answer::Failed(Status::KeyNotFound) if quiet && gets(request.opcode.command) => {}
        Answer::Done { cas } => {
            let head = ReplyHead { cas, ..ReplyHead::DONE };
            reply(out, &request.header, &head, b"");
        }
        Answer::Number { value, cas } => {
            let head = ReplyHead { cas, ..ReplyHead::DONE };
            reply(out, &request.header, &head, &value.to_be_bytes());
        }
        Answer::Found(found) => put_found(&request, &found, out),
        Answer::Failed(status) => put_failure(&request, status, out),
    }
    if request.opcode.command == Command::Quit {
        Outcome::Close
    } else {
        Outcome::Keep
    }
}

/// Whether clients may run the command before they have shown who they are.
fn is_open_to_all(command: Command) -> bool {
    matches!(command, Command::SaslList | Command::SaslAuth | Command::SaslStep | Command::Version)
}

/// Whether the quiet form of the command is silent about misses.
fn gets(command: Command) -> bool {
    matches!(command, Command::Get | Command::GetKey | Command::GetAndTouch | Command::GetKeyAndTouch)
}

/// Whether the reply contains the key.
fn returns_key(command: Command) -> bool {
    matches!(command, Command::GetKey | Command::GetKeyAndTouch)
}

fn answer(context: Context<'_>, request: &Request<'_>, out: &mut dyn Sink) -> Answer {
    let operations = context.operations;
    let key = request.key;
    let expiry = match request.extras {
        Extras::Exptime(exptime) => expire_at_ms(exptime),
        _ => None,
    };
    match request.opcode.command {
        Command::Get | Command::GetKey => found(operations.get(key)),
        Command::GetAndTouch | Command::GetKeyAndTouch => found(operations.get_and_touch(key, expiry)),
        Command::Touch => match operations.get_and_touch(key, expiry) {
            Some(touched) => Answer::Found(Found { value: Value::new(key, []), ..touched }),
            None => Answer::Failed(Status::KeyNotFound),
        },
        Command::Set => store(operations, request, StoreMode::Set),
        Command::Add => store(operations, request, StoreMode::Add),
        Command::Replace => store(operations, request, StoreMode::Replace),
        Command::Append => store(operations, request, StoreMode::Append),
        Command::Prepend => store(operations, request, StoreMode::Prepend),
        Command::Delete => delete(operations, request),
        Command::Increment => arithmetic(operations, request, false),
        Command::Decrement => arithmetic(operations, request, true),
        Command::Flush => {
            operations.counters.count(Counter::CmdFlush);
            if !context.server.config.enable_flush {
                return Answer::Failed(Status::AuthError);
            }
            operations.cache.flush(expiry.map(NonZeroU64::get));
            Answer::Done { cas: 0 }
        }
        Command::Quit | Command::Noop | Command::Verbosity => Answer::Done { cas: 0 },
        Command::Version => {
            let version = MEMCACHED_VERSION.as_bytes();
            reply(out, &request.header, &ReplyHead::DONE, version);
            Answer::Written
        }
        Command::SaslList | Command::SaslAuth | Command::SaslStep => sasl(context, request, out),
        Command::Stat => stats(context, request, out),
    }
}

fn sasl(context: Context<'_>, request: &Request<'_>, out: &mut dyn Sink) -> Answer {
    let passwords = context.server.passwords.as_ref();
    let Some(passwords) = passwords.filter(|_| context.server.config.sasl) else {
        return Answer::Failed(Status::UnknownCommand);
    };
    let text = match (request.opcode.command, request.key) {
        (Command::SaslList, _) => PLAIN,
        (Command::SaslAuth, PLAIN) => {
            let counters = context.operations.counters;
            let passwords = passwords.lock();
            let login = context.login;
            match login.attempt_plain(request.value, &passwords, counters) {
                true => b"Authenticated",
                false => return Answer::Failed(Status::AuthError),
            }
        }
        _ => return Answer::Failed(Status::AuthError),
    };
    reply(out, &request.header, &ReplyHead::DONE, text);
    Answer::Written
}

fn found(found: Option<Found>) -> Answer {
    found.map_or(Answer::Failed(Status::KeyNotFound), Answer::Found)
}

fn cas_of(header: &Header) -> Option<u64> {
    (header.cas != 0).then_some(header.cas)
}

fn store(operations: Operations<'_>, request: &Request<'_>, mode: StoreMode) -> Answer {
    let (flags, exptime) = match request.extras {
        Extras::Store { flags, exptime } => (flags, exptime),
        _ => (0, 0),
    };
    let cas = cas_of(&request.header);
    let extends = matches!(mode, StoreMode::Append | StoreMode::Prepend);
    // With a CAS value, every mode that replaces an item acts alike.
    let effective_mode = if cas.is_some() && !extends {
        StoreMode::Set
    } else {
        mode
    };
    let stored = operations.store(&Store {
        flags,
        expire_at_ms: expire_at_ms(exptime),
        condition: Condition::from_cas(cas),
        ..Store::new(effective_mode, request.key, request.value)
    });
    match stored {
        Ok(Stored::Stored { cas, .. }) => Answer::Done { cas },
        Ok(Stored::Exists) => Answer::Failed(Status::KeyExists),
        Ok(Stored::NotFound) => Answer::Failed(Status::KeyNotFound),
        Ok(Stored::NotStored) => Answer::Failed(match mode {
            StoreMode::Add => Status::KeyExists,
            StoreMode::Replace => Status::KeyNotFound,
            _ => Status::NotStored,
        }),
        Err(OutOfMemory) => Answer::Failed(Status::OutOfMemory),
    }
}

fn delete(operations: Operations<'_>, request: &Request<'_>) -> Answer {
    let deleted = operations.delete(&Delete {
        condition: Condition::from_cas(cas_of(&request.header)),
        ..Delete::new(request.key)
    });
    match deleted {
        Ok(Deleted::Done) => Answer::Done { cas: 0 },
        Ok(Deleted::NotFound) => Answer::Failed(Status::KeyNotFound),
        Ok(Deleted::Exists) => Answer::Failed(Status::KeyExists),
        Err(OutOfMemory) => Answer::Failed(Status::OutOfMemory),
    }
}

fn arithmetic(operations: Operations<'_>, request: &Request<'_>, decrement: bool) -> Answer {
    let Extras::Arithmetic { delta, initial, exptime } = request.extras else {
        return Answer::Failed(Status::InvalidArguments);
    };
    let computed = operations.compute(&Arithmetic {
        delta,
        decrement,
        condition: Condition::from_cas(cas_of(&request.header)),
        vivify: (exptime != NO_VIVIFY).then(|| Vivify { initial, expire_at_ms: expire_at_ms(exptime) }),
        ..Arithmetic::new(request.key)
    });
    match computed {
        Ok(Computed::Done(number)) => Answer::Number { value: number.value, cas: number.cas },
        Ok(Computed::NotFound) => Answer::Failed(Status::KeyNotFound),
        Ok(Computed::NonNumeric) => Answer::Failed(Status::NonNumeric),
        Ok(Computed::Exists) => Answer::Failed(Status::KeyExists),
        Err(OutOfMemory) => Answer::Failed(Status::OutOfMemory),
    }
}

fn put_found(request: &Request<'_>, found: &Found, out: &mut dyn Sink) {
    let head = ReplyHead {
        cas: found.cas,
        extras: &found.flags.to_be_bytes(),
        key: if returns_key(request.opcode.command) {
            request.key
        } else {
            b""
        },
        ..ReplyHead::DONE
    };
    if found.value.len() < SHARED_LEN_MIN {
        reply(out, &request.header, &head, &found.value);
    } else {
        reply_shared(out, &request.header, &head, found.value.to_bytes());
    }
}

fn put_failure(request: &Request<'_>, status: Status, out: &mut dyn Sink) {
    if status == Status::KeyNotFound && returns_key(request.opcode.command) {
        let head = ReplyHead { status, key: request.key, ..ReplyHead::DONE };
        return reply(out, &request.header, &head, b"");
    }
    error(out, &request.header, status);
}

/// Writes one reply per figure. The empty reply after them is the outcome.
fn stats(context: Context<'_>, request: &Request<'_>, out: &mut dyn Sink) -> Answer {
    match request.key {
        b"reset" => {
            context.server.counters.reset();
            return Answer::Done { cas: 0 };
        }
        // There are no figures by the prefix of keys.
        b"detail on" | b"detail off" | b"detail dump" => return Answer::Done { cas: 0 },
        _ => {}
    }
    let Some(report) = Report::from_name(request.key) else {
        return Answer::Failed(Status::KeyNotFound);
    };
    report::write(report, context.server, Some(context.runtime), &mut |name, value| {
        let head = ReplyHead { key: name.as_bytes(), ..ReplyHead::DONE };
        reply(out, &request.header, &head, value.as_bytes());
    });
    Answer::Done { cas: 0 }
}

/// Handles a value that is too long for an item. A set also removes the key's old value.
fn refuse_too_large(operations: Operations<'_>, frame: &[u8], header: &Header) {
    let is_set = Opcode::from_number(header.opcode).is_some_and(|opcode| opcode.command == Command::Set);
    let key_start = HEADER_LEN + usize::from(header.extras_len);
    match frame.get(key_start..key_start + usize::from(header.key_len)) {
        Some(key) if is_set => operations.refuse_too_large(key),
        _ => operations.counters.count(Counter::StoreTooLarge),
    }
}
