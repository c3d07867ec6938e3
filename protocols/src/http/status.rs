//! Status codes.

/// A status code of three digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(u16);

macro_rules! statuses {
    ($($name:ident = $code:literal, $phrase:literal;)+) => {
        impl Status {
            $(#[doc = concat!("`", $code, " ", $phrase, "`")]
            pub const $name: Self = Self($code);)+

            /// The usual words for the code; empty for a code without a constant here.
            #[must_use]
            pub const fn phrase(self) -> &'static str {
                match self.0 {
                    $($code => $phrase,)+
                    _ => "",
                }
            }
        }
    };
}

statuses! {
    OK = 200, "OK";
    CREATED = 201, "Created";
    ACCEPTED = 202, "Accepted";
    NO_CONTENT = 204, "No Content";
    MOVED_PERMANENTLY = 301, "Moved Permanently";
    FOUND = 302, "Found";
    NOT_MODIFIED = 304, "Not Modified";
    BAD_REQUEST = 400, "Bad Request";
    UNAUTHORIZED = 401, "Unauthorized";
    FORBIDDEN = 403, "Forbidden";
    NOT_FOUND = 404, "Not Found";
    METHOD_NOT_ALLOWED = 405, "Method Not Allowed";
    REQUEST_TIMEOUT = 408, "Request Timeout";
    CONFLICT = 409, "Conflict";
    LENGTH_REQUIRED = 411, "Length Required";
    CONTENT_TOO_LARGE = 413, "Content Too Large";
    URI_TOO_LONG = 414, "URI Too Long";
    EXPECTATION_FAILED = 417, "Expectation Failed";
    UNPROCESSABLE_CONTENT = 422, "Unprocessable Content";
    TOO_MANY_REQUESTS = 429, "Too Many Requests";
    REQUEST_HEADER_FIELDS_TOO_LARGE = 431, "Request Header Fields Too Large";
    INTERNAL_SERVER_ERROR = 500, "Internal Server Error";
    NOT_IMPLEMENTED = 501, "Not Implemented";
    SERVICE_UNAVAILABLE = 503, "Service Unavailable";
    HTTP_VERSION_NOT_SUPPORTED = 505, "HTTP Version Not Supported";
}

impl Status {
    /// The status of a final response; `None` unless `code` is from 200 to 999.
    #[must_use]
    pub const fn new(code: u16) -> Option<Self> {
        match code {
            200..=999 => Some(Self(code)),
            _ => None,
        }
    }

    /// The code, from 200 to 999.
    #[must_use]
    pub const fn code(self) -> u16 {
        self.0
    }

    /// Whether a response with this status has a body: 204 and 304 have none.
    #[must_use]
    pub const fn has_body(self) -> bool {
        !matches!(self, Self::NO_CONTENT | Self::NOT_MODIFIED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_three_digits_and_are_final() {
        for (code, known) in [(100, false), (199, false), (200, true), (999, true), (1000, false)] {
            assert_eq!(Status::new(code).map(Status::code), known.then_some(code));
        }
        assert_eq!(Status::new(404).map(Status::phrase), Some("Not Found"));
        assert_eq!(Status::new(299).map(Status::phrase), Some(""));
    }
}
