//! What a portfolio chooses, over tapes that are drawn at random, and that nothing is lost meanwhile.

use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::Portfolio;
use super::figures::Figures;
use super::memory::Said;
use super::tape::Request;
use super::trial::Trial;
use crate::backlog::{Backlog, Handover};
use crate::event::{Action, Event, HandOff, RequestId, Sample, WorkerId};
use crate::policies::c_fcfs::CFcfs;
use crate::request_type::{RequestType, TypeSpec, TypeTable};
use crate::scheduler::{Relief, Scheduler, TypeStatus};
use crate::settings;
use crate::setup::{Preemption, SchedulerSetup};
use crate::study::Study;

const WORKERS: usize = 4;

/// A portfolio whose studies are done at once, and who was in force, in order.
struct AtOnce {
    portfolio: Portfolio,
    in_force: std::sync::mpsc::Sender<String>,
}

impl AtOnce {
    fn study(&mut self, now_ns: u64) {
        if let Some(findings) = self.portfolio.study().map(Study::run) {
            self.portfolio.conclude(now_ns, Some(&findings));
            let name = self.portfolio.in_force.name.clone();
            self.in_force.send(name).expect("the test receives it");
        }
    }
}

impl Scheduler for AtOnce {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        self.portfolio.on_event(now_ns, event);
        self.study(now_ns);
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        self.portfolio.poll(now_ns)
    }

    fn deadline_ns(&self) -> Option<u64> {
        self.portfolio.deadline_ns()
    }
}

/// Types with their means in nanoseconds, their shares, and whether their service times are exponential.
fn drawn(types: &[(f64, f64, bool)], load: f64, requests: usize) -> Vec<Request> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let mean_ns: f64 = types.iter().map(|(mean_ns, share, _)| mean_ns * share).sum();
    let gap_ns = mean_ns / load / WORKERS as f64;
    let mut arrived_ns = 0.0;
    let exponential = |rng: &mut Xoshiro256PlusPlus| -(1.0 - rng.random::<f64>()).ln();
    let mut request = |_| {
        arrived_ns += gap_ns * exponential(&mut rng);
        let mut left: f64 = rng.random();
        let slot = types.iter().position(|(_, share, _)| {
            left -= share;
            left <= 0.0
        });
        let slot = slot.unwrap_or(types.len() - 1);
        let (mean_ns, _, is_exponential) = types[slot];
        let service_ns = match is_exponential {
            true => mean_ns * exponential(&mut rng),
            false => mean_ns,
        };
        Request {
            arrived_ns: arrived_ns as u64,
            service_ns: (service_ns as u64).max(1),
            slot,
        }
    };
    (0..requests).map(&mut request).collect()
}

/// Runs a portfolio over a tape. Returns who was in force after each study, and all slowdowns.
fn run(tape: &[Request], types: usize, preemption: Option<Preemption>) -> (Vec<String>, Vec<f32>) {
    let named = (0..types).map(|number| TypeSpec::new(format!("TYPE-{number}")));
    let types: TypeTable = named.collect();
    let setup = SchedulerSetup::new(WORKERS, &types).queue_capacity(1 << 16).preemption(preemption);
    let (sender, in_force) = std::sync::mpsc::channel();
    let settings = settings::Portfolio::default().trial_requests(8_192);
    let scheduler = AtOnce {
        portfolio: Portfolio::new(&setup, &settings),
        in_force: sender,
    };
    let limits = vec![f64::INFINITY; types.len() + 1];
    let slowdowns = Trial::new(&setup, Box::new(scheduler), tape, &limits).run().slowdowns;
    (in_force.iter().collect(), slowdowns)
}

fn assert_all_ended(slowdowns: &[f32]) {
    let lost = slowdowns.iter().filter(|slowdown| !slowdown.is_finite());
    assert_eq!(lost.count(), 0);
}

/// With workers of their own, types of similar length wait for each other's.
#[test]
fn types_of_similar_length_share_all_workers_where_the_load_is_high() {
    for (load, last) in [(0.3, "darc-lending"), (0.8, "edf")] {
        let types = [(10_000.0, 0.5, false), (25_000.0, 0.5, false)];
        let tape = drawn(&types, load, 12_000);
        let (in_force, slowdowns) = run(&tape, 2, None);
        assert_all_ended(&slowdowns);
        // After 1024 arrivals, 2048, and so on.
        assert_eq!(in_force.len(), 4);
        assert_eq!(in_force.last().unwrap(), last, "{in_force:?}");
    }
}

