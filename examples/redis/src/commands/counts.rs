//! Counts among arguments, and random choices of so many elements.

use rand::seq::index::sample;

use super::pace::Pace;
use crate::error::CommandError;
use crate::parse::{Result, integer};

/// Most elements of a random choice with repetitions, which no collection's size bounds.
const REPEATED_PICKS_MAX: u64 = 1 << 20;

/// How many elements to pop.
///
/// # Errors
/// [`CommandError::NotPositive`] if `arg` is not a number or is below zero.
pub(super) fn pop_count(arg: &[u8]) -> Result<usize> {
    let count = integer(arg).ok().and_then(|count| usize::try_from(count).ok());
    count.ok_or(CommandError::NotPositive)
}

/// A number above zero.
///
/// # Errors
/// `error` as the whole reply line.
pub(super) fn above_zero(arg: &[u8], error: &'static str) -> Result<usize> {
    let count = integer(arg).ok().and_then(|count| usize::try_from(count).ok());
    count.filter(|count| *count > 0).ok_or(CommandError::line(error))
}

/// The number of keys and the arguments after it, in the form of LMPOP and similar commands.
pub(super) fn key_count(arg: &[u8]) -> Result<usize> {
    above_zero(arg, "ERR numkeys should be greater than 0")
}

/// The limit of an intersection's cardinality; zero means no limit.
pub(super) fn intersection_limit(arg: &[u8]) -> Result<usize> {
    let limit = integer(arg).ok().and_then(|limit| usize::try_from(limit).ok());
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

/// Most ranks that are chosen at once.
const SAMPLED_MAX: usize = 512;

/// Random ranks among `len` elements.
pub(super) enum Picks {
    All(std::ops::Range<usize>),
    Distinct(std::vec::IntoIter<usize>),
    Repeated { len: usize, left: usize },
}

/// Chooses ranks below `len`. `count` has the meaning of [`pick_count`].
pub(super) fn picks(len: usize, count: i64, pace: &Pace) -> Picks {
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count < 0 {
        Picks::Repeated { len, left: if len == 0 { 0 } else { wanted } }
    } else if wanted >= len {
        Picks::All(0..len)
    } else if wanted <= SAMPLED_MAX {
        let ranks = sample(&mut rand::rng(), len, wanted).into_vec();
        Picks::Distinct(ranks.into_iter())
    } else {
        Picks::Distinct(shuffled(len, wanted, pace).into_iter())
    }
}

/// The first `wanted` ranks of a random order of those below `len`.
fn shuffled(len: usize, wanted: usize, pace: &Pace) -> Vec<usize> {
    let mut ranks: Vec<usize> = (0..len).collect();
    for place in 0..wanted {
        pace.step();
        ranks.swap(place, rand::random_range(place..len));
    }
    ranks.truncate(wanted);
    ranks
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
        for (len, count) in [(0, 3), (10, 0), (10, 3), (10, 10), (10, i64::MAX), (5000, 4000)] {
            let ranks: Vec<usize> = picks(len, count, &Pace::new()).collect();
            assert_eq!(ranks.len() as i64, count.min(len as i64));
            assert_eq!(picks(len, count, &Pace::new()).len(), ranks.len());
            assert_eq!(ranks.iter().collect::<HashSet<_>>().len(), ranks.len());
            assert!(ranks.iter().all(|rank| *rank < len));
        }
    }

    #[test]
    fn negative_counts_repeat() {
        assert_eq!(picks(3, -1000, &Pace::new()).len(), 1000);
        assert_eq!(picks(3, -1000, &Pace::new()).collect::<HashSet<_>>(), (0..3).collect());
        assert_eq!(picks(0, -1000, &Pace::new()).count(), 0);
    }
}
