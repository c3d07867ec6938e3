//! What earlier studies said of the candidates that they tried to the end.
//!
//! A few requests of a rare type can decide a study. A later one has other arrivals on record, so both together say
//! more than either. Arrivals that two studies share would count twice, so a study is told what the latest one said
//! that shares none.

use std::collections::VecDeque;

/// A larger figure is remembered as this one, so that it does not decide for ever.
const FIGURE_MAX: f64 = 100.0;
/// Studies that are remembered.
const STUDIES_MAX: usize = 32;

/// What one study said.
#[derive(Debug, Clone, Default)]
pub(super) struct Said {
    /// By names of candidates.
    figures: Vec<(String, f64)>,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// With the number of arrivals before the study, in order.
    studies: VecDeque<(u64, Said)>,
}

impl Said {
    pub(super) fn new(figures: impl Iterator<Item = (String, f64)>) -> Self {
        let figures = figures.map(|(name, figure)| (name, figure.min(FIGURE_MAX)));
        Self { figures: figures.collect() }
    }

    pub(super) fn figure(&self, name: &str) -> Option<f64> {
        let known = self.figures.iter().find(|(known, _)| known == name)?;
        Some(known.1)
    }
}

impl Memory {
    /// What a study after so many `arrivals` is told, of which the latest `recorded` are on record.
    pub(super) fn told(&mut self, arrivals: u64, recorded: usize) -> Said {
        let shares_none = |at: u64| at + recorded as u64 <= arrivals;
        while self.studies.get(1).is_some_and(|(at, _)| shares_none(*at)) {
            self.studies.pop_front();
        }
        let latest = self.studies.front().filter(|(at, _)| shares_none(*at));
        latest.map_or_else(Said::default, |(_, said)| said.clone())
    }

    /// Takes what a study after so many `arrivals` said.
    pub(super) fn take(&mut self, arrivals: u64, said: Said) {
        if self.studies.len() == STUDIES_MAX {
            self.studies.pop_front();
        }
        self.studies.push_back((arrivals, said));
    }

    /// The workload is another one.
    pub(super) fn forget(&mut self) {
        self.studies.clear();
    }
}

/// A figure of this study together with that of earlier ones, of which each counts half as much as the next.
pub(super) fn together(now: f64, earlier: Option<f64>) -> f64 {
    earlier.map_or(now, |earlier| (now * earlier).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(figure: f64) -> Said {
        Said::new([("sq".to_owned(), figure)].into_iter())
    }

    #[test]
    fn no_figure_counts_for_ever() {
        assert_eq!(together(0.7, None), 0.7);
        assert_eq!(together(8.0, Some(2.0)), 4.0);
        assert_eq!(said(2.0).figure("sq"), Some(2.0));
        assert_eq!(said(f64::INFINITY).figure("sq"), Some(FIGURE_MAX));
        assert_eq!(said(2.0).figure("mq"), None);
    }

    #[test]
    fn a_study_is_told_of_the_latest_that_shares_no_arrivals() {
        let mut memory = Memory::default();
        let told = |memory: &mut Memory, arrivals| memory.told(arrivals, 100).figure("sq");
        assert_eq!(told(&mut memory, 1_000), None);
        for at in [10, 50, 120] {
            memory.take(at, said(at as f64));
        }
        let of_times = [109, 110, 149, 150, 219, 220, 900].map(|at| told(&mut memory, at));
        let expected = [None, Some(10.0), Some(10.0), Some(50.0), Some(50.0)];
        assert_eq!(of_times[..5], expected);
        assert_eq!(of_times[5..], [Some(FIGURE_MAX); 2]);
        memory.forget();
        assert_eq!(told(&mut memory, 900), None);
        for at in 0..2 * STUDIES_MAX as u64 {
            memory.take(at, said(at as f64));
        }
        assert_eq!(memory.studies.len(), STUDIES_MAX);
    }
}
