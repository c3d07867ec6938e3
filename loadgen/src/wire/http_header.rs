//! Header lines of HTTP requests.

use std::fmt;
use std::str::FromStr;

/// A header line of every request to `http://` targets, parsed from `Name: value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpHeader {
    pub(super) name: String,
    pub(super) value: String,
}

/// Why text is not a header line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpHeaderError {
    /// It is no name, colon and value, or has control characters.
    #[error("a header is `Name: value` on one line")]
    Shape,
    /// Its name is of those that the generator writes itself.
    #[error("the generator writes `{name}` itself, as the body demands")]
    Framing {
        /// The name.
        name: String,
    },
}

impl HttpHeader {
    pub(super) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

impl fmt::Display for HttpHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.value)
    }
}

impl FromStr for HttpHeader {
    type Err = HttpHeaderError;

    fn from_str(line: &str) -> Result<Self, HttpHeaderError> {
        let (name, value) = line.split_once(':').ok_or(HttpHeaderError::Shape)?;
        let in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(in_name) || value.contains(char::is_control) {
            return Err(HttpHeaderError::Shape);
        }
        let header = Self { name: name.to_owned(), value: value.trim().to_owned() };
        if header.is("content-length") || header.is("transfer-encoding") {
            return Err(HttpHeaderError::Framing { name: header.name });
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_a_name_and_a_value() {
        for (line, name, value) in [
            ("Accept: a/b", "Accept", "a/b"),
            ("x-time:12:30", "x-time", "12:30"),
            ("X-Empty:", "X-Empty", ""),
        ] {
            let header: HttpHeader = line.parse().unwrap();
            assert_eq!((&*header.name, &*header.value), (name, value));
            assert_eq!(header.to_string(), format!("{name}: {value}"));
        }
        for line in ["", "Accept", ": a", "A b: c", "A: b\r\nC: d", "A:\0"] {
            assert_eq!(line.parse::<HttpHeader>(), Err(HttpHeaderError::Shape));
        }
        let framing = "content-length: 5".parse::<HttpHeader>();
        assert!(matches!(framing, Err(HttpHeaderError::Framing { .. })));
    }
}
