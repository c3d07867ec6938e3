//! What feedback has published: lengths of types, and the workers that each may use.
//!
//! [`Feedback`](super::Feedback) writes and workers read. Each word makes sense by itself: a worker that reads old and
//! new ones side by side decides as it would have a moment earlier for one type, and as now for another.

use crate::distributed::lanes::{LANES_MAX, LaneSet, lane_of};
use crate::distributed::word::Word;
use crate::event::WorkerId;
use crate::parts::workers::WorkerRange;
use crate::request_type::RequestType;

/// Group of types that are in none: those of unknown length.
pub(crate) const NO_GROUP: u32 = u32::MAX;

/// What is known of one type.
#[derive(Debug, Default)]
struct TypeWords<C> {
    mean_ns: C,
    long: C,
    rank: C,
    group: C,
    own: C,
    further: C,
    borrowed: C,
}

/// Where requests of a type may begin, and before which others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reservation {
    /// Place among all types: the lowest goes first.
    pub(crate) rank: u32,
    /// Number of its group, by ascending service time. Types of one group are alike.
    pub(crate) group: u32,
    /// Workers reserved for it.
    pub(crate) own: WorkerRange,
    /// Other workers that it may use.
    pub(crate) further: WorkerRange,
    /// Workers that it may use until they are taken back.
    pub(crate) borrowed: WorkerRange,
}

impl Reservation {
    /// Whether its requests may begin on `worker`, for good.
    pub(crate) const fn has(&self, worker: WorkerId) -> bool {
        self.own.contains(worker.0) || self.further.contains(worker.0)
    }
}

const fn pack(range: WorkerRange) -> u64 {
    (range.first as u64) << 32 | range.end as u64
}

const fn unpack(word: u64) -> WorkerRange {
    WorkerRange::new((word >> 32) as u32, word as u32)
}

/// What feedback has published: lengths of types, and the workers that each may use. Workers read it.
#[derive(Debug)]
pub struct Knowledge<C> {
    /// Per type slot, `UNKNOWN` last.
    types: Box<[TypeWords<C>]>,
    /// Per worker: the lanes of types that it relieves.
    reliefs: Box<[C]>,
    /// The last slot, if slots beyond it share its lane.
    shared_lane: bool,
}

impl<C: Word> Knowledge<C> {
    /// Nothing is known of so many registered types: all are long and in no group, and none may use any of so many
    /// workers.
    #[must_use]
    pub fn new(types: usize, workers: usize) -> Self {
        let knowledge = Self {
            types: (0..=types).map(|_| TypeWords::default()).collect(),
            reliefs: (0..workers).map(|_| C::default()).collect(),
            shared_lane: types >= LANES_MAX,
        };
        for slot in 0..=types {
            knowledge.set_length(slot, None, true);
            knowledge.types[slot].group.set(NO_GROUP.into());
        }
        knowledge
    }