#[test]
fn short_requests_take_workers_back_soon_or_at_once_where_there_is_room_for_it() {
    let types = [(1_000.0, 0.5, false), (100_000.0, 0.5, false)];
    let preemption = Some(Preemption::new(1_000));
    let soon = "darc-lending patience=0.1 patience-min=0";
    let at_once = "darc-lending patience=0 patience-min=0";
    // At 0.6 they would be as fast under DARC, which does not sustain much more.
    for (load, last) in [(0.6, soon), (0.7, at_once), (0.97, "darc-lending")] {
        let tape = drawn(&types, load, 20_000);
        let (in_force, slowdowns) = run(&tape, 2, preemption);
        assert_all_ended(&slowdowns);
        assert_eq!(in_force.last().unwrap(), last, "{load}: {in_force:?}");
    }
}

#[test]
fn without_preemption_no_candidate_preempts() {
    let types = [(1_000.0, 0.5, false), (100_000.0, 0.5, false)];
    let tape = drawn(&types, 0.6, 6_000);
    let (in_force, slowdowns) = run(&tape, 2, None);
    assert_all_ended(&slowdowns);
    let preempts = |name: &&String| name.starts_with("sq") || name.starts_with("mq");
    assert_eq!(in_force.iter().find(preempts), None);
}

#[test]
fn a_change_of_the_load_calls_for_a_study() {
    let types = [(1_000.0, 1.0, false)];
    let mut tape = drawn(&types, 0.2, 40_000);
    let begins_ns = tape.last().map_or(0, |request| request.arrived_ns);
    let faster = drawn(&types, 0.6, 20_000)
        .into_iter()
        .map(|request| Request { arrived_ns: begins_ns + request.arrived_ns, ..request });
    tape.extend(faster);
    let (studies, slowdowns) = run(&tape, 1, None);
    assert_all_ended(&slowdowns);
    // At 1024, 2048, 4096, 8192, 16 384 and 32 768 arrivals, in the window in which the load moves, and in the next.
    assert_eq!(studies.len(), 8, "{studies:?}");
}

/// All candidates are level, at loads a million times as high, too.
#[test]
fn a_study_of_an_idle_server_ends_and_changes_nothing() {
    let types = [(1_000.0, 0.5, false), (2_000.0, 0.5, false)];
    let tape = drawn(&types, 1e-8, 3_000);
    let (in_force, slowdowns) = run(&tape, 2, Some(Preemption::new(1_000)));
    assert_all_ended(&slowdowns);
    assert_eq!(in_force, ["darc-lending"; 2]);
}

/// A portfolio of these types that has 2000 arrivals on record.
fn recorded(setup: &SchedulerSetup<'_>, types: &[(f64, f64, bool)]) -> Portfolio {
    let mut portfolio = Portfolio::new(setup, &settings::Portfolio::default().trial_requests(4_096));
    for request in drawn(types, 0.5, 2_000) {
        portfolio.record.arrived(request.arrived_ns, request.slot);
        portfolio.record.took(request.slot, request.service_ns);
    }
    portfolio.arrivals = 2_000;
    portfolio
}

#[test]
fn measured_means_become_hints() {
    let types = [(1_000.0, 0.75, false), (50_000.0, 0.25, false)];
    let named = ["SHORT", "LONG"].map(|name| TypeSpec::new(name).service_time(Duration::from_secs(1)));
    let table: TypeTable = named.into_iter().collect();
    let setup = SchedulerSetup::new(WORKERS, &table);
    let mut portfolio = recorded(&setup, &types);
    let hinted = portfolio.setup.clone().hinted(&portfolio.record);
    let means = hinted.types.specs().iter().map(|spec| spec.service_time);
    let micros = [1, 50].map(|us| Some(Duration::from_micros(us)));
    assert_eq!(means.collect::<Vec<_>>(), micros);
    let share = hinted.types.specs()[0].share.unwrap();
    assert!((0.7..0.8).contains(&share), "{share}");

    // The one in force has them after a study, though none is better, until the demand has moved.
    let profiled = |portfolio: &Portfolio| [0, 1].map(|slot| portfolio.type_status(slot).service_ns_mean);
    assert_eq!(profiled(&portfolio), [1e9; 2]);
    let findings = portfolio.study().unwrap().run();
    portfolio.conclude(0, Some(&findings));
    assert_eq!(portfolio.in_force.name, "darc-lending");
    assert_eq!(profiled(&portfolio), [1e3, 5e4]);
    assert!(!portfolio.has_old_hints());
    for _ in 0..4_096 {
        portfolio.record.took(1, 10_000);
    }
    assert!(portfolio.has_old_hints());
}

