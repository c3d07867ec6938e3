//! HTTP/1.1.

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

/// Gives `body` to a command `POST`, `PUT` or `PATCH` that has none.
pub fn give_body(template: &mut CommandTemplate, body: &[u8]) {
    let takes_body = matches!(template.literal(0), Some(b"POST" | b"PUT" | b"PATCH"));
    if takes_body && template.arguments() == 2 {
        template.push_literal(body);
    }
}

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
        let target = target.trim_matches(['"', '\'']);
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

    fn is_http(&self) -> bool {
        true
    }

    fn write(&self, request: &WireRequest<'_>, out: &mut Vec<u8>) {
        let mut arguments = request.arguments.iter();
        let mut next = || arguments.next().unwrap_or_default();
        out.extend_from_slice(next());
        out.push(b' ');
        out.extend_from_slice(next());
        out.extend_from_slice(b" HTTP/1.1");
        let mut line = |name: &str, value: &str| {
            for part in ["\r\n", name, ": ", value] {
                out.extend_from_slice(part.as_bytes());
            }
        };
        if !request.headers.iter().any(|header| header.is("host")) {
            line("Host", request.authority);
        }
        for header in request.headers {
            line(&header.name, &header.value);
        }
        if let Some(body) = arguments.next() {
            let mut digits = itoa::Buffer::new();
            line("Content-Length", digits.format(body.len()));
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
        assert_eq!(HttpWire.type_name("POST '/a' '{}'"), "/a");
    }

    #[test]
    fn a_body_goes_to_commands_that_lack_one() {
        for (command, body) in [
            ("POST /", Some("given")),
            ("PUT /a", Some("given")),
            ("POST / own", Some("own")),
            ("GET /", None),
        ] {
            let mut template = CommandTemplate::parse(command).unwrap();
            give_body(&mut template, b"given");
            assert_eq!(template.literal(2), body.map(str::as_bytes), "{command}");
        }
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
                headers: &[],
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
