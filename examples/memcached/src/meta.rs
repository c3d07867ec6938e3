//! The meta commands: turns requests into operations, and outcomes into replies.

use psp_protocols::Sink;
use psp_protocols::memcached::KEY_LEN_MAX;
use psp_protocols::memcached::meta::{Code, Flags, Key, Keyed, Reply, Request, SPELLED_LEN_MAX, debug};
use psp_protocols::memcached::text::{StoreMode, Words, client_error};

use crate::cache::{Item, Mark, OutOfMemory};
use crate::counters::Counter;
use crate::dump::{CLASS, yes_or_no};
use crate::exptime::expire_at_ms;
use crate::operations::{
    Arithmetic, Computed, Condition, Delete, Deleted, Fetch, Fetched, Number, Operations, Store, Stored, Vivify,
};
use crate::text::{NON_NUMERIC, SHARED_LEN_MIN, out_of_memory};

/// Runs a meta command and writes its reply.
pub fn run(operations: Operations<'_>, request: &Request<'_>, out: &mut dyn Sink) {
    match request {
        Request::Noop => Reply::new(out, Code::Noop).end(),
        Request::Get(keyed) => get(operations, keyed, out),
        Request::Set { keyed, mode, data } => set(operations, keyed, *mode, data, out),
        Request::Delete(keyed) => delete(operations, keyed, out),
        Request::Arithmetic { keyed, decrement } => arithmetic(operations, keyed, *decrement, out),
        Request::Debug(key) => show(operations, *key, out),
    }
}

/// Handles an `ms` whose value is too long for an item. `flags` are the words after its key.
pub(crate) fn refuse_too_large(operations: Operations<'_>, key: &[u8], mut flags: Words<'_>) {
    let key = Key {
        text: key,
        is_base64: flags.any(|flag| flag.trim_ascii_end() == b"b"),
    };
    with_key(key, |key| operations.refuse_too_large(key));
}

/// Calls `run` with the decoded key. The keys of parsed requests can always be decoded.
fn with_key<R>(key: Key<'_>, run: impl FnOnce(&[u8]) -> R) -> Option<R> {
    key.decode(&mut [0; KEY_LEN_MAX]).map(run)
}

/// Calls `run` with the key in the form in which its item was stored.
fn stored<R>(key: Key<'_>, is_base64: bool, run: impl FnOnce(Key<'_>) -> R) -> R {
    let raw = &mut [0; KEY_LEN_MAX];
    match key.decode(raw) {
        Some(raw) => run(Key::spell(raw, is_base64, &mut [0; SPELLED_LEN_MAX])),
        None => run(key),
    }
}

/// Adds to a reply the flags that do not depend on an item: `O` and `k`.
fn echo<'a>(mut reply: Reply<'a, dyn Sink + 'a>, keyed: &Keyed<'_>) -> Reply<'a, dyn Sink + 'a> {
    for flag in keyed.flags.in_order() {
        reply = match flag.code {
            b'O' => reply.token(b'O', flag.token),
            b'k' => reply.key(keyed.key),
            _ => reply,
        };
    }
    reply
}

fn get(operations: Operations<'_>, keyed: &Keyed<'_>, out: &mut dyn Sink) {
    let flags = &keyed.flags;
    let wants_value = flags.has(b'v');
    let request = Fetch {
        expire_at_ms: flags.ttl.map(expire_at_ms),
        vivify: flags.vivify.map(expire_at_ms),
        recache_before_ms: flags.recache.map(expire_at_ms),
        new_cas: flags.new_cas,
        counts_as_use: !flags.has(b'u'),
    };
    let fetched = with_key(keyed.key, |key| operations.fetch(key, &request)).flatten();
    let Some(fetched) = fetched else {
        if !flags.quiet() {
            echo(Reply::new(out, Code::Miss), keyed).end();
        }
        return;
    };
    let value = &fetched.content.value;
    let is_known = flags.compare_cas.is_some_and(|cas| cas == fetched.content.cas);
    if !wants_value || is_known {
        return describe(Reply::new(out, Code::Done), keyed, &fetched).end();
    }
    let reply = describe(Reply::value(out, value.len()), keyed, &fetched);
    if value.len() < SHARED_LEN_MIN {
        reply.data(value);
    } else {
        reply.data_shared(value.to_bytes());
    }
}

