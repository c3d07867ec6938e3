//! Which type's arrival is due next.

use crate::arrivals::Schedule;

/// The schedules of one thread's types, merged, up to the end of the run.
#[derive(Debug)]
pub(crate) struct Pacer {
    schedules: Vec<Schedule>,
    end_ns: u64,
    next: Option<Arrival>,
}

/// One request that shall be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Place of its schedule.
    pub(crate) index: usize,
    /// When it shall be sent.
    pub(crate) intended_ns: u64,
}

impl Pacer {
    /// Merges `schedules`; arrivals at or after `end_ns` do not take place.
    pub(crate) fn new(schedules: Vec<Schedule>, end_ns: u64) -> Self {
        let mut pacer = Self {
            schedules,
            end_ns,
            next: None,
        };
        pacer.next = pacer.earliest();
        pacer
    }

    /// The next arrival, `None` when all have been taken.
    pub(crate) fn next(&self) -> Option<Arrival> {
        self.next
    }

    /// Takes the next arrival if it is due at `now_ns`.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<Arrival> {
        let due = self.next.filter(|arrival| arrival.intended_ns <= now_ns)?;
        self.schedules[due.index].next();
        self.next = self.earliest();
        Some(due)
    }

    // A thread has a handful of types: looking at each beats a heap.
    fn earliest(&self) -> Option<Arrival> {
        let arrivals = self.schedules.iter().enumerate();
        arrivals
            .map(|(index, schedule)| Arrival {
                index,
                intended_ns: schedule.next_ns(),
            })
            .min_by_key(|arrival| arrival.intended_ns)
            .filter(|arrival| arrival.intended_ns < self.end_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::ArrivalProcess;

    #[test]
    fn arrivals_of_all_types_come_in_order_and_end() {
        let rates = [1_000.0, 100.0, 0.0];
        let schedules = (0..)
            .zip(rates)
            .map(|(stream, rate_rps)| Schedule::new(ArrivalProcess::Uniform, rate_rps, 1, stream));
        let mut pacer = Pacer::new(schedules.collect(), 10_000_000_000);
        assert_eq!(pacer.take_due(0), None);
        let mut taken = Vec::new();
        while let Some(arrival) = pacer.take_due(u64::MAX) {
            taken.push(arrival);
        }
        assert!(taken.is_sorted_by_key(|arrival| arrival.intended_ns));
        let count = |index| {
            taken
                .iter()
                .filter(|arrival| arrival.index == index)
                .count()
        };
        assert_eq!([count(0), count(1), count(2)], [10_000, 1_000, 0]);
    }
}
