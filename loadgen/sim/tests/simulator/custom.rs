//! A policy from outside psp-policy in the simulator.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use psp_policy::{Action, Custom, Event, HandOff, Policy, RequestId, RequestType, Scheduler, SchedulerSetup, WorkerId};
use psp_sim::experiment::{Scope, Slo, Tolerance, capacity};
use psp_sim::simulator::{Costs, Outcome, SimPlan, simulate};
use psp_sim::workload::Workload;

/// First come, first served.
struct Fifo {
    waiting: VecDeque<(RequestId, RequestType)>,
    idle: Vec<WorkerId>,
}

impl Fifo {
    fn scheduler(setup: &SchedulerSetup<'_>) -> Box<dyn Scheduler> {
        let workers = u32::try_from(setup.workers).expect("workers are few");
        Box::new(Self {
            waiting: VecDeque::new(),
            idle: (0..workers).map(WorkerId).collect(),
        })
    }
}

impl Scheduler for Fifo {
    fn on_event(&mut self, _now_ns: u64, event: Event<'_>) {
        match event {
            Event::Arrived { request, request_type, .. } => self.waiting.push_back((request, request_type)),
            Event::Completed { worker, .. } | Event::Yielded { worker, .. } => {
                self.idle.push(worker);
            }
            _ => {}
        }
    }

    fn poll(&mut self, _now_ns: u64) -> Option<Action> {
        if self.waiting.is_empty() {
            return None;
        }
        let worker = self.idle.pop()?;
        let (request, request_type) = self.waiting.pop_front()?;
        Some(Action::Run { worker, request, request_type, hand_off: HandOff::Dispatched })
    }
}

fn plan(policy: Policy) -> SimPlan {
    let workload = Workload::named("high-bimodal").unwrap();
    SimPlan::new(workload, policy, 8, 0.7).requests(20_000)
}

fn run(plan: &SimPlan) -> Outcome {
    simulate(plan, &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn a_custom_policy_is_simulated_like_one_of_the_crate() {
    let custom = run(&plan(Policy::custom("fifo", Fifo::scheduler)));
    let built_in = run(&plan(Policy::c_fcfs()));
    assert_eq!(custom.completed, 20_000);
    assert_eq!(custom.overall, built_in.overall);
    assert_eq!(custom.types[0].latency_ns, built_in.types[0].latency_ns);
}

#[test]
fn a_custom_policy_has_a_capacity() {
    let slo = Slo { slowdown: 10.0, percentile: 99.9, scope: Scope::PerType };
    let found = |policy| {
        let mut progress = |_| ControlFlow::Continue(());
        capacity(&plan(policy), &slo, Tolerance::Absolute(0.1), &mut progress).unwrap()
    };
    let custom = found(Policy::custom("fifo", Fifo::scheduler));
    assert_eq!(custom, found(Policy::c_fcfs()));
    assert!(custom.load > 0.0);
}

#[test]
fn a_custom_policy_pays_for_a_dispatcher_only_if_it_has_one() {
    let p50_us = |policy| {
        let plan = SimPlan {
            costs: Costs { dispatch_ns: 2_000, ..Costs::default() },
            ..plan(policy)
        };
        run(&plan).types[0].latency_us().unwrap().p50
    };
    let with = Custom::new("fifo", Fifo::scheduler);
    let without = with.clone().without_dispatcher();
    let [with, without] = [with, without].map(|custom| p50_us(Policy::from(custom)));
    assert!(with >= without + 2.0, "{with} us with, {without} us without");
}
