//! What a policy hears while the kit drives it.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::breaking::puts_off_blocked;
use super::faulty::{Change, faulty};
use crate::backlog::{Backlog, Handover};
use crate::conformance::{Case, Idling, Measured, Operation, Promise, Promises, Step, check_case};
use crate::event::{Action, Event};
use crate::policy::Policy;
use crate::request_type::TypeTable;
use crate::scheduler::{Scheduler, TypeStatus};
use crate::setup::Contexts;

/// While it has requests, a recorder wants a tick at each multiple of this.
const TICK_NS: u64 = 400;

type Log = Arc<Mutex<Vec<String>>>;

/// c-FCFS that writes down what it hears.
struct Recorder {
    fcfs: Box<dyn Scheduler>,
    log: Log,
    requests: usize,
    now_ns: u64,
}

fn recorder(name: &str, log: &Log) -> Policy {
    let log = Arc::clone(log);
    Policy::custom(name, move |setup| {
        Box::new(Recorder {
            fcfs: Policy::c_fcfs().scheduler(setup),
            log: Arc::clone(&log),
            requests: 0,
            now_ns: 0,
        })
    })
}

impl Recorder {
    fn writes(&mut self, now_ns: u64, what: &str) {
        self.now_ns = now_ns;
        self.log.lock().unwrap().push(format!("{now_ns}: {what}"));
    }
}

impl Scheduler for Recorder {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        let what = match event {
            Event::Arrived { request, deadline_ns, .. } => {
                self.requests += 1;
                format!("{} arrives, due {deadline_ns:?}", request.0)
            }
            Event::Completed { worker, samples, dropped } => {
                self.requests -= 1;
                let samples = samples.iter();
                let times: Vec<_> = samples.map(|s| (s.count, s.service_ns)).collect();
                format!("@{} completes {times:?}, dropped {dropped}", worker.0)
            }
            Event::Yielded { worker, served_ns } => format!("@{} yields {served_ns}", worker.0),
            Event::Blocked { worker, served_ns } => format!("@{} blocks {served_ns}", worker.0),
            Event::Unblocked { request } => format!("{} unblocks", request.0),
            Event::Workers { present } => format!("{present} present"),
            Event::Tick => "tick".to_owned(),
        };
        self.writes(now_ns, &what);
        self.fcfs.on_event(now_ns, event);
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        self.now_ns = now_ns;
        self.fcfs.poll(now_ns)
    }

    fn deadline_ns(&self) -> Option<u64> {
        let next_ns = (self.now_ns / TICK_NS + 1) * TICK_NS;
        (self.requests > 0).then_some(next_ns)
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(self)
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.fcfs.type_status(slot)
    }
}

impl Handover for Recorder {
    fn hand_over(&mut self) -> Backlog {
        let handover = self.fcfs.handover().expect("c-FCFS has one");
        handover.hand_over()
    }

    fn take_over(&mut self, now_ns: u64, backlog: Backlog) {
        self.requests = backlog.requests.len();
        self.writes(now_ns, &format!("takes over {}", self.requests));
        let handover = self.fcfs.handover().expect("c-FCFS has one");
        handover.take_over(now_ns, backlog);
    }
}

/// Two workers, and policies that write into the logs.
fn case<const N: usize>(logs: &[Log; N], operations: impl IntoIterator<Item = Operation>) -> Case {
    let steps = operations.into_iter().map(|operation| Step { operation, polls_max: usize::MAX });
    Case {
        policies: logs.iter().map(|log| recorder("recorder", log)).collect(),
        workers: 2,
        present: 2,
        types: TypeTable::new(),
        inline: false,
        preemption: None,
        contexts: Contexts::migrating(),
        stuck: None,
        seed: 0,
        steps: steps.collect(),
    }
}

/// What the policies of a case hear.
fn heard<const N: usize>(operations: impl IntoIterator<Item = Operation>) -> [Vec<String>; N] {
    let logs: [Log; N] = std::array::from_fn(|_| Log::default());
    let checked = check_case(&case(&logs, operations), |_, _| Promises::default());
    assert_eq!(checked, Ok(()));
    logs.map(|log| log.lock().unwrap().clone())
}

