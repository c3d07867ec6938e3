//! Work on many keys that lets other requests run meanwhile.

use std::cell::Cell;

use crate::shared::Shared;

/// Steps between two pauses.
const STEPS: u32 = 64;

/// Counts the steps of work that holds no lock which another request might want.
#[derive(Debug)]
pub(crate) struct Pace {
    /// `None` where no request yields.
    pause: Option<fn()>,
    steps: Cell<u32>,
}

impl Pace {
    /// Pauses as [`Databases::yield_by`](crate::Databases::yield_by) says.
    pub(crate) fn of(shared: &Shared) -> Self {
        Self { pause: shared.yield_by.get().copied(), steps: Cell::new(0) }
    }

    /// Does not pause, for work that holds locks.
    pub(crate) const fn silent() -> Self {
        Self { pause: None, steps: Cell::new(0) }
    }

    /// Counts one more step.
    #[inline]
    pub(crate) fn step(&self) {
        let steps = self.steps.get() + 1;
        self.steps.set(steps % STEPS);
        if steps == STEPS
            && let Some(pause) = self.pause
        {
            pause();
        }
    }
}
