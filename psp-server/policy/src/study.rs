//! Work that a scheduler wants done aside: a computation too long for the thread that drives it.

use std::fmt;

/// Work that a scheduler [asks for](crate::Scheduler::study). It takes up to some seconds of one core, so a live driver
/// runs it on a thread of its own. A simulator runs it at once.
pub struct Study(Box<dyn FnOnce() -> Findings + Send>);

impl Study {
    /// Work that ends in findings. It shares nothing with the scheduler, which goes on meanwhile.
    #[must_use]
    pub fn new(work: impl FnOnce() -> Findings + Send + 'static) -> Self {
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Findings {
    choice: usize,
    report: String,
}

impl Findings {
    /// The scheduler that asked knows what `choice` means, such as the index of one of the policies that it had tried.
    /// `report` is a line for the log.
    #[must_use]
    pub fn new(choice: usize, report: impl Into<String>) -> Self {
        let report = report.into();
        Self { choice, report }
    }

    /// What was chosen.
    #[must_use]
    pub const fn choice(&self) -> usize {
        self.choice
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.report)
    }
}
