//! The arguments and the reply that SCAN and its relatives share.

use crate::command::ReplyEncoder;
use crate::error::CommandError;
use crate::glob::{self, Steps};
use crate::parse::{Result, integer, is};

use super::pace::Pace;

/// `cursor [MATCH pattern] [COUNT count]`.
pub(super) struct ScanOptions<'a> {
    pub(super) cursor: u64,
    pub(super) count: usize,
    pattern: Option<&'a [u8]>,
    steps: Steps,
    pace: Pace,
}

impl<'a> ScanOptions<'a> {
    pub(super) fn parse(args: &[&'a [u8]]) -> Result<Self> {
        let (cursor, options) = args.split_first().ok_or(CommandError::Syntax)?;
        let cursor = std::str::from_utf8(cursor)
            .ok()
            .and_then(|cursor| cursor.parse().ok());
        let cursor = cursor.ok_or(CommandError::InvalidCursor)?;
        let mut parsed = Self {
            cursor,
            count: 10,
            pattern: None,
            steps: Steps::new(),
            pace: Pace::new(),
        };
        for option in options.chunks(2) {
            match *option {
                [name, count] if is(name, "count") => {
                    let count = usize::try_from(integer(count)?).ok();
                    parsed.count = count
                        .filter(|count| *count > 0)
                        .ok_or(CommandError::Syntax)?;
                }
                [name, pattern] if is(name, "match") => parsed.pattern = Some(pattern),
                _ => return Err(CommandError::Syntax),
            }
        }
        Ok(parsed)
    }

    pub(super) fn matches(&self, name: &[u8]) -> bool {
        self.pace.step();
        self.pattern
            .is_none_or(|pattern| glob::matches(pattern, name, &self.steps))
    }

    /// Writes the next cursor and the header of an array of `len` elements.
    pub(super) fn head(&self, out: &mut ReplyEncoder<'_>, cursor: u64, len: usize) {
        out.array(2);
        out.bulk(itoa::Buffer::new().format(cursor).as_bytes());
        out.array(len);
    }
}
