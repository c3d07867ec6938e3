//! What DARC reserves, when it changes its mind, and what happens to requests meanwhile.

use std::collections::BTreeSet;
use std::time::Duration;

use psp_policy::{Action, Darc, Event, RequestId, Sample, Scheduler, TypeStatus};
use psp_policy::{Policy, RequestType, TypeSpec, TypeTable, WorkerId};

use crate::simulation::{HIGH_BIMODAL, Kind, Simulation, TPC_C, kind, scheduler_of, types_of};

const A: RequestType = RequestType::new(0);
const B: RequestType = RequestType::new(1);

/// Group, first worker and number of workers of each registered type.
fn reservations(scheduler: &dyn Scheduler, types: usize) -> Vec<(Option<usize>, Option<u32>, usize)> {
    (0..types)
        .map(|slot| {
            let status = scheduler.type_status(slot);
            let first = status.worker_first.map(|worker| worker.0);
            (status.group, first, status.workers_reserved)
        })
        .collect()
}

const TPC_C_PUBLISHED: [(Option<usize>, Option<u32>, usize); 5] = [
    (Some(0), Some(0), 2),
    (Some(0), Some(0), 2),
    (Some(1), Some(2), 6),
    (Some(2), Some(8), 6),
    (Some(2), Some(8), 6),
];

#[test]
fn tpc_c_is_grouped_as_published_from_hints() {
    let simulation = Simulation::new(&Policy::darc(), 14, &types_of(&TPC_C, true));
    let scheduler = &*simulation.scheduler;
    assert_eq!(reservations(scheduler, 5), TPC_C_PUBLISHED);
    assert_eq!(scheduler.reservation_updates(), 1);
    assert!(scheduler.same_run(RequestType::new(3), RequestType::new(4)));
    assert!(!scheduler.same_run(RequestType::new(2), RequestType::new(3)));
    assert!(!scheduler.same_run(A, RequestType::UNKNOWN));
}

/// With exact shares, because NewOrder asks for 6.46 workers: the chance in 50 000 draws is enough
/// to round it to 7.
#[test]
fn tpc_c_is_grouped_as_published_from_what_was_measured() {
    let mut simulation = Simulation::new(&Policy::darc(), 14, &types_of(&TPC_C, false)).exact_shares();
    simulation.run(&TPC_C, 0.8, 31);
    let before = reservations(&*simulation.scheduler, 5);
    assert_eq!(before, [(None, None, 0); 5], "c-FCFS until the first look");
    assert!(!simulation.scheduler.same_run(A, B));
    simulation.run(&TPC_C, 0.8, 40_000);
    assert_eq!(reservations(&*simulation.scheduler, 5), TPC_C_PUBLISHED);
    // 32, 64, 128, .. 32 768.
    assert_eq!(simulation.scheduler.reservation_updates(), 11);
    assert!(simulation.scheduler.same_run(A, B));
    simulation.run(&TPC_C, 0.8, 10_000);
    assert_eq!(reservations(&*simulation.scheduler, 5), TPC_C_PUBLISHED);
    assert_eq!(simulation.scheduler.reservation_updates(), 12);
    simulation.run(&TPC_C, 0.8, 60_000);
    assert_eq!(simulation.scheduler.reservation_updates(), 12, "settled");
}

/// Perséphone 5.5, second phase.
#[test]
fn adapts_when_types_swap_service_times() {
    const P999: f64 = 0.999;
    let [short, long] = HIGH_BIMODAL;
    let swapped = [long, short];
    let mut simulation = Simulation::new(&Policy::darc(), 14, &types_of(&HIGH_BIMODAL, false));
    let mut run = |kinds: &[Kind], short: usize| {
        simulation.ran.clear();
        simulation.run(kinds, 0.8, 60_000);
        let reserved = reservations(&*simulation.scheduler, 2);
        (simulation.slowdown(short, P999), reserved)
    };
    let (start, _) = run(&HIGH_BIMODAL, 0);
    let (before, reserved) = run(&HIGH_BIMODAL, 0);
    assert_eq!(reserved, [(Some(0), Some(0), 1), (Some(1), Some(1), 13)]);
    assert!(start < 1.5 * before, "it learns soon: {start} {before}");

    let (during, _) = run(&swapped, 1);
    run(&swapped, 1);
    let (after, reserved) = run(&swapped, 1);
    assert_eq!(reserved, [(Some(1), Some(1), 13), (Some(0), Some(0), 1)]);
    assert!(during > 5.0 * after, "{during} {after}");
    assert!(after < 1.5 * before, "{after} {before}");
}

