//! Protocols of one's own.

use std::borrow::Cow;
use std::fmt;

use psp_protocols::skip::ReplySkipper;

use super::arguments::Arguments;
use super::http_header::HttpHeader;
use super::template::{CommandTemplate, TemplateError};

/// A protocol over streams that the generator can speak, such as one of your own.
///
/// Implement it for a type without state, and give a `static` of that type to
/// [`Target::for_wire`](super::Target::for_wire). [`crate::clients::run`] then measures servers of this protocol.
/// `loadgen/examples/own_protocol.rs` is a whole program. The generator's own `http://` and `lines+tcp://` targets
/// are wires, too.
///
/// Replies must come in the order of their requests. A connection that answers in another order gets one request
/// at a time: leave [`RunPlan::pipeline`](crate::schedule::RunPlan::pipeline) at 1.
///
/// ```text
///   "GET /a{n}" ─► complete ─► check ─► template       once for each type of a mix
///   Arguments ["GET", "/a7"] ─► write ─► bytes         for each request
///   bytes ─► replies ─► outcome                        for each connection
/// ```
pub trait Wire: fmt::Debug + Send + Sync {
    /// The scheme of URLs and the name in reports, such as `http`. It is unique among protocols.
    fn scheme(&self) -> &'static str;

    /// The port of a URL without one; `None` if a URL must have one.
    fn port_default(&self) -> Option<u16> {
        None
    }

    /// `command` with the usual arguments if it has none. By default a command stays as it is.
    fn complete<'a>(&self, command: &'a str) -> Cow<'a, str> {
        Cow::Borrowed(command)
    }

    /// The name in reports of requests of `command`; by default its first word.
    fn type_name(&self, command: &str) -> String {
        let word = command.split_whitespace().next();
        word.unwrap_or_default().to_owned()
    }

    /// Checks that the protocol can carry every request of `template`.
    ///
    /// # Errors
    /// [`TemplateError::Shape`] says what the target takes instead; [`TemplateError`] has other reasons.
    fn check(&self, template: &CommandTemplate) -> Result<(), TemplateError>;

    /// Whether requests carry [`RunPlan::headers`](crate::schedule::RunPlan::headers), and may get a body by
    /// [`give_body`](super::give_body).
    fn is_http(&self) -> bool {
        false
    }

    /// Appends one request with one reply to `out`. Called for each request: it should not allocate.
    fn write(&self, request: &WireRequest<'_>, out: &mut Vec<u8>);

    /// The reader of one connection's replies.
    fn replies(&self) -> Box<dyn ReadReplies>;

    /// A request that a server answers as soon as it is ready. By default a server is ready when it accepts a
    /// connection.
    fn probe(&self) -> Option<&'static [u8]> {
        None
    }
}

/// One request to write. See [`Wire::write`].
#[derive(Debug)]
pub struct WireRequest<'a> {
    /// The words of the command, its placeholders filled in.
    pub arguments: &'a Arguments,
    /// Identifies the request on its connection. Ids begin with 1.
    pub id: u64,
    /// Host and port as the target's URL has them; `localhost` for a local socket.
    pub authority: &'a str,
    /// The header lines of `--header`.
    pub headers: &'a [HttpHeader],
}

/// A [`ReplySkipper`] that a connection can own. Every skipper that can be sent to another thread is one.
pub trait ReadReplies: ReplySkipper + fmt::Debug + Send {}

impl<S: ReplySkipper + fmt::Debug + Send> ReadReplies for S {}

/// Wires are equal if their schemes are.
impl PartialEq for dyn Wire {
    fn eq(&self, other: &Self) -> bool {
        self.scheme() == other.scheme()
    }
}

impl Eq for dyn Wire {}
