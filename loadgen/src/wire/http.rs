//! HTTP/1.1.

use std::borrow::Cow;
use std::sync::Arc;

use psp_protocols::http::HttpSkipper;

use super::http_header::HttpHeader;
use super::own::{ReadReplies, Wire, WireRequest};
use super::template::{CommandTemplate, TemplateError};

/// Targets `http://`: commands are `METHOD TARGET [BODY [HEADER]...]`, as in `GET /page?n={n}`.
///
/// Headers of a command replace those of all requests that have the same names.
///
/// Statuses other than 2xx and 3xx are errors, named by their codes. `HEAD` and `CONNECT` are refused, because the
/// ends of their responses depend on the request.
#[derive(Debug)]
pub(super) struct HttpWire;

/// Gives `body` to a command `POST`, `PUT` or `PATCH` that has none. Commands share it.
pub fn give_body(template: &mut CommandTemplate, body: &Arc<[u8]>) {
    let has_none = template.arguments() == BODY || template.literal(BODY) == Some(b"");
    if has_none && template.literal(0).is_some_and(takes_body) {
        template.set_literal(BODY, body);
    }
}

/// Number of the argument that is the body. Those behind it are header lines.
const BODY: usize = 2;

fn takes_body(method: &[u8]) -> bool {
    matches!(method, b"POST" | b"PUT" | b"PATCH")
}

/// Whether a header line has this name.
fn is_named(line: &[u8], name: &str) -> bool {
    let (start, rest) = line.split_at(name.len().min(line.len()));
    start.eq_ignore_ascii_case(name.as_bytes()) && rest.starts_with(b":")
}

const USAGE: &str = "METHOD TARGET [BODY ['NAME: VALUE']...], as in GET /page, with any method but HEAD and CONNECT \
                     and a target that starts with / and has no blanks";

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
        let is_target =
            first.starts_with(b"/") && template.literals(1).all(|literal| literal.iter().all(u8::is_ascii_graphic));
        let is_header = |argument| {
            let line = template.literal(argument).map(str::from_utf8);
            line.is_some_and(|line| line.is_ok_and(|line| line.parse::<HttpHeader>().is_ok()))
        };
        let has_headers = (BODY + 1..template.arguments()).all(is_header);
        if is_method && !is_refused && is_target && has_headers {
            return Ok(());
        }
        Err(TemplateError::Shape { usage: USAGE.to_owned() })
    }

    fn is_http(&self) -> bool {
        true
    }

    fn write(&self, request: &WireRequest<'_>, out: &mut Vec<u8>) {
        let mut arguments = request.arguments.iter();
        let mut next = || arguments.next().unwrap_or_default();
        let (method, target, body) = (next(), next(), next());
        let own = || request.arguments.iter().skip(BODY + 1);
        let is_own = |name: &str| own().any(|line| is_named(line, name));
        let all = || request.headers.iter();
        for part in [method, b" ", target, b" HTTP/1.1"] {
            out.extend_from_slice(part);
        }
        let mut line = |name: &str, value: &str| {
            for part in ["\r\n", name, ": ", value] {
                out.extend_from_slice(part.as_bytes());
            }
        };
        if !is_own("host") && !all().any(|header| header.is("host")) {
            line("Host", request.authority);
        }
        for header in all().filter(|header| !is_own(&header.name)) {
            line(&header.name, &header.value);
        }
        if !body.is_empty() || takes_body(method) {
            line("Content-Length", itoa::Buffer::new().format(body.len()));
        }
        for line in own() {
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(line);
        }
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(body);
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
        HttpWire.check(&CommandTemplate::parse(&complete).unwrap()).is_ok()
    }

    #[test]
    fn commands_are_a_method_and_a_target() {
        for command in [
            "GET",
            "GET /",
            "GET /page?n={n}",
            "POST /a {value}",
            "DELETE /{key}",
            "GET /a '' 'Accept: b' 'C: d'",
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
            "GET /a b 'A: b' c",
            "GET /a b 'A: {{key}}'\"{key}\"",
            "GET /a b 'Content-Length: 1'",
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
            ("POST / '' 'A: b'", Some("given")),
            ("GET /", None),
        ] {
            let mut template = CommandTemplate::parse(command).unwrap();
            let given: Arc<[u8]> = b"given"[..].into();
            give_body(&mut template, &given);
            assert_eq!(template.literal(2), body.map(str::as_bytes), "{command}");
            let is_given = body == Some("given");
            assert_eq!(Arc::strong_count(&given), 1 + usize::from(is_given));
        }
    }

    fn written(words: &[&str], headers: &[HttpHeader]) -> Vec<u8> {
        let mut arguments = Arguments::default();
        words.iter().for_each(|word| arguments.push(word.as_bytes()));
        let mut frame = Vec::new();
        let request = WireRequest {
            arguments: &arguments,
            id: 1,
            authority: "host:8080",
            headers,
        };
        HttpWire.write(&request, &mut frame);
        frame
    }

    #[test]
    fn a_server_reads_what_was_written() {
        for (words, body, len) in [
            (&["GET", "/a?b=c"][..], "", None),
            (&["POST", "/a?b=c"], "", Some("0")),
            (&["POST", "/a?b=c", "body"], "body", Some("4")),
            (&["GET", "/a?b=c", "", "Accept: d"], "", None),
        ] {
            let frame = written(words, &[]);
            let head = Http::default().head_of(&frame).expect("one whole request");
            let request = HttpRequest::new(&frame, &head);
            assert_eq!((request.method_name(), request.target()), (words[0], words[1]));
            assert_eq!(request.header("host"), Some(&b"host:8080"[..]));
            assert_eq!(request.header("content-length"), len.map(str::as_bytes));
            assert_eq!(&*request.body(), body.as_bytes());
        }
    }

    #[test]
    fn headers_of_a_command_go_before_those_of_all() {
        let all = ["Accept: all", "Via: all"].map(|line| line.parse().unwrap());
        let own = ["GET", "/", "", "accept: own", "HOST: own", "accept: too"];
        let expected = "GET / HTTP/1.1\r\nVia: all\r\naccept: own\r\nHOST: own\r\naccept: too\r\n\r\n";
        assert_eq!(written(&own, &all), expected.as_bytes());
    }
}