#[test]
fn workers_that_leave_during_a_study_are_gone_from_what_comes_of_it() {
    let types: TypeTable = [TypeSpec::new("ONE")].into_iter().collect();
    let setup = SchedulerSetup::new(WORKERS, &types);
    let mut portfolio = recorded(&setup, &[(1_000.0, 1.0, false)]);
    let study = portfolio.study().unwrap();
    let now_ns = 1 << 40;
    portfolio.on_event(now_ns, Event::Workers { present: 2 });
    portfolio.conclude(now_ns, Some(&study.run()));
    assert!(portfolio.made_for.is_some(), "it is another one");
    for number in 0..WORKERS as u32 {
        let arrived = Event::Arrived {
            request: RequestId(number),
            request_type: RequestType::new(0),
            deadline_ns: None,
        };
        portfolio.on_event(now_ns, arrived);
    }
    let actions = std::iter::from_fn(|| portfolio.poll(now_ns));
    assert_eq!(actions.count(), 2);
}

#[test]
fn what_a_study_said_counts_in_the_next_unless_the_workload_has_moved_meanwhile() {
    let types: TypeTable = [TypeSpec::new("ONE")].into_iter().collect();
    let setup = SchedulerSetup::new(WORKERS, &types);
    for (moves, expected) in [(false, Some(3.0)), (true, None)] {
        let mut portfolio = recorded(&setup, &[(1_000.0, 1.0, false)]);
        let earlier = [("darc-lending".to_owned(), 15.0)];
        portfolio.memory.take(0, Said::new(earlier.into_iter()));
        let study = portfolio.study().unwrap();
        if moves {
            portfolio.on_event(0, Event::Workers { present: 2 });
        }
        portfolio.conclude(0, Some(&study.run()));
        // It is far from its limits, so its figure is 0.6.
        let told = portfolio.memory.told(2_000, 0).figure("darc-lending");
        assert_eq!(told, expected);
    }
}

/// Preempts the only request as soon as it runs.
#[derive(Default)]
struct Restless {
    waits: Option<RequestId>,
    runs: bool,
    stops: bool,
}

impl Scheduler for Restless {
    fn on_event(&mut self, _: u64, event: Event<'_>) {
        match event {
            Event::Arrived { request, .. } => self.waits = Some(request),
            Event::Yielded { .. } => (self.runs, self.stops) = (false, false),
            _ => {}
        }
    }

    fn poll(&mut self, _: u64) -> Option<Action> {
        let worker = WorkerId(0);
        if !std::mem::replace(&mut self.runs, true) {
            let request = self.waits?;
            return Some(Action::Run {
                worker,
                request,
                request_type: RequestType::new(0),
                hand_off: HandOff::Dispatched,
            });
        }
        let stops = std::mem::replace(&mut self.stops, true);
        (!stops).then_some(Action::Preempt { worker, quantum_ns: 0 })
    }
}

#[test]
fn a_trial_under_a_scheduler_that_does_nothing_but_preempt_ends() {
    let types: TypeTable = [TypeSpec::new("ONE")].into_iter().collect();
    let setup = SchedulerSetup::new(1, &types).preemption(Some(Preemption::new(1_000)));
    let tape = drawn(&[(1_000.0, 1.0, false)], 0.5, 1);
    let limits = [f64::INFINITY; 2];
    let slowdowns = Trial::new(&setup, Box::new(Restless::default()), &tape, &limits).run().slowdowns;
    assert_eq!(slowdowns, [f32::INFINITY]);
}

