//! DEBUG DIGEST: one number for all that a server holds, the same as that of redis-server.
//!
//! Elements of sets, hashes and sorted sets are mixed by XOR, as they have no order; those of lists and streams one
//! after the other. See `computeDatasetDigest` in Redis's debug.c.

use std::fmt::Write as _;

use psp_store::{Entry, StreamId, Value};
use sha1::{Digest as _, Sha1};

use super::pace::Pace;
use crate::command::{Context, ReplyEncoder};
use crate::parse::Result;

/// Significant digits of a score.
const SCORE_DIGITS: i32 = 17;

#[derive(Default, Clone, Copy)]
struct Digest([u8; 20]);

impl Digest {
    fn xor(&mut self, bytes: &[u8]) {
        let hash: [u8; 20] = Sha1::digest(bytes).into();
        self.0.iter_mut().zip(hash).for_each(|(byte, other)| *byte ^= other);
    }

    fn mix(&mut self, bytes: &[u8]) {
        self.xor(bytes);
        self.0 = Sha1::digest(self.0).into();
    }

    fn of_parts(parts: &[&[u8]]) -> Self {
        let mut digest = Self::default();
        parts.iter().for_each(|part| digest.mix(part));
        digest
    }

    fn mix_entry(&mut self, entry: &Entry, pace: &Pace) {
        match entry.value() {
            Value::String(string) => {
                self.mix(&0_u32.to_be_bytes());
                self.mix(string);
            }
            Value::List(list) => {
                self.mix(&1_u32.to_be_bytes());
                for element in list.iter().inspect(|_| pace.step()) {
                    self.mix(&element);
                }
            }
            Value::Set(set) => {
                self.mix(&2_u32.to_be_bytes());
                for member in set.iter().inspect(|_| pace.step()) {
                    self.xor(&member);
                }
            }
            Value::SortedSet(set) => {
                self.mix(&3_u32.to_be_bytes());
                for scored in set.iter().inspect(|_| pace.step()) {
                    let score = score_text(scored.score);
                    self.xor(&Self::of_parts(&[&scored.member, score.as_bytes()]).0);
                }
            }
            Value::Hash(hash) => {
                self.mix(&4_u32.to_be_bytes());
                for (field, held) in hash.iter().timed().inspect(|_| pace.step()) {
                    let mut of_field = Self::of_parts(&[&field, &held.value]);
                    if held.expire_at_ms.is_some() {
                        of_field.xor(b"!!hexpire!!");
                    }
                    self.xor(&of_field.0);
                }
            }
            Value::Stream(stream) => {
                self.mix(&6_u32.to_be_bytes());
                for entry in stream.entries().range(StreamId::MIN..=StreamId::MAX) {
                    pace.step();
                    self.mix(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
                    entry.texts().for_each(|text| self.mix(text.as_slice()));
                }
            }
        }
        if entry.expire_at_ms().is_some() {
            self.xor(b"!!expire!!");
        }
    }

    fn text(self) -> String {
        self.0.iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a String takes all");
            text
        })
    }
}

/// A score as C's `%.17g` has it.
fn score_text(score: f64) -> String {
    if !score.is_finite() {
        return if score > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{score:.*e}", (SCORE_DIGITS - 1) as usize);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..SCORE_DIGITS).contains(&exponent) {
        return trim(&format!("{score:.*}", (SCORE_DIGITS - 1 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim(digits), exponent.abs())
}

/// `DEBUG DIGEST`: of all keys, shard by shard from snapshots.
pub(super) fn all(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let pace = Pace::new();
    let mut all = Digest::default();
    for store in context.databases.used().filter(|store| !store.is_empty()) {
        let number = u32::try_from(store.number()).unwrap_or(u32::MAX);
        all.mix(&number.to_be_bytes());
        store.for_each(|entry| {
            let mut digest = Digest::of_parts(&[entry.key()]);
            digest.mix_entry(entry, &pace);
            all.xor(&digest.0);
        });
    }
    out.simple(&all.text());
    Ok(())
}

/// `DEBUG DIGEST-VALUE key ...`: of each key's value.
pub(super) fn of_values(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let pace = Pace::new();
    out.array(args.len() - 2);
    for key in &args[2..] {
        let mut digest = Digest::default();
        context.store.peek(key, |entry| {
            if let Some(entry) = entry {
                digest.mix_entry(entry, &pace);
            }
        });
        out.simple(&digest.text());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_written_as_c_does() {
        for (score, text) in [
            (1.0, "1"),
            (0.1, "0.10000000000000001"),
            (-2.5, "-2.5"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1.5e-5, "1.5e-05"),
            (1e-4, "0.0001"),
            (1e300, "1.0000000000000001e+300"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(score_text(score), text);
        }
    }
}
