//! Types without hints: how soon DARC knows their lengths, and what runs where until then.

use psp_policy::{Action, Event, Policy, RequestId, RequestType, Sample, Scheduler, SchedulerSetup, TypeTable};
use psp_policy::{TypeSpec, WorkerId};

use crate::simulation::{Simulation, TPC_C, types_of};

const FAST: usize = 0;
const SLOW: usize = 1;
const SERVICE_NS: [u64; 2] = [100_000, 200_000_000];
/// Slow requests that clients keep in flight.
const IN_FLIGHT: usize = 4;
/// Time between two fast requests.
const GAP_NS: u64 = 9_700_000;
const TICK_NS: u64 = 1_000_000;

#[derive(Debug, Clone, Copy)]
struct Ran {
    kind: usize,
    arrived_ns: u64,
    started_ns: u64,
    worker: usize,
}

/// A server whose net thread is worker 0: while that runs a request, nothing arrives and nothing completes.
/// Clients keep four slow requests in flight. Others send a fast one from time to time.
struct Inline {
    scheduler: Box<dyn Scheduler>,
    now_ns: u64,
    next_fast_ns: u64,
    /// Kind and arrival of each request.
    requests: Vec<(usize, u64)>,
    /// Per worker: the request that runs there, and when it ends.
    running: Vec<Option<(usize, u64)>>,
    ran: Vec<Ran>,
    slow_ended: usize,
}

impl Inline {
    fn new(policy: &Policy, workers: usize, first_fast_ns: u64) -> Self {
        let types: TypeTable = ["FAST", "SLOW"].map(TypeSpec::new).into_iter().collect();
        let setup = SchedulerSetup::new(workers, &types).inline(true);
        Self {
            scheduler: policy.scheduler(&setup),
            now_ns: 0,
            next_fast_ns: first_fast_ns,
            requests: Vec::new(),
            running: vec![None; workers],
            ran: Vec::new(),
            slow_ended: 0,
        }
    }

    fn arrives(&mut self, kind: usize, arrived_ns: u64) {
        let arrived = Event::Arrived {
            request: RequestId(u32::try_from(self.requests.len()).unwrap()),
            request_type: RequestType::new(u32::try_from(kind).unwrap()),
            deadline_ns: None,
        };
        self.requests.push((kind, arrived_ns));
        self.scheduler.on_event(self.now_ns, arrived);
    }

    fn completes(&mut self, worker: usize) {
        let (request, _) = self.running[worker].take().unwrap();
        let (kind, _) = self.requests[request];
        let sample = Sample {
            request_type: RequestType::new(u32::try_from(kind).unwrap()),
            count: 1,
            service_ns: SERVICE_NS[kind],
        };
        let completed = Event::Completed {
            worker: WorkerId(u32::try_from(worker).unwrap()),
            samples: &[sample],
            dropped: false,
        };
        self.scheduler.on_event(self.now_ns, completed);
        if kind == SLOW {
            self.slow_ended += 1;
            self.arrives(SLOW, self.now_ns);
        }
    }

    /// Hands out requests, up to the first that it runs itself.
    fn poll(&mut self) {
        while let Some(action) = self.scheduler.poll(self.now_ns) {
            let Action::Run { worker, request, .. } = action else {
                panic!("unexpected {action:?}");
            };
            let (worker, request) = (worker.index(), request.0 as usize);
            let (kind, arrived_ns) = self.requests[request];
            self.ran.push(Ran { kind, arrived_ns, started_ns: self.now_ns, worker });
            let end_ns = self.now_ns + SERVICE_NS[kind];
            assert_eq!(self.running[worker].replace((request, end_ns)), None);
            if worker == 0 {
                self.now_ns = end_ns;
                self.completes(0);
                return;
            }
        }
    }

    /// Goes on until so many slow requests have ended in total.
    fn run(&mut self, slow: usize) {
        if self.requests.is_empty() {
            (0..IN_FLIGHT).for_each(|_| self.arrives(SLOW, 0));
            self.poll();
        }
        while self.slow_ended < slow {
            let ends = self.running.iter().flatten().map(|&(_, end_ns)| end_ns);
            let next_ns = ends.fold(self.next_fast_ns, u64::min);
            self.now_ns = next_ns.min(self.now_ns + TICK_NS).max(self.now_ns);
            self.scheduler.on_event(self.now_ns, Event::Tick);
            for worker in 0..self.running.len() {
                if self.running[worker].is_some_and(|(_, end_ns)| end_ns <= self.now_ns) {
                    self.completes(worker);
                }
            }
            while self.next_fast_ns <= self.now_ns {
                self.arrives(FAST, self.next_fast_ns);
                self.next_fast_ns += GAP_NS;
            }
            self.poll();
        }
    }