/// Types of 1, 1 and 20 us and 10 ms, as the `inline` topology has them.
fn store_kinds() -> [Kind; 4] {
    [kind(1_000, 0.45), kind(1_000, 0.45), kind(20_000, 0.098), kind(10_000_000, 0.002)]
}

#[test]
fn with_hints_nothing_long_runs_on_worker_0() {
    let types: TypeTable = store_kinds()
        .iter()
        .map(|kind| TypeSpec::new("T").service_time(Duration::from_nanos(kind.service_ns)))
        .collect();
    for workers in 2..=4 {
        let policy = Policy::from(Darc::default().samples_min(5_000));
        let mut simulation = Simulation::new(&policy, workers, &types);
        let reserved = reservations(&*simulation.scheduler, 4);
        assert_eq!(reserved[0], (Some(0), Some(0), 1));
        // With two workers the 20 us type shares the short ones' worker.
        let middle = u32::from(workers > 2);
        assert_eq!(reserved[2].1, Some(middle));
        let longest_first = u32::try_from(workers.min(3)).unwrap() - 1;
        assert_eq!(reserved[3].1, Some(longest_first));

        simulation.run(&store_kinds(), 0.9, 30_000);
        simulation.drain();
        assert_eq!(simulation.ran.len() + simulation.rejected, 30_000);
        let on_worker_0 = simulation.ran.iter().filter(|ran| ran.worker == 0);
        let kinds: BTreeSet<usize> = on_worker_0.map(|ran| ran.kind).collect();
        let short: &[usize] = if workers > 2 { &[0, 1] } else { &[0, 1, 2] };
        assert_eq!(kinds, short.iter().copied().collect(), "{workers} workers");
    }
}

#[test]
fn one_worker_serves_everything_shortest_first() {
    let types = types_of(&store_kinds(), true);
    let mut driver = Driver::new(&Policy::darc(), 1, &types);
    for slot in [3, 2, 4, 1, 3, 0] {
        driver.arrive(RequestType::new(slot));
    }
    let mut order = vec![driver.poll_run().1];
    for _ in 0..5 {
        driver.complete(WorkerId(0), &[]);
        order.push(driver.poll_run().1);
    }
    assert_eq!(order, [3, 5, 1, 0, 4, 2], "groups by length, UNKNOWN last");
}

/// A scheduler driven by hand.
struct Driver {
    scheduler: Box<dyn Scheduler>,
    now_ns: u64,
    requests: u32,
}

impl Driver {
    fn new(policy: &Policy, workers: usize, types: &TypeTable) -> Self {
        Self {
            scheduler: scheduler_of(policy, workers, types, None),
            now_ns: 0,
            requests: 0,
        }
    }

    fn arrive(&mut self, request_type: RequestType) {
        let request = RequestId(self.requests);
        self.requests += 1;
        let arrived = Event::Arrived { request, request_type, deadline_ns: None };
        self.scheduler.on_event(self.now_ns, arrived);
    }

    /// What runs next: worker and request.
    fn poll_run(&mut self) -> (u32, u32) {
        match self.scheduler.poll(self.now_ns) {
            Some(Action::Run { worker, request, .. }) => (worker.0, request.0),
            other => panic!("expected a request to run, got {other:?}"),
        }
    }

