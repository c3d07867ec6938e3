//! LCS: the longest common subsequence of two strings.
//!
//! The work is the product of both lengths. The command keeps one bit for each pair of bytes, where Redis keeps 32, and
//! refuses strings for which Redis would need more memory than `proto-max-bulk-len`.

use psp_store::Element;

use super::pace::Pace;
use super::walk;
use crate::command::{CommandSpec, Context, Flag, ReplyEncoder};
use crate::error::CommandError;
use crate::parse::{self, Result, is};
use crate::typed::snapshot;

/// Rows of the command table.
pub(crate) const COMMANDS: &[CommandSpec] = &[CommandSpec::new("lcs", -3, lcs)
    .flags(&[Flag::Readonly])
    .keys(1, 2, 1)];

/// Pairs of bytes that take as long to compare as one element takes to walk.
const PAIRS_PER_STEP: usize = 64;
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
            return Err(CommandError::line(
                "ERR If you want both the length and indexes, please just use IDX.",
            ));
        }
        Ok(options)
    }
}

fn lcs(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let string = |key: &[u8]| {
        let string = snapshot::<Element>(context.store, key)
            .map_err(|_| CommandError::line("ERR The specified keys must contain string values"))?;
        Ok(string.unwrap_or_else(|| Element::from(b"")))
    };
    let (left, right) = (string(args[1])?, string(args[2])?);
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
    /// For each pair of bytes that differ: is the length without the left one greater than without the right one? Empty
    /// if nobody walks back.
    skips_left: Vec<u64>,
}

impl<'s> Table<'s> {
    /// Compares all pairs of bytes. `None` if the client has gone meanwhile.
    fn new(left: &'s [u8], right: &'s [u8], walks_back: bool, pace: &Pace) -> Option<Self> {
        let words = if walks_back {
            (left.len() * right.len()).div_ceil(64)
        } else {
            0
        };
        let mut skips_left = vec![0_u64; words];
        // The lengths for the left strings without and with the current byte. The first is for no right byte.
        let mut row = vec![0_u32; right.len() + 1];
        let mut pair = 0;
        for left in left {
            let mut diagonal = 0;
            for chunk in 0..right.len().div_ceil(PAIRS_PER_STEP) {
                pace.step();
                let first = chunk * PAIRS_PER_STEP;
                for at in first..right.len().min(first + PAIRS_PER_STEP) {
                    let (above, before) = (row[at + 1], row[at]);
                    row[at + 1] = if *left == right[at] {
                        diagonal + 1
                    } else {
                        if walks_back && above > before {
                            skips_left[pair / 64] |= 1 << (pair % 64);
                        }
                        above.max(before)
                    };
                    diagonal = above;
                    pair += 1;
                }
            }
            if pace.is_abandoned() {
                return None;
            }
        }
        let len = row.last().map_or(0, |len| *len as usize);
        Some(Self {
            left,
            right,
            len,
            skips_left,
        })
    }

    /// Calls `visit` with each byte of a longest common subsequence, the last one first.
    fn walk_back(&self, pace: &Pace, mut visit: impl FnMut(Pair)) {
        let (mut left, mut right) = (self.left.len(), self.right.len());
        while left > 0 && right > 0 {
            pace.step();
            let pair = (left - 1) * self.right.len() + right - 1;
            if self.left[left - 1] == self.right[right - 1] {
                left -= 1;
                right -= 1;
                visit(Pair { left, right });
            } else if self.skips_left[pair / 64] >> (pair % 64) & 1 == 1 {
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
    use crate::testing::Session;

    #[test]
    fn what_two_strings_have_in_common() {
        Session::new().expect(&[
            ("MSET a ohmytext b mynewtext c xyz", "+OK"),
            ("LCS a b", "$6 mytext"),
            ("LCS a b LEN", ":6"),
            (
                "LCS a b IDX",
                "*4 $7 matches *2 *2 *2 :4 :7 *2 :5 :8 *2 *2 :2 :3 *2 :0 :1 $3 len :6",
            ),
            (
                "LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN",
                "*4 $7 matches *1 *3 *2 :4 :7 *2 :5 :8 :4 $3 len :6",
            ),
            ("LCS a none", "$0"),
            ("LCS none none LEN", ":0"),
            ("LCS none a IDX", "*4 $7 matches *0 $3 len :0"),
            ("LCS a b MINMATCHLEN -1", "$6 mytext"),
            (
                "LCS a b IDX LEN",
                "-ERR If you want both the length and indexes, please just use IDX.",
            ),
            ("LCS a b MINMATCHLEN", "-ERR syntax error"),
            ("LCS a b FOO", "-ERR syntax error"),
            ("LPUSH l a", ":1"),
            (
                "LCS a l",
                "-ERR The specified keys must contain string values",
            ),
        ]);
    }

    #[test]
    fn long_strings_are_refused() {
        let mut session = Session::new();
        session.run(&format!("SET a {}", "x".repeat(20_000)));
        session.expect(&[
            ("SET b y", "+OK"),
            ("LCS a b LEN", ":0"),
            (
                "LCS a a",
                "-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
            ),
        ]);
    }

    #[test]
    fn resp3_has_a_map() {
        Session::new().resp3().expect(&[
            ("MSET a x b x", "+OK"),
            (
                "LCS a b IDX",
                "%2 $7 matches *1 *2 *2 :0 :0 *2 :0 :0 $3 len :1",
            ),
        ]);
    }
}
