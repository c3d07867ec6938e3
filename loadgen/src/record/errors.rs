//! Errors, counted by their names.

/// Number of error kinds that are counted separately. Peers choose the names of kinds.
pub(super) const KINDS_MAX: usize = 32;

/// Counts by the name of the error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorCounts {
    counts: Vec<(String, u64)>,
}

impl ErrorCounts {
    /// Counts `count` more errors of `kind`. When there are too many kinds, further ones count as
    /// `OTHER`.
    pub fn add(&mut self, kind: &str, count: u64) {
        let known = self.counts.iter_mut().find(|(name, _)| name == kind);
        if let Some((_, total)) = known {
            *total += count;
        } else if self.counts.len() + 1 < KINDS_MAX || kind == OTHER {
            self.counts.push((kind.to_owned(), count));
        } else {
            self.add(OTHER, count);
        }
    }

    /// Kinds and counts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counts.iter().map(|(kind, count)| (kind.as_str(), *count))
    }

    /// All errors.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }
}

const OTHER: &str = "OTHER";
