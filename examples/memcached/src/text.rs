//! The text protocol: turns requests into operations, and outcomes into replies.

use std::num::NonZeroU64;

use psp_protocols::Sink;
use psp_protocols::memcached::text::{
    Get, Request, RequestError, Status, Store as StoreRequest, Words, client_error, number, server_error, stat, status,
    value, value_shared, version,
};

use psp_server::{checkpoint, is_abandoned};

use crate::cache::OutOfMemory;
use crate::counters::Counter;
use crate::exptime::expire_at_ms;
use crate::extended::AUTH_CLIENTS;
use crate::handler::{Context, Nowhere, Outcome};
use crate::operations::{Arithmetic, Computed, Condition, Delete, Deleted, Found, Operations, Store, Stored};
use crate::report::{self, MEMCACHED_VERSION, Report};
use crate::state::ServerState;
use crate::{dump, meta};

/// Keys of a multiget between two checkpoints.
const KEYS_PER_CHECKPOINT: usize = 64;

const MIB: usize = 1 << 20;

/// Replies share values of this length or more with the cache instead of copying them.
pub(crate) const SHARED_LEN_MIN: usize = 8 * 1024;

/// memcached's reply if a value is not a number.
pub(crate) const NON_NUMERIC: &str = "cannot increment or decrement non-numeric value";

/// Runs the request in `frame` and writes its reply.
pub fn run(context: Context<'_>, frame: &[u8], reply: &mut dyn Sink) -> Outcome {
    let operations = context.operations;
    let request = match Request::parse(frame) {
        Ok(request) => request,
        Err(error) => {
            refuse(operations, frame, &error, reply);
            return Outcome::Keep;
        }
    };
    let nowhere: &mut dyn Sink = &mut Nowhere;
    let out = if request.noreply() { nowhere } else { reply };
    match request {
        Request::Get(request) => get(operations, &request, out),
        Request::Store(request) => store(operations, &request, out),
        Request::Delete { key, .. } => match operations.delete(&Delete::new(key)) {
            Ok(Deleted::Done) => status(out, Status::Deleted),
            Ok(Deleted::NotFound | Deleted::Exists) => status(out, Status::NotFound),
            Err(OutOfMemory) => out_of_memory(out),
        },
        Request::Arithmetic { key, delta, decrement, .. } => arithmetic(operations, key, delta, decrement, out),
        Request::Touch { key, exptime, .. } => {
            if operations.touch(key, expire_at_ms(exptime)) {
                status(out, Status::Touched);
            } else {
                status(out, Status::NotFound);
            }
        }
        Request::FlushAll { delay_s, .. } => {
            operations.counters.count(Counter::CmdFlush);
            if context.server.config.enable_flush {
                operations.cache.flush(expire_at_ms(delay_s).map(NonZeroU64::get));
                status(out, Status::Ok);
            } else {
                client_error(out, "flush_all not allowed");
            }
        }
        Request::Verbosity { .. } => status(out, Status::Ok),
        Request::MemoryLimit { mib, .. } => {
            let bytes = usize::try_from(mib).unwrap_or(usize::MAX).saturating_mul(MIB);
            operations.cache.set_memory_bytes_max(bytes);
            status(out, Status::Ok);
        }
        Request::RefreshCertificates => refresh_certificates(context.server, out),
        // There is nothing to set, and nothing that could be watched.
        Request::Crawler | Request::Watch => status(out, Status::Ok),
        Request::Version => version(out, MEMCACHED_VERSION),
        Request::Stats { args } => stats(context, args, out),
        Request::Quit => return Outcome::Close,
        Request::Shutdown { .. } if context.server.config.enable_shutdown => {
            context.shut_down();
            return Outcome::Close;
        }
        Request::Shutdown { .. } => out.put(b"ERROR: shutdown not enabled\r\n"),
        Request::Metadump { .. } if !context.server.config.enable_dump => {
            out.put(b"ERROR metadump not allowed\r\n");
        }
        Request::Metadump { classes } => dump::metadump(operations.cache, classes, out),
        Request::Meta(request) => meta::run(operations, &request, out),
    }
    Outcome::Keep
}

