//! Counts among arguments, and random choices of so many elements.

use rand::seq::index::{IndexVecIntoIter, sample};

use crate::error::CommandError;
use crate::parse::{Result, integer};

/// Most elements of a random choice with repetitions, which no collection's size bounds.
const REPEATED_PICKS_MAX: u64 = 1 << 20;

/// How many elements to pop.
///
/// # Errors
/// [`CommandError::NotPositive`] if `arg` is not a number or is below zero.
pub(super) fn pop_count(arg: &[u8]) -> Result<usize> {
    let count = integer(arg)
        .ok()
        .and_then(|count| usize::try_from(count).ok());
    count.ok_or(CommandError::NotPositive)
}

/// A number above zero.
///
/// # Errors
/// `error` as the whole reply line.
pub(super) fn above_zero(arg: &[u8], error: &'static str) -> Result<usize> {
    let count = integer(arg)
        .ok()
        .and_then(|count| usize::try_from(count).ok());
    count
        .filter(|count| *count > 0)
        .ok_or(CommandError::line(error))
}

/// The number of keys and the arguments after it, in the form of LMPOP and similar commands.
pub(super) fn key_count(arg: &[u8]) -> Result<usize> {
    above_zero(arg, "ERR numkeys should be greater than 0")
}

/// The limit of an intersection's cardinality; zero means no limit.
pub(super) fn intersection_limit(arg: &[u8]) -> Result<usize> {
    let limit = integer(arg)
        .ok()
        .and_then(|limit| usize::try_from(limit).ok());
    match limit.ok_or(CommandError::line("ERR LIMIT can't be negative"))? {
        0 => Ok(usize::MAX),
        limit => Ok(limit),
    }
}

/// How many random elements to choose. A negative count allows repetitions.
///
/// # Errors
/// [`CommandError::NotInteger`], or a range error. `paired` halves the range.
pub(super) fn pick_count(arg: &[u8], paired: bool) -> Result<i64> {
    let count = integer(arg)?;
    if count == i64::MIN {
        return Err(CommandError::line(
            "ERR value is out of range, value must between -9223372036854775807 and \
             9223372036854775807",
        ));
    }
    let out_of_range = paired && !(i64::MIN / 2..=i64::MAX / 2).contains(&count);
    if out_of_range || (count < 0 && count.unsigned_abs() > REPEATED_PICKS_MAX) {
        return Err(CommandError::line("ERR value is out of range"));
    }
    Ok(count)
}

/// Random ranks among `len` elements.
pub(super) enum Picks {
    All(std::ops::Range<usize>),
    Distinct(IndexVecIntoIter),
    Repeated { len: usize, left: usize },
}

/// Chooses ranks below `len`. `count` has the meaning of [`pick_count`].
pub(super) fn picks(len: usize, count: i64) -> Picks {
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count < 0 {
        Picks::Repeated {
            len,
            left: if len == 0 { 0 } else { wanted },
        }
    } else if wanted >= len {
        Picks::All(0..len)
    } else {
        Picks::Distinct(sample(&mut rand::rng(), len, wanted).into_iter())
    }
}

impl Iterator for Picks {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        match self {
            Self::All(ranks) => ranks.next(),
            Self::Distinct(ranks) => ranks.next(),
            Self::Repeated { len, left } => {
                *left = left.checked_sub(1)?;
                Some(rand::random_range(0..*len))
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match self {
            Self::All(ranks) => ranks.len(),
            Self::Distinct(ranks) => ranks.len(),
            Self::Repeated { left, .. } => *left,
        };
        (left, Some(left))
    }
}

impl ExactSizeIterator for Picks {}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn positive_counts_pick_distinct_ranks() {
        for (len, count) in [(0, 3), (10, 0), (10, 3), (10, 10), (10, i64::MAX)] {
            let ranks: Vec<usize> = picks(len, count).collect();
            assert_eq!(ranks.len() as i64, count.min(len as i64));
            assert_eq!(picks(len, count).len(), ranks.len());
            assert_eq!(ranks.iter().collect::<HashSet<_>>().len(), ranks.len());
            assert!(ranks.iter().all(|rank| *rank < len));
        }
    }

    #[test]
    fn negative_counts_repeat() {
        assert_eq!(picks(3, -1000).len(), 1000);
        assert_eq!(picks(3, -1000).collect::<HashSet<_>>(), (0..3).collect());
        assert_eq!(picks(0, -1000).count(), 0);
    }
}
