//! Types of HTTP requests, from method and path.

use psp_protocols::http::{HttpHead, HttpRequest};
use psp_server::policy::admission::PRIORITY_DEFAULT;
use psp_server::{Classifier, RequestType, TypeSpec, TypeTable};

use crate::registry::register;

/// Classifies [HTTP requests](psp_protocols::http) by method and path. The first route that matches counts; a
/// request without one is `UNKNOWN`.
///
/// Routes are compared one after another. The path is compared as the client wrote it, without the query and
/// with its percent-encoding: `/%66ast` is not `/fast`.
///
/// ```
/// use psp_classifiers::HttpClassifier;
/// use psp_protocols::Framing;
/// use psp_protocols::http::Http;
/// use psp_server::{Classifier, TypeSpec};
///
/// let classifier = HttpClassifier::new()
///     .route(TypeSpec::new("upload"), "PUT", "*")
///     .route(TypeSpec::new("report"), "*", "/reports/*")
///     .route(TypeSpec::new("page"), "GET", "/");
/// let frame = b"GET /reports/7?year=2024 HTTP/1.1\r\nHost: a\r\n\r\n";
/// let head = Http::default().head_of(frame).unwrap();
/// let report = classifier.types().by_name("report").unwrap();
/// assert_eq!(classifier.classify(frame, &head), report);
/// ```
#[derive(Debug, Clone, Default)]
pub struct HttpClassifier {
    types: TypeTable,
    routes: Vec<Route>,
}

#[derive(Debug, Clone)]
struct Route {
    /// The name; any method if `None`.
    method: Option<Box<[u8]>>,
    path: PathPattern,
    request_type: RequestType,
}

#[derive(Debug, Clone)]
enum PathPattern {
    Exactly(Box<[u8]>),
    StartsWith(Box<[u8]>),
}

impl HttpClassifier {
    /// A classifier without routes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests with this method and path are of the type `spec`, unless an earlier route matches.
    ///
    /// The method `*` is any method. Names of methods are case-sensitive. A path that ends with `*` matches all
    /// paths that start with what is before the `*`. Several routes may name the same type, which takes the
    /// last hints.
    #[must_use]
    pub fn route(mut self, spec: TypeSpec, method: &str, path: &str) -> Self {
        let request_type = register(&mut self.types, spec);
        self.routes.push(Route {
            method: (method != "*").then(|| method.as_bytes().into()),
            path: match path.strip_suffix('*') {
                Some(start) => PathPattern::StartsWith(start.as_bytes().into()),
                None => PathPattern::Exactly(path.as_bytes().into()),
            },
            request_type,
        });
        self
    }
}

impl Route {
    #[inline]
    fn matches(&self, method: &[u8], path: &[u8]) -> bool {
        let path_matches = match &self.path {
            PathPattern::Exactly(whole) => path == &**whole,
            PathPattern::StartsWith(start) => path.starts_with(start),
        };
        path_matches && self.method.as_deref().is_none_or(|name| name == method)
    }
}

impl Classifier<HttpHead> for HttpClassifier {
    #[inline]
    fn classify(&self, request: &[u8], head: &HttpHead) -> RequestType {
        let (method, path) = (head.method_name(request), head.path(request));
        self.routes
            .iter()
            .find(|route| route.matches(method, path))
            .map_or(RequestType::UNKNOWN, |route| route.request_type)
    }

    /// The urgency of the field `Priority` (RFC 9218): the `u=0` to `u=7` that comes first.
    fn priority(&self, request: &[u8], head: &HttpHead) -> u8 {
        let field = HttpRequest::new(request, head).header("priority");
        let parts = field.unwrap_or_default().split(|byte| *byte == b',');
        let urgency = |part: &[u8]| match part.trim_ascii() {
            [b'u', b'=', digit @ b'0'..=b'7'] => Some(digit - b'0'),
            _ => None,
        };
        { parts }.find_map(urgency).unwrap_or(PRIORITY_DEFAULT)
    }

    fn types(&self) -> TypeTable {
        self.types.clone()
    }
}

#[cfg(test)]
mod tests {
    use psp_protocols::Framing;
    use psp_protocols::http::Http;

    use super::*;

    fn name_of(classifier: &HttpClassifier, line: &str) -> String {
        let frame = format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = Http::default().head_of(frame.as_bytes());
        let head = head.expect("a whole request");
        let types = classifier.types();
        let slot = types.slot(classifier.classify(frame.as_bytes(), &head));
        types.name_of_slot(slot).to_owned()
    }

    #[test]
    fn urgency_is_that_of_rfc_9218() {
        let classifier = HttpClassifier::new();
        for (field, urgency) in [
            ("A: u=1", 3),
            ("Priority: u=1", 1),
            ("priority: i, u=7", 7),
            ("Priority: u=0,i", 0),
            ("Priority: i", 3),
            ("Priority: u=8", 3),
            ("Priority: u=11", 3),
        ] {
            let frame = format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n");
            let head = Http::default().head_of(frame.as_bytes()).expect("a whole request");
            assert_eq!(classifier.priority(frame.as_bytes(), &head), urgency, "{field}");
        }
    }

    #[test]
    fn the_first_route_that_matches_counts() {
        let classifier = HttpClassifier::new()
            .route(TypeSpec::new("fast"), "GET", "/fast")
            .route(TypeSpec::new("slow"), "GET", "/fa*")
            .route(TypeSpec::new("brew"), "BREW", "*")
            .route(TypeSpec::new("slow"), "*", "/slow/*");
        for (line, name) in [
            ("GET /fast", "fast"),
            ("GET /fast?q=/slow/", "fast"),
            ("GET http://host/fast", "fast"),
            ("GET /fas", "slow"),
            ("GET /fast/", "slow"),
            ("POST /fast", "UNKNOWN"),
            ("get /fast", "UNKNOWN"),
            ("BREW /fast", "brew"),
            ("BREW /slow/", "brew"),
            ("PUT /slow/a", "slow"),
            ("PUT /slow", "UNKNOWN"),
            ("GET /%66ast", "UNKNOWN"),
        ] {
            assert_eq!(name_of(&classifier, line), name, "{line}");
        }
        assert_eq!(classifier.types().len(), 3);
    }

    #[test]
    fn a_frame_with_the_head_of_another_is_unknown_or_of_any_type() {
        let classifier = HttpClassifier::new().route(TypeSpec::new("a"), "GET", "/a");
        let frame = b"GET /a HTTP/1.0\r\n\r\n";
        let head = Http::default().head_of(frame).unwrap();
        assert_eq!(classifier.classify(b"", &head), RequestType::UNKNOWN);
        assert_eq!(classifier.classify(b"PUT /a", &head), RequestType::UNKNOWN);
    }
}