/// Replies to an invalid request. A set with a value that is too long removes the key's old value.
fn refuse(operations: Operations<'_>, frame: &[u8], error: &RequestError, out: &mut dyn Sink) {
    if error.is_too_large() {
        let mut words = Words::new(frame);
        match (words.next(), words.next()) {
            (Some(b"set"), Some(key)) => operations.refuse_too_large(key),
            (Some(b"ms"), Some(key)) => meta::refuse_too_large(operations, key, words),
            _ => operations.counters.count(Counter::StoreTooLarge),
        }
    }
    error.encode(out);
}

fn get(operations: Operations<'_>, request: &Get<'_>, out: &mut dyn Sink) {
    let expire_at_ms = request.touch.map(expire_at_ms);
    for (index, key) in request.keys.enumerate() {
        if index > 0 && index.is_multiple_of(KEYS_PER_CHECKPOINT) {
            checkpoint();
            if is_abandoned() {
                return;
            }
        }
        let found = match expire_at_ms {
            None => operations.get(key),
            Some(expire_at_ms) => operations.get_and_touch(key, expire_at_ms),
        };
        if let Some(found) = found {
            let cas = request.with_cas.then_some(found.cas);
            put_value(out, key, cas, &found);
        }
    }
    status(out, Status::End);
}

fn put_value(out: &mut dyn Sink, key: &[u8], cas: Option<u64>, found: &Found) {
    if found.value.len() < SHARED_LEN_MIN {
        value(out, key, found.flags, cas, &found.value);
    } else {
        value_shared(out, key, found.flags, cas, found.value.to_bytes());
    }
}

fn store(operations: Operations<'_>, request: &StoreRequest<'_>, out: &mut dyn Sink) {
    let stored = operations.store(&Store {
        flags: request.flags,
        expire_at_ms: expire_at_ms(request.exptime),
        condition: Condition::from_cas(request.cas),
        ..Store::new(request.mode, request.key, request.data)
    });
    match stored {
        Ok(Stored::Stored { .. }) => status(out, Status::Stored),
        Ok(Stored::NotStored) => status(out, Status::NotStored),
        Ok(Stored::Exists) => status(out, Status::Exists),
        Ok(Stored::NotFound) => status(out, Status::NotFound),
        Err(OutOfMemory) => out_of_memory(out),
    }
}

fn arithmetic(operations: Operations<'_>, key: &[u8], delta: u64, decrement: bool, out: &mut dyn Sink) {
    let computed = operations.compute(&Arithmetic { delta, decrement, ..Arithmetic::new(key) });
    match computed {
        Ok(Computed::Done(done)) => number(out, done.value),
        Ok(Computed::NotFound | Computed::Exists) => status(out, Status::NotFound),
        Ok(Computed::NonNumeric) => client_error(out, NON_NUMERIC),
        Err(OutOfMemory) => out_of_memory(out),
    }
}

fn stats(context: Context<'_>, args: Words<'_>, out: &mut dyn Sink) {
    let mut args = args;
    let name = args.next().unwrap_or_default();
    match name {
        b"reset" => {
            context.server.counters.reset();
            return status(out, Status::Reset);
        }
        b"cachedump" if !context.server.config.enable_dump => {
            return client_error(out, "stats cachedump not allowed");
        }
        b"cachedump" => return dump::cachedump(&context.server.cache, args, out),
        b"detail" => return detail(args, out),
        _ => {}
    }
    let Some(report) = Report::from_name(name) else {
        return status(out, Status::Error);
    };
    report::write(report, context.server, Some(context.runtime), &mut |name, value| {
        stat(out, name, value);
    });
    status(out, Status::End);
}

fn refresh_certificates(server: &ServerState, out: &mut dyn Sink) {
    let files = server.tls_files.lock();
    let (Some(tls), Some(files)) = (&server.tls, &*files) else {
        return out.put(b"Error TLS not enabled\r\n");
    };
    match tls.reload(files, AUTH_CLIENTS) {
        Ok(()) => status(out, Status::Ok),
        Err(error) => out.put(format!("Error {error:#}\r\n").as_bytes()),
    }
}

/// `stats detail`: there are no figures by the prefix of keys.
fn detail(mut args: Words<'_>, out: &mut dyn Sink) {
    match args.next() {
        Some(b"on" | b"off") => status(out, Status::Ok),
        Some(b"dump") => status(out, Status::End),
        _ => client_error(out, "usage: stats detail on|off|dump"),
    }
}

/// Replies that there is no memory for an item.
pub(crate) fn out_of_memory(out: &mut dyn Sink) {
    server_error(out, &OutOfMemory.to_string());
}
