//! Members decide as one scheduler of all workers does, which the simulator and the property kit drive: under the same
//! events, with the same chance, and with workers that look in the same order. The timer core, which sees nothing but
//! the board, asks the same turns to yield at the same time.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;
use psp_policy::distributed::Watch;
use psp_policy::{Contexts, Policy, Preemption, Synergy, TypeSpec, TypeTable};

use super::*;
use crate::runtime::distributed::feedback::FeedbackLoop;
use crate::runtime::distributed::moving::Moving;
use crate::runtime::distributed::roster::Roster;

/// Chosen among what the types take.
const PREEMPTION: Preemption = Preemption::new(700);

/// What happens by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Begins {
        worker: u32,
        request: u32,
        stolen: bool,
    },
    /// The worker is asked to yield.
    Preempts {
        worker: u32,
    },
}

/// A scheduler of all workers, or a member for each.
trait Machine {
    /// A request arrives, at whichever worker chance names.
    fn arrives(&mut self, now_ns: u64, request: RequestId, request_type: RequestType);
    /// Something happens at a worker.
    fn happens(&mut self, now_ns: u64, worker: WorkerId, event: Event<'_>);
    /// Time has passed.
    fn ticks(&mut self, now_ns: u64);
    fn acts(&mut self, now_ns: u64) -> Option<Act>;
    /// When to call `ticks` next, if it says.
    fn deadline_ns(&self) -> Option<u64> {
        None
    }
}

struct Whole(Box<dyn Scheduler>);

impl Machine for Whole {
    fn arrives(&mut self, now_ns: u64, request: RequestId, request_type: RequestType) {
        let deadline_ns = None;
        let arrived = Event::Arrived { request, request_type, deadline_ns };
        self.0.on_event(now_ns, arrived);
    }

    fn happens(&mut self, now_ns: u64, _: WorkerId, event: Event<'_>) {
        self.0.on_event(now_ns, event);
    }

    fn ticks(&mut self, now_ns: u64) {
        self.0.on_event(now_ns, Event::Tick);
    }

    fn acts(&mut self, now_ns: u64) -> Option<Act> {
        match self.0.poll(now_ns)? {
            Action::Run { worker, request, hand_off, .. } => Some(Act::Begins {
                worker: worker.0,
                request: request.0,
                stolen: hand_off == HandOff::Stolen,
            }),
            Action::Preempt { worker, .. } => Some(Act::Preempts { worker: worker.0 }),
            action => panic!("{action:?}"),
        }
    }

