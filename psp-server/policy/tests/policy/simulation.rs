//! A discrete-event simulation around one scheduler: Poisson arrivals from a seeded generator,
//! workers that take exactly the service time, preemptions that take effect as late as the setup
//! says, and nothing else.

use std::time::Duration;

use psp_policy::internal::WorkerTimes;
use psp_policy::{Action, Contexts, Event, Preemption, RequestId, Sample, Scheduler};
use psp_policy::{Policy, RequestType, TypeSpec, TypeTable, WorkerId};
use psp_policy::{SchedulerSetup, switch};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1};

/// A kind of request: how long it takes and how frequent it is among all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) service_ns: u64,
    pub(crate) share: f64,
}

/// Half 1 us, half 100 us (Perséphone, table 3).
pub(crate) const HIGH_BIMODAL: [Kind; 2] = [kind(1_000, 0.5), kind(100_000, 0.5)];

/// Payment, OrderStatus, NewOrder, Delivery, StockLevel (Perséphone, table 4).
pub(crate) const TPC_C: [Kind; 5] = [
    kind(5_700, 0.44),
    kind(6_000, 0.04),
    kind(20_000, 0.44),
    kind(88_000, 0.04),
    kind(100_000, 0.04),
];

pub(crate) const fn kind(service_ns: u64, share: f64) -> Kind {
    Kind { service_ns, share }
}

/// One type per kind, with hints or without.
pub(crate) fn types_of(kinds: &[Kind], hinted: bool) -> TypeTable {
    kinds
        .iter()
        .enumerate()
        .map(|(index, kind)| {
            let spec = TypeSpec::new(format!("T{index}"));
            if hinted {
                spec.service_time(Duration::from_nanos(kind.service_ns)).share(kind.share)
            } else {
                spec
            }
        })
        .collect()
}

/// The scheduler of a policy whose settings are valid, with long queues.
pub(crate) fn scheduler_of(
    policy: &Policy,
    workers: usize,
    types: &TypeTable,
    preemption: Option<Preemption>,
) -> Box<dyn Scheduler> {
    policy.validate(workers).expect("valid settings");
    policy.scheduler(
        &SchedulerSetup::new(workers, types)
            .queue_capacity(100_000)
            .preemption(preemption)
            .contexts(Contexts::migrating())
            .seed(3),
    )
}

/// How the simulated server tells types apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Classifier {
    /// Kind n is type n.
    Exact,
    /// Any registered type, at random (Perséphone 5.6).
    Random,
}

#[derive(Debug, Clone, Copy)]
struct Request {
    kind: usize,
    request_type: RequestType,
    service_ns: u64,
    arrived_ns: u64,
    /// For how long it ran in turns that are over.
    served_ns: u64,
    started: bool,
}

/// A request on a worker.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Turn {
    request: RequestId,
    started_ns: u64,
}

/// One request that ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ran {
    pub(crate) kind: usize,
    pub(crate) worker: u32,
    pub(crate) slowdown: f64,
}

pub(crate) struct Simulation {
    pub(crate) scheduler: Box<dyn Scheduler>,
    /// What ran so far, or since it was last cleared.
    pub(crate) ran: Vec<Ran>,
    pub(crate) rejected: usize,
    /// Number and kind of each request that ran, in the order of first turns.
    pub(crate) started: Vec<(u32, usize)>,
    pub(crate) preemptions: usize,
    workers: usize,
    types: TypeTable,
    preemption: Option<Preemption>,
    classifier: Classifier,
    exact_shares: bool,
    /// Kinds to come, where the shares are exact.
    deck: Vec<usize>,
    now_ns: u64,
    requests: Vec<Request>,
    running: Vec<Option<Turn>>,
    /// When each busy worker completes or stops.
    ends: WorkerTimes,
    arrivals: SmallRng,
    lots: SmallRng,
}

