//! Methods of psp's RPC whose payloads are messages; see `psp_kv.proto` of psp-protocols.

use super::arguments::Arguments;
use super::expected::{Expected, Lookup};
use super::template::{CommandTemplate, TemplateError};
use prost::Message;
use psp_protocols::kv::{self, DeleteRequest, GetRequest, PutRequest, ScanRequest};
use psp_protocols::rpc::RequestRef;

/// The word after a scan's count that asks for its entries.
const PAIRS: &[u8] = b"pairs";

/// How a method makes its payload from its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// `GET KEY`
    Get,
    /// `SCAN [START] COUNT [pairs]`
    Scan {
        /// Most entries.
        count: u32,
        /// Whether the first argument is a start.
        has_start: bool,
        /// Whether the entries are sent.
        pairs: bool,
    },
    /// `PUT KEY VALUE`
    Put,
    /// `DELETE KEY`
    Delete,
    /// `METHOD [PAYLOAD]`: any other.
    Other,
}

impl Method {
    /// The method of `template`, whose first word is the method's name.
    ///
    /// # Errors
    /// [`TemplateError::Shape`] when the arguments are not those of the method.
    pub(super) fn of(template: &CommandTemplate) -> Result<Self, TemplateError> {
        let name = template.literal(0).map(String::from_utf8_lossy);
        let arguments = template.arguments() - 1;
        let (usage, method) = match name.as_deref() {
            Some(kv::GET) => ("GET KEY", (arguments == 1).then_some(Self::Get)),
            Some(kv::PUT) => ("PUT KEY VALUE", (arguments == 2).then_some(Self::Put)),
            Some(kv::DELETE) => ("DELETE KEY", (arguments == 1).then_some(Self::Delete)),
            Some(kv::SCAN) => ("SCAN [START] COUNT [pairs]", scan(template, arguments)),
            name => {
                let is_known = name.is_some() && arguments <= 1;
                ("METHOD [PAYLOAD]", is_known.then_some(Self::Other))
            }
        };
        method.ok_or_else(|| TemplateError::Shape { usage: usage.to_owned() })
    }

    /// Appends a request with these arguments, the name of the method first.
    pub(super) fn write(self, arguments: &Arguments, id: u64, deadline_us: u64, out: &mut Vec<u8>) -> Expected {
        let mut arguments = arguments.iter();
        let mut next = || arguments.next().unwrap_or_default();
        let method = next();
        let mut frame = |payload: &[u8]| {
            let request = RequestRef {
                id,
                method: str::from_utf8(method).unwrap_or_default(),
                deadline_us,
                payload,
            };
            request.encode_frame(out);
        };
        let lookup = match self {
            Self::Get => {
                let key = next().to_vec();
                frame(&GetRequest { key }.encode_to_vec());
                Lookup::keys(1)
            }
            Self::Scan { count, has_start, pairs } => {
                let request = ScanRequest {
                    start: if has_start { next() } else { &[] }.to_vec(),
                    count,
                    summary: !pairs,
                };
                frame(&request.encode_to_vec());
                Lookup::None
            }
            Self::Put => {
                let (key, value) = (next().to_vec(), next().to_vec());
                frame(&PutRequest { key, value }.encode_to_vec());
                Lookup::None
            }
            Self::Delete => {
                let key = next().to_vec();
                frame(&DeleteRequest { key }.encode_to_vec());
                Lookup::None
            }
            Self::Other => {
                frame(next());
                Lookup::Reply
            }
        };
        Expected::one(lookup)
    }
}

fn scan(template: &CommandTemplate, arguments: usize) -> Option<Method> {
    let has_start = arguments > 1;
    let pairs = arguments > 2;
    let count = template.literal(1 + usize::from(has_start))?;
    let count: u32 = str::from_utf8(count).ok()?.parse().ok()?;
    let is_shape = arguments <= 3 && (!pairs || template.literal(3) == Some(PAIRS));
    (is_shape && count > 0).then_some(Method::Scan { count, has_start, pairs })
}

#[cfg(test)]
mod tests {
    use psp_protocols::rpc::Request;

    use super::*;

    fn method(text: &str) -> Result<Method, String> {
        let template = CommandTemplate::parse(text).unwrap();
        Method::of(&template).map_err(|error| error.to_string())
    }

    /// The request for the words of `text`, and its expected replies.
    fn written(text: &str) -> (Request, Expected) {
        let mut arguments = Arguments::default();
        for word in text.split(' ') {
            arguments.push(word.as_bytes());
        }
        let mut frame = Vec::new();
        let expected = method(text).unwrap().write(&arguments, 7, 9, &mut frame);
        (Request::from_frame(&frame).unwrap(), expected)
    }

    #[test]
    fn payloads_are_messages_of_their_methods() {
        let key = || b"k".to_vec();
        let scan = |start: &[u8], summary| ScanRequest { start: start.to_vec(), count: 50, summary };
        let put = PutRequest { key: key(), value: b"v".to_vec() };
        for (text, payload, lookup) in [
            ("GET k", GetRequest { key: key() }.encode_to_vec(), Lookup::keys(1)),
            ("SCAN 50", scan(b"", true).encode_to_vec(), Lookup::None),
            ("SCAN k 50", scan(b"k", true).encode_to_vec(), Lookup::None),
            ("SCAN k 50 pairs", scan(b"k", false).encode_to_vec(), Lookup::None),
            ("PUT k v", put.encode_to_vec(), Lookup::None),
            ("DELETE k", DeleteRequest { key: key() }.encode_to_vec(), Lookup::None),
            ("Get k", b"k".to_vec(), Lookup::Reply),
            ("Ping", Vec::new(), Lookup::Reply),
        ] {
            let request = Request {
                id: 7,
                method: text.split(' ').next().unwrap().to_owned(),
                deadline_us: 9,
                payload: payload.into(),
            };
            assert_eq!(written(text), (request, Expected::one(lookup)), "{text}");
        }
    }

    #[test]
    fn arguments_that_are_not_those_of_the_method_are_refused() {
        for (text, usage) in [
            ("GET", "GET KEY"),
            ("GET a b", "GET KEY"),
            ("PUT {key}", "PUT KEY VALUE"),
            ("DELETE a b", "DELETE KEY"),
            ("SCAN", "SCAN [START] COUNT [pairs]"),
            ("SCAN {key}", "SCAN [START] COUNT [pairs]"),
            ("SCAN 0", "SCAN [START] COUNT [pairs]"),
            ("SCAN a 5 entries", "SCAN [START] COUNT [pairs]"),
            ("SCAN a 5 pairs x", "SCAN [START] COUNT [pairs]"),
            ("Get a b", "METHOD [PAYLOAD]"),
            ("{key}", "METHOD [PAYLOAD]"),
        ] {
            let error = method(text).unwrap_err();
            assert_eq!(error, format!("the target takes {usage}"), "{text}");
        }
    }
}
