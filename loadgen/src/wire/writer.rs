//! Requests as bytes.

use std::sync::Arc;
use std::time::Duration;

use super::arguments::Arguments;
use super::dialect::complete;
use super::expected::{Expected, Lookup};
use super::http_header::HttpHeader;
use super::memcached::Verb;
use super::own::{Wire, WireRequest};
use super::rpc::Method;
use super::target::Protocol;
use super::template::{CommandTemplate, TemplateError};
use psp_protocols::resp::{Encoder, Version};

/// Writes the requests of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestWriter {
    /// An array of bulk strings.
    Resp,
    /// A command of the text protocol.
    MemcachedText(Verb),
    /// Meta commands.
    MemcachedMeta(Verb),
    /// An envelope with a method and a payload.
    Rpc {
        /// The kind of payload.
        method: Method,
        /// How long the client waits for the reply.
        deadline_us: u64,
    },
    /// A request of a [`Wire`].
    Wire {
        wire: &'static dyn Wire,
        /// Host and port of the target.
        authority: String,
        headers: Arc<[HttpHeader]>,
    },
}

impl CommandTemplate {
    /// Parses a template for a server that speaks `protocol`. A command without arguments gets its
    /// usual ones: `GET` becomes `GET {key}`.
    ///
    /// # Errors
    /// [`TemplateError`] says what is wrong, or that the protocol has no such command.
    pub fn for_protocol(text: &str, protocol: Protocol) -> Result<Self, TemplateError> {
        let template = Self::parse(&complete(protocol, text))?;
        template.checked(protocol)
    }

    /// A command of these arguments, without placeholders, for a server that speaks `protocol`.
    ///
    /// # Errors
    /// [`TemplateError`] says why the protocol has no such command.
    pub fn literal_for_protocol(
        arguments: impl IntoIterator<Item = Arc<[u8]>>,
        protocol: Protocol,
    ) -> Result<Self, TemplateError> {
        Self::of_literals(arguments).checked(protocol)
    }

    fn checked(self, protocol: Protocol) -> Result<Self, TemplateError> {
        RequestWriter::new(protocol, "", &self, Duration::ZERO).map(|_| self)
    }
}

impl RequestWriter {
    /// A writer for requests of `template` in `protocol` to the host and port in `authority`. The client
    /// waits for a reply as long as `timeout`.
    ///
    /// # Errors
    /// [`TemplateError`] when the protocol has no such command.
    pub(crate) fn new(
        protocol: Protocol,
        authority: &str,
        template: &CommandTemplate,
        timeout: Duration,
    ) -> Result<Self, TemplateError> {
        match protocol {
            Protocol::Redis => Ok(Self::Resp),
            Protocol::Memcached | Protocol::MemcachedUdp => verb(template).map(Self::MemcachedText),
            Protocol::MemcachedMeta => verb(template).map(Self::MemcachedMeta),
            Protocol::Protobuf => Ok(Self::Rpc {
                method: Method::of(template)?,
                deadline_us: u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX),
            }),
            Protocol::Wire(wire) => wire.check(template).map(|()| Self::Wire {
                wire,
                authority: authority.to_owned(),
                headers: Arc::default(),
            }),
            Protocol::PspUdp => Err(TemplateError::Shape { usage: "no commands, but --workload".to_owned() }),
        }
    }

    /// The same writer with header lines, where the protocol has them.
    pub(crate) fn with_headers(mut self, all: &Arc<[HttpHeader]>) -> Self {
        if let Self::Wire { headers, .. } = &mut self {
            *headers = Arc::clone(all);
        }
        self
    }

    /// Appends a request with these arguments, the command's name first. `id` identifies it on its
    /// connection.
    pub(crate) fn write(&self, arguments: &Arguments, id: u64, out: &mut Vec<u8>) -> Expected {
        match self {
            Self::Resp => {
                let arguments = arguments.iter();
                let mut encoder = Encoder::new(out, Version::Resp2);
                encoder.array(arguments.len());
                for argument in arguments {
                    encoder.bulk(argument);
                }
                Expected::one(Lookup::Reply)
            }
            Self::MemcachedText(verb) => verb.write_text(arguments, out),
            Self::MemcachedMeta(verb) => verb.write_meta(arguments, out),
            Self::Rpc { method, deadline_us } => method.write(arguments, id, *deadline_us, out),
            Self::Wire { wire, authority, headers } => {
                let request = WireRequest { arguments, id, authority, headers };
                wire.write(&request, out);
                Expected::one(Lookup::Reply)
            }
        }
    }
}

