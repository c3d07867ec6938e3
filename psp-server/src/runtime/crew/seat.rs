//! One worker's place among the others: what its net worker needs of them.

use std::sync::Arc;

use psp_policy::WorkerId;

use super::offers::Offers;
use super::shared_state::Crew;

/// See the [module](self). `T` is what the workers run.
pub(crate) struct Seat<T> {
    me: WorkerId,
    crew: Arc<Crew>,
    /// Tasks that wait at any worker.
    pub(crate) offers: Arc<Offers<T>>,
    /// The worker has said that it has no connections left.
    has_left: bool,
}

impl<T> Seat<T> {
    pub(crate) const fn new(me: WorkerId, crew: Arc<Crew>, offers: Arc<Offers<T>>) -> Self {
        Self {
            me,
            crew,
            offers,
            has_left: false,
        }
    }

    /// The worker sleeps unless it finds something now.
    pub(crate) fn announce_sleep(&self) {
        self.crew.announce_sleep(self.me);
    }

    /// The worker is awake again.
    pub(crate) fn awake(&self) {
        self.crew.awake(self.me);
    }

    /// The worker drains and has no connections left. Returns whether no worker has: until then this one runs what
    /// others hand over.
    pub(crate) fn may_leave(&mut self) -> bool {
        if !std::mem::replace(&mut self.has_left, true) {
            self.crew.leave();
        }
        self.crew.is_empty()
    }
}
