//! Arithmetic on numbers: increment and decrement.

use std::num::NonZeroU64;

use super::{Condition, Operations};
use crate::cache::{Change, Content, Item, Mark, OutOfMemory, Value};
use crate::counters::Counter;

/// A change of a number.
#[derive(Debug, Clone, Copy)]
pub struct Arithmetic<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The difference. Addition wraps around; subtraction stops at 0.
    pub delta: u64,
    /// Whether to subtract.
    pub decrement: bool,
    /// The CAS value that the item must have.
    pub condition: Condition,
    /// The item's CAS value in place of a new one.
    pub new_cas: Option<u64>,
    /// When the item expires; `None` keeps its expiry.
    pub expire_at_ms: Option<Option<NonZeroU64>>,
    /// The number to create if there is none.
    pub vivify: Option<Vivify>,
    /// The client gave the key in base64.
    pub binary_key: bool,
}

impl<'a> Arithmetic<'a> {
    /// Adds 1 to the key's number.
    #[must_use]
    pub fn new(key: &'a [u8]) -> Self {
        Self {
            key,
            delta: 1,
            decrement: false,
            condition: Condition::Any,
            new_cas: None,
            expire_at_ms: None,
            vivify: None,
            binary_key: false,
        }
    }
}

/// A number to create if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vivify {
    /// The number's value.
    pub initial: u64,
    /// When the item expires.
    pub expire_at_ms: Option<NonZeroU64>,
}

/// The current state of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number {
    /// The number's value.
    pub value: u64,
    /// The item's CAS value.
    pub cas: u64,
    /// Milliseconds until the item expires; `None` if it does not.
    pub ttl_ms: Option<u64>,
}

/// The outcome of arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Computed {
    /// The number was changed or created.
    Done(Number),
    /// There is no such item.
    NotFound,
    /// The value is not a 64-bit number.
    NonNumeric,
    /// The item has another CAS value.
    Exists,
}

impl Operations<'_> {
    /// Changes a number.
    ///
    /// # Errors
    /// There is no memory for the number.
    pub fn compute(&self, request: &Arithmetic<'_>) -> Result<Computed, OutOfMemory> {
        let now_s = self.cache.now_s();
        let (computed, made) = self.cache.update(request.key, |item, fresh_cas| {
            let cas = request.new_cas.unwrap_or(fresh_cas);
            match item {
                Some(item) => {
                    item.mark_used(now_s);
                    let (change, computed) = request.of(item, cas);
                    (change, (computed, false))
                }
                None => {
                    let (change, computed) = request.vivified(cas);
                    (change, (computed, true))
                }
            }
        })?;
        let [hits, misses] = if request.decrement {
            [Counter::DecrHits, Counter::DecrMisses]
        } else {
            [Counter::IncrHits, Counter::IncrMisses]
        };
        match computed {
            Computed::Done(_) if !made => self.counters.count(hits),
            Computed::NotFound => self.counters.count(misses),
            _ => {}
        }
        Ok(computed)
    }
}

impl Arithmetic<'_> {
    fn of(&self, item: &Item, cas: u64) -> (Change, Computed) {
        let content = &item.content;
        if !self.condition.is_met(content.cas) {
            return (Change::Keep, Computed::Exists);
        }
        let Some(before) = parse(&content.value) else {
            return (Change::Keep, Computed::NonNumeric);
        };
        let value = if self.decrement {
            before.saturating_sub(self.delta)
        } else {
            before.wrapping_add(self.delta)
        };
        put(
            value,
            Content {
                value: padded(self.key, value, content.value.len()),
                cas,
                expire_at_ms: self.expire_at_ms.unwrap_or(content.expire_at_ms),
                ..content.clone()
            },
        )
    }

    fn vivified(&self, cas: u64) -> (Change, Computed) {
        let Some(vivify) = self.vivify else {
            return (Change::Keep, Computed::NotFound);
        };
        put(
            vivify.initial,
            Content {
                expire_at_ms: self.expire_at_ms.unwrap_or(vivify.expire_at_ms),
                ..Content::new(padded(self.key, vivify.initial, 0), cas)
            }
            .with(Mark::BinaryKey, self.binary_key),
        )
    }
}

fn put(value: u64, content: Content) -> (Change, Computed) {
    let number = Number { value, cas: content.cas, ttl_ms: content.ttl_ms() };
    (Change::Put(content), Computed::Done(number))
}

/// The number at the start of `value`, up to white space.
fn parse(value: &[u8]) -> Option<u64> {
    let number = value.trim_ascii_start().split(u8::is_ascii_whitespace).next()?;
    str::from_utf8(number).ok()?.parse().ok()
}

/// The digits of `value`, padded with spaces to `len_min`: a number never gets shorter.
fn padded(key: &[u8], value: u64, len_min: usize) -> Value {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(value).as_bytes();
    let spaces = vec![b' '; len_min.saturating_sub(digits.len())];
    Value::new(key, [digits, &spaces])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_memcached_does() {
        for (value, number) in [
            (&b"5"[..], Some(5)),
            (b"5  ", Some(5)),
            (b"  5", Some(5)),
            (b"5 apples", Some(5)),
            (b"18446744073709551615", Some(u64::MAX)),
            (b"18446744073709551616", None),
            (b"-1", None),
            (b"5x", None),
            (b"", None),
            (b" ", None),
        ] {
            assert_eq!(parse(value), number, "{}", value.escape_ascii());
        }
    }

    #[test]
    fn numbers_keep_their_length() {
        assert_eq!(&*padded(b"k", 9, 2), b"9 ");
        assert_eq!(&*padded(b"k", 10, 2), b"10");
        assert_eq!(&*padded(b"k", 100, 2), b"100");
    }
}
