//! Members decide as one scheduler of all workers does, which the simulator and the property kit drive: under the same
//! events, with the same chance, and with workers that look in the same order.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;
use psp_policy::{Contexts, Policy, TypeSpec, TypeTable};

use super::*;
use crate::fiber::Bell;
use crate::runtime::crew::feedback::FeedbackLoop;

struct Silent;

impl Bell for Silent {
    fn ring(&self) {}
}

/// What begins: worker, request, and whether it was stolen.
type Begins = (u32, u32, bool);

/// A scheduler of all workers, or a member for each.
trait Machine {
    /// A request arrives, at whichever worker chance names.
    fn arrives(&mut self, now_ns: u64, request: RequestId, request_type: RequestType);
    /// Something happens at a worker.
    fn happens(&mut self, now_ns: u64, worker: WorkerId, event: Event<'_>);
    fn begins(&mut self, now_ns: u64) -> Option<Begins>;
}

struct Whole(Box<dyn Scheduler>);

impl Machine for Whole {
    fn arrives(&mut self, now_ns: u64, request: RequestId, request_type: RequestType) {
        let deadline_ns = None;
        let arrived = Event::Arrived {
            request,
            request_type,
            deadline_ns,
        };
        self.0.on_event(now_ns, arrived);
    }

    fn happens(&mut self, now_ns: u64, _: WorkerId, event: Event<'_>) {
        self.0.on_event(now_ns, event);
    }

    fn begins(&mut self, now_ns: u64) -> Option<Begins> {
        match self.0.poll(now_ns)? {
            Action::Run {
                worker,
                request,
                hand_off,
                ..
            } => Some((worker.0, request.0, hand_off == HandOff::Stolen)),
            action => panic!("{action:?}"),
        }
    }
}

/// Members in the order in which the adapter lets workers look.
struct Members {
    members: Vec<Member>,
    feedback: FeedbackLoop,
    random: Random,
    at_random: bool,
    /// Idle workers that found something in their own queues when it came.
    ready: VecDeque<usize>,
    /// Idle workers, the most recently active first.
    idle: Vec<usize>,
}

impl Members {
    fn new(policy: &Policy, setup: &SchedulerSetup<'_>) -> Self {
        let bells = (0..setup.workers).map(|_| Arc::new(Silent) as Arc<dyn Bell>);
        let (crew, objects) = Crew::new(policy, setup, bells).expect("it needs no dispatcher");
        let crew = Arc::new(crew);
        let objects = (0..).map(WorkerId).zip(objects);
        let member = |(me, object)| Member::new(setup, crew.clone(), me, object);
        Self {
            members: objects.map(member).collect(),
            feedback: FeedbackLoop::new(&crew),
            random: Random::new(setup.seed),
            at_random: !matches!(policy, Policy::Jsq(_)),
            ready: VecDeque::new(),
            idle: (0..setup.workers).collect(),
        }
    }

    /// Lets a member act with the chance of all.
    fn act<T>(&mut self, index: usize, act: impl FnOnce(&mut Member) -> T) -> T {
        std::mem::swap(&mut self.members[index].random, &mut self.random);
        let acted = act(&mut self.members[index]);
        std::mem::swap(&mut self.members[index].random, &mut self.random);
        acted
    }

    fn finds(&self) -> Vec<bool> {
        let finds = |member: &Member| member.running.is_none() && !member.mine().own().is_empty();
        self.members.iter().map(finds).collect()
    }

    /// Idle workers that find something which they did not find `before` are ready.
    fn note_ready(&mut self, before: &[bool]) {
        for (index, (finds, found)) in self.finds().into_iter().zip(before).enumerate() {
            if finds && !found && !self.ready.contains(&index) {
                self.ready.push_back(index);
            }
        }
    }

    fn learn(&mut self, now_ns: u64) {
        let crew = self.members[0].crew.clone();
        let _: Duration = self.feedback.pass(&crew, now_ns);
        assert_eq!(crew.placings.load(Ordering::Relaxed), 0, "too few samples");
    }

    fn take(&mut self, index: usize, now_ns: u64) -> Option<Begins> {
        match self.act(index, |member| member.poll(now_ns))? {
            Action::Run {
                request, hand_off, ..
            } => {
                self.idle.retain(|&idle| idle != index);
                Some((index as u32, request.0, hand_off == HandOff::Stolen))
            }
            action => panic!("{action:?}"),
        }
    }
}

impl Machine for Members {
    fn arrives(&mut self, now_ns: u64, request: RequestId, request_type: RequestType) {
        let workers = self.members.len() as u32;
        let receiver = if self.at_random {
            self.random.below(workers) as usize
        } else {
            0
        };
        let before = self.finds();
        let deadline_ns = None;
        let arrived = Event::Arrived {
            request,
            request_type,
            deadline_ns,
        };
        self.act(receiver, |member| {
            member.on_event(now_ns, arrived);
            assert_eq!(member.place_arrived(), None, "there is room");
        });
        self.note_ready(&before);
        self.learn(now_ns);
    }

