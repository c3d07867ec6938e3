//! Reply values of RESP2 and RESP3, and their spelling in tables of expectations.

use std::fmt;
use std::io::{self, BufRead};

/// One reply of the server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reply {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Nil,
    Array(Vec<Reply>),
    Set(Vec<Reply>),
    Push(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
    Double(f64),
    Boolean(bool),
    BigNumber(String),
    Verbatim(Vec<u8>),
}

impl Reply {
    /// Reads one reply.
    ///
    /// # Errors
    /// `UnexpectedEof` if the stream ends, `InvalidData` if the bytes are not a reply.
    pub(crate) fn read(stream: &mut impl BufRead) -> io::Result<Self> {
        let line = read_line(stream)?;
        let (marker, text) = line.split_at_checked(1).ok_or_else(|| invalid(&line))?;
        Ok(match marker {
            "+" => Self::Simple(text.to_owned()),
            "-" => Self::Error(text.to_owned()),
            ":" => Self::Integer(text.parse().map_err(|_| invalid(&line))?),
            "," => Self::Double(text.parse().map_err(|_| invalid(&line))?),
            "#" => Self::Boolean(text == "t"),
            "(" => Self::BigNumber(text.to_owned()),
            "_" => Self::Nil,
            "$" => read_blob(stream, text)?.map_or(Self::Nil, Self::Bulk),
            "=" => Self::Verbatim(read_blob(stream, text)?.ok_or_else(|| invalid(&line))?),
            "*" if text == "-1" => Self::Nil,
            "*" => Self::Array(read_items(stream, text)?),
            "~" => Self::Set(read_items(stream, text)?),
            ">" => Self::Push(read_items(stream, text)?),
            "%" => {
                let pairs = parse_len(text)?;
                let read_pair = |_| Ok((Self::read(stream)?, Self::read(stream)?));
                Self::Map((0..pairs).map(read_pair).collect::<io::Result<_>>()?)
            }
            _ => return Err(invalid(&line)),
        })
    }

    /// The bytes of a string reply.
    ///
    /// # Panics
    /// The reply is of another kind.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Bulk(bytes) | Self::Verbatim(bytes) => bytes,
            other => panic!("not a string reply: {other}"),
        }
    }

    /// The elements of an aggregate reply.
    ///
    /// # Panics
    /// The reply is of another kind.
    pub(crate) fn into_items(self) -> Vec<Self> {
        match self {
            Self::Array(items) | Self::Set(items) | Self::Push(items) => items,
            other => panic!("not an aggregate reply: {other}"),
        }
    }
}

/// Writes a reply in the spelling of the suites' tables: `OK` as `+OK`, an error as `-ERR ...`, the
/// integer 3 as `3`, a bulk string as `"text"`, a null as `nil`, an array as `["a", 1]`, a set as
/// `~["a"]`, a map as `{"a": 1}`, a double as `,1.5`, a boolean as `#true`.
impl fmt::Display for Reply {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple(text) => write!(out, "+{text}"),
            Self::Error(text) => write!(out, "-{text}"),
            Self::Integer(value) => write!(out, "{value}"),
            Self::Bulk(bytes) => write!(out, "\"{}\"", bytes.escape_ascii()),
            Self::Nil => write!(out, "nil"),
            Self::Array(items) => write_items(out, "", items),
            Self::Set(items) => write_items(out, "~", items),
            Self::Push(items) => write_items(out, ">", items),
            Self::Map(pairs) => {
                let shown: Vec<String> = pairs.iter().map(|(k, v)| format!("{k}: {v}")).collect();
                write!(out, "{{{}}}", shown.join(", "))
            }
            Self::Double(value) => write!(out, ",{value}"),
            Self::Boolean(value) => write!(out, "#{value}"),
            Self::BigNumber(digits) => write!(out, "({digits}"),
            Self::Verbatim(bytes) => write!(out, "=\"{}\"", bytes.escape_ascii()),
        }
    }
}

fn write_items(out: &mut fmt::Formatter<'_>, marker: &str, items: &[Reply]) -> fmt::Result {
    let shown: Vec<String> = items.iter().map(Reply::to_string).collect();
    write!(out, "{marker}[{}]", shown.join(", "))
}

fn read_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    match line.strip_suffix(b"\r\n") {
        Some(text) => Ok(String::from_utf8_lossy(text).into_owned()),
        None => Err(invalid(&String::from_utf8_lossy(&line))),
    }
}

fn read_blob(stream: &mut impl BufRead, len: &str) -> io::Result<Option<Vec<u8>>> {
    if len == "-1" {
        return Ok(None);
    }
    let mut bytes = vec![0; parse_len(len)? + 2];
    stream.read_exact(&mut bytes)?;
    if !bytes.ends_with(b"\r\n") {
        return Err(invalid("a bulk string without its line end"));
    }
    bytes.truncate(bytes.len() - 2);
    Ok(Some(bytes))
}

fn read_items(stream: &mut impl BufRead, len: &str) -> io::Result<Vec<Reply>> {
    (0..parse_len(len)?).map(|_| Reply::read(stream)).collect()
}

fn parse_len(text: &str) -> io::Result<usize> {
    text.parse().map_err(|_| invalid(text))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a reply: {what:?}"))
}
