//! HTTP/1.1 over connections that stay open.

use std::borrow::Cow;

use psp_protocols::http::HttpSkipper;

use super::own::{ReadReplies, Wire, WireRequest};
use super::template::{CommandTemplate, TemplateError};

/// Targets `http://`: commands are `METHOD TARGET [BODY]`, as in `GET /page?n={n}`.
///
/// Statuses other than 2xx and 3xx are errors, named by their codes. `HEAD` and `CONNECT` are refused, because the
/// ends of their responses depend on the request.
#[derive(Debug)]
pub(super) struct HttpWire;

const USAGE: &str = "METHOD TARGET [BODY], as in GET /page, with any method but HEAD and CONNECT and a target \
                     that starts with / and has no blanks";

impl Wire for HttpWire {
    fn scheme(&self) -> &'static str {
        "http"
    }

    fn port_default(&self) -> Option<u16> {
        Some(80)
    }

    fn complete<'a>(&self, command: &'a str) -> Cow<'a, str> {
        if command.is_empty() || command.contains(char::is_whitespace) {
            return Cow::Borrowed(command);
        }
        Cow::Owned(format!("{command} /"))
    }

    /// The path.
    fn type_name(&self, command: &str) -> String {
        let target = command.split_whitespace().nth(1).unwrap_or("/");
        let target = target.trim_matches('"');
        target.split('?').next().unwrap_or_default().to_owned()
    }

    fn check(&self, template: &CommandTemplate) -> Result<(), TemplateError> {
        let method = template.literal(0).unwrap_or_default();
        let is_method = !method.is_empty() && method.iter().all(u8::is_ascii_uppercase);
        let is_refused = matches!(method, b"HEAD" | b"CONNECT");
        let first = template.literals(1).next().unwrap_or_default();
        let is_target = first.starts_with(b"/")
            && template
                .literals(1)
                .all(|literal| literal.iter().all(u8::is_ascii_graphic));
        if is_method && !is_refused && is_target && (2..=3).contains(&template.arguments()) {
            return Ok(());
        }
        Err(TemplateError::Shape {
            usage: USAGE.to_owned(),
        })
    }

    fn write(&self, request: &WireRequest<'_>, out: &mut Vec<u8>) {
        let mut arguments = request.arguments.iter();
        let mut next = || arguments.next().unwrap_or_default();
        out.extend_from_slice(next());
        out.push(b' ');
        out.extend_from_slice(next());
        out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        out.extend_from_slice(request.authority.as_bytes());
        if let Some(body) = arguments.next() {
            let mut digits = itoa::Buffer::new();
            out.extend_from_slice(b"\r\nContent-Length: ");
            out.extend_from_slice(digits.format(body.len()).as_bytes());
            out.extend_from_slice(b"\r\n\r\n");
            out.extend_from_slice(body);
        } else {
            out.extend_from_slice(b"\r\n\r\n");
        }
    }

    fn replies(&self) -> Box<dyn ReadReplies> {
        Box::<HttpSkipper>::default()
    }

    fn probe(&self) -> Option<&'static [u8]> {
        Some(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    }
}

#[cfg(test)]
mod tests {
    use psp_protocols::Framing;
    use psp_protocols::http::{Http, HttpRequest};

    use super::*;
    use crate::wire::Arguments;

    fn check(command: &str) -> bool {
        let complete = HttpWire.complete(command);
        HttpWire
            .check(&CommandTemplate::parse(&complete).unwrap())
            .is_ok()
    }

    #[test]
    fn commands_are_a_method_and_a_target() {
        for command in [
            "GET",
            "GET /",
            "GET /page?n={n}",
            "POST /a {value}",
            "DELETE /{key}",
        ] {
            assert!(check(command), "{command}");
        }
        for command in [
            "get /",
            "HEAD /",
            "CONNECT /",
            "GET page",
            "GET {key}",
            "GET /a b c",
            "GET \"/a b\"",
            "{key} /",
            "/",
        ] {
            assert!(!check(command), "{command}");
        }
        assert_eq!(HttpWire.type_name("GET /slow?ms=20"), "/slow");
        assert_eq!(HttpWire.type_name("GET"), "/");
        assert_eq!(HttpWire.type_name("GET \"/a,b\""), "/a,b");
    }

    #[test]
    fn a_server_reads_what_was_written() {
        for (words, body) in [
            (&["GET", "/a?b=c"][..], ""),
            (&["POST", "/a?b=c", "body"], "body"),
        ] {
            let mut arguments = Arguments::default();
            words
                .iter()
                .for_each(|word| arguments.push(word.as_bytes()));
            let mut frame = Vec::new();
            let request = WireRequest {
                arguments: &arguments,
                id: 1,
                authority: "host:8080",
            };
            HttpWire.write(&request, &mut frame);
            let head = Http::default().head_of(&frame).expect("one whole request");
            let request = HttpRequest::new(&frame, &head);
            assert_eq!(
                (request.method_name(), request.target()),
                (words[0], words[1])
            );
            assert_eq!(request.header("host"), Some(&b"host:8080"[..]));
            assert_eq!(&*request.body(), body.as_bytes());
        }
    }
}
