//! The arguments and the reply that SCAN and its relatives share.

use crate::command::{Context, ReplyEncoder};
use crate::error::CommandError;
use crate::glob::{Pattern, Steps};
use crate::parse::{Result, integer, is};
use crate::typed::{Typed, snapshot};

use super::pace::Pace;

/// `cursor [MATCH pattern] [COUNT count] [NOVALUES]`, the last of which HSCAN alone has.
pub(super) struct ScanOptions<'a> {
    pub(super) cursor: u64,
    pub(super) count: usize,
    pub(super) without_values: bool,
    pattern: Option<Pattern<'a>>,
    steps: Steps,
    pace: Pace,
}

/// No digits are a zero.
fn parse_cursor(arg: &[u8]) -> Result<u64> {
    if arg.is_empty() {
        return Ok(0);
    }
    let cursor = std::str::from_utf8(arg).ok();
    let cursor = cursor.and_then(|cursor| cursor.parse().ok());
    cursor.ok_or(CommandError::InvalidCursor)
}

/// The value to scan, and the options behind its key. If there is no value, writes the reply of an empty one, whatever
/// the options are, as Redis does, and returns `None`.
pub(super) fn open<'a, T: Typed>(
    context: &Context<'_>,
    args: &[&'a [u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<Option<(T, ScanOptions<'a>)>> {
    parse_cursor(args[2])?;
    let Some(value) = snapshot(context.store, args[1])? else {
        out.array(2);
        out.bulk(b"0");
        out.array(0);
        return Ok(None);
    };
    Ok(Some((value, ScanOptions::parse(&args[2..], is(args[0], "hscan"))?)))
}

impl<'a> ScanOptions<'a> {
    pub(super) fn parse(args: &[&'a [u8]], takes_no_values: bool) -> Result<Self> {
        let (cursor, options) = args.split_first().ok_or(CommandError::Syntax)?;
        let cursor = parse_cursor(cursor)?;
        let mut parsed = Self {
            cursor,
            count: 10,
            without_values: false,
            pattern: None,
            steps: Steps::new(),
            pace: Pace::new(),
        };
        let mut options = options;
        while let [name, rest @ ..] = options {
            options = match rest {
                _ if takes_no_values && is(name, "novalues") => {
                    parsed.without_values = true;
                    rest
                }
                [count, rest @ ..] if is(name, "count") => {
                    let count = usize::try_from(integer(count)?).ok();
                    parsed.count = count.filter(|count| *count > 0).ok_or(CommandError::Syntax)?;
                    rest
                }
                [pattern, rest @ ..] if is(name, "match") => {
                    parsed.pattern = Some(Pattern::new(pattern));
                    rest
                }
                _ => return Err(CommandError::Syntax),
            }
        }
        Ok(parsed)
    }

    pub(super) fn matches(&self, name: &[u8]) -> bool {
        self.pace.step();
        let pattern = self.pattern.as_ref();
        pattern.is_none_or(|pattern| pattern.matches(name, &self.steps))
    }

    /// Writes the next cursor and the header of an array of `len` elements.
    pub(super) fn head(&self, out: &mut ReplyEncoder<'_>, cursor: u64, len: usize) {
        out.array(2);
        out.bulk(itoa::Buffer::new().format(cursor).as_bytes());
        out.array(len);
    }
}
