//! The time that dispatchers take.

use std::collections::VecDeque;

use psp_policy::WorkerId;
use psp_policy::internal::WorkerTimes;

use super::costs::Costs;

/// Dispatchers that classify arrivals in order and hand out requests.
///
/// A dispatcher classifies one arrival at a time. Requests to dispatch come before further
/// arrivals.
pub(super) struct Dispatchers {
    /// Until when each dispatcher is busy.
    occupied_until_ns: Vec<u64>,
    /// The arrival that each dispatcher classifies, and when it is done.
    classifying: Vec<u32>,
    classified_at: WorkerTimes,
    /// Arrivals that wait for a dispatcher.
    waiting: VecDeque<u32>,
    waiting_max: usize,
}

impl Dispatchers {
    pub(super) fn new(dispatchers: usize, waiting_max: usize) -> Self {
        Self {
            occupied_until_ns: vec![0; dispatchers],
            classifying: vec![0; dispatchers],
            classified_at: WorkerTimes::new(dispatchers),
            waiting: VecDeque::new(),
            waiting_max,
        }
    }

    /// When the next classification ends; the end of time if there is none.
    pub(super) fn next_ns(&self) -> u64 {
        self.classified_at.earliest_ns().unwrap_or(u64::MAX)
    }

    /// Arrivals that are not classified yet.
    pub(super) fn held(&self) -> usize {
        let at = (0..).map(WorkerId).take(self.classifying.len());
        let classifying = at.filter(|&dispatcher| self.classified_at.get(dispatcher).is_some());
        self.waiting.len() + classifying.count()
    }

    /// A request arrives. Returns whether there was room for it.
    pub(super) fn arrived(&mut self, now_ns: u64, request: u32, costs: &Costs) -> bool {
        if self.waiting.len() >= self.waiting_max {
            return false;
        }
        self.waiting.push_back(request);
        self.take_up(now_ns, costs);
        true
    }

    /// The request whose classification has ended.
    pub(super) fn classified(&mut self) -> Option<u32> {
        let (_, dispatcher) = self.classified_at.earliest()?;
        self.classified_at.clear(dispatcher);
        Some(self.classifying[dispatcher.index()])
    }

    /// Lets free dispatchers take arrivals. The caller has dispatched everything that was decided
    /// on the last arrival.
    pub(super) fn take_up(&mut self, now_ns: u64, costs: &Costs) {
        while !self.waiting.is_empty() {
            let free = (0..).map(WorkerId).zip(&self.occupied_until_ns);
            let free = free.filter(|(dispatcher, _)| self.classified_at.get(*dispatcher).is_none());
            let Some((dispatcher, _)) = free.min_by_key(|(_, until_ns)| **until_ns) else {
                return;
            };
            let Some(request) = self.waiting.pop_front() else {
                return;
            };
            let occupied_until_ns = &mut self.occupied_until_ns[dispatcher.index()];
            *occupied_until_ns = (*occupied_until_ns).max(now_ns) + costs.classify_ns;
            self.classifying[dispatcher.index()] = request;
            self.classified_at.set(dispatcher, *occupied_until_ns);
        }
    }

    /// Dispatches a request. Returns when that is done.
    pub(super) fn hand_out(&mut self, now_ns: u64, costs: &Costs) -> u64 {
        self.occupy(now_ns, costs.dispatch_ns) + costs.dispatch_ns
    }

    /// Asks a worker to stop. Returns when a dispatcher begins to.
    pub(super) fn send(&mut self, now_ns: u64, costs: &Costs) -> u64 {
        self.occupy(now_ns, costs.send_ns)
    }

    /// The dispatcher that is free first is busy for so long. Returns when it begins.
    fn occupy(&mut self, now_ns: u64, takes_ns: u64) -> u64 {
        let earliest = self.occupied_until_ns.iter_mut().min_by_key(|ns| **ns);
        earliest.map_or(now_ns, |occupied_until_ns| {
            let begins_ns = (*occupied_until_ns).max(now_ns);
            *occupied_until_ns = begins_ns + takes_ns;
            begins_ns
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs() -> Costs {
        Costs { classify_ns: 10, dispatch_ns: 3, ..Costs::default() }
    }

    #[test]
    fn what_is_decided_comes_before_further_arrivals() {
        let mut dispatchers = Dispatchers::new(1, 8);
        for request in 0..3 {
            assert!(dispatchers.arrived(0, request, &costs()));
        }
        assert_eq!(dispatchers.next_ns(), 10);
        assert_eq!(dispatchers.classified(), Some(0));
        assert_eq!(dispatchers.hand_out(10, &costs()), 13);
        dispatchers.take_up(10, &costs());
        assert_eq!(dispatchers.next_ns(), 23);
        assert_eq!(dispatchers.classified(), Some(1));
        dispatchers.take_up(23, &costs());
        assert_eq!(dispatchers.next_ns(), 33);
    }

    #[test]
    fn whoever_is_asked_to_stop_occupies_the_dispatcher_meanwhile() {
        let costs = Costs { send_ns: 20, ..costs() };
        let mut dispatchers = Dispatchers::new(1, 8);
        assert_eq!(dispatchers.send(5, &costs), 5);
        assert_eq!(dispatchers.send(6, &costs), 25);
        assert_eq!(dispatchers.hand_out(6, &costs), 48);
    }

    #[test]
    fn dispatchers_share_the_work() {
        let mut dispatchers = Dispatchers::new(2, 8);
        for request in 0..3 {
            dispatchers.arrived(u64::from(request), request, &costs());
        }
        assert_eq!((dispatchers.next_ns(), dispatchers.classified()), (10, Some(0)));
        dispatchers.take_up(10, &costs());
        assert_eq!((dispatchers.next_ns(), dispatchers.classified()), (11, Some(1)));
        assert_eq!((dispatchers.next_ns(), dispatchers.classified()), (20, Some(2)));
        assert_eq!(dispatchers.next_ns(), u64::MAX);
    }

    #[test]
    fn arrivals_beyond_the_bound_are_refused() {
        let mut dispatchers = Dispatchers::new(1, 2);
        let taken: Vec<bool> = (0..4).map(|request| dispatchers.arrived(0, request, &costs())).collect();
        assert_eq!(taken, [true, true, true, false]);
    }
}
