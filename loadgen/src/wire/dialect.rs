//! Commands that may be written without all of their arguments.

use std::borrow::Cow;

use super::target::Protocol;

/// Commands without arguments, and their usual forms. Any other command without arguments is sent
/// as it is.
type Bare = &'static [(&'static str, &'static str)];

const REDIS: Bare = &[
    ("GET", "GET {key}"),
    ("SET", "SET {key} {value}"),
    ("DEL", "DEL {key}"),
    ("EXISTS", "EXISTS {key}"),
    ("KEYS", "KEYS *"),
];

const MEMCACHED: Bare = &[
    ("GET", "GET {key}"),
    ("SET", "SET {key} {value}"),
    ("ADD", "ADD {key} {value}"),
    ("REPLACE", "REPLACE {key} {value}"),
    ("APPEND", "APPEND {key} {value}"),
    ("PREPEND", "PREPEND {key} {value}"),
    ("DELETE", "DELETE {key}"),
    ("INCR", "INCR {key} 1"),
    ("DECR", "DECR {key} 1"),
    ("TOUCH", "TOUCH {key} 0"),
    ("GAT", "GAT 0 {key}"),
];

/// Methods of a key-value store. Any other method without arguments gets a value.
const PROTOBUF: Bare = &[("GET", "GET {key}"), ("PUT", "PUT {key} {value}"), ("DELETE", "DELETE {key}")];

/// `text` with the usual arguments of its command, if it has none.
pub(crate) fn complete(protocol: Protocol, text: &str) -> Cow<'_, str> {
    let text = text.trim();
    let find = |table: Bare, is_text: fn(&str, &str) -> bool| {
        let found = table.iter().find(|(command, _)| is_text(command, text));
        found.map(|(_, full)| Cow::Borrowed(*full))
    };
    let bare = |table| find(table, str::eq_ignore_ascii_case);
    let full = match protocol {
        Protocol::Redis => bare(REDIS),
        Protocol::Memcached | Protocol::MemcachedMeta | Protocol::MemcachedUdp => bare(MEMCACHED).or_else(|| {
            let (command, count) = text.split_once(' ')?;
            let is_count = count.bytes().all(|byte| byte.is_ascii_digit());
            (command.eq_ignore_ascii_case("MGET") && is_count).then(|| Cow::Owned(format!("MGET {{keys:{count}}}")))
        }),
        Protocol::Protobuf => find(PROTOBUF, str::eq).or_else(|| {
            let is_bare = !text.is_empty() && !text.contains(char::is_whitespace);
            is_bare.then(|| Cow::Owned(format!("{text} {{value}}")))
        }),
        Protocol::Wire(wire) => Some(wire.complete(text)),
        Protocol::PspUdp => None,
    };
    full.unwrap_or(Cow::Borrowed(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_commands_get_their_arguments() {
        for (protocol, text, full) in [
            (Protocol::Redis, "keys", "KEYS *"),
            (Protocol::Redis, " INCR ", "INCR"),
            (Protocol::Memcached, "incr", "INCR {key} 1"),
            (Protocol::MemcachedMeta, "mget 7", "MGET {keys:7}"),
            (Protocol::MemcachedUdp, "GET", "GET {key}"),
            (Protocol::Memcached, "MGET a b", "MGET a b"),
            (Protocol::Memcached, "GET a", "GET a"),
            (Protocol::Protobuf, "GET", "GET {key}"),
            (Protocol::Protobuf, "PUT", "PUT {key} {value}"),
            (Protocol::Protobuf, "SCAN 100", "SCAN 100"),
            (Protocol::Protobuf, "Get", "Get {value}"),
            (Protocol::Protobuf, "Get {key}", "Get {key}"),
            (Protocol::Protobuf, "", ""),
        ] {
            assert_eq!(complete(protocol, text), full, "{protocol} {text}");
        }
    }
}
