//! Why a request failed, as servers say it.

use std::borrow::Cow;

use super::status::Status;

/// Characters of a peer's own words that are repeated to it.
const QUOTED_MAX: usize = 64;

/// A request that was not done: the status of its response, and words for people.
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
    /// A failure with these words.
    pub fn new(status: Status, error: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            error: error.into(),
        }
    }

    /// [`Status::InvalidArgument`]: it is no request, or its payload is not the method's.
    pub fn invalid(error: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Status::InvalidArgument, error)
    }

    /// [`Status::Unimplemented`]: the server has no such method. Long names are cut.
    #[must_use]
    pub fn unknown_method(method: &str) -> Self {
        let quoted: String = method.chars().take(QUOTED_MAX).collect();
        Self::new(
            Status::Unimplemented,
            format!("unknown method '{}'", quoted.escape_debug()),
        )
    }

    /// [`Status::DeadlineExceeded`]: the client has no more use for it.
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
    fn little_of_a_long_method_is_repeated() {
        let failure = Failure::unknown_method("Nap");
        assert_eq!(failure.to_string(), "UNIMPLEMENTED unknown method 'Nap'");
        let failure = Failure::unknown_method(&"\0".repeat(1 << 20));
        assert!(failure.error.len() < 300, "{}", failure.error.len());
    }
}
