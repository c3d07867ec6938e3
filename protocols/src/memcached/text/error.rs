//! Why a text or meta request is refused, with the texts of memcached 1.6.

use crate::sink::Sink;

/// An error of a request. The reply is one line, and the connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct RequestError {
    /// The line for the peer, e.g. `CLIENT_ERROR bad data chunk`.
    pub text: &'static str,
    /// Whether the request asked for no reply. Then this error is not sent either.
    pub noreply: bool,
}

impl RequestError {
    /// An error with a reply.
    pub(crate) const fn new(text: &'static str) -> Self {
        Self { text, noreply: false }
    }

    pub(super) const fn unless(self, noreply: bool) -> Self {
        Self { noreply, ..self }
    }

    /// Whether the value to store is too long.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.text == TOO_LARGE.text
    }

    /// Writes the reply, unless the request asked for none.
    pub fn encode<S: Sink + ?Sized>(&self, sink: &mut S) {
        if !self.noreply {
            sink.put(self.text.as_bytes());
            sink.put(b"\r\n");
        }
    }
}

/// The command does not exist, or has a wrong number of words.
pub(crate) const ERROR: RequestError = RequestError::new("ERROR");
pub(crate) const BAD_FORMAT: RequestError = RequestError::new(BAD_FORMAT_TEXT);
pub(super) const BAD_FORMAT_TEXT: &str = "CLIENT_ERROR bad command line format";
pub(crate) const BAD_DATA_CHUNK: RequestError = RequestError::new("CLIENT_ERROR bad data chunk");
pub(crate) const TOO_LARGE: RequestError = RequestError::new("SERVER_ERROR object too large for cache");
pub(super) const BAD_DELETE: RequestError =
    RequestError::new("CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]");
pub(super) const BAD_EXPTIME: RequestError = RequestError::new("CLIENT_ERROR invalid exptime argument");
pub(super) const BAD_DELTA: RequestError = RequestError::new("CLIENT_ERROR invalid numeric delta argument");
pub(super) const MEMORY_LIMIT_TOO_SMALL: RequestError =
    RequestError::new("MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m");
pub(super) const MEMORY_LIMIT_NOT_IN_MIB: RequestError =
    RequestError::new("MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes");
pub(super) const BAD_SHUTDOWN: RequestError = RequestError::new("CLIENT_ERROR invalid shutdown mode");
