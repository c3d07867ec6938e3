//! Commands on the bits of strings. The first bit is the highest of the first byte.
//!
//! Commands that read many bytes walk a snapshot, with a checkpoint after each [`CHUNK_BYTES`].

use std::ops::RangeInclusive;

use ::bytes::BytesMut;
use psp_store::{Element, Value};

use super::bytes;
use super::pace::Pace;
use super::strings::{check_len, write_len};
use crate::command::{Context, ReplyEncoder, Row};
use crate::error::CommandError;
use crate::keyspace_events::{Class, Read, Rule};
use crate::parse::{self, Result, is};
use crate::typed::{expect, read, snapshot, snapshots};

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("bitcount", bitcount),
    Row::new("bitop", bitop)
        .event(Class::String, "set", Rule::Stored(2))
        .reads(Read::Between(3, -1)),
    Row::new("bitpos", bitpos),
    Row::new("getbit", getbit),
    Row::new("setbit", setbit).event(Class::String, "setbit", Rule::Always),
];

/// Bytes between two checkpoints.
const CHUNK_BYTES: usize = 64 * 1024;

/// The position of a bit. A string of the longest permitted length has it.
pub(super) fn offset(context: &Context<'_>, arg: &[u8], unit_bits: i64) -> Result<u64> {
    let offset = parse::integer(arg).ok();
    let offset = offset.and_then(|offset| u64::try_from(offset.checked_mul(unit_bits)?).ok());
    let len_max = context.server.settings.value_len_max() as u64;
    offset
        .filter(|offset| offset / 8 < len_max)
        .ok_or(CommandError::line("ERR bit offset is not an integer or out of range"))
}

/// The byte of the bit at `offset`, and the bit's mask.
fn place(offset: u64) -> (usize, u8) {
    ((offset / 8) as usize, 0x80 >> (offset % 8))
}

fn setbit(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (byte, mask) = place(offset(context, args[2], 1)?);
    let is_set = match args[3] {
        b"0" => false,
        b"1" => true,
        _ => {
            return Err(CommandError::line("ERR bit is not an integer or out of range"));
        }
    };
    let was_set = bytes::change(context, args, byte + 1, 1, |bytes, _| {
        let old = bytes[byte];
        bytes[byte] = if is_set { old | mask } else { old & !mask };
        old & mask != 0
    })?;
    out.integer(i64::from(was_set));
    Ok(())
}

fn getbit(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (byte, mask) = place(offset(context, args[2], 1)?);
    let is_set = read(context.store, args[1], |string: Option<&Element>| {
        string.is_some_and(|string| string.get(byte).is_some_and(|byte| byte & mask != 0))
    })?;
    out.integer(i64::from(is_set));
    Ok(())
}

/// The unit of the ends of a range.
#[derive(Clone, Copy)]
struct Unit {
    bits: u64,
}

impl Unit {
    const BYTE: Self = Self { bits: 8 };

    fn parse(arg: &[u8]) -> Result<Self> {
        match arg {
            name if is(name, "byte") => Ok(Self::BYTE),
            name if is(name, "bit") => Ok(Self { bits: 1 }),
            _ => Err(CommandError::Syntax),
        }
    }

    /// The bits from `start` to `end` in a string of `len` bytes; `None` if there are none. Negative ends count from
    /// the end of the string. As in Redis, an end before the string's first unit means that unit.
    fn range(self, start: i64, end: i64, len: usize) -> Option<RangeInclusive<u64>> {
        let units = i64::try_from(len as u64 * (8 / self.bits)).unwrap_or(i64::MAX);
        let from_start = |index: i64| {
            let index = if index < 0 { index.saturating_add(units) } else { index };
            index.max(0)
        };
        let (start, end) = (from_start(start), from_start(end).min(units - 1));
        // Neither is negative then.
        (start <= end).then(|| start as u64 * self.bits..=end as u64 * self.bits + self.bits - 1)
    }
}

fn bitcount(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (start, end) = match args[2..] {
        [] => (0, -1),
        [start, end] | [start, end, _] => (parse::integer(start)?, parse::integer(end)?),
        _ => return Err(CommandError::Syntax),
    };
    let unit = args.get(4).map_or(Ok(Unit::BYTE), |unit| Unit::parse(unit))?;
    let string = snapshot::<Element>(context.store, args[1])?.unwrap_or_else(|| Element::from(b""));
    if start < 0 && end < 0 && start > end {
        out.integer(0);
        return Ok(());
    }
    let range = unit.range(start, end, string.len());
    out.integer(range.map_or(0, |range| count(&string, range)) as i64);
    Ok(())
}

