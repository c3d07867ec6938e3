//! LCS: the longest common subsequence of two strings.
//!
//! The work is the product of both lengths. The command keeps one bit for each pair of bytes, where Redis keeps 32, and
//! refuses strings for which Redis would need more memory than `proto-max-bulk-len`.

use psp_store::{Element, Value};

use super::pace::Pace;
use super::walk;
use crate::command::{Context, ReplyEncoder, Row};
use crate::error::CommandError;
use crate::parse::{self, Result, is};
use crate::typed::{expect, snapshots};

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[Row::new("lcs", lcs)];

/// Pairs of bytes whose bits share a word, and between two steps of the pace.
const PAIRS_PER_WORD: usize = u64::BITS as usize;
/// Bytes that Redis allocates for each pair.
const REDIS_BYTES_PER_PAIR: u64 = 4;

#[derive(Default)]
struct Options {
    only_len: bool,
    ranges: bool,
    range_len_min: usize,
    with_lens: bool,
}

impl Options {
    fn parse(mut args: &[&[u8]]) -> Result<Self> {
        let mut options = Self::default();
        while let Some((name, rest)) = args.split_first() {
            args = match *rest {
                _ if is(name, "len") => {
                    options.only_len = true;
                    rest
                }
                _ if is(name, "idx") => {
                    options.ranges = true;
                    rest
                }
                _ if is(name, "withmatchlen") => {
                    options.with_lens = true;
                    rest
                }
                [len, ref rest @ ..] if is(name, "minmatchlen") => {
                    options.range_len_min = usize::try_from(parse::integer(len)?).unwrap_or(0);
                    rest
                }
                _ => return Err(CommandError::Syntax),
            };
        }
        if options.only_len && options.ranges {
            return Err(CommandError::line("ERR If you want both the length and indexes, please just use IDX."));
        }
        Ok(options)
    }
}

fn lcs(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let values = snapshots(context.store, &args[1..3]);
    let string = |value: &Option<Value>| {
        let string = expect::<Element>(value.as_ref())
            .map_err(|_| CommandError::line("ERR The specified keys must contain string values"))?;
        Ok(string.cloned().unwrap_or_else(|| Element::from(b"")))
    };
    let (left, right) = (string(&values[0])?, string(&values[1])?);
    let options = Options::parse(&args[3..])?;
    let pairs = (left.len() as u64 + 1) * (right.len() as u64 + 1);
    if pairs * REDIS_BYTES_PER_PAIR > context.server.settings.value_len_max() as u64 {
        return Err(CommandError::line(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        ));
    }
    let pace = Pace::new();
    let Some(table) = Table::new(&left, &right, !options.only_len, &pace) else {
        return Ok(());
    };
    if options.only_len {
        out.integer(table.len as i64);
    } else if options.ranges {
        write_ranges(out, &table, &options, &pace);
    } else {
        let mut common: Vec<u8> = Vec::with_capacity(table.len);
        table.walk_back(&pace, |at| common.push(left[at.left]));
        common.reverse();
        out.bulk(&common);
    }
    Ok(())
}

/// A byte that both strings have: its index in each.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Pair {
    left: usize,
    right: usize,
}

/// The lengths of the common subsequences of all beginnings of two strings.
struct Table<'s> {
    left: &'s [u8],
    right: &'s [u8],
    /// The length for the whole strings.
    len: usize,
    /// A bit for each pair of bytes that differ, with whole words for each left byte: is the length without the left
    /// one greater than without the right one? Empty if no walk back follows.
    skips_left: Vec<u64>,
}

impl<'s> Table<'s> {
    /// Compares all pairs of bytes. `None` if the client has gone meanwhile.
    fn new(left: &'s [u8], right: &'s [u8], walks_back: bool, pace: &Pace) -> Option<Self> {
        let words = if walks_back {
            left.len() * right.len().div_ceil(PAIRS_PER_WORD)
        } else {
            0
        };
        let mut skips_left = Vec::with_capacity(words);
        // For each beginning of the right string: the length with the left bytes so far.
        let mut row = vec![0_u32; right.len()];
        for left in left {
            let (mut before, mut diagonal) = (0, 0);
            let chunks = row.chunks_mut(PAIRS_PER_WORD);
            for (lens, right) in chunks.zip(right.chunks(PAIRS_PER_WORD)) {
                pace.step();
                let mut word = 0;
                for (bit, (len, right)) in lens.iter_mut().zip(right).enumerate() {
                    let above = *len;
                    word |= u64::from(above > before) << bit;
                    *len = if left == right { diagonal + 1 } else { above.max(before) };
                    (before, diagonal) = (*len, above);
                }
                if walks_back {
                    skips_left.push(word);
                }
            }
            if pace.is_abandoned() {
                return None;
            }
        }
        let len = row.last().map_or(0, |len| *len as usize);
        Some(Self { left, right, len, skips_left })
    }

    /// Whether the common subsequence of the beginnings up to these bytes, which differ, does without the left one.
    fn skips_left(&self, left: usize, right: usize) -> bool {
        let words = self.right.len().div_ceil(PAIRS_PER_WORD);
        let word = self.skips_left[left * words + right / PAIRS_PER_WORD];
        word >> (right % PAIRS_PER_WORD) & 1 == 1
    }

