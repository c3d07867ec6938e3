//! `lru_crawler metadump` and `stats cachedump`: one line per item.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use psp_protocols::Sink;
use psp_protocols::memcached::text::{Status, Words, client_error, status};

use crate::cache::{Cache, Item, Mark};
use crate::clock::Moment;

/// The number of the only class; it contains all items.
pub const CLASS: u32 = 1;

/// The highest number that a class of memcached can have.
const CLASS_MAX: u32 = 63;

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
        Some(expire_at_ms) => push_fmt(line, format_args!(" exp={}", now.unix_s(expire_at_ms.get()))),
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

/// Most bytes of a reply to `stats cachedump`, as in memcached.
const CACHEDUMP_LEN_MAX: usize = 2 << 20;

/// `stats cachedump <class> <items>`: writes a line for each of some items, 0 for as many as a reply may have. Keys
/// that are no words are left out.
pub fn cachedump(cache: &Cache, mut args: Words<'_>, out: &mut dyn Sink) {
    let (Some(class), Some(items_max)) = (args.next(), args.next()) else {
        return client_error(out, "bad command line");
    };
    let number = |word| str::from_utf8(word).ok()?.parse::<u32>().ok();
    let (Some(class), Some(items_max)) = (number(class), number(items_max)) else {
        return client_error(out, "bad command line format");
    };
    if class > CLASS_MAX {
        return client_error(out, "Illegal slab id");
    }
    if class == CLASS {
        write_items(cache, items_max, out);
    }
    status(out, Status::End);
}

fn write_items(cache: &Cache, items_max: u32, out: &mut dyn Sink) {
    let now = Moment::now();
    let (mut items, mut len) = (0, 0);
    let mut line = String::new();
    cache.walk(|item| {
        let Ok(key) = str::from_utf8(item.key()) else {
            return ControlFlow::Continue(());
        };
        if item.content.has(Mark::BinaryKey) || key.contains(|c: char| c.is_ascii_whitespace()) {
            return ControlFlow::Continue(());
        }
        let value_len = item.content.value.len();
        let expire_at_ms = item.content.expire_at_ms;
        let unix_s = expire_at_ms.map_or(0, |expire_at_ms| now.unix_s(expire_at_ms.get()));
        line.clear();
        push_fmt(&mut line, format_args!("ITEM {key} [{value_len} b; {unix_s} s]\r\n"));
        len += line.len();
        if len > CACHEDUMP_LEN_MAX {
            return ControlFlow::Break(());
        }
        out.put(line.as_bytes());
        items += 1;
        if items == items_max {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
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
