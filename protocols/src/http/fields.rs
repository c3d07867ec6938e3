//! Header fields that say how a body is framed and what becomes of the connection.

use httparse::Header;

use super::violation::Violation;

/// How long the body of a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyLength {
    /// As many bytes; 0 without a body.
    Bytes(u64),
    /// In the chunked transfer coding, until its last chunk.
    Chunked,
}

/// What the header fields of one request say together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) body: BodyLength,
    /// The connection takes no request after this one.
    pub(super) closes: bool,
    /// The client sends the body after `100 Continue`.
    pub(super) expects_continue: bool,
    /// How long the client waits for the response, in microseconds; 0 if it does not say.
    pub(super) within_us: u32,
}

/// What has been read of the header section so far.
#[derive(Default)]
struct Seen {
    length: Option<u64>,
    codings: Option<Coding>,
    hosts: usize,
    connection: ConnectionOptions,
    expects_continue: bool,
    within_us: Option<u32>,
}

/// What the lines of `Connection` say about its end.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ConnectionOptions {
    close: bool,
    keep_alive: bool,
}

/// What the lines of `Transfer-Encoding` say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Coding {
    /// `chunked` alone.
    Chunked,
    /// `chunked` after others.
    OthersThenChunked,
    /// Another coding is last.
    Unframed,
}

impl Fields {
    /// Reads the header fields of a request in HTTP/1.`minor`.
    pub(super) fn read(headers: &[Header<'_>], minor: u8) -> Result<Self, Violation> {
        let mut seen = Seen::default();
        for header in headers {
            seen.read(header, minor)?;
        }
        let is_http10 = minor == 0;
        if seen.hosts > 1 || (seen.hosts == 0 && !is_http10) {
            return Err(Violation::Host);
        }
        let body = match (seen.codings, seen.length) {
            (None, length) => BodyLength::Bytes(length.unwrap_or(0)),
            (Some(_), Some(_)) => return Err(Violation::LengthAndCoding),
            (Some(_), None) if is_http10 => return Err(Violation::CodingInHttp10),
            (Some(Coding::Chunked), None) => BodyLength::Chunked,
            (Some(Coding::OthersThenChunked), None) => return Err(Violation::CodingUnknown),
            (Some(Coding::Unframed), None) => return Err(Violation::CodingUnframed),
        };
        Ok(Self {
            body,
            closes: seen.connection.closes(is_http10),
            expects_continue: seen.expects_continue && body != BodyLength::Bytes(0),
            within_us: seen.within_us.unwrap_or(0),
        })
    }
}

impl Seen {
    fn read(&mut self, header: &Header<'_>, minor: u8) -> Result<(), Violation> {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        // Most fields matter to handlers alone: their length says so.
        match header.name.len() {
            4 if is("host") => self.hosts += 1,
            6 if is("expect") => self.read_expect(header.value, minor)?,
            10 if is("connection") => self.connection.read(header.value),
            12 if is("grpc-timeout") => self.read_timeout(grpc_timeout_us(header.value)),
            14 if is("content-length") => self.read_length(header.value)?,
            17 if is("transfer-encoding") => self.read_codings(header.value),
            30 if is("x-envoy-expected-rq-timeout-ms") => self.read_timeout(envoy_timeout_us(header.value)),
            _ => {}
        }
        Ok(())
    }

    /// The shorter one holds. What is no number, or more than some 71 minutes, says nothing.
    fn read_timeout(&mut self, timeout_us: Option<u32>) {
        self.within_us = self.within_us.into_iter().chain(timeout_us).min();
    }

    fn read_length(&mut self, value: &[u8]) -> Result<(), Violation> {
        let length = decimal(value.trim_ascii())?;
        if self.length.is_some_and(|other| other != length) {
            return Err(Violation::LengthsDiffer);
        }
        self.length = Some(length);
        Ok(())
    }

    fn read_codings(&mut self, value: &[u8]) {
        for coding in list(value) {
            let chunked = coding.eq_ignore_ascii_case(b"chunked");
            self.codings = Some(match (chunked, self.codings) {
                (true, None) => Coding::Chunked,
                (true, Some(Coding::Unframed)) => Coding::OthersThenChunked,
                // Applied twice, or before another.
                _ => Coding::Unframed,
            });
        }
        // A field without a coding is none that could be framed.
        self.codings.get_or_insert(Coding::Unframed);
    }