    /// Calls `visit` with each byte of a longest common subsequence, the last one first.
    fn walk_back(&self, pace: &Pace, mut visit: impl FnMut(Pair)) {
        let (mut left, mut right) = (self.left.len(), self.right.len());
        while left > 0 && right > 0 {
            pace.step();
            if self.left[left - 1] == self.right[right - 1] {
                left -= 1;
                right -= 1;
                visit(Pair { left, right });
            } else if self.skips_left(left - 1, right - 1) {
                left -= 1;
            } else {
                right -= 1;
            }
        }
    }

    /// The ranges of bytes that follow each other in both strings: the first pair and the length of each, the last one
    /// first.
    fn ranges(&self, pace: &Pace) -> Vec<(Pair, usize)> {
        let mut ranges: Vec<(Pair, usize)> = Vec::new();
        self.walk_back(pace, |at| match ranges.last_mut() {
            Some((first, len)) if first.left == at.left + 1 && first.right == at.right + 1 => {
                *first = at;
                *len += 1;
            }
            _ => ranges.push((at, 1)),
        });
        ranges
    }
}

fn write_ranges(out: &mut ReplyEncoder<'_>, table: &Table<'_>, options: &Options, pace: &Pace) {
    let mut ranges = table.ranges(pace);
    ranges.retain(|(_, len)| *len >= options.range_len_min);
    out.map(2);
    out.bulk(b"matches");
    out.array(ranges.len());
    walk::batched(out, |out| {
        for (first, len) in ranges {
            out.array(2 + usize::from(options.with_lens));
            for start in [first.left, first.right] {
                out.array(2);
                out.integer(start as i64);
                out.integer((start + len - 1) as i64);
            }
            if options.with_lens {
                out.integer(len as i64);
            }
        }
    });
    out.bulk(b"len");
    out.integer(table.len as i64);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::Session;

    #[test]
    fn what_two_strings_have_in_common() {
        Session::new().expect(&[
            ("MSET a ohmytext b mynewtext c xyz", "+OK"),
            ("LCS a b", "$6 mytext"),
            ("LCS a b LEN", ":6"),
            ("LCS a b IDX", "*4 $7 matches *2 *2 *2 :4 :7 *2 :5 :8 *2 *2 :2 :3 *2 :0 :1 $3 len :6"),
            (
                "LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN",
                "*4 $7 matches *1 *3 *2 :4 :7 *2 :5 :8 :4 $3 len :6",
            ),
            ("LCS a none", "$0"),
            ("LCS none none LEN", ":0"),
            ("LCS none a IDX", "*4 $7 matches *0 $3 len :0"),
            ("LCS a b MINMATCHLEN -1", "$6 mytext"),
            ("LCS a b IDX LEN", "-ERR If you want both the length and indexes, please just use IDX."),
            ("LCS a b MINMATCHLEN", "-ERR syntax error"),
            ("LCS a b FOO", "-ERR syntax error"),
            ("LPUSH l a", ":1"),
            ("LCS a l", "-ERR The specified keys must contain string values"),
        ]);
    }

    proptest! {
        #[test]
        fn a_subsequence_is_common_and_the_longest(
            left in proptest::collection::vec(b'a'..b'e', 0..150),
            right in proptest::collection::vec(b'a'..b'e', 0..150),
        ) {
            let pace = Pace::new();
            let table = Table::new(&left, &right, true, &pace).expect("the client is there");
            let mut pairs = Vec::new();
            table.walk_back(&pace, |pair| pairs.push(pair));
            prop_assert_eq!(pairs.len(), table.len);
            prop_assert!(pairs.iter().all(|pair| left[pair.left] == right[pair.right]));
            prop_assert!(pairs.is_sorted_by(|later, earlier| later.left > earlier.left && later.right > earlier.right));
            let mut lens = vec![vec![0; right.len() + 1]; left.len() + 1];
            for (i, a) in left.iter().enumerate() {
                for (j, b) in right.iter().enumerate() {
                    lens[i + 1][j + 1] = if a == b { lens[i][j] + 1 } else { lens[i][j + 1].max(lens[i + 1][j]) };
                }
            }
            prop_assert_eq!(table.len, lens[left.len()][right.len()]);
            let ranges = table.ranges(&pace);
            prop_assert_eq!(ranges.iter().map(|(_, len)| len).sum::<usize>(), table.len);
        }
    }

    #[test]
    fn long_strings_are_refused() {
        let mut session = Session::new();
        session.run(&format!("SET a {}", "x".repeat(20_000)));
        session.expect(&[
            ("SET b y", "+OK"),
            ("LCS a b LEN", ":0"),
            ("LCS a a", "-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"),
        ]);
    }

    #[test]
    fn resp3_has_a_map() {
        Session::new().resp3().expect(&[
            ("MSET a x b x", "+OK"),
            ("LCS a b IDX", "%2 $7 matches *1 *2 *2 :0 :0 *2 :0 :0 $3 len :1"),
        ]);
    }
}
