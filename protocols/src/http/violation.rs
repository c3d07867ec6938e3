//! How a request can break the protocol or exceed a limit, and the status that says so.

use std::borrow::Cow;

use crate::framing::FrameError;

macro_rules! violations {
    ($($variant:ident => $reason:literal,)+) => {
        /// Why a request is refused before its handler sees it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Violation {
            $($variant,)+
        }

        impl Violation {
            #[cfg(test)]
            pub(super) const ALL: &[Self] = &[$(Self::$variant),+];

            /// The status code and the reason.
            pub(super) const fn reason(self) -> &'static str {
                match self {
                    $(Self::$variant => $reason,)+
                }
            }
        }
    };
}

violations! {
    BareLineFeed => "400 a line ends without a carriage return",
    RequestLine => "400 malformed request line",
    Target => "400 malformed request target",
    HeaderLine => "400 malformed header line",
    Version => "505 neither HTTP/1.0 nor HTTP/1.1",
    TargetTooLong => "414 the request line is too long",
    HeadTooLong => "431 the header section is too long",
    TooManyHeaders => "431 too many header lines",
    Host => "400 not exactly one Host",
    LengthAndCoding => "400 both Content-Length and Transfer-Encoding",
    Length => "400 malformed Content-Length",
    LengthsDiffer => "400 lengths differ",
    CodingInHttp10 => "400 Transfer-Encoding in HTTP/1.0",
    CodingUnframed => "400 the last transfer coding is not chunked",
    CodingUnknown => "501 a transfer coding other than chunked",
    Expectation => "417 an expectation other than 100-continue",
    BodyTooLong => "413 the body is too long",
    ChunkLine => "400 malformed chunk size",
    ChunkEnd => "400 a chunk does not end where its size says",
    ChunksTooSmall => "413 too many bytes of chunk sizes",
    Trailers => "400 malformed trailers",
}

impl From<Violation> for FrameError {
    #[cold]
    fn from(violation: Violation) -> Self {
        Self { reason: Cow::Borrowed(violation.reason()) }
    }
}
