//! Cores, and sets of them as Linux writes them.

use std::fmt;
use std::str::FromStr;

use rustix::thread::CpuSet;
use serde::{Deserialize, Serialize};

use crate::limits::CORES_MAX;

/// A core: a hardware thread, by the number that Linux gives it. Below [`CORES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct CoreId(u16);

impl CoreId {
    /// The core with this number; `None` from [`CORES_MAX`] on.
    #[must_use]
    pub fn new(number: usize) -> Option<Self> {
        (number < CORES_MAX).then_some(Self(number as u16))
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> usize {
        self.0.into()
    }
}

impl TryFrom<u16> for CoreId {
    type Error = InvalidCores;

    fn try_from(number: u16) -> Result<Self, InvalidCores> {
        Self::new(number.into()).ok_or_else(|| InvalidCores(number.to_string()))
    }
}

impl From<CoreId> for u16 {
    fn from(core: CoreId) -> Self {
        core.0
    }
}

impl fmt::Display for CoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A text that is not a set of cores.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no set of cores, such as 0-3,6")]
pub struct InvalidCores(String);

const WORDS: usize = CORES_MAX / 64;

/// A set of cores. As a text it looks like `0-3,6`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CoreSet([u64; WORDS]);

impl CoreSet {
    /// Adds a core.
    pub fn insert(&mut self, core: CoreId) {
        self.0[core.number() / 64] |= 1 << (core.number() % 64);
    }

    /// Removes a core.
    pub fn remove(&mut self, core: CoreId) {
        self.0[core.number() / 64] &= !(1 << (core.number() % 64));
    }

    /// Whether it has the core.
    #[must_use]
    pub fn contains(&self, core: CoreId) -> bool {
        self.0[core.number() / 64] & (1 << (core.number() % 64)) != 0
    }

    /// How many cores it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether it has no core.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// Its cores in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CoreId> + '_ {
        (0..CORES_MAX).filter_map(CoreId::new).filter(|&core| self.contains(core))
    }

    /// The cores that are in both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    /// The cores that are in either set.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// The cores that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// The cores of an affinity mask.
    #[must_use]
    pub(crate) fn of_mask(mask: &CpuSet) -> Self {
        let cores = (0..CpuSet::MAX_CPU).filter(|&number| mask.is_set(number));
        cores.filter_map(CoreId::new).collect()
    }

    /// As an affinity mask.
    #[must_use]
    pub(crate) fn to_mask(self) -> CpuSet {
        let mut mask = CpuSet::new();
        self.iter().for_each(|core| mask.set(core.number()));
        mask
    }
}

impl FromIterator<CoreId> for CoreSet {
    fn from_iter<I: IntoIterator<Item = CoreId>>(cores: I) -> Self {
        let mut set = Self::default();
        cores.into_iter().for_each(|core| set.insert(core));
        set
    }
}

impl FromStr for CoreSet {
    type Err = InvalidCores;

    fn from_str(text: &str) -> Result<Self, InvalidCores> {
        let mut set = Self::default();
        let text = text.trim();
        for range in text.split(',').filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let number = |word: &str| word.trim().parse().ok().and_then(CoreId::new);
            match (number(first), number(last)) {
                (Some(first), Some(last)) if first <= last => {
                    (first.0..=last.0).for_each(|core| set.insert(CoreId(core)));
                }
                _ => return Err(InvalidCores(text.to_owned())),
            }
        }
        Ok(set)
    }
}

impl TryFrom<String> for CoreSet {
    type Error = InvalidCores;

    fn try_from(text: String) -> Result<Self, InvalidCores> {
        text.parse()
    }
}

impl From<CoreSet> for String {
    fn from(set: CoreSet) -> Self {
        set.to_string()
    }
}

impl fmt::Display for CoreSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        let mut cores = self.iter().peekable();
        while let Some(first) = cores.next() {
            let mut last = first;
            while let Some(next) = cores.next_if(|next| next.0 == last.0 + 1) {
                last = next;
            }
            write!(f, "{comma}{first}")?;
            if last != first {
                write!(f, "-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CoreSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_written_as_linux_writes_it() {
        for (text, written, len) in [
            ("0-3,6\n", "0-3,6", 5),
            ("5,4", "4-5", 2),
            ("", "", 0),
            ("1023", "1023", 1),
            ("0,2,4", "0,2,4", 3),
        ] {
            let set: CoreSet = text.parse().unwrap();
            assert_eq!((set.to_string().as_str(), set.len()), (written, len));
            assert_eq!(CoreSet::of_mask(&set.to_mask()), set);
        }
        for text in ["a", "3-1", "1024", "-1", "1-"] {
            assert!(text.parse::<CoreSet>().is_err(), "{text}");
        }
    }

    #[test]
    fn sets_are_compared_core_by_core() {
        let (all, some): (CoreSet, CoreSet) = ("0-7".parse().unwrap(), "2-3,9".parse().unwrap());
        assert_eq!(all.and(&some).to_string(), "2-3");
        assert_eq!(all.or(&some).to_string(), "0-7,9");
        assert_eq!(all.without(&some).to_string(), "0-1,4-7");
        assert!(CoreSet::default().is_empty() && !all.is_empty());
    }
}
