//! Work that a scheduler wants done aside: a computation too long for the thread that drives it.

use std::fmt;

/// Work that a scheduler [asks for](crate::Scheduler::study). It takes up to some seconds of one core, so a live driver
/// runs it on a thread of its own. A simulator runs it at once.
pub struct Study(Box<dyn FnOnce() -> Findings + Send>);

impl Study {
    pub(crate) fn new(work: impl FnOnce() -> Findings + Send + 'static) -> Self {
        Self(Box::new(work))
    }

    /// Does the work. The driver [reports](crate::Scheduler::conclude) what comes of it to the scheduler that asked.
    #[must_use]
    pub fn run(self) -> Findings {
        (self.0)()
    }
}

impl fmt::Debug for Study {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Study")
    }
}

/// What comes of a [`Study`].
#[derive(Debug, Clone, PartialEq)]
pub struct Findings {
    /// Index of what was chosen.
    pub(crate) choice: usize,
    /// What was tried, and how each did, the best first.
    pub(crate) tried: Vec<Tried>,
}

/// What a study tried.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tried {
    /// The policy and its settings.
    pub(crate) name: String,
    /// The largest slowdown at p99.9 of any type, by the slowdown that it may have.
    pub(crate) worst: f64,
    /// That of the shortest type.
    pub(crate) shortest: f64,
    pub(crate) standing: Standing,
}

/// How sure it is that a candidate keeps what slowdowns types may have. The best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// With room to spare, and at a higher load.
    Ample,
    /// At a higher load.
    Holds,
    /// Not at a higher load, or it is not known.
    Open,
}

impl fmt::Display for Findings {
    /// The three best, with their worst slowdown in parts of what it may be.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, tried) in self.tried.iter().take(3).enumerate() {
            let comma = if number > 0 { ", " } else { "" };
            write!(formatter, "{comma}{} {:.2}", tried.name, tried.worst)?;
        }
        Ok(())
    }
}
