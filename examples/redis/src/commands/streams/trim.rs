//! The options with which XADD and XTRIM shorten a stream.

use psp_store::{Kept, Trim};

use super::ids;
use crate::error::CommandError;
use crate::parse::{Result, integer, is};

const LIMIT_OF_EXACT: CommandError =
    CommandError::line("ERR syntax error, LIMIT cannot be used without the special ~ option");

/// MAXLEN, MINID and LIMIT among the arguments of a command.
#[derive(Default)]
pub(super) struct TrimOptions {
    kept: Option<(Kept, bool)>,
    limit: Option<usize>,
}

impl TrimOptions {
    /// Takes an option from the front of `args`. Returns how many arguments it took; 0 if none of its options is there.
    pub(super) fn take(&mut self, args: &[&[u8]]) -> Result<usize> {
        let is_len = match *args {
            [name, _, ..] if is(name, "maxlen") => true,
            [name, _, ..] if is(name, "minid") => false,
            [name, limit, ..] if is(name, "limit") => {
                let limit = usize::try_from(integer(limit)?);
                let limit = limit.map_err(|_negative| CommandError::line("ERR The LIMIT argument must be >= 0."))?;
                self.limit = Some(limit);
                return Ok(2);
            }
            _ => return Ok(0),
        };
        if self.kept.is_some() {
            return Err(CommandError::line(
                "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
            ));
        }
        let (is_approximate, taken) = match *args {
            [_, b"~", _, ..] => (true, 3),
            [_, b"=", _, ..] => (false, 3),
            _ => (false, 2),
        };
        let value = args[taken - 1];
        let kept = if is_len {
            let len = usize::try_from(integer(value)?)
                .map_err(|_negative| CommandError::line("ERR The MAXLEN argument must be >= 0."))?;
            Kept::Len(len)
        } else {
            Kept::From(ids::strict(value, 0)?)
        };
        self.kept = Some((kept, is_approximate));
        Ok(taken)
    }

    /// LIMIT, even of 0, is for approximate trimming.
    pub(super) fn check_limit(&self) -> Result<()> {
        match (self.limit, self.kept) {
            (Some(0), None) => Err(LIMIT_OF_EXACT),
            _ => Ok(()),
        }
    }

    /// How to trim; `None` if no option says so. Without LIMIT, approximate trimming removes up to a hundred blocks of
    /// `block_entries`.
    pub(super) fn trim(&self, block_entries: u64) -> Result<Option<Trim>> {
        let Some((kept, is_approximate)) = self.kept else {
            return match self.limit {
                None | Some(0) => Ok(None),
                Some(_) => Err(CommandError::line(
                    "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
                )),
            };
        };
        let limit = match self.limit {
            Some(_) if !is_approximate => return Err(LIMIT_OF_EXACT),
            Some(0) => usize::MAX,
            Some(limit) => limit,
            None if is_approximate => default_limit(block_entries),
            None => usize::MAX,
        };
        Ok(Some(Trim { kept, is_approximate, limit }))
    }
}

fn default_limit(block_entries: u64) -> usize {
    let limit = match block_entries.saturating_mul(100) {
        0 => 10_000,
        limit => limit.min(1_000_000),
    };
    limit as usize
}
