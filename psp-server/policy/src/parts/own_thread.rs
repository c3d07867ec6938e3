//! The driver's own thread, where it is worker 0: which requests it begins.
//!
//! While that thread runs a request it reads no socket and hands out no other request. So it begins
//! no request of unknown length while there is another worker: no request of a type with neither a hint nor
//! a measurement, and none of `UNKNOWN`. Where no type is registered all requests are `UNKNOWN`, none
//! has a length to go by, and the thread takes its part.

use crate::parts::workers::{WorkerRange, worker_count};
use crate::setup::SchedulerSetup;

/// That thread.
pub(crate) const OWN_THREAD: WorkerRange = WorkerRange::new(0, 1);

/// How long it takes to hand a request to a thread that sleeps, and to take it back, in nanoseconds.
pub(crate) const HAND_OVER_NS: f64 = 50_000.0;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct OwnThread {
    spared: bool,
    workers: u32,
}

impl OwnThread {
    pub(crate) fn new(setup: &SchedulerSetup<'_>) -> Self {
        Self {
            spared: setup.inline && !setup.types.is_empty(),
            workers: worker_count(setup.workers),
        }
    }

    /// Whether some requests do not begin on it.
    pub(crate) const fn is_spared(&self) -> bool {
        self.spared && self.workers > 1
    }

    /// So many workers are present.
    pub(crate) const fn set_workers(&mut self, workers: u32) {
        self.workers = workers;
    }

    /// The workers on which a request may begin, as far as this rule goes.
    pub(crate) fn open_to(&self, known_length: bool) -> WorkerRange {
        WorkerRange::new(u32::from(self.is_spared() && !known_length), self.workers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rehearsal::setup;
    use crate::request_type::{TypeSpec, TypeTable};

    #[test]
    fn only_a_worker_0_among_others_is_spared_and_only_where_there_are_types() {
        let types: TypeTable = [TypeSpec::new("ONE")].into_iter().collect();
        let none = TypeTable::new();
        for (inline, workers, types, first) in
            [(true, 2, &types, 1), (false, 2, &types, 0), (true, 1, &types, 0), (true, 2, &none, 0)]
        {
            let own_thread = OwnThread::new(&SchedulerSetup { inline, ..setup(workers, types) });
            let all = WorkerRange::new(0, workers as u32);
            assert_eq!(own_thread.open_to(true), all);
            assert_eq!(own_thread.open_to(false), WorkerRange::new(first, all.end));
            assert_eq!(own_thread.is_spared(), first > 0);
        }
    }
}
