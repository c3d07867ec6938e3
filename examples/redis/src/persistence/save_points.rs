//! When the data set is saved by itself.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The save points of the setting `save`, as Redis spells them: seconds and changes, in pairs. Without any, nothing is
/// saved unless a client asks for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SavePoints(Vec<SavePoint>);

/// The data set is saved after so many seconds, if there were so many changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SavePoint {
    seconds: u64,
    changes: u64,
}

impl SavePoints {
    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a save is due so many seconds after the last one, with so many changes since.
    pub(super) fn are_due(&self, seconds: u64, changes: impl Fn() -> u64) -> bool {
        let mut past = self.0.iter().filter(|point| point.seconds <= seconds).peekable();
        // To count changes takes longer than to compare times.
        past.peek().is_some() && {
            let changes = changes();
            past.any(|point| point.changes <= changes)
        }
    }
}

impl FromStr for SavePoints {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const INVALID: &str = "Invalid save parameters";
        let numbers: Option<Vec<u64>> = text.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
        let numbers = numbers.ok_or(INVALID)?;
        let (pairs, rest) = numbers.as_chunks::<2>();
        let points = pairs.iter().map(|&[seconds, changes]| SavePoint { seconds, changes });
        let points: Vec<_> = points.collect();
        match rest.is_empty() && points.iter().all(|point| point.seconds > 0) {
            true => Ok(Self(points)),
            false => Err(INVALID),
        }
    }
}

impl fmt::Display for SavePoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, SavePoint { seconds, changes }) in self.0.iter().enumerate() {
            let space = if index > 0 { " " } else { "" };
            write!(f, "{space}{seconds} {changes}")?;
        }
        Ok(())
    }
}

impl TryFrom<String> for SavePoints {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<SavePoints> for String {
    fn from(points: SavePoints) -> Self {
        points.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_spelled_as_in_redis() {
        for text in ["", "3600 1", "3600 1 300 100 60 10000", "1 0"] {
            let points: SavePoints = text.parse().unwrap();
            assert_eq!(points.to_string(), text);
            assert_eq!(points.is_empty(), text.is_empty());
        }
        for wrong in ["1", "1 2 3", "0 1", "-1 1", "1 -1", "a b", "1.5 1"] {
            assert!(wrong.parse::<SavePoints>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_save_is_due_when_one_point_is_reached() {
        let points: SavePoints = "100 1 10 50".parse().unwrap();
        for (seconds, changes, is_due) in [
            (9, 1000, false),
            (10, 49, false),
            (10, 50, true),
            (99, 49, false),
            (100, 1, true),
            (100, 0, false),
        ] {
            assert_eq!(points.are_due(seconds, || changes), is_due, "{seconds} {changes}");
        }
        let counted = |_: ()| -> u64 { panic!("nothing can be due") };
        assert!(!points.are_due(9, || counted(())));
        assert!(!SavePoints::default().are_due(u64::MAX, || counted(())));
    }
}