/// Adds the figures of an item that the flags of `mg` request, and the flags that are always sent.
fn describe<'a>(mut reply: Reply<'a, dyn Sink + 'a>, keyed: &Keyed<'_>, fetched: &Fetched) -> Reply<'a, dyn Sink + 'a> {
    let content = &fetched.content;
    for flag in keyed.flags.in_order() {
        reply = match flag.code {
            b'c' => reply.number(b'c', content.cas),
            b'f' => reply.number(b'f', content.flags),
            b'h' => reply.number(b'h', u8::from(fetched.was_fetched)),
            b'k' => stored(keyed.key, content.has(Mark::BinaryKey), |key| reply.key(key)),
            b'l' => reply.number(b'l', fetched.idle_s),
            b'O' => reply.token(b'O', flag.token),
            b's' => reply.number(b's', content.value.len()),
            b't' => reply.number(b't', ttl_s(content.ttl_ms())),
            _ => reply,
        };
    }
    for (code, is_told) in [(b'Z', fetched.token_was_sent), (b'X', content.has(Mark::Stale)), (b'W', fetched.won)] {
        if is_told {
            reply = reply.flag(code);
        }
    }
    reply
}

/// Seconds of a time to live, rounded up; -1 for ever.
fn ttl_s(ttl_ms: Option<u64>) -> i64 {
    ttl_ms.map_or(-1, |ttl_ms| i64::try_from(ttl_ms.div_ceil(1000)).unwrap_or(i64::MAX))
}

fn condition(flags: &Flags<'_>) -> Condition {
    match flags.compare_cas {
        Some(cas) if flags.has(b'I') => Condition::CasOrStale(cas),
        cas => Condition::from_cas(cas),
    }
}

fn set(operations: Operations<'_>, keyed: &Keyed<'_>, mode: StoreMode, data: &[u8], out: &mut dyn Sink) {
    let flags = &keyed.flags;
    let stored = with_key(keyed.key, |key| {
        operations.store(&Store {
            mode,
            key,
            data,
            flags: flags.client_flags.unwrap_or(0),
            expire_at_ms: flags.ttl.and_then(expire_at_ms),
            condition: condition(flags),
            new_cas: flags.new_cas,
            binary_key: keyed.key.is_base64,
            vivify: flags.vivify.map(expire_at_ms),
        })
    });
    let (code, cas, data_len) = match stored {
        Some(Ok(Stored::Stored { .. })) if flags.quiet() => return,
        Some(Ok(Stored::Stored { cas, data_len })) => (Code::Done, cas, data_len),
        Some(Ok(Stored::Exists)) => (Code::Exists, 0, data.len()),
        Some(Ok(Stored::NotFound)) => (Code::NotFound, 0, data.len()),
        Some(Ok(Stored::NotStored)) | None => (Code::NotStored, 0, data.len()),
        Some(Err(OutOfMemory)) => return out_of_memory(out),
    };
    let mut reply = Reply::new(out, code);
    for flag in flags.in_order() {
        reply = match flag.code {
            b'c' => reply.number(b'c', cas),
            b'k' => reply.key(keyed.key),
            b'O' => reply.token(b'O', flag.token),
            b's' => reply.number(b's', data_len),
            _ => reply,
        };
    }
    reply.end();
}

