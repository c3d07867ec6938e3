//! Types by the prefix of a request's key.

use psp_protocols::memcached::{binary, is_binary, text};
use psp_protocols::resp::RespHead;
use psp_server::{Classifier, RequestType, TypeSpec, TypeTable};

use crate::registry::register;

/// Finds the type by the key's prefix: the longest registered prefix counts.
///
/// A function finds the key in a frame and its head: [`resp_key`], [`memcached_key`], or any other. A request
/// without a key, or with a key that has none of the prefixes, is `UNKNOWN`. The prefixes are compared one
/// after another, longest first.
///
/// ```
/// use psp_classifiers::prefix::{PrefixClassifier, resp_key};
/// use psp_server::protocols::Framing;
/// use psp_server::protocols::resp::Resp;
/// use psp_server::{Classifier, TypeSpec};
///
/// let classifier = PrefixClassifier::new(resp_key)
///     .prefix("session:", TypeSpec::new("session"))
///     .prefix("report:", TypeSpec::new("report"));
/// let report = classifier.types().by_name("report").unwrap();
/// let frame = b"GET report:7\r\n";
/// let head = Resp::default().head_of(frame).unwrap();
/// assert_eq!(classifier.classify(frame, &head), report);
/// ```
#[derive(Debug, Clone)]
pub struct PrefixClassifier<E> {
    key_of: E,
    types: TypeTable,
    /// The longest first.
    prefixes: Vec<(Box<[u8]>, RequestType)>,
}

impl<E> PrefixClassifier<E> {
    /// A classifier for the keys that `key_of` finds in frames. It has no prefixes yet.
    pub fn new<H>(key_of: E) -> Self
    where
        E: for<'a> Fn(&'a [u8], &H) -> Option<&'a [u8]>,
    {
        Self { key_of, types: TypeTable::new(), prefixes: Vec::new() }
    }

    /// Requests with keys that start with `prefix` are of the type `spec`. The empty prefix matches all
    /// keys.
    ///
    /// Several prefixes may name the same type, which takes the last hints. A prefix that is already
    /// registered moves to this type.
    #[must_use]
    pub fn prefix(mut self, prefix: impl AsRef<[u8]>, spec: TypeSpec) -> Self {
        let prefix = prefix.as_ref();
        let request_type = register(&mut self.types, spec);
        self.prefixes.retain(|(other, _)| **other != *prefix);
        let at = self.prefixes.partition_point(|(other, _)| other.len() > prefix.len());
        self.prefixes.insert(at, (prefix.into(), request_type));
        self
    }
}

impl<H, E> Classifier<H> for PrefixClassifier<E>
where
    E: for<'a> Fn(&'a [u8], &H) -> Option<&'a [u8]> + Send + Sync + 'static,
{
    #[inline]
    fn classify(&self, request: &[u8], head: &H) -> RequestType {
        let Some(key) = (self.key_of)(request, head) else {
            return RequestType::UNKNOWN;
        };
        let found = self.prefixes.iter().find(|(prefix, _)| key.starts_with(prefix));
        found.map_or(RequestType::UNKNOWN, |(_, request_type)| *request_type)
    }

    fn types(&self) -> TypeTable {
        self.types.clone()
    }
}

/// The first argument after the name of a RESP command; for most commands that is a key.
#[inline]
#[must_use]
pub fn resp_key<'a>(frame: &'a [u8], head: &RespHead) -> Option<&'a [u8]> {
    head.arg(frame, 1)
}

/// The first key of a memcached request in the text, meta or binary protocol. The key of a meta
/// command with the flag `b` is not decoded from base64.
#[inline]
#[must_use]
pub fn memcached_key<'a>(frame: &'a [u8], (): &()) -> Option<&'a [u8]> {
    if is_binary(frame) {
        let header = binary::Header::decode(frame)?;
        let start = binary::HEADER_LEN + usize::from(header.extras_len);
        let key = frame.get(start..start + usize::from(header.key_len))?;
        return Some(key).filter(|key| !key.is_empty());
    }
    let mut words = text::Words::new(frame);
    let at = match words.next()? {
        b"gat" | b"gats" => 1,
        b"stats" | b"verbosity" | b"flush_all" | b"lru_crawler" | b"shutdown" => return None,
        _ => 0,
    };
    let key = words.nth(at)?.trim_ascii_end();
    Some(key).filter(|key| !key.is_empty())
}

#[cfg(test)]
mod tests {
    use psp_protocols::Framing;
    use psp_protocols::resp::Resp;

    use super::*;

    fn name_of(classifier: &impl Classifier<RespHead>, frame: &[u8]) -> String {
        let head = Resp::default().head_of(frame).expect("a whole frame");
        let types = classifier.types();
        let slot = types.slot(classifier.classify(frame, &head));
        types.name_of_slot(slot).to_owned()
    }

    #[test]
    fn the_longest_prefix_counts() {
        let classifier = PrefixClassifier::new(resp_key)
            .prefix("user:", TypeSpec::new("user"))
            .prefix("user:cart:", TypeSpec::new("cart"))
            .prefix("u", TypeSpec::new("other"))
            .prefix("basket:", TypeSpec::new("cart"));
        for (line, name) in [
            ("GET user:1", "user"),
            ("GET user:cart:1", "cart"),
            ("GET basket:1", "cart"),
            ("GET unknown", "other"),
            ("GET x", "UNKNOWN"),
            ("PING", "UNKNOWN"),
        ] {
            let frame = format!("{line}\r\n");
            assert_eq!(name_of(&classifier, frame.as_bytes()), name, "{line}");
        }
        assert_eq!(classifier.types().len(), 3);
    }

    #[test]
    fn a_prefix_moves_and_the_empty_prefix_matches_all_keys() {
        let classifier = PrefixClassifier::new(resp_key)
            .prefix("a", TypeSpec::new("first"))
            .prefix("a", TypeSpec::new("second"))
            .prefix("", TypeSpec::new("rest"));
        assert_eq!(name_of(&classifier, b"GET a\r\n"), "second");
        assert_eq!(name_of(&classifier, b"GET b\r\n"), "rest");
        assert_eq!(name_of(&classifier, b"PING\r\n"), "UNKNOWN");
    }

    #[test]
    fn any_function_finds_keys() {
        let classifier =
            PrefixClassifier::new(|frame: &[u8], skip: &usize| frame.get(*skip..)).prefix([0xff], TypeSpec::new("a"));
        assert_eq!(classifier.classify(&[0, 0, 0xff, 1], &2), RequestType::new(0));
        assert_eq!(classifier.classify(&[0], &2), RequestType::UNKNOWN);
    }

    #[test]
    fn memcached_keys_are_found_behind_any_command() {
        for (frame, key) in [
            (&b"get k\r\n"[..], Some(&b"k"[..])),
            (b"get  a b \n", Some(b"a")),
            (b"gat 10 k\r\n", Some(b"k")),
            (b"set k 0 0 1\r\na\r\n", Some(b"k")),
            (b"mg Zm9v b\r\n", Some(b"Zm9v")),
            (b"get \r\n", None),
            (b"mn\r\n", None),
            (b"stats items\r\n", None),
            (b"", None),
        ] {
            assert_eq!(memcached_key(frame, &()), key, "{}", frame.escape_ascii());
        }
        let mut set = [&[0; 24][..], b"extraskey"].concat();
        (set[0], set[3], set[4]) = (0x80, 3, 6);
        assert_eq!(memcached_key(&set, &()), Some(&b"key"[..]));
        assert_eq!(memcached_key(&set[..30], &()), None);
    }
}