    /// How many slots there are.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.types.len()
    }

    /// The slot of a type; types that are not registered are `UNKNOWN`.
    #[must_use]
    pub fn slot(&self, request_type: RequestType) -> usize {
        let unknown = self.types.len() - 1;
        let index = request_type.index();
        index.map_or(unknown, |index| index.min(unknown))
    }

    /// Mean service time of the type at `slot` in nanoseconds, if known.
    #[must_use]
    pub fn mean_ns(&self, slot: usize) -> Option<f64> {
        let word = self.types[slot].mean_ns.get();
        (word != 0).then(|| f64::from_bits(word))
    }

    /// Whether requests of the type at `slot` are long.
    #[must_use]
    pub fn is_long(&self, slot: usize) -> bool {
        self.types[slot].long.get() == 1
    }

    /// Publishes the length of a type.
    pub(crate) fn set_length(&self, slot: usize, mean_ns: Option<f64>, long: bool) {
        let words = &self.types[slot];
        words.mean_ns.set(mean_ns.map_or(0, f64::to_bits));
        words.long.set(u64::from(long));
    }

    /// Where the type at `slot` may run.
    #[inline]
    pub(crate) fn reservation(&self, slot: usize) -> Reservation {
        let words = &self.types[slot];
        Reservation {
            rank: words.rank.get() as u32,
            group: words.group.get() as u32,
            own: unpack(words.own.get()),
            further: unpack(words.further.get()),
            borrowed: unpack(words.borrowed.get()),
        }
    }

    /// Publishes where a type may run.
    pub(crate) fn set_reservation(&self, slot: usize, reservation: &Reservation) {
        let words = &self.types[slot];
        words.rank.set(reservation.rank.into());
        words.group.set(reservation.group.into());
        words.own.set(pack(reservation.own));
        words.further.set(pack(reservation.further));
        words.borrowed.set(pack(reservation.borrowed));
    }

    /// The lanes of types whose own workers are all [stuck](crate::Scheduler::relief), and of which `worker` may
    /// run a request.
    #[inline]
    pub fn relieves(&self, worker: WorkerId) -> LaneSet {
        LaneSet::from_word(self.reliefs[worker.index()].get())
    }

    /// Publishes which lanes `worker` relieves.
    pub(crate) fn set_relieves(&self, worker: WorkerId, lanes: LaneSet) {
        self.reliefs[worker.index()].set(lanes.word());
    }

    /// The reservation of the types that wait in `lane`. Types that share a lane have the same.
    #[inline]
    pub(crate) fn of_lane(&self, lane: usize) -> Reservation {
        let slot = if self.shared_lane && lane == LANES_MAX - 1 {
            self.slots() - 1
        } else {
            lane
        };
        self.reservation(slot)
    }

    /// Whether requests of the types that wait in `lane` may begin on `worker`, and stay.
    #[must_use]
    pub fn may_run(&self, lane: usize, worker: WorkerId) -> bool {
        self.of_lane(lane).has(worker)
    }

    /// Whether feedback has put two types into one group: they may travel in one run.
    #[must_use]
    pub fn same_group(&self, first: usize, next: usize) -> bool {
        let group = self.reservation(first).group;
        group != NO_GROUP && group == self.reservation(next).group
    }

    /// The lanes of all types for which `such` holds.
    #[inline]
    pub(crate) fn lanes(&self, such: impl Fn(&Reservation) -> bool) -> LaneSet {
        let lanes = 0..=lane_of(self.slots() - 1);
        lanes.filter(|&lane| such(&self.of_lane(lane))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributed::word::Plain;

    #[test]
    fn workers_read_what_is_published() {
        let knowledge = Knowledge::<Plain>::new(2, 3);
        let unknown = [0, 1, 2].map(|slot| (knowledge.mean_ns(slot), knowledge.is_long(slot)));
        assert_eq!((unknown, knowledge.slots()), ([(None, true); 3], 3));
        assert!(!knowledge.may_run(0, WorkerId(0)) && !knowledge.same_group(0, 0));
        let slots = [0, 1, 2, u32::MAX].map(|index| knowledge.slot(RequestType::new(index)));
        assert_eq!(slots, [0, 1, 2, 2]);
        assert_eq!(knowledge.slot(RequestType::UNKNOWN), 2);

        knowledge.set_length(1, Some(2.5), false);
        assert_eq!((knowledge.mean_ns(1), knowledge.is_long(1)), (Some(2.5), false));
        let reservation = Reservation {
            rank: 7,
            group: 3,
            own: WorkerRange::new(0, 1),
            further: WorkerRange::new(2, 3),
            borrowed: WorkerRange::new(1, 2),
        };
        knowledge.set_reservation(1, &reservation);
        assert_eq!(knowledge.reservation(1), reservation);
        assert_eq!([0, 1, 2].map(|worker| knowledge.may_run(1, WorkerId(worker))), [true, false, true]);
        assert_eq!(knowledge.lanes(|of| of.rank == 7), LaneSet::of(1));
        for (group, same) in [(3, true), (4, false)] {
            knowledge.set_reservation(0, &Reservation { group, ..reservation });
            assert_eq!(knowledge.same_group(0, 1), same);
        }
        knowledge.set_relieves(WorkerId(2), LaneSet::of(1));
        assert_eq!([1, 2].map(|worker| knowledge.relieves(WorkerId(worker))), [LaneSet::NONE, LaneSet::of(1)]);
    }

    #[test]
    fn types_beyond_the_last_lane_are_read_as_unknown() {
        for (types, of_last_lane) in
            [(LANES_MAX - 1, LANES_MAX - 1), (LANES_MAX, LANES_MAX), (LANES_MAX + 3, LANES_MAX + 3)]
        {
            let knowledge = Knowledge::<Plain>::new(types, 1);
            for slot in 0..=types {
                let none = WorkerRange::new(0, 0);
                let reservation = Reservation {
                    rank: slot as u32,
                    group: 0,
                    own: none,
                    further: none,
                    borrowed: none,
                };
                knowledge.set_reservation(slot, &reservation);
            }
            assert_eq!(knowledge.of_lane(LANES_MAX - 1).rank as usize, of_last_lane);
            assert_eq!(knowledge.of_lane(LANES_MAX - 2).rank as usize, LANES_MAX - 2);
        }
    }
}