#[test]
fn a_trial_ends_early_only_where_a_type_is_far_beyond_its_limit() {
    let types: TypeTable = ["SHORT", "LONG"].map(TypeSpec::new).into_iter().collect();
    let setup = SchedulerSetup::new(WORKERS, &types).queue_capacity(1 << 16);
    let limits = [10.0, 10.0, f64::INFINITY];
    let (mut whole, mut early) = (0, 0);
    for percent in (20..=80).step_by(4) {
        let mix = [(1_000.0, 0.997, false), (300_000.0, 0.003, true)];
        let tape = drawn(&mix, f64::from(percent) / 100.0, 20_000);
        let counts_from = tape.len() / 4;
        let trial = || Trial::new(&setup, Box::new(CFcfs::new(&setup)), &tape, &limits);
        let expected = trial().run().slowdowns;
        let slowdowns = trial().until_far(counts_from).run().slowdowns;
        if slowdowns == expected {
            whole += 1;
            continue;
        }
        assert!(slowdowns.iter().all(|&slowdown| slowdown == f32::INFINITY));
        let mut of_types = vec![Vec::new(); limits.len()];
        for (request, slowdown) in tape.iter().zip(expected).skip(counts_from) {
            of_types[request.slot].push(slowdown);
        }
        let worst = Figures::new(&mut of_types, &limits, 0, 0).parts.worst;
        assert!(worst > 4.0 && worst.is_finite(), "{worst} at {percent}");
        early += 1;
    }
    assert!(whole > 0 && early > 0, "{whole} and {early}");
}

/// A portfolio of two types, one with an SLO, on so many workers.
fn of_two_types(workers: usize, settings: &settings::Portfolio) -> Portfolio {
    let slo = TypeSpec::new("SLO").slo(Duration::from_micros(30));
    let types: TypeTable = [TypeSpec::new("ONE"), slo].into_iter().collect();
    Portfolio::new(&SchedulerSetup::new(workers, &types), settings)
}

fn arrives(portfolio: &mut Portfolio, now_ns: u64, number: u32, request_type: u32) {
    let (request, request_type) = (RequestId(number), RequestType::new(request_type));
    portfolio.on_event(now_ns, Event::Arrived { request, request_type, deadline_ns: None });
}

#[test]
fn a_study_is_due_after_twice_the_arrivals_and_when_workers_come_or_go() {
    let mut portfolio = of_two_types(2, &settings::Portfolio::default().first_study(4));
    let mut due_at = Vec::new();
    for number in 1..=16 {
        arrives(&mut portfolio, 0, number, 0);
        if number == 11 {
            portfolio.on_event(0, Event::Workers { present: 2 });
        } else if number == 13 {
            portfolio.on_event(0, Event::Workers { present: 1 });
        }
        if portfolio.study().is_some() {
            due_at.push(number);
            // There is one at a time.
            portfolio.next_study = 0;
            assert!(portfolio.study().is_none());
            portfolio.next_study = 2 * u64::from(number);
            portfolio.conclude(0, None);
        }
    }
    assert_eq!(due_at, [4, 8, 13]);
    // Not before the first.
    let mut portfolio = of_two_types(2, &settings::Portfolio::default().first_study(4));
    portfolio.on_event(0, Event::Workers { present: 1 });
    assert!(portfolio.study().is_none());
}

#[test]
fn what_studies_said_is_forgotten_where_the_demand_moves_but_not_where_the_rate_does() {
    let mut portfolio = of_two_types(2, &settings::Portfolio::default());
    let mut number = 0;
    // The number of arrivals before the next study, and whether the memory is empty.
    let mut window = |portfolio: &mut Portfolio, gap_ns: u64, others: u64| {
        let said = [("darc-lending".to_owned(), 15.0)];
        portfolio.memory.take(0, Said::new(said.into_iter()));
        portfolio.next_study = u64::MAX;
        for _ in 0..8_192 {
            number += gap_ns;
            let request_type = RequestType::new(u32::from(number / gap_ns % 4 < others));
            let request = RequestId(0);
            portfolio.record(number, &Event::Arrived { request, request_type, deadline_ns: None });
        }
        let forgotten = portfolio.memory.told(u64::MAX, 0).figure("darc-lending").is_none();
        (portfolio.next_study == portfolio.arrivals, forgotten)
    };
    portfolio.record.took(0, 1_000);
    portfolio.record.took(1, 1_000);
    let windows = [(10, 1), (10, 1), (20, 1), (20, 3)];
    let seen = windows.map(|(gap_ns, others)| window(&mut portfolio, gap_ns, others));
    assert_eq!(seen, [(false, false), (false, false), (true, false), (true, true)]);
}

