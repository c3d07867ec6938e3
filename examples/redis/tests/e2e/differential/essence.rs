//! What of a reply has to be the same.

use crate::common::Reply;

/// Commands whose replies have no order.
const UNORDERED: &[&str] = &[
    "CONFIG", "HGETALL", "HKEYS", "HVALS", "KEYS", "SDIFF", "SINTER", "SMEMBERS", "SPOP", "SUNION",
];
/// Commands whose replies are random. Only how much they return is compared.
const RANDOM: &[&str] = &["HRANDFIELD", "RANDOMKEY", "SRANDMEMBER", "ZRANDMEMBER"];
/// Commands whose replies are a cursor, and items without an order.
const SCANS: &[&str] = &["HSCAN", "SCAN", "SSCAN", "ZSCAN"];
/// Commands whose replies have pairs.
const PAIRS: &[&str] = &["CONFIG", "HGETALL", "HSCAN", "ZSCAN"];
/// Commands whose replies depend on the clock or the connection. Only their kind is compared.
const BY_CLOCK: &[&str] = &["EXPIRETIME", "HELLO", "PEXPIRETIME", "PTTL", "TTL"];

/// Names of what XINFO says that depends on the clock, or on how Redis holds a stream.
const INFO_OF_NOW: &[&str] = &["idle", "seen-time", "radix-tree-nodes"];
/// Names that XINFO has since Redis 7.2.
const INFO_OF_LATER: &[&str] = &["active-time", "inactive"];
/// Numbers above are times in milliseconds since the Unix epoch.
const TIMES_MIN: i64 = 1_000_000_000_000;

/// The reply of a command on streams without what depends on the clock.
fn without_times(name: &str, reply: Reply) -> Reply {
    match reply {
        Reply::Integer(number) if number >= TIMES_MIN => Reply::Integer(TIMES_MIN),
        // How long an entry has been pending.
        Reply::Array(mut items) => {
            if name == "XPENDING" && matches!(items[..], [_, _, Reply::Integer(_), Reply::Integer(_)]) {
                items.remove(2);
            }
            let (mut kept, mut items) = (Vec::new(), items.into_iter());
            while let Some(item) = items.next() {
                let [is_of_now, is_of_later] = [INFO_OF_NOW, INFO_OF_LATER].map(|names| is_one_of(names, &item));
                let value = if is_of_now || is_of_later { items.next() } else { None };
                if !is_of_later {
                    kept.push(without_times(name, item));
                    kept.extend(value.map(|_| Reply::Nil));
                }
            }
            Reply::Array(kept)
        }
        Reply::Map(pairs) => {
            let pairs = pairs
                .into_iter()
                .filter(|(key, _)| ![INFO_OF_NOW, INFO_OF_LATER].iter().any(|names| is_one_of(names, key)));
            Reply::Map(pairs.map(|(key, value)| (key, without_times(name, value))).collect())
        }
        other => other,
    }
}

fn is_one_of(names: &[&str], name: &Reply) -> bool {
    names.iter().any(|known| *name == Reply::Bulk(known.as_bytes().to_vec()))
}

/// What of a reply has to be the same.
pub(super) fn essence(words: &[String], reply: Reply) -> String {
    let name = words[0].as_str();
    let reply = match name {
        "XPENDING" | "XINFO" => without_times(name, reply),
        _ => reply,
    };
    match reply {
        Reply::Integer(number) if BY_CLOCK.contains(&name) => number.signum().to_string(),
        Reply::Map(_) | Reply::Array(_) if BY_CLOCK.contains(&name) => String::new(),
        Reply::Bulk(_) if RANDOM.contains(&name) => "some".to_owned(),
        Reply::Array(items) if RANDOM.contains(&name) => format!("{} items", items.len()),
        Reply::Array(mut parts) if SCANS.contains(&name) && parts.len() == 2 => {
            let items = parts.pop().map(Reply::into_items).unwrap_or_default();
            format!("{}: {}", parts[0], sorted(name, &items))
        }
        Reply::Array(items) | Reply::Set(items)
            if UNORDERED.contains(&name) || words.iter().any(|word| word == "nosort") =>
        {
            sorted(name, &items)
        }
        Reply::Map(pairs) => {
            let mut pairs: Vec<_> = pairs.iter().map(|(key, value)| format!("{key} {value}")).collect();
            pairs.sort();
            pairs.join(" ")
        }
        // Redis keeps a sum of INCRBYFLOAT as text, and SORT unpacks a sorted set.
        Reply::Bulk(encoding) if name == "OBJECT" => {
            let encoding = String::from_utf8_lossy(&encoding);
            let encoding = encoding.replace("embstr", "int");
            encoding.replace("skiplist", "listpack")
        }
        // The sign of a zero depends on how Redis holds the set.
        other => other.to_string().replace("\"-0\"", "\"0\"").replace(",-0", ",0"),
    }
}

/// The items, or pairs of them, in an order of their own.
fn sorted(name: &str, items: &[Reply]) -> String {
    let len = if PAIRS.contains(&name) { 2 } else { 1 };
    let mut items: Vec<_> = items
        .chunks(len)
        .map(|item| item.iter().map(Reply::to_string).collect::<Vec<_>>().join(" "))
        .collect();
    items.sort();
    items.join(", ")
}