fn bitpos(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let wanted = match parse::integer(args[2])? {
        0 => false,
        1 => true,
        _ => return Err(CommandError::line("ERR The bit argument must be 1 or 0.")),
    };
    let start = args.get(3).map_or(Ok(0), |start| parse::integer(start))?;
    let (end, unit) = match args[3..] {
        [] | [_] => (None, Unit::BYTE),
        [_, end] => (Some(parse::integer(end)?), Unit::BYTE),
        [_, end, unit] => {
            let unit = Unit::parse(unit)?;
            (Some(parse::integer(end)?), unit)
        }
        _ => return Err(CommandError::Syntax),
    };
    let Some(string) = snapshot::<Element>(context.store, args[1])? else {
        // As of a string of endless zeros.
        out.integer(if wanted { -1 } else { 0 });
        return Ok(());
    };
    let range = unit.range(start, end.unwrap_or(-1), string.len());
    let found = range.map(|range| position(&string, range, wanted));
    out.integer(match found {
        Some(Some(position)) => position as i64,
        // Zeros follow a string whose end the client did not name.
        Some(None) if !wanted && end.is_none() => string.len() as i64 * 8,
        _ => -1,
    });
    Ok(())
}

/// The bytes that hold the bits of `range`, and the masks of the first and of the last one.
fn bytes_of(range: &RangeInclusive<u64>) -> (RangeInclusive<usize>, u8, u8) {
    let (start, end) = (*range.start(), *range.end());
    let first_mask = 0xff >> (start % 8);
    let last_mask = 0xff << (7 - end % 8);
    ((start / 8) as usize..=(end / 8) as usize, first_mask, last_mask)
}

/// How many bits of `range` are set. The string has all of them.
fn count(string: &[u8], range: RangeInclusive<u64>) -> u64 {
    let (bytes, first_mask, last_mask) = bytes_of(&range);
    let bytes = &string[bytes];
    let pace = Pace::new();
    let ones: u64 = bytes
        .chunks(CHUNK_BYTES)
        .map(|chunk| {
            pace.pause();
            ones(chunk)
        })
        .sum();
    let outside = [(bytes.first(), first_mask), (bytes.last(), last_mask)];
    let outside = outside.map(|(byte, mask)| byte.map_or(0, |byte| (byte & !mask).count_ones()));
    ones - u64::from(outside[0] + outside[1])
}

fn ones(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let of_words = words.iter().map(|word| u64::from_ne_bytes(*word).count_ones());
    let of_rest = rest.iter().map(|byte| byte.count_ones());
    of_words.chain(of_rest).map(u64::from).sum()
}

/// The first bit of `range` that is `wanted`. The string has all bits of the range.
fn position(string: &[u8], range: RangeInclusive<u64>, wanted: bool) -> Option<u64> {
    let (bytes, first_mask, last_mask) = bytes_of(&range);
    let (first, last) = (*bytes.start(), *bytes.end());
    // The wanted bits of a byte as ones.
    let flip = if wanted { 0 } else { 0xff };
    let within = |byte: usize, mask: u8| {
        let ones = (string[byte] ^ flip) & mask;
        (ones != 0).then(|| byte as u64 * 8 + u64::from(ones.leading_zeros()))
    };
    if first == last {
        return within(first, first_mask & last_mask);
    }
    within(first, first_mask)
        .or_else(|| {
            let between = &string[first + 1..last];
            let byte = other_than(between, flip)?;
            within(first + 1 + byte, 0xff)
        })
        .or_else(|| within(last, last_mask))
}

/// Where the first byte is that is not `skipped`.
fn other_than(bytes: &[u8], skipped: u8) -> Option<usize> {
    let pace = Pace::new();
    let word_skipped = u64::from_ne_bytes([skipped; 8]);
    let chunks = bytes.chunks(CHUNK_BYTES).zip((0..).step_by(CHUNK_BYTES));
    let mut found = chunks.filter_map(|(chunk, start)| {
        pace.pause();
        let (words, _) = chunk.as_chunks::<8>();
        let mut words = words.iter();
        let whole = words.position(|word| u64::from_ne_bytes(*word) != word_skipped);
        let searched = whole.map_or(chunk.len() & !7, |word| word * 8);
        let rest = &chunk[searched..];
        let byte = rest.iter().position(|byte| *byte != skipped)?;
        Some(start + searched + byte)
    });
    found.next()
}

/// How BITOP combines strings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
}

const OPERATIONS: [(&str, Operation); 4] = [
    ("and", Operation::And),
    ("or", Operation::Or),
    ("xor", Operation::Xor),
    ("not", Operation::Not),
];

impl Operation {
    fn parse(arg: &[u8]) -> Result<Self> {
        let mut operations = OPERATIONS.iter();
        let found = operations.find(|(name, _)| is(arg, name));
        found.map(|(_, found)| *found).ok_or(CommandError::Syntax)
    }