    fn read_expect(&mut self, value: &[u8], minor: u8) -> Result<(), Violation> {
        // A client of HTTP/1.0 cannot wait for it.
        if minor == 0 {
            return Ok(());
        }
        if !value.trim_ascii().eq_ignore_ascii_case(b"100-continue") {
            return Err(Violation::Expectation);
        }
        self.expects_continue = true;
        Ok(())
    }
}

impl ConnectionOptions {
    /// Reads the value of one line.
    pub(super) fn read(&mut self, value: &[u8]) {
        for option in list(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// Whether the connection ends after the message.
    pub(super) const fn closes(self, is_http10: bool) -> bool {
        self.close || (is_http10 && !self.keep_alive)
    }
}

/// Microseconds of a number of units that take so many each, at least one.
fn timeout_us(digits: &[u8], unit_us: f64) -> Option<u32> {
    let us = decimal(digits.trim_ascii()).ok()? as f64 * unit_us;
    (us < f64::from(u32::MAX)).then_some((us.ceil() as u32).max(1))
}

/// The same of Envoy, for which 0 is no timeout.
fn envoy_timeout_us(digits: &[u8]) -> Option<u32> {
    timeout_us(digits, 1_000.0).filter(|us| *us > 1)
}

/// `TimeoutValue TimeoutUnit` of gRPC.
fn grpc_timeout_us(value: &[u8]) -> Option<u32> {
    let (unit, digits) = value.trim_ascii().split_last()?;
    let unit_us = match unit {
        b'H' => 3.6e9,
        b'M' => 6e7,
        b'S' => 1e6,
        b'm' => 1e3,
        b'u' => 1.0,
        b'n' => 1e-3,
        _ => return None,
    };
    timeout_us(digits, unit_us)
}

/// The elements of a list that commas separate, without the empty ones.
fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|element| !element.is_empty())
}

/// A number of digits alone. One of more than 64 bits is a length that no body may have.
fn decimal(digits: &[u8]) -> Result<u64, Violation> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Violation::Length);
    }
    digits
        .iter()
        .try_fold(0_u64, |number, digit| {
            let digit = u64::from(digit - b'0');
            number.checked_mul(10)?.checked_add(digit)
        })
        .ok_or(Violation::BodyTooLong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &str, minor: u8) -> Result<Fields, Violation> {
        let block = format!("{lines}\r\n");
        let mut headers = [httparse::EMPTY_HEADER; 8];
        match httparse::parse_headers(block.as_bytes(), &mut headers) {
            Ok(httparse::Status::Complete((_, headers))) => Fields::read(headers, minor),
            other => panic!("{lines:?}: {other:?}"),
        }
    }

    fn body(lines: &str) -> Result<BodyLength, Violation> {
        read(&format!("Host: a\r\n{lines}"), 1).map(|fields| fields.body)
    }

    #[test]
    fn bodies_are_framed_in_one_way_alone() {
        for (lines, expected) in [
            ("", Ok(BodyLength::Bytes(0))),
            ("content-length: 5\r\n", Ok(BodyLength::Bytes(5))),
            ("Content-Length: 5\r\nContent-Length: 05\r\n", Ok(BodyLength::Bytes(5))),
            ("Transfer-Encoding: Chunked\r\n", Ok(BodyLength::Chunked)),
            ("Transfer-Encoding: , chunked\r\n", Ok(BodyLength::Chunked)),
            ("Content-Length: 5\r\nContent-Length: 6\r\n", Err(Violation::LengthsDiffer)),
            ("Content-Length: 5, 5\r\n", Err(Violation::Length)),
            ("Content-Length: +5\r\n", Err(Violation::Length)),
            ("Content-Length: -5\r\n", Err(Violation::Length)),
            ("Content-Length: 0x5\r\n", Err(Violation::Length)),
            ("Content-Length:\r\n", Err(Violation::Length)),
            ("Content-Length: 99999999999999999999\r\n", Err(Violation::BodyTooLong)),
            ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", Err(Violation::LengthAndCoding)),
            ("Transfer-Encoding: gzip, chunked\r\n", Err(Violation::CodingUnknown)),
            ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", Err(Violation::CodingUnknown)),
            ("Transfer-Encoding: chunked, gzip\r\n", Err(Violation::CodingUnframed)),
            ("Transfer-Encoding: chunked, chunked\r\n", Err(Violation::CodingUnframed)),
            ("Transfer-Encoding: chunked;q=1\r\n", Err(Violation::CodingUnframed)),
            ("Transfer-Encoding:\r\n", Err(Violation::CodingUnframed)),
        ] {
            assert_eq!(body(lines), expected, "{lines:?}");
        }
        let in_http10 = read("Transfer-Encoding: chunked\r\n", 0);
        assert_eq!(in_http10, Err(Violation::CodingInHttp10));
    }

    #[test]
    fn requests_of_http11_name_one_host() {
        assert_eq!(read("", 1), Err(Violation::Host));
        assert_eq!(read("Host: a\r\nhost: b\r\n", 1), Err(Violation::Host));
        assert_eq!(read("Host: a\r\nhost: b\r\n", 0), Err(Violation::Host));
        assert!(read("Host:\r\n", 1).is_ok() && read("", 0).is_ok());
    }

    #[test]
    fn connections_stay_open_unless_a_side_says_otherwise() {
        for (lines, minor, closes) in [
            ("Host: a\r\n", 1, false),
            ("Host: a\r\nConnection: Close\r\n", 1, true),
            ("Host: a\r\nConnection: x, close\r\n", 1, true),
            ("Host: a\r\nConnection: closed\r\n", 1, false),
            ("", 0, true),
            ("Connection: Keep-Alive\r\n", 0, false),
            ("Connection: keep-alive, close\r\n", 0, true),
        ] {
            let fields = read(lines, minor).unwrap();
            assert_eq!(fields.closes, closes, "{lines:?}");
        }
    }

    /// Each is as long as a field that has a meaning here.
    #[test]
    fn fields_of_other_names_say_nothing() {
        let plain = read("Host: a\r\n", 1);
        for line in [
            "From: b",
            "Accept: magic",
            "User-Agent: close",
            "Accept-Charset: x",
            "If-Modified-Since: chunked",
        ] {
            assert_eq!(read(&format!("Host: a\r\n{line}\r\n"), 1), plain, "{line}");
        }
    }

    #[test]
    fn a_client_may_wait_before_it_sends_a_body() {
        let expects =
            |lines: &str, minor| read(&format!("Host: a\r\n{lines}"), minor).map(|fields| fields.expects_continue);
        let waits = "Content-Length: 1\r\nExpect: 100-Continue\r\n";
        assert_eq!(expects(waits, 1), Ok(true));
        assert_eq!(expects(waits, 0), Ok(false));
        assert_eq!(expects("Expect: 100-continue\r\n", 1), Ok(false));
        assert_eq!(expects("Expect: magic\r\n", 1), Err(Violation::Expectation));
    }
}
