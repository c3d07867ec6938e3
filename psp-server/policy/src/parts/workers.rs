//! Which workers are idle, and which of them to use next.

use crate::event::WorkerId;
use crate::parts::running::Running;

/// Workers `first` up to but not including `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkerRange {
    pub(crate) first: u32,
    pub(crate) end: u32,
}

impl WorkerRange {
    pub(crate) const fn new(first: u32, end: u32) -> Self {
        Self { first, end }
    }

    pub(crate) const fn len(self) -> usize {
        self.end.saturating_sub(self.first) as usize
    }

    pub(crate) const fn contains(self, worker: u32) -> bool {
        self.first <= worker && worker < self.end
    }

    /// The workers of this range that are also in `other`.
    pub(crate) fn within(self, other: Self) -> Self {
        Self::new(self.first.max(other.first), self.end.min(other.end))
    }
}

/// Number of workers as worker ids count them.
///
/// # Panics
///
/// When there are none, or more than ids can name.
pub(crate) fn worker_count(workers: usize) -> u32 {
    assert!(workers > 0, "a scheduler needs at least one worker");
    u32::try_from(workers).expect("worker ids are 32 bits wide")
}

const BITS: u32 = u64::BITS;
const NIL: u32 = u32::MAX;

/// Neighbours in the list of idle workers.
#[derive(Debug, Clone, Copy)]
struct Links {
    newer: u32,
    older: u32,
}

/// The idle workers, by when they were last active: a list with the most recent first, and a
/// bitset that tells whether a range has any.
///
/// The most recent is taken first: its caches are warm and, on a machine that lets idle threads
/// sleep, it is the likeliest to be awake. At the start that is worker 0, then 1, and so on.
///
/// Absent workers are at the end of the list. They begin nothing, but may resume what is suspended there.
#[derive(Debug)]
pub(crate) struct WorkerSet {
    idle: Vec<u64>,
    /// Number of idle workers that are present.
    count: usize,
    links: Vec<Links>,
    newest: u32,
    oldest: u32,
    present: u32,
    /// Worker 0 is taken before more recent ones.
    inline: bool,
}

impl WorkerSet {
    /// `workers` workers, all idle. With `inline`, worker 0 is the caller's own thread, and taken
    /// whenever it may be.
    pub(crate) fn new(workers: u32, inline: bool) -> Self {
        let links = Links { newer: NIL, older: NIL };
        let mut set = Self {
            idle: vec![0; workers.div_ceil(BITS) as usize],
            count: 0,
            links: vec![links; workers as usize],
            newest: NIL,
            oldest: NIL,
            present: workers,
            inline,
        };
        for worker in (0..workers).rev() {
            set.release(WorkerId(worker));
        }
        set
    }

    /// Whether all workers are busy.
    #[inline]
    pub(crate) const fn all_busy(&self) -> bool {
        self.newest == NIL
    }

    /// How many workers are idle and present.
    pub(crate) const fn idle(&self) -> usize {
        self.count
    }

    /// Records that `worker` is idle.
    ///
    /// # Panics
    ///
    /// When it was idle already, or is none of this set: the driver reported nonsense, and to go
    /// on would give one worker two requests.
    #[inline]
    pub(crate) fn release(&mut self, worker: WorkerId) {
        let (word, bit) = place(worker.0);
        assert!(
            worker.index() < self.links.len() && self.idle[word] & bit == 0,
            "worker {} completed without having run anything",
            worker.0
        );
        self.idle[word] |= bit;
        if worker.0 < self.present {
            self.count += 1;
            self.link(worker, NIL, self.newest);
        } else {
            self.link(worker, self.oldest, NIL);
        }
    }

    /// Puts a worker between two others of the list, or at one of its ends.
    #[inline]
    fn link(&mut self, worker: WorkerId, newer: u32, older: u32) {
        self.links[worker.index()] = Links { newer, older };
        match self.links.get_mut(newer as usize) {
            Some(newer) => newer.older = worker.0,
            None => self.newest = worker.0,
        }
        match self.links.get_mut(older as usize) {
            Some(older) => older.newer = worker.0,
            None => self.oldest = worker.0,
        }
    }

    /// Takes the most recently active idle worker of `range`.
    #[cfg(test)]
    pub(crate) fn take(&mut self, range: WorkerRange) -> Option<WorkerId> {
        let worker = self.find(range, |_| true)?;
        self.remove(worker);
        Some(worker)
    }

    /// Whether `worker` is the caller's own thread.
    #[inline]
    pub(crate) const fn is_own_thread(&self, worker: WorkerId) -> bool {
        self.inline && worker.0 == 0
    }