fn delete(operations: Operations<'_>, keyed: &Keyed<'_>, out: &mut dyn Sink) {
    let flags = &keyed.flags;
    let deleted = with_key(keyed.key, |key| {
        operations.delete(&Delete {
            key,
            condition: Condition::from_cas(flags.compare_cas),
            stale: flags.has(b'I'),
            empty: flags.has(b'x'),
            expire_at_ms: flags.ttl.map(expire_at_ms),
            new_cas: flags.new_cas,
            flags: flags.client_flags.unwrap_or(0),
        })
    });
    let code = match deleted {
        Some(Ok(Deleted::Done)) if flags.quiet() => return,
        Some(Ok(Deleted::Done)) => Code::Done,
        Some(Ok(Deleted::NotFound)) | None => Code::NotFound,
        Some(Ok(Deleted::Exists)) => Code::Exists,
        Some(Err(OutOfMemory)) => return out_of_memory(out),
    };
    echo(Reply::new(out, code), keyed).end();
}

fn arithmetic(operations: Operations<'_>, keyed: &Keyed<'_>, decrement: bool, out: &mut dyn Sink) {
    let flags = &keyed.flags;
    let computed = with_key(keyed.key, |key| {
        operations.compute(&Arithmetic {
            key,
            delta: flags.delta.unwrap_or(1),
            decrement,
            condition: Condition::from_cas(flags.compare_cas),
            new_cas: flags.new_cas,
            expire_at_ms: flags.ttl.map(expire_at_ms),
            vivify: flags.vivify.map(|exptime| Vivify {
                initial: flags.initial.unwrap_or(0),
                expire_at_ms: expire_at_ms(exptime),
            }),
            binary_key: keyed.key.is_base64,
        })
    });
    let code = match computed {
        Some(Ok(Computed::Done(_))) if flags.quiet() => return,
        Some(Ok(Computed::Done(number))) => return put_number(keyed, number, out),
        Some(Ok(Computed::NonNumeric)) => return client_error(out, NON_NUMERIC),
        Some(Ok(Computed::Exists)) => Code::Exists,
        Some(Ok(Computed::NotFound)) | None => Code::NotFound,
        Some(Err(OutOfMemory)) => return out_of_memory(out),
    };
    echo(Reply::new(out, code), keyed).end();
}

fn put_number(keyed: &Keyed<'_>, number: Number, out: &mut dyn Sink) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(number.value).as_bytes();
    let wants_value = keyed.flags.has(b'v');
    let mut reply = if wants_value {
        Reply::value(out, digits.len())
    } else {
        Reply::new(out, Code::Done)
    };
    for flag in keyed.flags.in_order() {
        reply = match flag.code {
            b'c' => reply.number(b'c', number.cas),
            b'k' => reply.key(keyed.key),
            b'O' => reply.token(b'O', flag.token),
            b't' => reply.number(b't', ttl_s(number.ttl_ms)),
            _ => reply,
        };
    }
    if wants_value {
        reply.data(digits);
    } else {
        reply.end();
    }
}

fn show(operations: Operations<'_>, key: Key<'_>, out: &mut dyn Sink) {
    operations.counters.count(Counter::CmdMeta);
    let now_s = operations.cache.now_s();
    let facts = |item: &mut Item| {
        let content = &item.content;
        let facts = [
            ("exp", ttl_s(content.ttl_ms()).to_string()),
            ("la", now_s.saturating_sub(item.used_s()).to_string()),
            ("cas", content.cas.to_string()),
            ("fetch", yes_or_no(item.is_fetched()).to_owned()),
            ("cls", CLASS.to_string()),
            ("size", item.memory_bytes().to_string()),
        ];
        (content.has(Mark::BinaryKey), facts)
    };
    match with_key(key, |key| operations.cache.with(key, facts)).flatten() {
        None => Reply::new(out, Code::Miss).end(),
        Some((is_base64, facts)) => {
            let facts = facts.iter().map(|(name, value)| (*name, value.as_str()));
            stored(key, is_base64, |key| debug(out, key, facts));
        }
    }
}
