//! Request methods.

macro_rules! methods {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal;)+) => {
        /// The method of a request, if it is one of RFC 9110 or `PATCH`.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub enum Method {
            $($(#[doc = $doc])+ $variant,)+
            /// Another method; [`HttpRequest::method_name`](super::HttpRequest::method_name) has its name.
            #[default]
            Other,
        }

        impl Method {
            /// The method with this name. Names are case-sensitive.
            #[must_use]
            pub fn of(name: &[u8]) -> Self {
                $(if name == $name {
                    return Self::$variant;
                })+
                Self::Other
            }
        }
    };
}

methods! {
    /// Transfers a page.
    Get = b"GET";
    /// As `GET`, without the body.
    Head = b"HEAD";
    /// Processes the body.
    Post = b"POST";
    /// Stores the body as the page.
    Put = b"PUT";
    /// Removes the page.
    Delete = b"DELETE";
    /// Changes a part of the page.
    Patch = b"PATCH";
    /// Asks which methods there are.
    Options = b"OPTIONS";
    /// Asks for the request itself.
    Trace = b"TRACE";
    /// Asks for a tunnel.
    Connect = b"CONNECT";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_case_sensitive() {
        for (name, method) in [
            (&b"GET"[..], Method::Get),
            (b"PATCH", Method::Patch),
            (b"get", Method::Other),
            (b"BREW", Method::Other),
            (b"", Method::Other),
        ] {
            assert_eq!(Method::of(name), method);
        }
    }
}
