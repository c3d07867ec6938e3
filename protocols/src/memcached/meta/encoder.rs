//! Replies of the meta commands.

use bytes::Bytes;

use crate::sink::Sink;

use super::key::Key;

/// The code of a reply without data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// `HD`: done.
    Done,
    /// `EN`: a miss of `mg` or `me`.
    Miss,
    /// `NF`: a miss of `ms`, `md` or `ma`.
    NotFound,
    /// `NS`: not stored.
    NotStored,
    /// `EX`: the item has another CAS value.
    Exists,
    /// `MN`: the reply to `mn`.
    Noop,
}

impl Code {
    const fn text(self) -> &'static str {
        match self {
            Self::Done => "HD",
            Self::Miss => "EN",
            Self::NotFound => "NF",
            Self::NotStored => "NS",
            Self::Exists => "EX",
            Self::Noop => "MN",
        }
    }
}

/// Writes one reply: the code, the flags in the order of the request, and the end.
///
/// ```
/// # use psp_protocols::memcached::meta::{Code, Reply};
/// let mut out = Vec::new();
/// Reply::new(&mut out, Code::Done).token(b'O', b"12").end();
/// Reply::value(&mut out, 3).number(b't', -1).data(b"abc");
/// assert_eq!(out, b"HD O12\r\nVA 3 t-1\r\nabc\r\n");
/// ```
#[derive(Debug)]
#[must_use = "finish the reply with `end` or `data`"]
pub struct Reply<'a, S: Sink + ?Sized> {
    sink: &'a mut S,
}

impl<'a, S: Sink + ?Sized> Reply<'a, S> {
    /// Starts a reply without data; [`end`](Self::end) ends it.
    pub fn new(sink: &'a mut S, code: Code) -> Self {
        sink.put(code.text().as_bytes());
        Self { sink }
    }

    /// Starts a reply with `data_len` bytes of data (`VA`); [`data`](Self::data) ends it.
    pub fn value(sink: &'a mut S, data_len: usize) -> Self {
        sink.put(b"VA ");
        sink.put(itoa::Buffer::new().format(data_len).as_bytes());
        Self { sink }
    }

    /// A flag alone: `W`, `X`, `Z`.
    pub fn flag(self, code: u8) -> Self {
        self.token(code, b"")
    }

    /// A flag with a number: `c`, `f`, `h`, `l`, `s`, `t`.
    pub fn number(self, code: u8, value: impl itoa::Integer) -> Self {
        self.token(code, itoa::Buffer::new().format(value).as_bytes())
    }

    /// A flag with a token: `O`.
    pub fn token(self, code: u8, token: &[u8]) -> Self {
        self.sink.put(&[b' ', code]);
        self.sink.put(token);
        self
    }

    /// The flag `k`, followed by `b` when the key is base64.
    pub fn key(self, key: Key<'_>) -> Self {
        let reply = self.token(b'k', key.text);
        if key.is_base64 { reply.flag(b'b') } else { reply }
    }

    /// Ends a reply without data.
    pub fn end(self) {
        self.sink.put(b"\r\n");
    }

    /// Ends a reply with its data.
    pub fn data(self, data: &[u8]) {
        self.sink.put(b"\r\n");
        self.sink.put(data);
        self.sink.put(b"\r\n");
    }

    /// Like [`data`](Self::data), with bytes that the sink may keep a reference to.
    pub fn data_shared(self, data: Bytes) {
        self.sink.put(b"\r\n");
        self.sink.put_shared(data);
        self.sink.put(b"\r\n");
    }
}

/// Writes the reply to `me`: `ME <key> <name>=<value>*`.
pub fn debug<'v, S: Sink + ?Sized>(sink: &mut S, key: Key<'_>, values: impl IntoIterator<Item = (&'v str, &'v str)>) {
    sink.put(b"ME ");
    sink.put(key.text);
    for (name, value) in values {
        for part in [" ", name, "=", value] {
            sink.put(part.as_bytes());
        }
    }
    sink.put(b"\r\n");
}
