//! Access logs of HTTP servers in the common and the combined log format:
//!
//! ```text
//! host ident user [10/Oct/2000:13:55:36 -0700] "GET /path HTTP/1.0" 200 2326 "referrer" "agent"
//! ```
//!
//! A line may have anything before its time and behind its status. Anyone can put lines into a log that hold no
//! request. These are counted.

use time::OffsetDateTime;
use time::format_description::StaticFormatDescription;
use time::macros::format_description;

use super::lines::{Lines, TraceError};
use super::parse::{Entry, Found, Parse};
use super::times::unix_s;

const TIME: StaticFormatDescription = format_description!(
    "[day]/[month repr:short]/[year]:[hour]:[minute]:[second] [offset_hour sign:mandatory][offset_minute]"
);

pub(super) struct AccessLogParser;

impl Parse for AccessLogParser {
    fn next(&mut self, lines: &mut Lines, entry: &mut Entry) -> Result<Found, TraceError> {
        if !lines.advance()? {
            return Ok(Found::End);
        }
        Ok(match parse(lines.line(), entry) {
            Ok(()) => Found::Request,
            Err(reason) => Found::Other(reason),
        })
    }
}

fn parse(line: &[u8], entry: &mut Entry) -> Result<(), &'static str> {
    let line = str::from_utf8(line).map_err(|_| "it is not UTF-8")?;
    let (_, rest) = line.split_once(" [").ok_or("it has no time in brackets")?;
    let (time, rest) = rest.split_once("] \"").ok_or("no request in quotes is behind the time")?;
    let time = OffsetDateTime::parse(time, TIME);
    entry.time_s = unix_s(time.map_err(|_| "its time is not as in 10/Oct/2000:13:55:36 -0700")?);
    entry.column.clear();
    let rest = unescape(rest, &mut entry.column)?;
    let status = rest.split_whitespace().next().unwrap_or_default();
    if status.len() != 3 || !status.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("no status is behind the request");
    }
    let mut words = entry.column.split(' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err("the request is not METHOD TARGET VERSION");
    };
    if !version.starts_with("HTTP/") || !method.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return Err("the request is not METHOD TARGET VERSION");
    }
    if matches!(method, "HEAD" | "CONNECT") {
        return Err("psp-loadgen sends no HEAD and CONNECT");
    }
    if !target.starts_with('/') || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("the target is no path");
    }
    let len = method.len() + 1 + target.len();
    entry.column.truncate(len);
    Ok(())
}

/// Appends the text before the next quote to `out`, and returns the text behind that quote. Servers write quotes
/// and backslashes behind a backslash, and other bytes as `\xHH`.
fn unescape<'a>(text: &'a str, out: &mut String) -> Result<&'a str, &'static str> {
    let mut rest = text;
    loop {
        let at = rest.find(['"', '\\']).ok_or("a quote is not closed")?;
        out.push_str(&rest[..at]);
        let escape = rest[at..].strip_prefix('\\');
        let Some(escape) = escape else {
            return Ok(&rest[at + 1..]);
        };
        let (character, len) = match escape.as_bytes() {
            [quote @ (b'"' | b'\\'), ..] => (char::from(*quote), 1),
            [b'x', _, _, ..] => {
                let digits = escape.get(1..3).unwrap_or_default();
                let byte = u8::from_str_radix(digits, 16).ok().filter(u8::is_ascii);
                (byte.map(char::from).ok_or("the target is no path")?, 3)
            }
            _ => return Err("the request has control characters"),
        };
        out.push(character);
        rest = &escape[len..];
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::all;
    use super::*;
    use proptest::prelude::*;

    fn one(line: &str) -> Result<(f64, String), &'static str> {
        let mut entry = Entry::default();
        parse(line.as_bytes(), &mut entry).map(|()| (entry.time_s, entry.column))
    }

    #[test]
    fn requests_are_found_in_both_formats() {
        for (line, column) in [
            (
                r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326"#,
                "GET /apache_pb.gif",
            ),
            (
                r#"::1 - - [10/Oct/2000:22:55:36 +0200] "POST /a?b={c}&d=%20 HTTP/2.0" 201 - "http://e/\"f\"" "g [h]""#,
                "POST /a?b={c}&d=%20",
            ),
            (
                r#"[::1]:80 ::1 - a b [10/Oct/2000:20:55:36 +0000] "DELETE /\"\x5C\x22\\ HTTP/1.1" 204 0 "-" "-" 0.004"#,
                r#"DELETE /"\"\"#,
            ),
        ] {
            assert_eq!(one(line), Ok((971_211_336.0, column.to_owned())), "{line}");
        }
    }

    #[test]
    fn lines_without_a_request_are_told_apart() {
        let line = |request: &str| format!(r#"::1 - - [10/Oct/2000:13:55:36 -0700] "{request}" 400 0"#);
        for (line, reason) in [
            (String::new(), "no time in brackets"),
            ("::1 - - [10/Oct/2000] 5".to_owned(), "no request in quotes"),
            (line("GET / HTTP/1.1").replace("Oct", "Okt"), "its time"),
            (line("GET / HTTP/1.1").replace("0700", "9900"), "its time"),
            (line("GET / HTTP/1.1").replace("400", "-"), "no status"),
            (line("-"), "METHOD TARGET VERSION"),
            (line(""), "METHOD TARGET VERSION"),
            (line("GET /"), "METHOD TARGET VERSION"),
            (line("get / HTTP/1.1"), "METHOD TARGET VERSION"),
            (line("GET /a b HTTP/1.1"), "METHOD TARGET VERSION"),
            (line(r"\x16\x03\x01\x02"), "METHOD TARGET VERSION"),
            (line(r"\x16\x03\xe9\x02"), "no path"),
            (line(r"\n HTTP/1.1"), "control characters"),
            (line("HEAD / HTTP/1.1"), "HEAD"),
            (line("OPTIONS * HTTP/1.1"), "no path"),
            (line("GET http://a/ HTTP/1.1"), "no path"),
            (line("GET /é HTTP/1.1"), "no path"),
            (line(r"GET /\xé HTTP/1.1"), "no path"),
            (line(r"GET / HTTP/1.1\"), "not closed"),
        ] {
            let error = one(&line).unwrap_err();
            assert!(error.contains(reason), "{line}: {error}");
        }
        assert!(parse(b"\xff", &mut Entry::default()).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, request in ".{0,40}", tail in r#"[\\x"0-9aé ]{0,20}"#) {
            let _ = all(&mut AccessLogParser, &bytes);
            let _ = one(&format!(r#"a [10/Oct/2000:13:55:36 -0700] "{request}" 200 {tail}"#));
            let _ = one(&format!(r#"a [10/Oct/2000:13:55:36 -0700] "GET /{tail}"#));
        }
    }
}
