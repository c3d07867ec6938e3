//! Targets of vegeta, in both of its formats:
//!
//! ```text
//! POST http://host/path
//! Content-Type: application/json
//! @body.json
//!
//! {"method": "POST", "url": "http://host/path", "body": "aGk=", "header": {"Accept": ["text/plain"]}}
//! ```

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::lines::{LINE_BYTES_MAX, Lines, TraceError};
use super::parse::{Entry, Found, Parse};
use crate::wire::HttpHeader;

pub(super) struct VegetaParser;

impl Parse for VegetaParser {
    fn next(&mut self, lines: &mut Lines, entry: &mut Entry) -> Result<Found, TraceError> {
        let column = &mut entry.column;
        column.clear();
        while lines.advance()? {
            let line = lines.text()?;
            let is_begun = !column.is_empty();
            if line.is_empty() && is_begun {
                break;
            }
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if is_begun && begins_target(line) {
                lines.put_back();
                break;
            }
            if is_begun {
                column.push('\n');
            }
            column.push_str(line);
            if column.len() > LINE_BYTES_MAX {
                return Err(lines.fault(format!("a target of more than {LINE_BYTES_MAX} bytes")));
            }
            if line.starts_with(['@', '{']) {
                break;
            }
        }
        Ok(match column.is_empty() {
            true => Found::End,
            false => Found::Request,
        })
    }
}

/// Whether a line is the first of a target: a method, or one in JSON.
fn begins_target(line: &str) -> bool {
    let method = line.split(char::is_whitespace).next().unwrap_or_default();
    let is_method = method.len() < line.len() && method.bytes().all(|it| it.is_ascii_uppercase());
    line.starts_with('{') || is_method
}

/// A request as a target describes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct VegetaTarget {
    pub(super) method: String,
    /// The target of the request.
    pub(super) path: String,
    /// Scheme, host and port, if the URL has them.
    pub(super) origin: Option<String>,
    pub(super) body: Arc<[u8]>,
    /// Header lines.
    pub(super) headers: Vec<String>,
}

/// Reads targets, and each file of a body once.
#[derive(Debug, Default)]
pub(super) struct VegetaTargets {
    bodies: HashMap<String, Arc<[u8]>>,
}

#[derive(Deserialize)]
struct Json {
    method: String,
    url: String,
    body: Option<String>,
    header: Option<BTreeMap<String, Vec<String>>>,
}

impl VegetaTargets {
    /// The request of a column of [`VegetaParser`].
    pub(super) fn read(&mut self, column: &str) -> Result<VegetaTarget, String> {
        if column.starts_with('{') {
            return from_json(column);
        }
        let mut lines = column.lines();
        let first = lines.next().unwrap_or_default();
        let (method, url) = first.split_once(char::is_whitespace).unwrap_or((first, ""));
        let mut target = target(method, url.trim())?;
        for line in lines {
            match line.strip_prefix('@') {
                Some(path) => target.body = self.body(path)?,
                None => target.headers.push(header(line)?),
            }
        }
        Ok(target)
    }

    fn body(&mut self, path: &str) -> Result<Arc<[u8]>, String> {
        if let Some(body) = self.bodies.get(path) {
            return Ok(Arc::clone(body));
        }
        let bytes = fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))?;
        let body: Arc<[u8]> = bytes.into();
        self.bodies.insert(path.to_owned(), Arc::clone(&body));
        Ok(body)
    }
}

fn from_json(line: &str) -> Result<VegetaTarget, String> {
    let json: Json = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let mut target = target(&json.method, &json.url)?;
    if let Some(body) = json.body {
        let bytes = STANDARD.decode(body);
        target.body = bytes.map_err(|error| format!("`body` is not base64: {error}"))?.into();
    }
    for (name, values) in json.header.unwrap_or_default() {
        for value in values {
            target.headers.push(header(&format!("{name}: {value}"))?);
        }
    }
    Ok(target)
}

fn header(line: &str) -> Result<String, String> {
    let parsed = line.parse::<HttpHeader>();
    parsed.map(|header| header.to_string()).map_err(|error| format!("`{line}`: {error}"))
}