    /// Combines `bytes`, a part of the first string, with the same part of another. Zeros follow the other.
    fn combine(self, bytes: &mut [u8], other: &[u8]) {
        let (common, rest) = bytes.split_at_mut(other.len().min(bytes.len()));
        let pairs = common.iter_mut().zip(other);
        match self {
            Self::And => {
                pairs.for_each(|(byte, other)| *byte &= other);
                rest.fill(0);
            }
            Self::Or => pairs.for_each(|(byte, other)| *byte |= other),
            Self::Xor => pairs.for_each(|(byte, other)| *byte ^= other),
            Self::Not => {}
        }
    }
}

fn bitop(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let operation = Operation::parse(args[1])?;
    let (target, sources) = (args[2], &args[3..]);
    if operation == Operation::Not && sources.len() != 1 {
        return Err(CommandError::line("ERR BITOP NOT must be called with a single source key."));
    }
    let values = snapshots(context.store, sources);
    let sources = values.iter().map(|value| {
        let string = expect::<Element>(value.as_ref())?.cloned();
        Ok(string.unwrap_or_else(|| Element::from(b"")))
    });
    let sources: Vec<Element> = sources.collect::<Result<_>>()?;
    let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    check_len(context, len)?;
    if len == 0 {
        context.store.remove(target);
    } else {
        let reserved = context.server.evict_and_reserve(len)?;
        let zeros = BytesMut::zeroed(len);
        drop(reserved);
        let mut combined = Element::from(combined(operation, &sources, zeros));
        combined.make_raw();
        context.store.insert(target, Value::String(combined));
    }
    write_len(len, out);
    Ok(())
}

