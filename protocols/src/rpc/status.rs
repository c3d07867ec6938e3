//! How requests end.

use std::fmt;

macro_rules! statuses {
    ($($(#[doc = $doc:literal])+ $variant:ident = $number:literal, $name:literal;)+) => {
        /// How a request ended. Numbers and names are those of
        /// [gRPC](https://grpc.io/docs/guides/status-codes/).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, prost::Enumeration)]
        #[repr(i32)]
        pub enum Status {
            $($(#[doc = $doc])+ $variant = $number,)+
        }

        impl Status {
            /// All of them, by number.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name in `psp_rpc.proto`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

statuses! {
    /// Done.
    Ok = 0, "OK";
    /// The client cancelled the request.
    Cancelled = 1, "CANCELLED";
    /// The server does not give a reason.
    Unknown = 2, "UNKNOWN";
    /// The message is not a request, or its payload is not of the method's type.
    InvalidArgument = 3, "INVALID_ARGUMENT";
    /// The deadline passed before the request was done.
    DeadlineExceeded = 4, "DEADLINE_EXCEEDED";
    /// The requested entity does not exist.
    NotFound = 5, "NOT_FOUND";
    /// The entity to create exists already.
    AlreadyExists = 6, "ALREADY_EXISTS";
    /// The client may not make this request.
    PermissionDenied = 7, "PERMISSION_DENIED";
    /// The typed queue of the request is full, or the server has no more buffers or connections.
    ResourceExhausted = 8, "RESOURCE_EXHAUSTED";
    /// The server's state does not allow the request.
    FailedPrecondition = 9, "FAILED_PRECONDITION";
    /// The request conflicts with another.
    Aborted = 10, "ABORTED";
    /// A number in the request or in its result is out of range.
    OutOfRange = 11, "OUT_OF_RANGE";
    /// The server has no such method.
    Unimplemented = 12, "UNIMPLEMENTED";
    /// The server failed.
    Internal = 13, "INTERNAL";
    /// The server is draining.
    Unavailable = 14, "UNAVAILABLE";
    /// Data is lost.
    DataLoss = 15, "DATA_LOSS";
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}