impl Simulation {
    pub(crate) fn new(policy: &Policy, workers: usize, types: &TypeTable) -> Self {
        Self {
            scheduler: scheduler_of(policy, workers, types, None),
            ran: Vec::new(),
            rejected: 0,
            started: Vec::new(),
            preemptions: 0,
            workers,
            types: types.clone(),
            preemption: None,
            classifier: Classifier::Exact,
            exact_shares: false,
            deck: Vec::new(),
            now_ns: 0,
            requests: Vec::new(),
            running: vec![None; workers],
            ends: WorkerTimes::new(workers),
            arrivals: SmallRng::seed_from_u64(1),
            lots: SmallRng::seed_from_u64(2),
        }
    }

    /// The same, where requests can be preempted at this cost.
    pub(crate) fn preemptive(policy: &Policy, workers: usize, types: &TypeTable, cost_ns: u64) -> Self {
        let preemption = Some(Preemption::new(cost_ns));
        Self {
            scheduler: scheduler_of(policy, workers, types, preemption),
            preemption,
            ..Self::new(policy, workers, types)
        }
    }

    /// Another policy takes over.
    pub(crate) fn switch(&mut self, policy: &Policy) {
        let (workers, preemption) = (self.workers, self.preemption);
        let mut next = scheduler_of(policy, workers, &self.types, preemption);
        assert!(switch(&mut *self.scheduler, &mut *next, self.now_ns));
        self.scheduler = next;
        self.poll();
    }

    pub(crate) fn classifier(mut self, classifier: Classifier) -> Self {
        self.classifier = classifier;
        self
    }

    /// Other arrivals.
    pub(crate) fn seed(mut self, seed: u64) -> Self {
        self.arrivals = SmallRng::seed_from_u64(seed);
        self
    }

    /// Every 100 requests have the kinds' shares exactly, in random order.
    pub(crate) fn exact_shares(mut self) -> Self {
        self.exact_shares = true;
        self
    }

    /// `count` more requests arrive, at `load` of what the workers can do. The same calls give
    /// the same arrivals whatever the policy.
    pub(crate) fn run(&mut self, kinds: &[Kind], load: f64, count: usize) {
        let mean_ns: f64 = kinds.iter().map(|kind| kind.service_ns as f64 * kind.share).sum();
        let gap_ns = mean_ns / (load * self.workers as f64);
        let mut arrives_ns = self.now_ns as f64;
        for _ in 0..count {
            let exponential: f64 = Exp1.sample(&mut self.arrivals);
            arrives_ns += exponential * gap_ns;
            self.run_until(arrives_ns as u64);
            let kind = self.draw_kind(kinds);
            self.arrive(kind, kinds[kind].service_ns);
        }
    }

    fn draw_kind(&mut self, kinds: &[Kind]) -> usize {
        if !self.exact_shares {
            let mut lot: f64 = self.arrivals.random();
            let drawn = kinds.iter().position(|kind| {
                lot -= kind.share;
                lot < 0.0
            });
            return drawn.unwrap_or(kinds.len() - 1);
        }
        if self.deck.is_empty() {
            for (index, kind) in kinds.iter().enumerate() {
                let cards = (kind.share * 100.0).round() as usize;
                self.deck.extend(std::iter::repeat_n(index, cards));
            }
            self.deck.shuffle(&mut self.arrivals);
        }
        self.deck.pop().expect("some kind has a share")
    }

    /// One request arrives now.
    pub(crate) fn arrive(&mut self, kind: usize, service_ns: u64) {
        let index = match self.classifier {
            Classifier::Exact => kind,
            Classifier::Random => self.lots.random_range(0..self.types.len()),
        };
        let request_type = RequestType::new(u32::try_from(index).unwrap());
        let id = RequestId(u32::try_from(self.requests.len()).unwrap());
        self.requests.push(Request {
            kind,
            request_type,
            service_ns,
            arrived_ns: self.now_ns,
            served_ns: 0,
            started: false,
        });
        let arrived = Event::Arrived { request: id, request_type, deadline_ns: None };
        self.scheduler.on_event(self.now_ns, arrived);
        self.poll();
    }