    fn deadline_ns(&self) -> Option<u64> {
        self.0.deadline_ns()
    }
}

/// Members in the order in which the adapter lets workers look.
struct Members {
    members: Vec<Member>,
    feedback: FeedbackLoop,
    watch: Watch,
    random: Random,
    at_random: bool,
    /// Idle workers that found something in their own queues when it came.
    ready: VecDeque<usize>,
    /// Idle workers, the most recently active first.
    idle: Vec<usize>,
}

impl Members {
    fn new(policy: &Policy, setup: &SchedulerSetup<'_>) -> Self {
        let group = WorkerGroup::new(policy, setup, Roster::silent(setup.workers));
        let (group, objects) = group.expect("it needs no dispatcher");
        let moving = setup.contexts.preempted_migrate;
        let moving = moving.then(|| Arc::new(Moving::unlimited()));
        let group = Arc::new(group.with_moving(moving));
        let objects = (0..).map(WorkerId).zip(objects);
        let member = |(me, object)| Member::new(setup, group.clone(), me, object);
        Self {
            members: objects.map(member).collect(),
            feedback: FeedbackLoop::new(&group),
            watch: Watch::new(setup.workers, group.ways),
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
        let group = self.members[0].group.clone();
        let _: Duration = self.feedback.pass(&group, now_ns);
        assert_eq!(group.placings.load(Ordering::Relaxed), 0, "too few samples");
    }

    fn take(&mut self, index: usize, now_ns: u64) -> Option<Act> {
        match self.act(index, |member| member.poll(now_ns))? {
            Action::Run { request, hand_off, .. } => {
                self.idle.retain(|&idle| idle != index);
                Some(Act::Begins {
                    worker: index as u32,
                    request: request.0,
                    stolen: hand_off == HandOff::Stolen,
                })
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
        let arrived = Event::Arrived { request, request_type, deadline_ns };
        self.act(receiver, |member| {
            member.on_event(now_ns, arrived);
            assert_eq!(member.place_arrived(now_ns), None, "there is room");
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

    fn ticks(&mut self, now_ns: u64) {
        self.members[0].group.wait_queue.passes(now_ns);
        self.learn(now_ns);
    }

    fn acts(&mut self, now_ns: u64) -> Option<Act> {
        let begins = self.begins(now_ns);
        begins.or_else(|| {
            let group = &self.members[0].group;
            let expired = self.watch.expired(now_ns, &group.board)?;
            let worker = expired.worker.0;
            assert_eq!(expired.turn, group.line(expired.worker).turn());
            Some(Act::Preempts { worker })
        })
    }
}

impl Members {
    fn begins(&mut self, now_ns: u64) -> Option<Act> {
        let waits = |member: &Member| {
            let aside = !member.wait_queue.is_empty() || member.group.suspended.has_any();
            member.line().queued() > 0 || !member.resumes().is_empty() || aside
        };
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
    Arrives {
        of_type: u32,
    },
    Completes {
        which: usize,
    },
    Blocks {
        which: usize,
    },
    Unblocks {
        which: usize,
    },
    /// One that was asked to yield does so.
    Obeys {
        which: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..4_u32).prop_map(|of_type| Step::Arrives { of_type }),
        4 => any::<usize>().prop_map(|which| Step::Completes { which }),
        1 => any::<usize>().prop_map(|which| Step::Blocks { which }),
        1 => any::<usize>().prop_map(|which| Step::Unblocks { which }),
        4 => any::<usize>().prop_map(|which| Step::Obeys { which }),
    ]
}

/// Steps, and the time before each.
fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let pause_ns = prop_oneof![Just(100_u64), 100..3_000_u64, 3_000..300_000_u64];
    prop::collection::vec((pause_ns, step()), 1..200)
}

fn types() -> TypeTable {
    let hinted = [("SHORT", 1), ("MIDDLE", 20), ("LONG", 500)];
    let spec = |(name, us)| TypeSpec::new(name).service_time(Duration::from_micros(us));
    hinted.map(spec).into_iter().collect()
}

/// Both, and what they have done together.
struct Pair {
    machines: [Box<dyn Machine>; 2],
    /// What both run, by the numbers of workers: the request, since when, and whether it was asked to yield.
    busy: Vec<(u32, Turn)>,
}

#[derive(Debug, Clone, Copy)]
struct Turn {
    request: u32,
    since_ns: u64,
    is_asked: bool,
}

impl Pair {
    /// Lets both act, and compares what they do.
    fn act(&mut self, now_ns: u64, context: &str) {
        let done = self
            .machines
            .each_mut()
            .map(|machine| std::iter::from_fn(|| machine.acts(now_ns)).collect::<Vec<Act>>());
        assert_eq!(done[0], done[1], "{context} at {now_ns}");
        for &act in &done[0] {
            match act {
                Act::Begins { worker, request, .. } => {
                    let turn = Turn { request, since_ns: now_ns, is_asked: false };
                    self.busy.push((worker, turn));
                }
                Act::Preempts { worker } => {
                    let turn = self.busy.iter_mut().find(|(busy, _)| *busy == worker);
                    turn.expect("it runs").1.is_asked = true;
                }
            }
        }
    }

    /// Time passes until then.
    fn pass(&mut self, mut now_ns: u64, until_ns: u64, context: &str) {
        while let Some(at_ns) = self.machines[0].deadline_ns().filter(|&ns| ns <= until_ns) {
            now_ns = at_ns.max(now_ns);
            for machine in &mut self.machines {
                machine.ticks(now_ns);
            }
            self.act(now_ns, context);
        }
        for machine in &mut self.machines {
            machine.ticks(until_ns);
        }
        self.act(until_ns, context);
    }

    fn happens(&mut self, now_ns: u64, worker: u32, event: Event<'_>) {
        for machine in &mut self.machines {
            machine.happens(now_ns, WorkerId(worker), event);
        }
    }

    /// One of the turns for which `such` holds. It is over.
    fn end(&mut self, which: usize, such: impl Fn(&Turn) -> bool) -> Option<(u32, Turn)> {
        let turns = self.busy.iter().enumerate();
        let turns: Vec<usize> = turns.filter(|(_, (_, turn))| such(turn)).map(|(index, _)| index).collect();
        let index = turns.get(which % turns.len().max(1))?;
        Some(self.busy.swap_remove(*index))
    }
}

/// Drives both, and compares what they do after each step.
fn compare(policy: &Policy, workers: usize, contexts: Contexts, seed: u64, steps: &[(u64, Step)]) {
    let types = types();
    let setup = SchedulerSetup::new(workers, &types)
        .contexts(contexts)
        .preemption(Some(PREEMPTION))
        .seed(seed);
    let mut pair = Pair {
        machines: [Box::new(Whole(policy.scheduler(&setup))), Box::new(Members::new(policy, &setup))],
        busy: Vec::new(),
    };
    let context = format!("{policy:?} with {workers}, {contexts:?}");
    let (mut now_ns, mut next) = (0, 0);
    // Blocked requests with their workers.
    let mut blocked: Vec<(u32, u32)> = Vec::new();
    let mut of_types = Vec::new();
    for &(pause_ns, step) in steps {
        pair.pass(now_ns, now_ns + pause_ns, &context);
        now_ns += pause_ns;
        match step {
            Step::Arrives { of_type } => {
                let request_type = match of_type {
                    3 => RequestType::UNKNOWN,
                    known => RequestType::new(known),
                };
                for machine in &mut pair.machines {
                    machine.arrives(now_ns, RequestId(next), request_type);
                }
                of_types.push(request_type);
                next += 1;
            }
            Step::Completes { which } => {
                let Some((at, turn)) = pair.end(which, |_| true) else {
                    continue;
                };
                let samples = &[Sample {
                    request_type: of_types[turn.request as usize],
                    count: 1,
                    service_ns: 100,
                }];
                let (worker, dropped) = (WorkerId(at), false);
                let completed = Event::Completed { worker, samples, dropped };
                pair.happens(now_ns, at, completed);
            }
            Step::Blocks { which } => {
                let Some((at, turn)) = pair.end(which, |_| true) else {
                    continue;
                };
                blocked.push((at, turn.request));
                let (worker, served_ns) = (WorkerId(at), 50);
                pair.happens(now_ns, at, Event::Blocked { worker, served_ns });
            }
            Step::Unblocks { which } => {
                if blocked.is_empty() {
                    continue;
                }
                let (at, request) = blocked.swap_remove(which % blocked.len());
                let request = RequestId(request);
                pair.happens(now_ns, at, Event::Unblocked { request });
            }
            Step::Obeys { which } => {
                let Some((at, turn)) = pair.end(which, |turn| turn.is_asked) else {
                    continue;
                };
                let (worker, served_ns) = (WorkerId(at), now_ns - turn.since_ns);
                pair.happens(now_ns, at, Event::Yielded { worker, served_ns });
            }
        }
        pair.act(now_ns, &context);
    }
}

/// Those of workers that decide for themselves.
fn policies(workers: usize) -> impl Iterator<Item = Policy> {
    let named = Policy::NAMES.into_iter().map(|name| name.parse().unwrap());
    let with_settings = [
        Synergy::default().wait_queue(false),
        Synergy::default().congestion_threshold_us(2.0),
        Synergy::default().congestion_threshold_us(50.0),
    ];
    let all = named.chain(with_settings.map(Policy::from));
    all.filter(move |policy| policy.is_local() && policy.validate(workers).is_ok())
}

proptest! {
    #[test]
    fn members_decide_as_one_scheduler_of_all_workers(
        workers in 1..6_usize,
        contexts in 1..5_usize,
        seed in any::<u64>(),
        steps in steps(),
    ) {
        for policy in policies(workers) {
            for contexts in [Contexts::at_home(contexts), Contexts::at_home_unless_preempted(contexts)] {
                compare(&policy, workers, contexts, seed, &steps);
            }
        }
    }
}
