//! Types of RPC requests, from the name of the method.

use hashbrown::HashMap;
use psp_protocols::rpc::RpcHead;
use psp_server::{Classifier, RequestType, TypeSpec, TypeTable};

use crate::registry::register;

/// Classifies [RPC requests](psp_protocols::rpc) by method.
///
/// The framing has found the method; the classifier looks it up. Names are case-sensitive.
/// Frames without a method, or with a method that is not registered, are `UNKNOWN`.
///
/// ```
/// use std::time::Duration;
/// use psp_classifiers::RpcClassifier;
/// use psp_protocols::Framing;
/// use psp_protocols::rpc::{Request, Rpc};
/// use psp_server::{Classifier, TypeSpec};
///
/// let classifier = RpcClassifier::new()
///     .group(TypeSpec::new("short").service_time(Duration::from_micros(1)), ["Get", "Put"])
///     .group(TypeSpec::new("scan").service_time(Duration::from_millis(1)), ["Scan"]);
///
/// let request = Request { method: "Scan".to_owned(), ..Request::default() };
/// let mut frame = Vec::new();
/// request.encode_frame(&mut frame);
/// let head = Rpc::default().head_of(&frame).unwrap();
/// assert_eq!(Some(classifier.classify(&frame, &head)), classifier.types().by_name("scan"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct RpcClassifier {
    types: TypeTable,
    methods: HashMap<Box<[u8]>, RequestType>,
}

impl RpcClassifier {
    /// A classifier without methods.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a type and puts `methods` into it.
    ///
    /// A type that is already registered under this name keeps its number and its methods, and takes the
    /// hints of `spec`. A method that is already registered moves to this type.
    #[must_use]
    pub fn group<I>(mut self, spec: TypeSpec, methods: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let request_type = register(&mut self.types, spec);
        for method in methods {
            let method = method.as_ref().as_bytes().into();
            self.methods.insert(method, request_type);
        }
        self
    }
}

impl Classifier<RpcHead> for RpcClassifier {
    #[inline]
    fn classify(&self, request: &[u8], head: &RpcHead) -> RequestType {
        let method = head.method(request).and_then(|method| self.methods.get(method));
        method.copied().unwrap_or(RequestType::UNKNOWN)
    }

    fn types(&self) -> TypeTable {
        self.types.clone()
    }
}

#[cfg(test)]
mod tests {
    use psp_protocols::Framing;
    use psp_protocols::rpc::{Request, Rpc};

    use super::*;

    fn framed(method: &str) -> Vec<u8> {
        let request = Request {
            id: 300,
            method: method.to_owned(),
            deadline_us: 9,
            payload: vec![b'x'; 300].into(),
        };
        let mut frame = Vec::new();
        request.encode_frame(&mut frame);
        frame
    }

    fn classified(classifier: &RpcClassifier, frame: &[u8]) -> RequestType {
        let head = Rpc::default().head_of(frame);
        classifier.classify(frame, &head.unwrap_or_default())
    }

    #[test]
    fn methods_are_found_by_their_exact_name() {
        let classifier = RpcClassifier::new()
            .group(TypeSpec::new("short"), ["Get", "Put"])
            .group(TypeSpec::new("long"), ["Scan", "Put"])
            .group(TypeSpec::new("short"), ["Ping"]);
        let types = classifier.types();
        assert_eq!(types.len(), 2);
        for (method, name) in [
            ("Get", Some("short")),
            ("Ping", Some("short")),
            ("Scan", Some("long")),
            ("Put", Some("long")),
            ("get", None),
            ("Ge", None),
            ("", None),
        ] {
            let expected = name.map_or(Some(RequestType::UNKNOWN), |name| types.by_name(name));
            let found = classified(&classifier, &framed(method));
            assert_eq!(Some(found), expected, "{method}");
        }
    }

    #[test]
    fn malformed_requests_are_unknown() {
        let classifier = RpcClassifier::new().group(TypeSpec::new("short"), ["Get"]);
        let frame = framed("Get");
        for request in [&b""[..], b"\0", b"\x80", b"\x02\x12\x03", &frame[..frame.len() - 1]] {
            assert_eq!(classified(&classifier, request), RequestType::UNKNOWN);
        }
    }
}