/// The command of a template for memcached.
fn verb(template: &CommandTemplate) -> Result<Verb, TemplateError> {
    let name = template.literal(0).unwrap_or_default();
    let verb = Verb::named(name).ok_or_else(|| TemplateError::Command {
        command: String::from_utf8_lossy(name).into_owned(),
        known: Verb::names(),
    })?;
    let operands = template.arguments() - 1;
    if !verb.takes(operands) {
        return Err(TemplateError::Shape { usage: verb.usage.to_owned() });
    }
    let is_word = |operand: usize| {
        let mut literals = template.literals(operand + 1);
        literals.all(|literal| literal.iter().all(u8::is_ascii_graphic)) && template.literal(operand + 1) != Some(b"")
    };
    match (0..operands).find(|&operand| !verb.is_data(operand) && !is_word(operand)) {
        Some(_) => Err(TemplateError::Blank),
        None => Ok(verb),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use psp_protocols::skip::Outcome;

    fn writer(protocol: Protocol, text: &str) -> Result<RequestWriter, String> {
        let template = CommandTemplate::parse(text).unwrap();
        let writer = RequestWriter::new(protocol, "", &template, Duration::from_secs(1));
        writer.map_err(|error| error.to_string())
    }

    #[test]
    fn commands_that_a_protocol_does_not_have_are_refused() {
        for (protocol, text, reason) in [
            (Protocol::Memcached, "KEYS *", "`KEYS`; there are GET, MGET"),
            (Protocol::Memcached, "{key} a", "``; there are GET"),
            (Protocol::Memcached, "SET a", "SET KEY VALUE"),
            (Protocol::MemcachedMeta, "INCR a", "INCR KEY DELTA"),
            (Protocol::MemcachedUdp, "DELETE a b", "DELETE KEY"),
            (Protocol::Memcached, "GET \"a b\"", "no blanks"),
            (Protocol::Memcached, "DELETE \"\"", "no blanks"),
            (Protocol::Memcached, "GET {key}\u{7}", "no blanks"),
            (Protocol::Protobuf, "Get a b", "METHOD [PAYLOAD]"),
            (Protocol::PspUdp, "GET a", "--workload"),
        ] {
            let error = writer(protocol, text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(writer(Protocol::Memcached, "SET {key} \"a b\" 60").is_ok());
    }

    #[test]
    fn hits_and_misses_are_told_by_the_reply_or_by_its_values() {
        let two = Outcome::Hit { values: 2 };
        for (lookup, outcome, expected) in [
            (Lookup::keys(5), two, (2, 3)),
            (Lookup::keys(1), two, (1, 0)),
            (Lookup::keys(5), Outcome::Miss, (0, 5)),
            (Lookup::keys(1), Outcome::Done, (1, 0)),
            (Lookup::keys(1), Outcome::Error, (0, 0)),
            (Lookup::keys(1), Outcome::NotStored, (0, 0)),
            (Lookup::Reply, two, (1, 0)),
            (Lookup::Reply, Outcome::Miss, (0, 1)),
            (Lookup::Reply, Outcome::Done, (0, 0)),
            (Lookup::None, two, (0, 0)),
        ] {
            assert_eq!(lookup.hits_and_misses(outcome), expected);
        }
    }
}
