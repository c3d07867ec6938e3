//! `lru_crawler metadump`: one line per item.

use std::fmt::Write as _;

use psp_protocols::Sink;
use psp_protocols::memcached::text::{Status, status};

use crate::cache::{Cache, Item};
use crate::clock::Moment;

/// The number of the only class; it contains all items.
pub const CLASS: u32 = 1;

/// Writes a line for each live item if `classes` names the items' class. The dump is not a snapshot:
/// items that change meanwhile may be missing.
pub fn metadump(cache: &Cache, classes: &[u8], out: &mut dyn Sink) {
    let is_class = |word: &[u8]| matches!(word, b"all" | b"hash") || word == b"1";
    if !classes.split(|byte| *byte == b',').all(is_class) {
        return out.put(b"BADCLASS invalid class id\r\n");
    }
    let mut line = String::new();
    let now = Moment::now();
    cache.for_each(|item| put_item(item, now, &mut line, out));
    status(out, Status::End);
}

fn put_item(item: &Item, now: Moment, line: &mut String, out: &mut dyn Sink) {
    line.clear();
    line.push_str("key=");
    for &byte in item.key() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            line.push(char::from(byte));
        } else {
            push_fmt(line, format_args!("%{byte:02X}"));
        }
    }
    match item.content.expire_at_ms {
        None => line.push_str(" exp=-1"),
        Some(expire_at_ms) => push_fmt(line, format_args!(" exp={}", now.unix_s(expire_at_ms))),
    }
    push_fmt(
        line,
        format_args!(
            " la={} cas={} fetch={} cls={CLASS} size={}\n",
            now.unix_s(u64::from(item.used_s()) * 1000),
            item.content.cas,
            yes_or_no(item.is_fetched()),
            item.memory_bytes()
        ),
    );
    out.put(line.as_bytes());
}

/// A boolean in memcached's words.
#[must_use]
pub fn yes_or_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

fn push_fmt(line: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    let _ok = line.write_fmt(text);
}