    /// Everything that was accepted runs to its end.
    pub(crate) fn drain(&mut self) {
        self.run_until(u64::MAX);
        assert_eq!(self.running, vec![None; self.workers]);
    }

    /// Slowdown of a kind at a quantile, over what is in [`Simulation::ran`].
    pub(crate) fn slowdown(&self, kind: usize, quantile: f64) -> f64 {
        let mut slowdowns: Vec<f64> = self.ran.iter().filter(|ran| ran.kind == kind).map(|ran| ran.slowdown).collect();
        assert!(slowdowns.len() as f64 * (1.0 - quantile) >= 10.0, "too few");
        slowdowns.sort_unstable_by(f64::total_cmp);
        slowdowns[(slowdowns.len() as f64 * quantile) as usize]
    }

    fn run_until(&mut self, until_ns: u64) {
        loop {
            let end = self.ends.earliest();
            let ends_ns = end.map_or(u64::MAX, |(at_ns, _)| at_ns);
            let deadline_ns = self.scheduler.deadline_ns().unwrap_or(u64::MAX);
            let next_ns = ends_ns.min(deadline_ns);
            if next_ns > until_ns || next_ns == u64::MAX {
                break;
            }
            self.now_ns = next_ns.max(self.now_ns);
            match end {
                Some((_, worker)) if ends_ns == next_ns => self.end_turn(worker),
                _ => self.scheduler.on_event(self.now_ns, Event::Tick),
            }
            self.poll();
        }
        if until_ns < u64::MAX {
            self.now_ns = until_ns;
        }
    }

    fn end_turn(&mut self, worker: WorkerId) {
        self.ends.clear(worker);
        let turn = self.running[worker.index()].take().expect("it ran");
        let request = &mut self.requests[turn.request.0 as usize];
        let served_ns = self.now_ns - turn.started_ns;
        request.served_ns += served_ns;
        if request.served_ns < request.service_ns {
            let yielded = Event::Yielded { worker, served_ns };
            self.scheduler.on_event(self.now_ns, yielded);
            return;
        }
        self.ran.push(Ran {
            kind: request.kind,
            worker: worker.0,
            slowdown: (self.now_ns - request.arrived_ns) as f64 / request.service_ns as f64,
        });
        let sample = Sample {
            request_type: request.request_type,
            count: 1,
            service_ns: request.service_ns,
        };
        let completed = Event::Completed { worker, samples: &[sample], dropped: false };
        self.scheduler.on_event(self.now_ns, completed);
    }

    fn poll(&mut self) {
        while let Some(action) = self.scheduler.poll(self.now_ns) {
            match action {
                Action::Reject { .. } => self.rejected += 1,
                Action::Preempt { worker, .. } => self.preempt(worker),
                Action::Run { worker, request, .. } => self.start(worker, request),
            }
        }
    }

    fn start(&mut self, worker: WorkerId, id: RequestId) {
        let before = self.running[worker.index()].replace(Turn { request: id, started_ns: self.now_ns });
        assert_eq!(before, None, "worker {worker:?} is busy");
        let request = &mut self.requests[id.0 as usize];
        if !std::mem::replace(&mut request.started, true) {
            self.started.push((id.0, request.kind));
        }
        let remaining_ns = request.service_ns - request.served_ns;
        self.ends.set(worker, self.now_ns + remaining_ns);
    }

    /// The request goes on until the worker has heard of it, and may end by then. No time is lost.
    fn preempt(&mut self, worker: WorkerId) {
        let preemption = self.preemption.expect("nothing can be preempted here");
        let stops_ns = self.now_ns + preemption.cost_ns;
        let ends_ns = self.ends.get(worker).expect("it runs");
        self.ends.set(worker, stops_ns.min(ends_ns));
        self.preemptions += 1;
    }
}
