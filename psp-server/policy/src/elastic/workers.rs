//! How many workers a server has: a number, or a range within which they come and go.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How many workers there are: always `max`, or between `min` and `max` by the load.
///
/// As text, `4` or `2..8`; both ends are included. In a configuration file a number, or the text of a range.
///
/// ```
/// use psp_policy::elastic::Workers;
///
/// assert_eq!("2..8".parse(), Ok(Workers::from(2..=8)));
/// assert_eq!(Workers::from(4).to_string(), "4");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workers {
    /// The fewest that are present.
    pub min: usize,
    /// The most that are present.
    pub max: usize,
}

impl Workers {
    /// Whether workers come and go.
    #[must_use]
    pub const fn is_elastic(self) -> bool {
        self.min < self.max
    }
}

impl From<usize> for Workers {
    fn from(workers: usize) -> Self {
        Self { min: workers, max: workers }
    }
}

impl From<RangeInclusive<usize>> for Workers {
    fn from(workers: RangeInclusive<usize>) -> Self {
        let (min, max) = workers.into_inner();
        Self { min, max }
    }
}

impl fmt::Display for Workers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            write!(formatter, "{}", self.max)
        } else {
            write!(formatter, "{}..{}", self.min, self.max)
        }
    }
}

/// What is expected of the text of [`Workers`].
const EXPECTED: &str = "a number such as 4, or a range such as 2..8";

impl FromStr for Workers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<usize>().ok();
        let workers = match text.split_once("..") {
            None => number(text).map(Self::from),
            Some((min, max)) => number(min).zip(number(max)).map(|(min, max)| Self { min, max }),
        };
        let workers = workers.ok_or_else(|| format!("`{text}` is not {EXPECTED}"))?;
        if workers.min > workers.max {
            return Err(format!("`{text}` begins with more than it ends with"));
        }
        Ok(workers)
    }
}

impl Serialize for Workers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.min == self.max {
            self.max.serialize(serializer)
        } else {
            serializer.collect_str(self)
        }
    }
}

impl<'de> Deserialize<'de> for Workers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrRange)
    }
}

struct NumberOrRange;

impl Visitor<'_> for NumberOrRange {
    type Value = Workers;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(EXPECTED)
    }

    fn visit_u64<E: Error>(self, workers: u64) -> Result<Workers, E> {
        let count = usize::try_from(workers).ok();
        let count = count.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(workers), &self))?;
        Ok(count.into())
    }

    fn visit_i64<E: Error>(self, workers: i64) -> Result<Workers, E> {
        let count = u64::try_from(workers).ok();
        let count = count.ok_or_else(|| E::invalid_value(Unexpected::Signed(workers), &self))?;
        self.visit_u64(count)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Workers, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn numbers_and_ranges_are_read_and_written() {
        for (text, workers, toml) in [
            ("4", Workers::from(4), "workers = 4\n"),
            ("2..8", Workers::from(2..=8), "workers = \"2..8\"\n"),
            ("3..3", Workers::from(3), "workers = 3\n"),
        ] {
            assert_eq!(text.parse(), Ok(workers));
            let table = BTreeMap::from([("workers", workers)]);
            assert_eq!(toml::to_string(&table).unwrap(), toml);
            let read: BTreeMap<String, Workers> = toml::from_str(toml).unwrap();
            assert_eq!(read["workers"], workers);
        }
        for text in ["", "many", "2..", "..8", "8..2", "-1", "2...8"] {
            assert!(text.parse::<Workers>().is_err(), "{text}");
        }
        let first_more = "`8..2` begins with more than it ends with";
        for (text, reason) in [("-1", EXPECTED), ("2.5", EXPECTED), ("'8..2'", first_more)] {
            let read = toml::from_str::<BTreeMap<String, Workers>>(&format!("workers = {text}"));
            let error = read.unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
