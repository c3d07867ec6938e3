//! The simulated workers.

use psp_policy::WorkerId;
use psp_policy::internal::WorkerTimes;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution as _, StandardNormal};

use super::arrivals::Stream;
use super::costs::Costs;

/// The current request of a worker.
#[derive(Debug, Clone, Copy, Default)]
struct Stay {
    busy: bool,
    /// The request's number in the engine's slab.
    request: u32,
    /// When the worker got the request.
    taken_ns: u64,
    /// When service begins.
    starts_ns: u64,
    /// When service ends, by completion or preemption.
    stops_ns: u64,
    /// Whether the request completes then, or has had the service that it asked for in this turn.
    completes: bool,
    /// When the worker last became free.
    freed_ns: u64,
}

impl Stay {
    /// Service given until `now_ns`.
    fn served_ns(&self, now_ns: u64) -> u64 {
        now_ns.min(self.stops_ns).saturating_sub(self.starts_ns)
    }
}

/// The request of a worker that became free.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left {
    pub(super) worker: WorkerId,
    pub(super) request: u32,
    /// Service of this turn.
    pub(super) served_ns: u64,
    /// Whether the request had the service that it asked for in this turn. Otherwise it was preempted.
    pub(super) completed: bool,
}

/// See the [module](self).
pub(super) struct Workers {
    stays: Vec<Stay>,
    /// When each busy worker becomes free.
    free_at: WorkerTimes,
    busy: usize,
    /// Totals over all turns that have ended: of each worker, and of all.
    served_ns: Vec<u64>,
    occupied_ns: u64,
    /// How much longer than the median each preemption takes.
    preemptions: Xoshiro256PlusPlus,
}

impl Workers {
    /// Idle workers. The seed is that of the times that preemptions take, if these differ.
    pub(super) fn new(workers: usize, seed: u64) -> Self {
        Self {
            preemptions: Stream::Preemptions.rng(seed),
            stays: vec![Stay::default(); workers],
            free_at: WorkerTimes::new(workers),
            busy: 0,
            served_ns: vec![0; workers],
            occupied_ns: 0,
        }
    }

    /// When the next worker becomes free; the end of time if none is busy.
    #[inline]
    pub(super) fn next_ns(&self) -> u64 {
        self.free_at.earliest_ns().unwrap_or(u64::MAX)
    }

    /// How many workers have a request.
    #[inline]
    pub(super) const fn busy(&self) -> usize {
        self.busy
    }

    /// When a worker last became free.
    pub(super) fn freed_ns(&self, worker: WorkerId) -> u64 {
        self.stays[worker.index()].freed_ns
    }

    /// A worker gets a request that asks for `remaining_ns` of service from `starts_ns` on.
    ///
    /// # Panics
    ///
    /// When the worker is busy: the policy runs two requests on it.
    #[inline]
    pub(super) fn start(&mut self, now_ns: u64, worker: WorkerId, request: u32, starts_ns: u64, remaining_ns: u64) {
        let stay = &mut self.stays[worker.index()];
        assert!(!stay.busy, "worker {} runs something", worker.0);
        *stay = Stay {
            busy: true,
            request,
            taken_ns: now_ns,
            starts_ns,
            stops_ns: starts_ns + remaining_ns,
            completes: true,
            freed_ns: stay.freed_ns,
        };
        self.free_at.set(worker, stay.stops_ns);
        self.busy += 1;
    }

    /// Preempts a worker. If the request completes before the worker hears of it, it runs to its
    /// end.
    ///
    /// # Panics
    ///
    /// When the worker is idle.
    pub(super) fn preempt(&mut self, now_ns: u64, worker: WorkerId, costs: &Costs) {
        let stay = &mut self.stays[worker.index()];
        assert!(stay.busy, "worker {} has nothing to preempt", worker.0);
        let Costs { mut propagation_ns, mut preempt_ns, preempt_sigma, .. } = *costs;
        if preempt_sigma > 0.0 {
            let deviation: f64 = StandardNormal.sample(&mut self.preemptions);
            let factor = (preempt_sigma * deviation).exp();
            propagation_ns = (propagation_ns as f64 * factor) as u64;
            preempt_ns = (preempt_ns as f64 * factor) as u64;
        }
        let heard_ns = (now_ns + propagation_ns).max(stay.starts_ns);
        if heard_ns < stay.stops_ns {
            stay.stops_ns = heard_ns;
            stay.completes = false;
            self.free_at.set(worker, heard_ns + preempt_ns);
        }
    }

