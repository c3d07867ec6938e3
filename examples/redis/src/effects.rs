//! What changes do, as the commands that the journal has of them: other servers and files repeat these.
//!
//! ```text
//!   a command that does the same whenever its key holds the same ──► Sent: the command as it came
//!   one whose outcome depends on the time, on chance, on other keys ─► Told: other commands with the same outcome
//!   all others, expiry, eviction ───────────────────────────────────► RespEncoding: SET, RESTORE, DEL of what there is
//! ```

use std::cell::RefCell;

use psp_protocols::resp::{Encoder, SHARED_LEN_MIN, Version};
use psp_server::Body;
use psp_store::{Effect, Element, Encoding, Frame, Journal, Propagate, Value};

use crate::command::Context;
use crate::rdb;

/// Longer strings are not copied into the journal.
const COPIED_LEN_MAX: usize = SHARED_LEN_MIN;

/// A command as its client sent it. Its change alone is what the command does.
#[derive(Debug, Clone, Copy)]
pub struct Sent<'a> {
    args: &'a [&'a [u8]],
    body: Body<'a>,
}

/// Commands that stand for a change, said while it is made. Without any, the journal has what the key holds.
#[derive(Debug, Default)]
pub struct Told {
    is_recorded: bool,
    said: RefCell<Option<Said>>,
}

#[derive(Debug, Default)]
struct Said {
    commands: usize,
    bytes: Vec<u8>,
}

impl<'a> Context<'a> {
    /// The command, whose `args` these are, as it was sent.
    #[must_use]
    pub fn sent<'c>(&self, args: &'c [&'c [u8]]) -> Sent<'c>
    where
        'a: 'c,
    {
        Sent { args, body: self.body }
    }

    /// What a change will be told as.
    #[must_use]
    pub fn told(&self) -> Told {
        Told::of(self.databases.journal())
    }
}

impl<'c> Sent<'c> {
    /// This command, of a client that waited for one of several keys.
    #[must_use]
    pub fn of(args: &'c [&'c [u8]]) -> Self {
        Self { args, body: Body::default() }
    }
}

impl Propagate for Sent<'_> {
    fn commands(&self) -> Option<usize> {
        Some(1)
    }

    fn propagate(&self, out: &mut Frame) {
        put_head(self.args.len(), out);
        for arg in self.args {
            match self.body.keep(arg).filter(|_| arg.len() > COPIED_LEN_MAX) {
                Some(kept) => put_shared(kept, out),
                None => put_bulk(arg, out),
            }
        }
    }
}

impl Told {
    /// For changes that this journal may record.
    #[must_use]
    pub fn of(journal: &Journal) -> Self {
        Self { is_recorded: journal.is_on(), said: RefCell::default() }
    }

    /// The change is what these words do.
    pub fn says(&self, words: &[&[u8]]) {
        self.says_nothing();
        self.adds(words);
    }

    /// The change has no effect that matters.
    pub fn says_nothing(&self) {
        if self.is_recorded {
            *self.said.borrow_mut() = Some(Said::default());
        }
    }

    /// Adds a command to what was said before.
    pub fn adds(&self, words: &[&[u8]]) {
        if self.is_recorded {
            let mut said = self.said.borrow_mut();
            let said = said.get_or_insert_default();
            said.commands += 1;
            let mut encoder = Encoder::new(&mut said.bytes, Version::Resp2);
            encoder.array(words.len());
            words.iter().for_each(|word| encoder.bulk(word));
        }
    }

    /// The key expires then, or never.
    pub fn says_expiry(&self, key: &[u8], expire_at_ms: Option<u64>) {
        match expire_at_ms {
            Some(at_ms) => self.says(&[b"PEXPIREAT", key, itoa::Buffer::new().format(at_ms).as_bytes()]),
            None => self.says(&[b"PERSIST", key]),
        }
    }

    /// Adds that fields of a hash expire then, or never.
    pub fn adds_field_times(&self, key: &[u8], expire_at_ms: Option<u64>, fields: &[&[u8]]) {
        let (mut time, mut count) = (itoa::Buffer::new(), itoa::Buffer::new());
        let count = count.format(fields.len()).as_bytes();
        let behind: [&[u8]; 2] = [b"FIELDS", count];
        match expire_at_ms {
            _ if fields.is_empty() => {}
            Some(at_ms) => {
                let head: [&[u8]; 3] = [b"HPEXPIREAT", key, time.format(at_ms).as_bytes()];
                self.adds(&[&head[..], &behind, fields].concat());
            }
            None => self.adds(&[&[b"HPERSIST", key], &behind[..], fields].concat()),
        }
    }