    /// How long fast requests waited that arrived since, the longest first.
    fn fast_waits_ns(&self, since_ns: u64) -> Vec<u64> {
        let fast = self.ran.iter().filter(|ran| ran.kind == FAST);
        let recent = fast.filter(|ran| ran.arrived_ns >= since_ns);
        let mut waits: Vec<u64> = recent.map(|ran| ran.started_ns - ran.arrived_ns).collect();
        waits.sort_unstable_by(|a, b| b.cmp(a));
        waits
    }
}

#[test]
fn without_hints_fast_requests_wait_for_few_slow_ones_and_then_for_none() {
    for workers in 2..=4 {
        let mut server = Inline::new(&Policy::darc(), workers, 0);
        server.run(workers + 2);
        let learned_ns = server.now_ns;
        let longest_ns = server.fast_waits_ns(0)[0];
        assert!(longest_ns <= 2 * SERVICE_NS[SLOW], "{longest_ns}");
        server.run(200);
        let waits = server.fast_waits_ns(learned_ns);
        assert!(waits.len() > 200, "{}", waits.len());
        assert!(waits[0] <= SERVICE_NS[FAST], "{workers}: {}", waits[0]);
        let mut slow = server.ran.iter().filter(|ran| ran.kind == SLOW);
        assert!(slow.all(|ran| ran.started_ns < learned_ns || ran.worker > 0));
    }
}

/// The slow type has all workers when the first fast request arrives.
#[test]
fn a_type_that_comes_late_is_tried_as_soon_as_a_worker_is_free() {
    for workers in 2..=4 {
        let mut server = Inline::new(&Policy::darc(), workers, 10_000_000_000);
        server.run(10 * workers);
        assert!(server.fast_waits_ns(0).is_empty());
        let slow = server.scheduler.type_status(SLOW);
        assert_eq!((slow.workers_reserved, slow.group), (workers, Some(0)));
        server.run(100 * workers);
        let waits = server.fast_waits_ns(0);
        assert!(waits[0] <= 2 * SERVICE_NS[SLOW], "{workers}: {}", waits[0]);
        let fast = server.scheduler.type_status(FAST);
        assert_eq!((fast.worker_first, fast.group), (Some(WorkerId(0)), Some(0)));
        let learned_ns = server.now_ns;
        server.run(150 * workers);
        let waits = server.fast_waits_ns(learned_ns);
        assert!(waits[0] <= SERVICE_NS[FAST], "{workers}: {}", waits[0]);
    }
}

#[test]
fn the_net_thread_begins_no_request_of_unknown_length_where_the_policy_goes_by_length() {
    for name in Policy::names_to_completion() {
        let policy: Policy = name.parse().unwrap();
        let mut server = Inline::new(&policy, 2, 0);
        server.run(1);
        let begun = server.ran[0].worker;
        assert!(begun > 0 || !policy.goes_by_length(), "{name}");
    }
}

/// NewOrder asks for 6.46 of 14 workers, Delivery and StockLevel for 5.64.
#[test]
fn provisional_reservations_are_soon_right_at_high_load() {
    let types = types_of(&TPC_C, false);
    for (load, seed) in [0.8, 0.9, 0.95].map(|load| (1..=5).map(move |seed| (load, seed))).into_iter().flatten() {
        let mut simulation = Simulation::new(&Policy::darc(), 14, &types).seed(seed);
        simulation.run(&TPC_C, load, 100);
        assert!(simulation.scheduler.reservation_updates() > 0);
        for _ in 0..20 {
            simulation.run(&TPC_C, load, 1_000);
            let status = |slot| simulation.scheduler.type_status(slot);
            let reserved = [0, 2, 4].map(|slot| status(slot).workers_reserved);
            let [short, middle, long] = reserved;
            assert!(
                short == 2 && (6..=7).contains(&middle) && (5..=6).contains(&long),
                "{load} {seed}: {reserved:?}"
            );
        }
    }
}