/// `sources`, combined into as many bytes as there are `zeros`.
fn combined(operation: Operation, sources: &[Element], zeros: BytesMut) -> BytesMut {
    let pace = Pace::new();
    let mut combined = zeros;
    for (chunk, start) in combined.chunks_mut(CHUNK_BYTES).zip((0..).step_by(CHUNK_BYTES)) {
        for (index, source) in sources.iter().enumerate() {
            pace.pause();
            let part = source.get(start..).unwrap_or_default();
            let part = &part[..part.len().min(chunk.len())];
            if index == 0 {
                chunk[..part.len()].copy_from_slice(part);
            } else {
                operation.combine(chunk, part);
            }
        }
        if operation == Operation::Not {
            chunk.iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
    combined
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::Session;

    const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    const OFFSET: &str = "-ERR bit offset is not an integer or out of range";

    #[test]
    fn bits_are_set_and_read() {
        Session::new().expect(&[
            ("SETBIT b 1 1", ":0"),
            ("GET b", "$1 @"),
            ("SETBIT b 1 1", ":1"),
            ("SETBIT b 15 1", ":0"),
            ("GET b", "$2 @\u{1}"),
            ("SETBIT b 1 0", ":1"),
            ("GETBIT b 15", ":1"),
            ("GETBIT b 1", ":0"),
            ("GETBIT b 16", ":0"),
            ("GETBIT none 4294967295", ":0"),
            ("SETBIT zero 20 0", ":0"),
            ("STRLEN zero", ":3"),
            ("SETBIT b -1 1", OFFSET),
            ("SETBIT b x 1", OFFSET),
            ("SETBIT b 4294967296 1", OFFSET),
            ("GETBIT b 4294967296", OFFSET),
            ("SETBIT b 0 2", "-ERR bit is not an integer or out of range"),
            ("SETBIT b 0 x", "-ERR bit is not an integer or out of range"),
            ("SET t a EX 100", "+OK"),
            ("SETBIT t 6 1", ":0"),
            ("GET t", "$1 c"),
            ("TTL t", ":100"),
            ("LPUSH l a", ":1"),
            ("SETBIT l 0 1", WRONG_TYPE),
            ("GETBIT l 0", WRONG_TYPE),
            ("BITCOUNT l", WRONG_TYPE),
            ("BITPOS l 1", WRONG_TYPE),
            ("BITOP AND t t l", WRONG_TYPE),
        ]);
    }

    #[test]
    fn a_lower_limit_of_values_bounds_offsets() {
        let mut session = Session::new();
        session.server.settings.set_value_len_max(4);
        session.expect(&[("SETBIT b 31 1", ":0"), ("SETBIT b 32 1", OFFSET), ("GETBIT b 32", OFFSET)]);
    }

    #[test]
    fn a_reader_keeps_what_it_read() {
        let mut session = Session::new();
        session.run(&format!("SET b {}", "a".repeat(1000)));
        let before = session.store().get(b"b");
        session.expect(&[("SETBIT b 6 1", ":0"), ("GETRANGE b 0 1", "$2 ca")]);
        let Some(Value::String(before)) = before else {
            panic!("a string");
        };
        assert_eq!(before[0], b'a');
    }

    #[test]
    fn bits_are_counted() {
        Session::new().expect(&[
            ("SET s foobar", "+OK"),
            ("BITCOUNT s", ":26"),
            ("BITCOUNT s 0 0", ":4"),
            ("BITCOUNT s 1 1", ":6"),
            ("BITCOUNT s 0 -5", ":10"),
            ("BITCOUNT s -2 -1 byte", ":7"),
            ("BITCOUNT s 5 30 BIT", ":17"),
            ("BITCOUNT s -8 -1 BIT", ":4"),
            ("BITCOUNT s 3 1", ":0"),
            ("BITCOUNT s -1 -3", ":0"),
            ("BITCOUNT s -100 -50", ":4"),
            ("BITCOUNT s 100 200", ":0"),
            ("BITCOUNT none", ":0"),
            ("BITCOUNT none a b", "-ERR value is not an integer or out of range"),
            ("BITCOUNT none 0 1 c", "-ERR syntax error"),
            ("BITCOUNT none 0 1 bit", ":0"),
            ("BITCOUNT s 1", "-ERR syntax error"),
            ("BITCOUNT s 1 2 3", "-ERR syntax error"),
            ("BITCOUNT s a 2", "-ERR value is not an integer or out of range"),
        ]);
    }

    #[test]
    fn the_first_bit_is_found() {
        let mut session = Session::new();
        for (key, bytes) in [("a", &b"\xff\xf0\x00"[..]), ("z", b"\x00\x00\x00"), ("o", b"\xff\xff\xff")] {
            session.run_args(&[b"SET", key.as_bytes(), bytes]);
        }
        session.expect(&[
            ("BITPOS a 0", ":12"),
            ("BITPOS a 1", ":0"),
            ("BITPOS a 1 2", ":-1"),
            ("BITPOS a 0 2", ":16"),
            ("BITPOS z 1", ":-1"),
            ("BITPOS o 0", ":24"),
            ("BITPOS o 0 0", ":24"),
            ("BITPOS o 0 1 -1", ":-1"),
            ("BITPOS a 0 7 15 BIT", ":12"),
            ("BITPOS a 1 12 -1 BIT", ":-1"),
            ("BITPOS a 1 3 5 BIT", ":3"),
            ("BITPOS o 0 5", ":-1"),
            ("BITPOS none 0", ":0"),
            ("BITPOS none 1 a b", "-ERR value is not an integer or out of range"),
            ("BITPOS none 1 0 1 c", "-ERR syntax error"),
            ("BITPOS none 1 0 1", ":-1"),
            ("BITPOS a 2", "-ERR The bit argument must be 1 or 0."),
            ("BITPOS a 1 0 1 bytes", "-ERR syntax error"),
            ("BITPOS a 1 0 1 bit 2", "-ERR syntax error"),
        ]);
    }

    #[test]
    fn strings_are_combined() {
        Session::new().expect(&[
            ("SET a abc", "+OK"),
            ("SET b ABCDE", "+OK"),
            ("BITOP AND d a b", ":5"),
            ("GET d", "$5 ABC\0\0"),
            ("BITOP or d a b none", ":5"),
            ("GET d", "$5 abcDE"),
            ("BITOP XOR d a b", ":5"),
            ("GETRANGE d 3 4", "$2 DE"),
            ("BITOP NOT d a", ":3"),
            ("BITOP NOT d d", ":3"),
            ("GET d", "$3 abc"),
            ("BITOP AND d none", ":0"),
            ("EXISTS d", ":0"),
            ("BITOP NOT d a b", "-ERR BITOP NOT must be called with a single source key."),
            ("BITOP NAND d a b", "-ERR syntax error"),
        ]);
    }

    fn bits(bytes: &[u8]) -> Vec<bool> {
        let bits = |byte: &u8| (0..8).map(move |bit| byte & (0x80 >> bit) != 0).collect();
        bytes.iter().flat_map::<Vec<bool>, _>(bits).collect()
    }

    proptest! {
        #[test]
        fn counts_and_positions_are_those_of_the_bits(
            skipped in prop_oneof![Just(0_u8), Just(0xff)],
            odd in proptest::collection::vec((0_usize..300, any::<u8>()), 0..3),
            len in 1_usize..300,
            ends: (u64, u64),
            wanted: bool,
        ) {
            let mut bytes = vec![skipped; len];
            for (at, byte) in odd {
                bytes[at % len] = byte;
            }
            let ends = [ends.0, ends.1].map(|end| end % (len as u64 * 8));
            let (start, end) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
            let inside = bits(&bytes)[start as usize..=end as usize].to_vec();
            let expected = inside.iter().filter(|bit| **bit).count() as u64;
            prop_assert_eq!(count(&bytes, start..=end), expected);
            let expected = inside.iter().position(|bit| *bit == wanted);
            prop_assert_eq!(position(&bytes, start..=end, wanted), expected.map(|at| start + at as u64));
        }
    }
}