    /// Adds that a hash has no longer these fields.
    pub fn adds_removed_fields(&self, key: &[u8], fields: &[&[u8]]) {
        if !fields.is_empty() {
            self.adds(&[&[b"HDEL", key], fields].concat());
        }
    }

    /// Whether it matters what is said.
    #[must_use]
    pub const fn is_recorded(&self) -> bool {
        self.is_recorded
    }
}

impl Propagate for Told {
    fn commands(&self) -> Option<usize> {
        self.said.borrow().as_ref().map(|said| said.commands)
    }

    fn propagate(&self, out: &mut Frame) {
        if let Some(said) = self.said.borrow_mut().take() {
            out.put(&said.bytes);
        }
    }
}

/// Effects as commands of RESP.
#[derive(Debug, Clone, Copy, Default)]
pub struct RespEncoding;

impl Encoding for RespEncoding {
    fn encode(&self, effect: Effect<'_>, out: &mut Frame) {
        let (mut one, mut other) = (itoa::Buffer::new(), itoa::Buffer::new());
        match effect {
            Effect::Database(number) => put_command(&[b"SELECT", one.format(number).as_bytes()], out),
            Effect::Fewer { key, fields } => {
                put_head(2 + fields.len(), out);
                put_bulk(b"HDEL", out);
                put_bulk(key, out);
                fields.iter().for_each(|field| put_bulk(field, out));
            }
            Effect::Removed(key) => put_command(&[b"DEL", key], out),
            Effect::Cleared => put_command(&[b"FLUSHDB"], out),
            Effect::Swapped(first, second) => {
                put_command(&[b"SWAPDB", one.format(first).as_bytes(), other.format(second).as_bytes()], out);
            }
            Effect::Begin => put_command(&[b"MULTI"], out),
            Effect::End => put_command(&[b"EXEC"], out),
            Effect::Stored { key, value, expire_at_ms } => {
                let at_ms = one.format(expire_at_ms.unwrap_or(0)).as_bytes();
                match value {
                    Value::String(string) => put_string(key, string, expire_at_ms.map(|_| at_ms), out),
                    value => {
                        put_head(if expire_at_ms.is_some() { 6 } else { 5 }, out);
                        put_bulk(b"RESTORE", out);
                        put_bulk(key, out);
                        put_bulk(at_ms, out);
                        put_shared(rdb::payload_of(value, &|| {}).into(), out);
                        put_bulk(b"REPLACE", out);
                        if expire_at_ms.is_some() {
                            put_bulk(b"ABSTTL", out);
                        }
                    }
                }
            }
        }
    }
}

fn put_string(key: &[u8], string: &Element, expire_at_ms: Option<&[u8]>, out: &mut Frame) {
    put_head(if expire_at_ms.is_some() { 5 } else { 3 }, out);
    put_bulk(b"SET", out);
    put_bulk(key, out);
    match string.len() {
        ..=COPIED_LEN_MAX => put_bulk(string, out),
        _ => put_shared(string.to_bytes(), out),
    }
    if let Some(at_ms) = expire_at_ms {
        put_bulk(b"PXAT", out);
        put_bulk(at_ms, out);
    }
}

fn put_command(words: &[&[u8]], out: &mut Frame) {
    put_head(words.len(), out);
    words.iter().for_each(|word| put_bulk(word, out));
}

fn put_head(words: usize, out: &mut Frame) {
    put_number(b'*', words, out);
}

fn put_bulk(bytes: &[u8], out: &mut Frame) {
    put_number(b'$', bytes.len(), out);
    out.put(bytes);
    out.put(b"\r\n");
}

fn put_shared(bytes: bytes::Bytes, out: &mut Frame) {
    put_number(b'$', bytes.len(), out);
    out.put_shared(bytes);
    out.put(b"\r\n");
}

fn put_number(kind: u8, number: usize, out: &mut Frame) {
    out.put(&[kind]);
    out.put(itoa::Buffer::new().format(number).as_bytes());
    out.put(b"\r\n");
}