#[test]
fn service_times_are_of_the_type_that_began_and_become_limits() {
    let mut portfolio = of_two_types(1, &settings::Portfolio::default().slo_slowdown(7.0));
    let completed = |portfolio: &mut Portfolio, samples: &[(u32, u64)]| {
        let sample = |&(slot, service_ns)| Sample { request_type: RequestType::new(slot), count: 1, service_ns };
        let samples: Vec<_> = samples.iter().map(sample).collect();
        portfolio.record(
            0,
            &Event::Completed {
                worker: WorkerId(0),
                samples: &samples,
                dropped: samples.is_empty(),
            },
        );
    };
    arrives(&mut portfolio, 0, 0, 1);
    assert!(matches!(portfolio.poll(0), Some(Action::Run { request: RequestId(0), .. })));
    assert_eq!(portfolio.poll(0), None);
    completed(&mut portfolio, &[]);
    assert_eq!(portfolio.record.services_ns(1), []);
    completed(&mut portfolio, &[(0, 2_000), (1, 4_000)]);
    assert_eq!(portfolio.record.services_ns(1), [6_000]);
    // Where it is not known what began, it is the type of the first.
    completed(&mut portfolio, &[(0, 8_000), (1, 4_000)]);
    assert_eq!(portfolio.record.services_ns(0), [12_000]);

    assert_eq!(portfolio.demand_shares(), [0.0, 1.0, 0.0]);
    let limits = portfolio.limits(&portfolio.setup);
    assert_eq!(limits.slowdowns, [7.0, 5.0, f64::INFINITY]);
    assert_eq!((limits.shortest, limits.any_ample), (1, false));
    portfolio.arrivals = 8_192;
    assert!(portfolio.limits(&portfolio.setup).any_ample);
}

/// Says the same of everything.
struct Constant(u64);

impl Scheduler for Constant {
    fn on_event(&mut self, _: u64, _: Event<'_>) {}

    fn poll(&mut self, _: u64) -> Option<Action> {
        None
    }

    fn deadline_ns(&self) -> Option<u64> {
        Some(self.0)
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(self)
    }

    fn same_run(&self, first: RequestType, next: RequestType) -> bool {
        first != next
    }

    fn type_status(&self, _: usize) -> TypeStatus {
        TypeStatus {
            steals: self.0,
            relieved: 10 * self.0,
            ..TypeStatus::default()
        }
    }

    fn relief(&self, _: u64, _: usize) -> Relief {
        Relief::NoWorker
    }

    fn reservation_updates(&self) -> u64 {
        100 * self.0
    }
}

impl Handover for Constant {
    fn hand_over(&mut self) -> Backlog {
        Backlog::default()
    }

    fn take_over(&mut self, _: u64, _: Backlog) {}
}

#[test]
fn a_portfolio_speaks_for_the_one_in_force_and_counts_on_where_the_one_before_ended() {
    let mut portfolio = of_two_types(1, &settings::Portfolio::default());
    portfolio.scheduler = Box::new(Constant(2));
    for (next, total) in [(3, 5), (4, 9)] {
        let candidate = super::Candidate::first(10.0);
        let scheduler = Box::new(Constant(next));
        portfolio.switch_to(0, super::Next { candidate, scheduler, demand_shares: vec![1.0] });
        let status = portfolio.type_status(1);
        assert_eq!((status.steals, status.relieved), (total, 10 * total));
        assert_eq!(portfolio.reservation_updates(), 100 * total);
        assert_eq!(portfolio.deadline_ns(), Some(next));
    }
    let [one, other] = [0, 1].map(RequestType::new);
    assert!(portfolio.same_run(one, other) && !portfolio.same_run(one, one));
    assert_eq!(portfolio.relief(0, 0), Relief::NoWorker);
    assert!(portfolio.handover().is_some());
    assert!(portfolio.replaced.is_some() && portfolio.made_for.is_some());
}