    /// The most recently active idle worker of `range` that is `fit`.
    #[inline]
    pub(crate) fn find(&self, range: WorkerRange, fit: impl Fn(WorkerId) -> bool) -> Option<WorkerId> {
        if !self.any_idle(range) {
            return None;
        }
        let fits = |&worker: &WorkerId| range.contains(worker.0) && fit(worker);
        let own_thread = (self.inline && self.idle[0] & 1 != 0).then_some(WorkerId(0));
        own_thread.filter(fits).or_else(|| self.workers().find(fits))
    }

    /// The idle workers, the most recently active first.
    #[inline]
    pub(crate) fn workers(&self) -> impl Iterator<Item = WorkerId> {
        let older = |worker: &u32| Some(self.links.get(*worker as usize)?.older);
        std::iter::successors(Some(self.newest), older)
            .take_while(|&worker| worker != NIL)
            .map(WorkerId)
    }

    /// The idle workers as they are taken: worker 0 first where it is the caller's own thread.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = WorkerId> {
        let own_thread = (self.inline && self.idle[0] & 1 != 0).then_some(WorkerId(0));
        let others = self.workers().filter(move |&worker| own_thread != Some(worker));
        own_thread.into_iter().chain(others)
    }

    /// All workers, idle or not, present or absent.
    pub(crate) fn all(&self) -> WorkerRange {
        WorkerRange::new(0, worker_count(self.links.len()))
    }

    /// The workers that are present, idle or not.
    pub(crate) const fn present(&self) -> WorkerRange {
        WorkerRange::new(0, self.present)
    }

    /// Takes the workers that run something. All workers are idle before.
    pub(crate) fn take_running(&mut self, running: &Running) {
        for (worker, _) in running.turns() {
            self.remove(worker);
        }
    }

    /// Takes this idle worker.
    #[inline]
    pub(crate) fn remove(&mut self, worker: WorkerId) {
        let (word, bit) = place(worker.0);
        self.idle[word] &= !bit;
        self.count -= usize::from(worker.0 < self.present);
        self.unlink(worker);
    }

    /// Takes a worker out of the list.
    #[inline]
    fn unlink(&mut self, worker: WorkerId) {
        let Links { newer, older } = self.links[worker.index()];
        match self.links.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        match self.links.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
    }

    /// Workers `0..present` are present, and no others. Those that come are the last to be taken.
    pub(crate) fn set_present(&mut self, present: u32) {
        let is_idle = |set: &Self, worker: u32| {
            let (word, bit) = place(worker);
            set.idle[word] & bit != 0
        };
        for worker in self.present.min(present)..self.all().end {
            if is_idle(self, worker) {
                self.unlink(WorkerId(worker));
                self.link(WorkerId(worker), self.oldest, NIL);
            }
        }
        self.present = present;
        self.count = (0..present).filter(|&worker| is_idle(self, worker)).count();
    }

    /// Whether any worker of `range` is idle.
    #[inline]
    pub(crate) fn any_idle(&self, range: WorkerRange) -> bool {
        if range.len() == 0 {
            return false;
        }
        let (word_first, word_last) = (range.first / BITS, (range.end - 1) / BITS);
        (word_first..=word_last).any(|word| {
            let mut bits = self.idle[word as usize];
            if word == word_first {
                bits &= u64::MAX << (range.first % BITS);
            }
            if word == word_last {
                bits &= u64::MAX >> (BITS - 1 - (range.end - 1) % BITS);
            }
            bits != 0
        })
    }
}

