//! Why a request failed: the status and text of the response.

use std::borrow::Cow;

use super::status::Status;

/// Most characters of a request that an error message quotes.
const QUOTED_MAX: usize = 64;

/// Why a request failed: a status for programs and a text for people.
///
/// ```
/// use psp_protocols::rpc::{Failure, Status};
///
/// let failure = Failure::new(Status::NotFound, "no such key");
/// assert_eq!(failure.to_string(), "NOT_FOUND no such key");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{status} {error}")]
pub struct Failure {
    /// The status; not [`Status::Ok`].
    pub status: Status,
    /// What went wrong.
    pub error: Cow<'static, str>,
}

impl Failure {
    /// A failure with this status and text.
    pub fn new(status: Status, error: impl Into<Cow<'static, str>>) -> Self {
        Self { status, error: error.into() }
    }

    /// [`Status::InvalidArgument`]: the frame is not a request, or the payload is not of the method's
    /// type.
    pub fn invalid(error: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Status::InvalidArgument, error)
    }

    /// [`Status::Unimplemented`]: the server has no such method. Long names are cut.
    #[must_use]
    pub fn unknown_method(method: &str) -> Self {
        let quoted: String = method.chars().take(QUOTED_MAX).collect();
        Self::new(Status::Unimplemented, format!("unknown method '{}'", quoted.escape_debug()))
    }

    /// [`Status::DeadlineExceeded`]: the client no longer needs the response.
    #[must_use]
    pub const fn deadline_exceeded() -> Self {
        Self {
            status: Status::DeadlineExceeded,
            error: Cow::Borrowed("the deadline has passed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_method_names_are_cut() {
        let failure = Failure::unknown_method("Nap");
        assert_eq!(failure.to_string(), "UNIMPLEMENTED unknown method 'Nap'");
        let failure = Failure::unknown_method(&"\0".repeat(1 << 20));
        assert!(failure.error.len() < 300, "{}", failure.error.len());
    }
}
