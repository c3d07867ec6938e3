//! How a peer can break the protocol, in the words of Redis 7.

use std::borrow::Cow;

use crate::framing::FrameError;

/// A breach of the protocol. It is small, so that results with it stay in registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Violation {
    MultibulkLength,
    UnauthenticatedMultibulkLength,
    BulkLength,
    UnauthenticatedBulkLength,
    ExpectedBulk { found: u8 },
    BulkTerminator,
    MultibulkCountTooLong,
    BulkCountTooLong,
    InlineTooLong,
    UnbalancedQuotes,
    FrameTooLong,
}

impl Violation {
    /// The same breach by a peer that has not authenticated.
    pub(super) fn unauthenticated(self) -> Self {
        match self {
            Self::MultibulkLength => Self::UnauthenticatedMultibulkLength,
            Self::BulkLength => Self::UnauthenticatedBulkLength,
            other => other,
        }
    }
}

impl From<Violation> for FrameError {
    #[cold]
    fn from(violation: Violation) -> Self {
        Self {
            reason: match violation {
                Violation::ExpectedBulk { found } => {
                    Cow::Owned(format!("Protocol error: expected '$', got '{}'", found.escape_ascii()))
                }
                Violation::MultibulkLength => "Protocol error: invalid multibulk length".into(),
                Violation::UnauthenticatedMultibulkLength => "Protocol error: unauthenticated multibulk length".into(),
                Violation::UnauthenticatedBulkLength => "Protocol error: unauthenticated bulk length".into(),
                Violation::BulkLength => "Protocol error: invalid bulk length".into(),
                Violation::BulkTerminator => "Protocol error: expected CRLF after bulk".into(),
                Violation::MultibulkCountTooLong => "Protocol error: too big mbulk count string".into(),
                Violation::BulkCountTooLong => "Protocol error: too big bulk count string".into(),
                Violation::InlineTooLong => "Protocol error: too big inline request".into(),
                Violation::UnbalancedQuotes => "Protocol error: unbalanced quotes in request".into(),
                Violation::FrameTooLong => "Protocol error: request too large".into(),
            },
        }
    }
}