fn target(method: &str, url: &str) -> Result<VegetaTarget, String> {
    let url = url.split('#').next().unwrap_or_default();
    let (origin, path) = match url.split_once("://") {
        _ if url.starts_with('/') => (None, url),
        Some((scheme, rest)) => {
            let at = rest.find(['/', '?']).unwrap_or(rest.len());
            let (host, path) = rest.split_at(at);
            if host.is_empty() || host.contains('@') {
                let reason = "the URL has no host, or a user; write an Authorization header instead";
                return Err(reason.to_owned());
            }
            (Some(format!("{scheme}://{host}")), path)
        }
        None => return Err("a target is METHOD URL, as in GET http://host/path".to_owned()),
    };
    let root = if path.starts_with('/') { "" } else { "/" };
    Ok(VegetaTarget {
        method: method.to_owned(),
        path: format!("{root}{path}"),
        origin,
        body: Arc::default(),
        headers: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::parse::all;
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Vec<VegetaTarget>, String> {
        let mut targets = VegetaTargets::default();
        let columns = all(&mut VegetaParser, text.as_bytes())?.into_iter();
        columns.map(|(_, column)| targets.read(&column)).collect()
    }

    fn expected(first: &str, origin: Option<&str>, body: &[u8], headers: &[&str]) -> VegetaTarget {
        let (method, path) = first.split_once(' ').unwrap();
        VegetaTarget {
            method: method.to_owned(),
            path: path.to_owned(),
            origin: origin.map(str::to_owned),
            body: body.into(),
            headers: headers.iter().map(|&line| line.to_owned()).collect(),
        }
    }

    #[test]
    fn targets_have_headers_and_bodies() {
        let body = tempfile::NamedTempFile::new().unwrap();
        fs::write(body.path(), b"\xffbody").unwrap();
        let text = format!(
            "# targets\nGET http://a:80/b?c=d#e\nGET https://a\n\nPOST /b\r\nA:  b\r\n# none\r\nC: d\r\n@{0}\r\n\
             PUT http://a?b=c\nA: b\nDELETE /\n\n\n\
             {{\"url\": \"http://a/b\", \"method\": \"PUT\", \"body\": \"/2I=\", \
             \"header\": {{\"A\": [\"b\", \"c\"]}}}}\n{{\"method\":\"GET\",\"url\":\"/\",\"body\":null}}",
            body.path().display()
        );
        let found = read(&text).unwrap();
        let origin = Some("http://a");
        let targets = [
            expected("GET /b?c=d", Some("http://a:80"), b"", &[]),
            expected("GET /", Some("https://a"), b"", &[]),
            expected("POST /b", None, b"\xffbody", &["A: b", "C: d"]),
            expected("PUT /?b=c", origin, b"", &["A: b"]),
            expected("DELETE /", None, b"", &[]),
            expected("PUT /b", origin, b"\xffb", &["A: b", "A: c"]),
            expected("GET /", None, b"", &[]),
        ];
        assert_eq!(found, targets);
    }

    #[test]
    fn targets_share_the_body_of_a_file() {
        let body = tempfile::NamedTempFile::new().unwrap();
        fs::write(body.path(), b"body").unwrap();
        let path = body.path().display();
        let targets = read(&format!("POST /a\n@{path}\n\nPOST /b\n@{path}\n")).unwrap();
        assert!(Arc::ptr_eq(&targets[0].body, &targets[1].body));
    }

    #[test]
    fn wrong_targets_are_refused() {
        let long = format!("GET /\n{}", "a: b\n".repeat(LINE_BYTES_MAX / 4));
        for (text, reason) in [
            ("GET", "METHOD URL"),
            ("GET a/b", "METHOD URL"),
            ("GET http:///b", "no host"),
            ("GET http://a:b@c/", "Authorization"),
            ("GET /\nA", "`A`: a header is"),
            ("GET /\nContent-Length: 5", "writes `Content-Length` itself"),
            ("POST /\n@no/such", "cannot read no/such"),
            ("{", "EOF"),
            (r#"{"method":"GET"}"#, "missing field `url`"),
            (r#"{"method":"GET","url":"/","body":"?"}"#, "not base64"),
            (r#"{"method":"GET","url":"/","header":{"A":["\r\n"]}}"#, "a header is"),
            (&long, "a target of more than 1048576 bytes"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(reason), "{text:.60}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, near in "[GET/ :@#{}\n\"é]{0,60}", url in "http[:/@?#a]{0,10}") {
            let _ = all(&mut VegetaParser, &bytes);
            let _ = read(&near);
            let _ = read(&format!("GET {url}"));
            let _ = read(&format!(r#"{{"method":"GET","url":"{url}","body":"{near}"}}"#));
        }
    }
}
