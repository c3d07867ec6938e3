//! What earlier studies said of the candidates that they tried to the end.
//!
//! A few requests of a rare type can decide a study. A later one has other arrivals on record, so both together say more than
//! either.

/// A larger figure is remembered as this one, so that it does not decide for ever.
const FIGURE_MAX: f64 = 100.0;

/// See the [module](self).
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    /// By names of candidates.
    figures: Vec<(String, f64)>,
}

impl Memory {
    pub(super) fn new(figures: impl Iterator<Item = (String, f64)>) -> Self {
        let figures = figures.map(|(name, figure)| (name, figure.min(FIGURE_MAX)));
        Self {
            figures: figures.collect(),
        }
    }

    /// What a study may count that has `recorded` arrivals, where `since` have come since the one before. If they share any, it may
    /// count nothing, as these would count twice.
    pub(super) fn of_others(self, since: u64, recorded: usize) -> Self {
        match since < recorded as u64 {
            true => Self::default(),
            false => self,
        }
    }

    /// The workload is another one.
    pub(super) fn forget(&mut self) {
        self.figures.clear();
    }

    pub(super) fn figure(&self, name: &str) -> Option<f64> {
        let known = self.figures.iter().find(|(known, _)| known == name)?;
        Some(known.1)
    }
}

/// A figure of this study together with that of earlier ones, of which each counts half as much as the next.
pub(super) fn together(now: f64, earlier: Option<f64>) -> f64 {
    earlier.map_or(now, |earlier| (now * earlier).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_study_counts_half_and_none_counts_twice_or_for_ever() {
        assert_eq!(together(0.7, None), 0.7);
        assert_eq!(together(8.0, Some(2.0)), 4.0);
        let names = ["sq", "edf"].map(str::to_owned);
        let mut memory = Memory::new(names.into_iter().zip([2.0, f64::INFINITY]));
        assert_eq!(memory.figure("sq"), Some(2.0));
        assert_eq!(memory.figure("edf"), Some(FIGURE_MAX));
        assert_eq!(memory.figure("mq"), None);
        assert_eq!(memory.clone().of_others(99, 100).figure("sq"), None);
        memory = memory.of_others(100, 100);
        assert_eq!(memory.figure("sq"), Some(2.0));
        memory.forget();
        assert_eq!(memory.figure("sq"), None);
    }
}