    fn poll_all(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.scheduler.poll(self.now_ns)).collect()
    }

    fn complete(&mut self, worker: WorkerId, samples: &[Sample]) {
        let completed = Event::Completed { worker, samples, dropped: false };
        self.scheduler.on_event(self.now_ns, completed);
    }

    /// A request of the type arrives, waits `delay_ns` for its worker's turn, and runs; its
    /// completion brings `count` samples of `service_ns` each.
    fn serve(&mut self, request_type: RequestType, delay_ns: u64, count: u32, service_ns: u64) {
        self.arrive(request_type);
        self.now_ns += delay_ns;
        let (worker, _) = self.poll_run();
        let sample = Sample {
            request_type,
            count,
            service_ns: service_ns * u64::from(count),
        };
        self.complete(WorkerId(worker), &[sample]);
    }

    fn updates(&self) -> u64 {
        self.scheduler.reservation_updates()
    }

    fn status(&self, request_type: RequestType) -> TypeStatus {
        self.scheduler.type_status(request_type.index().unwrap())
    }
}

fn small_windows() -> Darc {
    Darc::default().samples_min(100)
}

#[test]
fn the_first_reservation_takes_the_backlog_over_in_order() {
    let types = types_of(&HIGH_BIMODAL, false);
    let mut driver = Driver::new(&small_windows().into(), 2, &types);
    for request_type in [B, B, B, A, RequestType::UNKNOWN, A, B, RequestType::UNKNOWN] {
        driver.arrive(request_type);
    }
    assert_eq!([driver.poll_run(), driver.poll_run()], [(0, 0), (1, 1)]);
    let measured = |request_type, service_ns: u64| Sample { request_type, count: 50, service_ns: 50 * service_ns };
    driver.complete(WorkerId(0), &[measured(A, 1_000), measured(B, 100_000)]);
    assert_eq!(driver.updates(), 1);

    assert_eq!(driver.poll_run(), (0, 3), "shorts on their own worker");
    driver.complete(WorkerId(0), &[]);
    assert_eq!(driver.poll_run(), (0, 5));
    driver.complete(WorkerId(0), &[]);
    assert_eq!(driver.scheduler.poll(0), None, "worker 0 is not for the rest");
    for expected in [2, 6, 4, 7] {
        driver.complete(WorkerId(1), &[]);
        assert_eq!(driver.poll_run(), (1, expected));
    }
}

#[test]
fn reservations_change_only_on_delay_and_moved_demand_together() {
    let types = types_of(&HIGH_BIMODAL, true);
    let mut driver = Driver::new(&small_windows().into(), 4, &types);
    assert_eq!(driver.updates(), 1);
    let mut window = |delay_ns, long_ns| {
        driver.serve(A, delay_ns, 50, 1_000);
        driver.serve(B, 0, 50, long_ns);
        driver.updates()
    };
    assert_eq!(window(0, 100_000), 1, "as hinted");
    assert_eq!(window(20_000, 100_000), 1, "delay, same demand");
    assert_eq!(window(0, 3_000), 1, "demand moved, no request waited");
    assert_eq!(window(9_000, 3_000), 1, "waited less than ten times as long");
    assert_eq!(window(11_000, 3_000), 2, "both");
    assert_eq!(window(11_000, 3_000), 2, "it has moved already");
}

#[test]
fn the_turns_of_a_request_that_yields_are_no_delay() {
    let types = types_of(&HIGH_BIMODAL, true);
    let mut driver = Driver::new(&small_windows().into(), 4, &types);
    driver.arrive(B);
    let (worker, request) = driver.poll_run();
    driver.now_ns = 2_000_000;
    let yielded = Event::Yielded { worker: WorkerId(worker), served_ns: 2_000_000 };
    driver.scheduler.on_event(driver.now_ns, yielded);
    assert_eq!(driver.poll_run().1, request);
    driver.serve(A, 0, 50, 1_000);
    driver.serve(B, 0, 50, 3_000);
    assert_eq!(driver.updates(), 1, "demand moved, no request waited");
}

#[test]
fn a_starved_type_asks_for_another_reservation_too() {
    let types = types_of(&HIGH_BIMODAL, true);
    let mut driver = Driver::new(&small_windows().into(), 2, &types);
    driver.arrive(B);
    assert_eq!(driver.poll_run(), (1, 0));
    driver.arrive(B);
    driver.now_ns = 2_000_000;
    driver.serve(A, 0, 100, 1_000);
    assert_eq!(driver.updates(), 2, "the second B never reached a worker");
}

