//! Replies of the text protocol.

use bytes::Bytes;

use crate::sink::Sink;

/// A reply of one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// Stored as asked.
    Stored,
    /// Not stored, because the condition of `add`, `replace`, `append` or `prepend` was not met.
    NotStored,
    /// Not stored by `cas`, because the item was changed meanwhile.
    Exists,
    /// There is no such item.
    NotFound,
    /// Deleted.
    Deleted,
    /// The item has its new expiration time.
    Touched,
    /// Done: `flush_all`, `verbosity`.
    Ok,
    /// Done: `stats reset`.
    Reset,
    /// End of values, statistics and dumps.
    End,
    /// No such command.
    Error,
}

impl Status {
    /// The line, its CRLF included.
    #[must_use]
    pub const fn line(self) -> &'static str {
        match self {
            Self::Stored => "STORED\r\n",
            Self::NotStored => "NOT_STORED\r\n",
            Self::Exists => "EXISTS\r\n",
            Self::NotFound => "NOT_FOUND\r\n",
            Self::Deleted => "DELETED\r\n",
            Self::Touched => "TOUCHED\r\n",
            Self::Ok => "OK\r\n",
            Self::Reset => "RESET\r\n",
            Self::End => "END\r\n",
            Self::Error => "ERROR\r\n",
        }
    }
}

/// Writes a reply of one line.
pub fn status<S: Sink + ?Sized>(sink: &mut S, status: Status) {
    sink.put(status.line().as_bytes());
}

/// Writes `VALUE <key> <flags> <bytes> [<cas>]` and the data block. After the last value comes
/// [`Status::End`].
pub fn value<S: Sink + ?Sized>(sink: &mut S, key: &[u8], flags: u32, cas: Option<u64>, data: &[u8]) {
    value_line(sink, key, flags, cas, data.len());
    sink.put(data);
    sink.put(b"\r\n");
}

/// Like [`value`], with data that the sink may keep a reference to.
pub fn value_shared<S: Sink + ?Sized>(sink: &mut S, key: &[u8], flags: u32, cas: Option<u64>, data: Bytes) {
    value_line(sink, key, flags, cas, data.len());
    sink.put_shared(data);
    sink.put(b"\r\n");
}

fn value_line<S: Sink + ?Sized>(sink: &mut S, key: &[u8], flags: u32, cas: Option<u64>, data_len: usize) {
    let mut digits = itoa::Buffer::new();
    sink.put(b"VALUE ");
    sink.put(key);
    sink.put(b" ");
    sink.put(digits.format(flags).as_bytes());
    sink.put(b" ");
    sink.put(digits.format(data_len).as_bytes());
    if let Some(cas) = cas {
        sink.put(b" ");
        sink.put(digits.format(cas).as_bytes());
    }
    sink.put(b"\r\n");
}

/// Writes the result of `incr` or `decr`.
pub fn number<S: Sink + ?Sized>(sink: &mut S, value: u64) {
    sink.put(itoa::Buffer::new().format(value).as_bytes());
    sink.put(b"\r\n");
}

/// Writes `VERSION <version>`.
pub fn version<S: Sink + ?Sized>(sink: &mut S, version: &str) {
    text_line(sink, &["VERSION ", version]);
}

/// Writes `STAT <name> <value>`. After the last of them comes [`Status::End`].
pub fn stat<S: Sink + ?Sized>(sink: &mut S, name: &str, value: &str) {
    text_line(sink, &["STAT ", name, " ", value]);
}

/// Writes `CLIENT_ERROR <text>`: the request was wrong.
pub fn client_error<S: Sink + ?Sized>(sink: &mut S, text: &str) {
    text_line(sink, &["CLIENT_ERROR ", text]);
}

/// Writes `SERVER_ERROR <text>`: the server could not run the request.
pub fn server_error<S: Sink + ?Sized>(sink: &mut S, text: &str) {
    text_line(sink, &["SERVER_ERROR ", text]);
}

/// Writes one line of the given parts. Control characters in them become spaces.
pub(super) fn text_line<S: Sink + ?Sized>(sink: &mut S, parts: &[&str]) {
    for part in parts {
        let mut pieces = part.as_bytes().split(u8::is_ascii_control);
        sink.put(pieces.next().unwrap_or_default());
        for piece in pieces {
            sink.put(b" ");
            sink.put(piece);
        }
    }
    sink.put(b"\r\n");
}
