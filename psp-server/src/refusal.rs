//! Why a handler refuses a connection.

use std::borrow::Cow;

/// The reason for which [`Handler::accept`](crate::Handler::accept) refuses a connection. The peer gets it as
/// [`Rejection::Refused`](psp_protocols::Rejection::Refused), in the words of the protocol.
///
/// ```
/// use psp_server::{Peer, Refusal};
///
/// fn accept(peer: &Peer) -> Result<(), Refusal> {
///     match peer.ip() {
///         Some(address) if !address.ip().is_loopback() => Err("only clients on this machine".into()),
///         _ => Ok(()),
///     }
/// }
/// # assert_eq!(accept(&Peer::Unix(None)), Ok(()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(Cow<'static, str>);

impl Refusal {
    /// The reason, one line of text.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.0
    }
}

impl<T: Into<Cow<'static, str>>> From<T> for Refusal {
    fn from(reason: T) -> Self {
        Self(reason.into())
    }
}