#[test]
fn windows_close_by_age_on_a_tick() {
    let types = types_of(&HIGH_BIMODAL, false);
    let policy = Darc::default().window_max(Duration::from_millis(1)).window_max_samples_min(10);
    let mut driver = Driver::new(&policy.into(), 2, &types);
    driver.serve(A, 0, 4, 1_000);
    driver.serve(B, 0, 5, 100_000);
    let mut tick = |now_ns| {
        driver.now_ns = now_ns;
        driver.scheduler.on_event(now_ns, Event::Tick);
        driver.updates()
    };
    assert_eq!(tick(5_000_000), 0, "one sample is missing");
    driver.serve(A, 0, 1, 1_000);
    assert_eq!(driver.updates(), 1);
    assert_eq!(driver.status(A).share, 0.5);
    driver.scheduler.on_event(100_000_000, Event::Tick);
    assert_eq!(driver.status(A).share, 0.5, "an empty window says nothing");
}

#[test]
fn a_vanished_type_keeps_its_estimate_and_is_served() {
    let types = types_of(&HIGH_BIMODAL, false);
    let mut driver = Driver::new(&small_windows().into(), 2, &types);
    driver.serve(A, 0, 50, 1_000);
    driver.serve(B, 0, 50, 100_000);
    for _ in 0..20 {
        driver.serve(A, 50_000, 100, 1_000);
    }
    assert!(driver.updates() > 1, "A has all the demand now");
    assert_eq!(driver.status(A).workers_reserved, 2);
    assert_eq!(driver.status(B).service_ns_mean, 100_000.0);
    assert!(driver.status(B).share < 0.01);
    driver.arrive(B);
    assert_eq!(driver.poll_run().0, 1, "on the spillway worker");
}

#[test]
fn an_unmeasured_type_waits_for_the_spillway_until_its_first_window() {
    let types = types_of(&HIGH_BIMODAL, false);
    let mut driver = Driver::new(&small_windows().into(), 3, &types);
    driver.serve(A, 0, 100, 1_000);
    assert_eq!(driver.updates(), 1);
    assert_eq!(driver.status(B).group, None);
    driver.arrive(B);
    driver.arrive(RequestType::UNKNOWN);
    driver.arrive(B);
    assert_eq!(driver.poll_run(), (2, 1));
    assert_eq!(driver.scheduler.poll(0), None);
    let measured = Sample { request_type: B, count: 100, service_ns: 100 * 100_000 };
    driver.complete(WorkerId(2), &[measured]);
    assert_eq!(driver.updates(), 2, "no request had to wait for it");
    assert_eq!(driver.status(B).group, Some(1));
}

#[test]
fn a_full_queue_refuses_its_own_type_only() {
    let types: TypeTable = [
        TypeSpec::new("A").service_time(Duration::from_micros(1)),
        TypeSpec::new("B").service_time(Duration::from_micros(100)).queue_capacity(2),
    ]
    .into_iter()
    .collect();
    let mut driver = Driver::new(&Policy::darc(), 2, &types);
    for request_type in [B, B, B, A, B, A] {
        driver.arrive(request_type);
    }
    let refused = [2, 4].map(|request| Action::Reject { request: RequestId(request), request_type: B });
    let actions = driver.poll_all();
    assert_eq!(actions[..2], refused, "refusals come first");
    let ran: Vec<u32> = actions[2..]
        .iter()
        .map(|action| match action {
            Action::Run { request, .. } => request.0,
            Action::Preempt { .. } => panic!("nothing can be preempted here"),
            Action::Reject { .. } => panic!("refused twice"),
        })
        .collect();
    assert_eq!(ran, [3, 5], "shorts steal worker 1");
    assert_eq!(driver.status(A).steals, 1);
    assert_eq!(driver.status(B).rejections, 2);
    assert_eq!(driver.status(B).queued, 2);
}

#[test]
fn without_types_it_stays_c_fcfs() {
    let mut driver = Driver::new(&small_windows().into(), 2, &TypeTable::new());
    for _ in 0..3 {
        driver.serve(RequestType::UNKNOWN, 0, 100, 1_000);
    }
    assert_eq!(driver.updates(), 0);
    driver.arrive(RequestType::UNKNOWN);
    driver.arrive(RequestType::UNKNOWN);
    assert_eq!(driver.poll_all().len(), 2, "on both workers");
}
