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

            /// The name as it stands in `psp_rpc.proto`.
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
    /// The client took it back.
    Cancelled = 1, "CANCELLED";
    /// The server does not say.
    Unknown = 2, "UNKNOWN";
    /// It is no request, or its payload is not the method's.
    InvalidArgument = 3, "INVALID_ARGUMENT";
    /// Its deadline passed before it was done.
    DeadlineExceeded = 4, "DEADLINE_EXCEEDED";
    /// What it asks for is not there.
    NotFound = 5, "NOT_FOUND";
    /// What it would create is there.
    AlreadyExists = 6, "ALREADY_EXISTS";
    /// The client may not.
    PermissionDenied = 7, "PERMISSION_DENIED";
    /// The queue of its type is full, or the server's memory is.
    ResourceExhausted = 8, "RESOURCE_EXHAUSTED";
    /// The server's state does not allow it.
    FailedPrecondition = 9, "FAILED_PRECONDITION";
    /// Another request was in its way.
    Aborted = 10, "ABORTED";
    /// A number in it is beyond what there is.
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