    fn happens(&mut self, now_ns: u64, worker: WorkerId, event: Event<'_>) {
        let index = worker.index();
        let before = self.finds();
        let is_end = !matches!(event, Event::Unblocked { .. });
        self.members[index].on_event(now_ns, event);
        if is_end {
            self.idle.insert(0, index);
        }
        self.note_ready(&before);
        self.learn(now_ns);
    }

    fn begins(&mut self, now_ns: u64) -> Option<Begins> {
        let waits = |member: &Member| member.line().queued() > 0 || !member.resumes().is_empty();
        if self.idle.is_empty() || !self.members.iter().any(waits) {
            return None;
        }
        while let Some(index) = self.ready.pop_front() {
            if let Some(begins) = self.take(index, now_ns) {
                return Some(begins);
            }
        }
        if !self.members[0].object.looks_elsewhere() {
            return None;
        }
        let idle = self.idle.clone();
        idle.into_iter().find_map(|index| self.take(index, now_ns))
    }
}

/// What happens next, by numbers that choose among what can.
#[derive(Debug, Clone, Copy)]
enum Step {
    Arrives { of_type: u32 },
    Completes { which: usize },
    Blocks { which: usize },
    Unblocks { which: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..4_u32).prop_map(|of_type| Step::Arrives { of_type }),
        4 => any::<usize>().prop_map(|which| Step::Completes { which }),
        1 => any::<usize>().prop_map(|which| Step::Blocks { which }),
        1 => any::<usize>().prop_map(|which| Step::Unblocks { which }),
    ]
}

fn types() -> TypeTable {
    let hinted = [("SHORT", 1), ("MIDDLE", 20), ("LONG", 500)];
    let spec = |(name, us)| TypeSpec::new(name).service_time(Duration::from_micros(us));
    hinted.map(spec).into_iter().collect()
}

/// Drives both, and compares what begins after each step.
fn compare(policy: &Policy, workers: usize, contexts: usize, seed: u64, steps: &[Step]) {
    let types = types();
    let setup = SchedulerSetup::new(workers, &types)
        .contexts(Contexts::at_home(contexts))
        .seed(seed);
    let mut machines: [Box<dyn Machine>; 2] = [
        Box::new(Whole(policy.scheduler(&setup))),
        Box::new(Members::new(policy, &setup)),
    ];
    let (mut now_ns, mut next) = (0, 0);
    // Busy workers with their requests, and blocked requests with their workers.
    let (mut busy, mut blocked) = (Vec::new(), Vec::new());
    let mut of_types = Vec::new();
    for &step in steps {
        now_ns += 100;
        let pick = |list: &mut Vec<(u32, u32)>, which: usize| {
            let len = list.len();
            (len > 0).then(|| list.swap_remove(which % len))
        };
        match step {
            Step::Arrives { of_type } => {
                let request_type = match of_type {
                    3 => RequestType::UNKNOWN,
                    known => RequestType::new(known),
                };
                for machine in &mut machines {
                    machine.arrives(now_ns, RequestId(next), request_type);
                }
                of_types.push(request_type);
                next += 1;
            }
            Step::Completes { which } => {
                let Some((worker, request)) = pick(&mut busy, which) else {
                    continue;
                };
                let samples = [Sample {
                    request_type: of_types[request as usize],
                    count: 1,
                    service_ns: 100,
                }];
                let worker = WorkerId(worker);
                for machine in &mut machines {
                    let completed = Event::Completed {
                        worker,
                        samples: &samples,
                        dropped: false,
                    };
                    machine.happens(now_ns, worker, completed);
                }
            }
            Step::Blocks { which } => {
                let Some((worker, request)) = pick(&mut busy, which) else {
                    continue;
                };
                blocked.push((worker, request));
                let (worker, served_ns) = (WorkerId(worker), 50);
                for machine in &mut machines {
                    machine.happens(now_ns, worker, Event::Blocked { worker, served_ns });
                }
            }
            Step::Unblocks { which } => {
                let Some((worker, request)) = pick(&mut blocked, which) else {
                    continue;
                };
                let request = RequestId(request);
                for machine in &mut machines {
                    let unblocked = Event::Unblocked { request };
                    machine.happens(now_ns, WorkerId(worker), unblocked);
                }
            }
        }
        let begun = machines
            .each_mut()
            .map(|machine| std::iter::from_fn(|| machine.begins(now_ns)).collect::<Vec<Begins>>());
        assert_eq!(begun[0], begun[1], "{policy} with {workers} at {now_ns}");
        busy.extend(
            begun[0]
                .iter()
                .map(|&(worker, request, _)| (worker, request)),
        );
    }
}

proptest! {
    #[test]
    fn members_decide_as_one_scheduler_of_all_workers(
        workers in 1..6_usize,
        contexts in 1..5_usize,
        seed in any::<u64>(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        for policy in Policy::NAMES {
            let policy: Policy = policy.parse().unwrap();
            if policy.is_local() && policy.validate(workers).is_ok() {
                compare(&policy, workers, contexts, seed, &steps);
            }
        }
    }
}
