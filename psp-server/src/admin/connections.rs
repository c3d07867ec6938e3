//! The connections of the admin port.
//!
//! There are so many places. When all are taken, a newcomer gets the place of whoever is slowest, so that no client
//! that sends a request at once waits for those who do not:
//!
//! ```text
//!   Asking ── the request is complete ──► Working ── the answer is there ──► Reading ──► closed
//!   displaced, the oldest first           never displaced                    displaced if there is no other, or if
//!                                                                            they have more than half of all
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::AbortHandle;

/// Connections that are open at once.
const PLACES: usize = 64;

/// How far a connection is with its request, the only one that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The request is not complete.
    Asking,
    /// The answer is being made.
    Working,
    /// The client is reading the answer.
    Reading,
}

/// The stage of a connection: the connection sets it, the table reads it.
#[derive(Debug, Clone)]
pub(super) struct Progress(Arc<Mutex<Stage>>);

impl Progress {
    pub(super) fn set(&self, stage: Stage) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    fn stage(&self) -> Stage {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Connections {
    /// The oldest first.
    open: VecDeque<(Progress, AbortHandle)>,
}

impl Connections {
    /// Runs `converse` if there is a place. Otherwise drops it, which closes the connection.
    pub(super) fn admit<C: Future<Output = ()> + Send + 'static>(&mut self, converse: impl FnOnce(Progress) -> C) {
        self.open.retain(|(_, task)| !task.is_finished());
        if self.open.len() >= PLACES {
            let stages = { self.open.iter() }.map(|(progress, _)| progress.stage());
            let Some((_, task)) = slowest(stages).and_then(|slowest| self.open.remove(slowest)) else {
                return;
            };
            task.abort();
        }
        let progress = Progress(Arc::new(Mutex::new(Stage::Asking)));
        let task = tokio::spawn(converse(progress.clone()));
        self.open.push_back((progress, task.abort_handle()));
    }
}

/// Which of these connections, the oldest first, gives its place to a newcomer. `None` if all are being answered.
fn slowest(stages: impl Iterator<Item = Stage> + Clone) -> Option<usize> {
    let reading = stages.clone().filter(|&stage| stage == Stage::Reading);
    // Otherwise those who ask would soon be few, and displace each other before they are heard.
    let order = match reading.count() > PLACES / 2 {
        true => [Stage::Reading, Stage::Asking],
        false => [Stage::Asking, Stage::Reading],
    };
    let mut oldest = order.map(|wanted| stages.clone().position(|stage| stage == wanted));
    oldest.iter_mut().find_map(Option::take)
}

#[cfg(test)]
mod tests {
    use super::Stage::{Asking, Reading, Working};
    use super::*;

    #[test]
    fn the_oldest_that_asks_goes_first_and_nobody_who_is_being_answered() {
        let of = |stages: &[Stage]| slowest(stages.iter().copied());
        assert_eq!(of(&[Reading, Working, Asking, Asking]), Some(2));
        assert_eq!(of(&[Working, Reading, Reading]), Some(1));
        assert_eq!(of(&[Working, Working]), None);
        let half = [Reading; PLACES / 2];
        assert_eq!(of(&[&[Asking], &half[..]].concat()), Some(0));
        let more = [&[Asking, Reading], &half[..]].concat();
        assert_eq!(of(&more), Some(1), "readers have more than half");
    }
}
