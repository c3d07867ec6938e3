//! Path and query of a request target (RFC 9112, 3.2).

use std::ops::Range;

use super::method::Method;

/// Path and query within `target`; `None` if no request with this method has such a target.
///
/// The path is empty in an absolute target without one, and the target itself in `*` and in the
/// authority of `CONNECT`.
pub(super) fn split(method: Method, target: &str) -> Option<(Range<usize>, Range<usize>)> {
    let path_start = if target.starts_with('/') {
        0
    } else if method == Method::Connect {
        return Some((0..target.len(), target.len()..target.len()));
    } else if target == "*" {
        return (method == Method::Options).then_some((0..1, 1..1));
    } else {
        let authority = scheme_end(target)?;
        let len = target[authority..].find(['/', '?']);
        len.map_or(target.len(), |len| authority + len)
    };
    let path_end = target[path_start..].find('?').map_or(target.len(), |len| path_start + len);
    let query_start = target.len().min(path_end + 1);
    Some((path_start..path_end, query_start..target.len()))
}

/// Where the authority of an absolute target begins.
fn scheme_end(target: &str) -> Option<usize> {
    ["http://", "https://"].into_iter().find_map(|scheme| {
        let start = target.get(..scheme.len())?;
        let has_authority = target.len() > scheme.len();
        (start.eq_ignore_ascii_case(scheme) && has_authority).then_some(scheme.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_four_forms() {
        for (method, target, expected) in [
            (Method::Get, "/", Some(("/", ""))),
            (Method::Get, "/a/b?c=d?e", Some(("/a/b", "c=d?e"))),
            (Method::Get, "/a?", Some(("/a", ""))),
            (Method::Get, "http://host/a?b", Some(("/a", "b"))),
            (Method::Get, "HTTPS://host", Some(("", ""))),
            (Method::Get, "http://host?b", Some(("", "b"))),
            (Method::Options, "*", Some(("*", ""))),
            (Method::Connect, "host:443", Some(("host:443", ""))),
            (Method::Get, "*", None),
            (Method::Get, "host:443", None),
            (Method::Get, "ftp://host/a", None),
            (Method::Get, "http://", None),
        ] {
            let found = split(method, target).map(|(path, query)| (&target[path], &target[query]));
            assert_eq!(found, expected, "{target}");
        }
    }
}