    /// Frees the worker whose time has come.
    #[inline]
    pub(super) fn free_next(&mut self) -> Option<Left> {
        let (now_ns, worker) = self.free_at.earliest()?;
        self.free_at.clear(worker);
        self.busy -= 1;
        let stay = &mut self.stays[worker.index()];
        stay.busy = false;
        stay.freed_ns = now_ns;
        let served_ns = stay.served_ns(now_ns);
        self.served_ns[worker.index()] += served_ns;
        self.occupied_ns += now_ns - stay.taken_ns;
        Some(Left {
            worker,
            request: stay.request,
            served_ns,
            completed: stay.completes,
        })
    }

    /// Service of each worker, and time in which workers were occupied.
    pub(super) fn spent_ns(&self, now_ns: u64) -> (Vec<u64>, u64) {
        let mut served_ns = self.served_ns.clone();
        let mut occupied_ns = self.occupied_ns;
        let stays = self.stays.iter().zip(&mut served_ns);
        for (stay, served_ns) in stays.filter(|(stay, _)| stay.busy) {
            *served_ns += stay.served_ns(now_ns);
            occupied_ns += now_ns - stay.taken_ns;
        }
        (served_ns, occupied_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs { propagation_ns: 20, preempt_ns: 5, ..Costs::FREE };

    #[test]
    fn a_victim_goes_on_until_it_hears_of_it() {
        let mut workers = Workers::new(2, 1);
        let worker = WorkerId(1);
        workers.start(0, worker, 7, 10, 100);
        workers.preempt(30, worker, &COSTS);
        assert_eq!(workers.next_ns(), 55);
        assert_eq!(workers.spent_ns(40), (vec![0, 30], 40));
        assert_eq!(workers.spent_ns(53), (vec![0, 40], 53), "lost after 50");
        let left = workers.free_next().unwrap();
        assert_eq!((left.request, left.served_ns, left.completed), (7, 40, false));
        assert_eq!(workers.spent_ns(60), (vec![0, 40], 55));
        assert_eq!(workers.next_ns(), u64::MAX);
    }

    #[test]
    fn a_victim_that_is_done_first_completes() {
        let mut workers = Workers::new(1, 1);
        workers.start(0, WorkerId(0), 7, 0, 50);
        workers.preempt(30, WorkerId(0), &COSTS);
        let left = workers.free_next().unwrap();
        assert_eq!((left.served_ns, left.completed), (50, true));
    }

    #[test]
    fn one_that_is_still_on_its_way_has_got_nothing() {
        let mut workers = Workers::new(1, 1);
        workers.start(0, WorkerId(0), 7, 100, 50);
        workers.preempt(10, WorkerId(0), &COSTS);
        assert_eq!(workers.next_ns(), 105);
        let left = workers.free_next().unwrap();
        assert_eq!((left.served_ns, left.completed), (0, false));
    }

    #[test]
    fn preemptions_that_differ_have_the_costs_as_their_median() {
        let costs = Costs {
            propagation_ns: 0,
            preempt_ns: 1_000,
            preempt_sigma: 0.5,
            ..COSTS
        };
        let mut workers = Workers::new(1, 1);
        let mut takes_ns: Vec<u64> = (0..2_001)
            .map(|_| {
                workers.start(0, WorkerId(0), 7, 0, 50);
                workers.preempt(10, WorkerId(0), &costs);
                let free_ns = workers.next_ns();
                workers.free_next();
                free_ns - 10
            })
            .collect();
        takes_ns.sort_unstable();
        assert!((930..1_070).contains(&takes_ns[1_000]), "{}", takes_ns[1_000]);
        assert!((2_700..3_800).contains(&takes_ns[1_980]), "{}", takes_ns[1_980]);
    }
}