/// Word and bit of a worker in the bitset.
const fn place(worker: u32) -> (usize, u64) {
    ((worker / BITS) as usize, 1 << (worker % BITS))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::HandOff;
    use crate::parts::waiting::Waiting;
    use crate::rehearsal::setup;
    use crate::request_type::TypeTable;

    const ALL: WorkerRange = WorkerRange::new(0, 4);

    fn taken(set: &mut WorkerSet, range: WorkerRange) -> Vec<u32> {
        std::iter::from_fn(|| set.take(range)).map(|worker| worker.0).collect()
    }

    #[test]
    fn starts_with_worker_0_and_then_prefers_the_most_recent() {
        let mut set = WorkerSet::new(4, false);
        assert_eq!(taken(&mut set, ALL), [0, 1, 2, 3]);
        assert!(set.all_busy());
        for worker in [2, 0, 3] {
            set.release(WorkerId(worker));
        }
        assert_eq!(set.take(WorkerRange::new(0, 3)), Some(WorkerId(0)));
        assert_eq!(taken(&mut set, ALL), [3, 2]);
    }

    #[test]
    #[should_panic(expected = "worker 1 completed without having run anything")]
    fn a_second_completion_is_refused() {
        WorkerSet::new(2, false).release(WorkerId(1));
    }

    #[test]
    fn beside_what_runs_the_others_are_idle() {
        let types = TypeTable::new();
        let mut running = Running::new(&setup(4, &types));
        for worker in [0, 2] {
            running.start(0, WorkerId(worker), Waiting::example(), HandOff::Own);
        }
        let mut set = WorkerSet::new(4, true);
        set.take_running(&running);
        assert_eq!(taken(&mut set, ALL), [1, 3]);
        assert!(set.all_busy());
        set.release(WorkerId(2));
        set.release(WorkerId(0));
        assert_eq!(taken(&mut set, ALL), [0, 2]);
    }

    proptest! {
        /// Against a plain list, with ranges that cross the words of the bitset.
        #[test]
        fn agrees_with_a_list(
            workers in 1_u32..200,
            steps in prop::collection::vec((any::<bool>(), 0_u32..200, 0_u32..200), 0..400),
        ) {
            let mut set = WorkerSet::new(workers, false);
            let mut idle: Vec<u32> = (0..workers).rev().collect();
            for (release, first, end) in steps {
                if release {
                    if first < workers && !idle.contains(&first) {
                        set.release(WorkerId(first));
                        idle.push(first);
                    }
                    continue;
                }
                let range = WorkerRange::new(first.min(workers), end.min(workers));
                let expected = idle.iter().rposition(|&worker| range.contains(worker));
                let expected = expected.map(|position| WorkerId(idle.remove(position)));
                prop_assert_eq!(set.take(range), expected);
                prop_assert_eq!(set.all_busy(), idle.is_empty());
            }
        }
    }

    #[test]
    fn the_callers_own_thread_goes_before_more_recent_workers() {
        for inline in [false, true] {
            let mut set = WorkerSet::new(3, inline);
            let all = WorkerRange::new(0, 3);
            assert_eq!(set.take(all), Some(WorkerId(0)));
            assert_eq!(set.take(all), Some(WorkerId(1)));
            set.release(WorkerId(0));
            set.release(WorkerId(1));
            assert_eq!(set.take(WorkerRange::new(1, 3)), Some(WorkerId(1)));
            set.release(WorkerId(1));
            assert_eq!(set.take(all), Some(WorkerId(u32::from(!inline))));
        }
    }

    #[test]
    fn a_worker_is_idle_in_the_ranges_that_have_it_and_in_no_others() {
        for idle in [0, 1, 62, 63, 64, 127, 128, 129] {
            let mut set = WorkerSet::new(130, false);
            (0..130).filter(|&worker| worker != idle).for_each(|worker| set.remove(WorkerId(worker)));
            for first in 0..130 {
                for range in (first..=130).map(|end| WorkerRange::new(first, end)) {
                    assert_eq!(set.any_idle(range), range.contains(idle), "{idle} in {range:?}");
                }
            }
        }
    }

    #[test]
    fn idle_workers_are_seen_in_the_order_in_which_they_are_taken() {
        for (inline, is_busy) in [(false, false), (true, false), (true, true)] {
            let mut set = WorkerSet::new(3, inline);
            set.remove(WorkerId(2));
            set.release(WorkerId(2));
            if is_busy {
                set.remove(WorkerId(0));
            }
            let seen: Vec<u32> = set.in_order().map(|worker| worker.0).collect();
            assert_eq!(seen, taken(&mut set, WorkerRange::new(0, 3)), "{inline} {is_busy}");
        }
    }

    #[test]
    fn absent_workers_are_taken_last_and_do_not_count() {
        let mut set = WorkerSet::new(5, false);
        set.set_present(3);
        set.remove(WorkerId(3));
        set.release(WorkerId(3));
        assert_eq!(set.idle(), 3);
        set.set_present(3);
        let order = |set: &WorkerSet| set.workers().map(|worker| worker.0).collect::<Vec<_>>();
        assert_eq!((order(&set), set.idle()), (vec![0, 1, 2, 3, 4], 3));
        set.remove(WorkerId(4));
        set.remove(WorkerId(1));
        assert_eq!(set.idle(), 2);
        set.release(WorkerId(4));
        set.release(WorkerId(1));
        assert_eq!((order(&set), set.idle()), (vec![1, 0, 2, 3, 4], 3));
        set.set_present(1);
        assert_eq!((order(&set), set.idle()), (vec![0, 1, 2, 3, 4], 1));
        assert_eq!(set.find(set.present(), |_| true), Some(WorkerId(0)));
        assert_eq!(set.find(set.all(), |worker| worker.0 > 2), Some(WorkerId(3)));
        set.remove(WorkerId(0));
        assert_eq!(set.take(set.present()), None);
        set.set_present(4);
        set.release(WorkerId(0));
        assert_eq!((order(&set), set.idle()), (vec![0, 1, 2, 3, 4], 4));
    }
}