#[test]
fn a_policy_hears_of_each_event_when_it_happens() {
    let [heard] = heard([
        Operation::Arrive(vec![0]),
        Operation::ArriveDue { request_type: 7, within_ns: 0 },
        Operation::Advance(1_000),
        Operation::Advance(200),
        Operation::Stall(300),
        Operation::Tick,
        Operation::Obey { nth: 0 },
        Operation::Yield { nth: 2 },
        Operation::Block { nth: 1 },
        Operation::Stall(10),
        Operation::Unblock { nth: 5 },
        Operation::ArriveDue { request_type: 0, within_ns: 5 },
        Operation::Stall(6),
        Operation::Complete {
            nth: 0,
            measured: Some(Measured { count: 2, service_ns: 10 }),
        },
        Operation::Workers { nth: 2 },
        Operation::Complete { nth: 1, measured: None },
    ]);
    assert_eq!(
        heard,
        [
            "0: 0 arrives, due None",
            "0: 1 arrives, due Some(0)",
            "400: tick",
            "800: tick",
            "1200: tick",
            "1500: tick",
            "1500: @0 yields 1500",
            "1500: @1 blocks 1500",
            "1510: 1 unblocks",
            "1510: 2 arrives, due Some(1515)",
            "1516: @0 completes [(2, 20)], dropped false",
            "1516: @0 completes [], dropped true",
            "1516: 1 present",
            "1516: @1 completes [], dropped false",
        ]
    );
}

#[test]
fn in_the_end_requests_yield_or_complete_with_and_without_a_measurement() {
    let [heard] = heard([Operation::Arrive(vec![0; 3]), Operation::Block { nth: 0 }]);
    let heard: Vec<&String> = heard.iter().filter(|line| !line.ends_with("tick")).collect();
    assert_eq!(
        heard[4..],
        [
            "1000: 0 unblocks",
            "2000: @1 yields 2000",
            "3000: @0 completes [], dropped false",
            "4000: @1 completes [(1, 1000)], dropped false",
            "6000: @0 yields 3000",
            "7000: @0 completes [], dropped false",
        ]
    );
}

/// Where workers are absent or have no context, a request may wait for one, but not for ever.
#[test]
fn what_waits_in_the_end_is_lost() {
    let promises = Promises {
        idling: Idling::Freely,
        telemetry: false,
        ..Promises::default()
    };
    let operations = [Operation::Workers { nth: 0 }, Operation::Arrive(vec![0])];
    let broken = breaks(Change::Acts(|_, _| None), &promises, operations, 0..0);
    assert_eq!(broken, Some(Promise::NothingLost));
}

/// Which promise c-FCFS breaks with a change, in a case with two workers. The scheduler is not asked what to do after
/// the operations at the places in `unpolled`.
fn breaks<const N: usize>(
    change: Change,
    promises: &Promises,
    operations: [Operation; N],
    unpolled: Range<usize>,
) -> Option<Promise> {
    let policies = vec![faulty(Policy::c_fcfs(), change)];
    let mut case = Case { policies, ..case(&[Log::default()], operations) };
    case.steps[unpolled].iter_mut().for_each(|step| step.polls_max = 0);
    check_case(&case, |_, _| promises.clone()).err().map(|broken| broken.promise)
}

#[test]
fn what_stays_moves_when_its_worker_goes_and_not_when_another_comes() {
    let promises = Promises { stays: true, ..Promises::default() };
    for (yields, nth, broken) in [(1, 0, None), (0, 1, Some(Promise::Stays))] {
        let operations = [
            Operation::Arrive(vec![0; 2]),
            Operation::Yield { nth: yields },
            Operation::Workers { nth },
            Operation::Complete { nth: 1 - yields, measured: None },
        ];
        let change = Change::Acts(|_, action| Some(action));
        assert_eq!(breaks(change, &promises, operations, 1..3), broken, "{} present", nth + 1);
    }
}

#[test]
fn what_was_blocked_goes_before_later_requests_of_its_type() {
    for (change, broken) in [
        (Change::Acts(|_, action| Some(action)), None),
        (Change::Acts(puts_off_blocked), Some(Promise::Order)),
    ] {
        let operations = [
            Operation::Workers { nth: 0 },
            Operation::Arrive(vec![0; 3]),
            Operation::Block { nth: 0 },
            Operation::Unblock { nth: 0 },
            Operation::Complete { nth: 0, measured: None },
        ];
        assert_eq!(breaks(change, &Promises::default(), operations, 0..0), broken);
    }
}

#[test]
fn another_policy_takes_over_and_hears_how_many_workers_there_are() {
    let [first, second] = heard([
        Operation::Arrive(vec![0, 7, 0]),
        Operation::Workers { nth: 0 },
        Operation::Switch { nth: 3 },
        Operation::Complete { nth: 1, measured: None },
        Operation::Stall(5),
        Operation::Complete { nth: 0, measured: None },
        Operation::Complete { nth: 0, measured: None },
    ]);
    assert_eq!(
        first,
        [
            "0: 0 arrives, due None",
            "0: 1 arrives, due None",
            "0: 2 arrives, due None",
            "0: 1 present",
        ]
    );
    assert_eq!(
        second,
        [
            "0: takes over 3",
            "0: 1 present",
            "0: @1 completes [], dropped false",
            "5: @0 completes [], dropped false",
            "5: @0 completes [], dropped false",
        ]
    );
}
