//! The next due request of a thread.
//!
//! | pacer | loop | what makes a request due |
//! | --- | --- | --- |
//! | [`Schedules`] | open | times drawn from the types' rates |
//! | [`Recorded`] | open | times from a file |
//! | [`Clients`] | closed | the end of an earlier request, and a client's think time |

use std::io;

use psp_sim::workload::Schedule;

use super::arrival::Arrival;
use super::closed_loop::Clients;
use crate::schedule::{Place, Replay};

/// What triggers the requests of one thread.
#[derive(Debug)]
pub(crate) enum Pacer {
    Drawn(Schedules),
    Recorded(Recorded),
    Closed(Clients),
}

impl Pacer {
    /// Takes the next request if it is due at `now_ns`. A closed loop takes only a request for
    /// which `has_room` is true. An open loop ignores `has_room`.
    pub(crate) fn take_due(&mut self, now_ns: u64, has_room: impl Fn(usize) -> bool) -> io::Result<Option<Arrival>> {
        match self {
            Self::Drawn(schedules) => Ok(schedules.take_due(now_ns)),
            Self::Recorded(recorded) => recorded.take_due(now_ns),
            Self::Closed(clients) => Ok(clients.take_due(now_ns, has_room)),
        }
    }

    /// The time of the next action, unless it depends on replies alone. `None` after the last
    /// request.
    pub(crate) fn next_ns(&self, now_ns: u64, has_room: impl Fn(usize) -> bool) -> Option<u64> {
        match self {
            Self::Drawn(schedules) => schedules.next.map(|arrival| arrival.intended_ns),
            Self::Recorded(recorded) => recorded.next.map(|arrival| arrival.intended_ns),
            Self::Closed(clients) => clients.next_ns(now_ns, has_room),
        }
    }

    /// The clients of a closed loop. They must know which requests have ended.
    pub(crate) fn clients(&mut self) -> Option<&mut Clients> {
        match self {
            Self::Closed(clients) => Some(clients),
            Self::Drawn(_) | Self::Recorded(_) => None,
        }
    }
}

/// The merged schedules of one thread's types, up to the end of the run.
#[derive(Debug)]
pub(crate) struct Schedules {
    schedules: Vec<Schedule>,
    end_ns: u64,
    next: Option<Arrival>,
}

impl Schedules {
    /// Merges `schedules`. Arrivals at or after `end_ns` are left out.
    pub(crate) fn new(schedules: Vec<Schedule>, end_ns: u64) -> Self {
        let mut merged = Self { schedules, end_ns, next: None };
        merged.next = merged.earliest();
        merged
    }

    fn take_due(&mut self, now_ns: u64) -> Option<Arrival> {
        let due = self.next.filter(|arrival| arrival.intended_ns <= now_ns)?;
        self.schedules[due.index].next();
        self.next = self.earliest();
        Some(due)
    }

    // A thread has a handful of types, so looking at each is faster than a heap.
    fn earliest(&self) -> Option<Arrival> {
        let arrivals = self.schedules.iter().enumerate();
        arrivals
            .map(|(index, schedule)| Arrival { index, command: 0, intended_ns: schedule.next_ns() })
            .min_by_key(|arrival| arrival.intended_ns)
            .filter(|arrival| arrival.intended_ns < self.end_ns)
    }
}

/// The recorded arrivals of one thread's types, up to the end of the run.
#[derive(Debug)]
pub(crate) struct Recorded {
    replay: Replay,
    /// Index on the thread of each type of the plan.
    positions: Vec<Option<usize>>,
    end_ns: u64,
    next: Option<Arrival>,
}

impl Recorded {
    /// `replay` must hold only arrivals of types that have an index on the thread. Arrivals at or
    /// after `end_ns` are left out.
    pub(crate) fn new(replay: Replay, positions: Vec<Option<usize>>, end_ns: u64) -> io::Result<Self> {
        let mut recorded = Self { replay, positions, end_ns, next: None };
        recorded.advance()?;
        Ok(recorded)
    }

    fn take_due(&mut self, now_ns: u64) -> io::Result<Option<Arrival>> {
        let due = self.next.filter(|arrival| arrival.intended_ns <= now_ns);
        if due.is_some() {
            self.advance()?;
        }
        Ok(due)
    }

    fn advance(&mut self) -> io::Result<()> {
        self.next = self.replay.next()?.and_then(|arrival| {
            let Place { index, command } = arrival.place;
            let index = self.positions.get(index).copied().flatten()?;
            let intended_ns = arrival.at_ns;
            (intended_ns < self.end_ns).then_some(Arrival { index, command, intended_ns })
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Trace, TraceFormat, TracePace, TraceTypes};
    use psp_sim::workload::ArrivalProcess;

    fn all(mut pacer: Pacer) -> Vec<Arrival> {
        let mut take = || pacer.take_due(u64::MAX, |_| false).unwrap();
        std::iter::from_fn(&mut take).collect()
    }

    #[test]
    fn arrivals_of_all_types_come_in_order_and_end() {
        let rates = [1_000.0, 100.0, 0.0];
        let schedules = (0..)
            .zip(rates)
            .map(|(stream, rate_rps)| Schedule::new(ArrivalProcess::Uniform, rate_rps, 1, stream));
        let schedules = Schedules::new(schedules.collect(), 10_000_000_000);
        let mut pacer = Pacer::Drawn(schedules);
        assert_eq!(pacer.take_due(0, |_| true).unwrap(), None);
        assert!(pacer.next_ns(0, |_| true).is_some());
        let taken = all(pacer);
        assert!(taken.is_sorted_by_key(|arrival| arrival.intended_ns));
        let count = |index| taken.iter().filter(|arrival| arrival.index == index).count();
        assert_eq!([count(0), count(1), count(2)], [10_000, 1_000, 0]);
    }

    #[test]
    fn recorded_arrivals_of_the_threads_types_come_up_to_the_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "0 A\n1 B\n2 B\n3 A\n4 B\n").unwrap();
        let names = ["A", "B"].map(|name| (name.to_owned(), 1.0));
        let types = TraceTypes::Named(names.to_vec());
        let pace = TracePace::Recorded { speed: 1.0 };
        let trace = Trace::open(file.path(), TraceFormat::Own, pace, types).unwrap();
        let replay = trace.replay(ArrivalProcess::Poisson, 1, |index| index == 1);
        let replay = replay.unwrap();
        let recorded = Recorded::new(replay, vec![None, Some(0)], 4_000_000_000).unwrap();
        let mut pacer = Pacer::Recorded(recorded);
        assert_eq!(pacer.next_ns(0, |_| true), Some(1_000_000_000));
        assert_eq!(pacer.take_due(999_999_999, |_| true).unwrap(), None);
        let at = |seconds: u64| Arrival { index: 0, command: 0, intended_ns: seconds * 1_000_000_000 };
        assert_eq!(all(pacer), [at(1), at(2)]);
    }
}
