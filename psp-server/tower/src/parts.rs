//! What a classifier looks at.

use http::{Extensions, HeaderMap, Method, Request, Uri};

/// A request without its body.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Parts<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Its path and query.
    pub uri: &'a Uri,
    /// Its headers, or a call's metadata.
    pub headers: &'a HeaderMap,
    /// What layers outside of this one have left there.
    pub extensions: &'a Extensions,
}

impl<'a> Parts<'a> {
    /// Those of a request.
    pub fn of<B>(request: &'a Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }

    /// The first value of an argument behind the `?`, as it stands there: nothing is decoded.
    #[must_use]
    pub fn argument(&self, name: &str) -> Option<&'a str> {
        let arguments = self.uri.query()?.split('&');
        let mut arguments = arguments.filter_map(|it| it.split_once('='));
        Some(arguments.find(|(it, _)| *it == name)?.1)
    }

    /// An argument that is a number. A number that is too large for its type counts as the largest.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        let text = self.argument(name)?;
        let is_number = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    }
}

/// The decade of a number, as a class of requests whose cost grows with it: 0 below 10, 1 below 100, 2 below 1000, and
/// so on.
#[must_use]
pub fn decade(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(uri: &'static str) -> Option<u64> {
        Parts::of(&Request::get(uri).body(()).unwrap()).number("n")
    }

    #[test]
    fn arguments_are_found_by_their_whole_names() {
        assert_eq!(number("/query?m=3&n=17&n=4"), Some(17));
        assert_eq!(number("/query?nn=3&xn=4"), None);
        assert_eq!(number("/query"), None);
        assert_eq!(number("/n=3?"), None);
    }

    #[test]
    fn what_is_no_number_is_none_and_what_is_too_large_the_largest() {
        for uri in ["/?n=", "/?n=-1", "/?n=%31", "/?n=1e3", "/?n"] {
            assert_eq!(number(uri), None, "{uri}");
        }
        assert_eq!(number("/?n=99999999999999999999999"), Some(u64::MAX));
    }

    #[test]
    fn decades_begin_with_powers_of_ten() {
        let decades = [0, 9, 10, 99, 100, u64::MAX].map(decade);
        assert_eq!(decades, [0, 0, 1, 1, 2, 19]);
    }
}
