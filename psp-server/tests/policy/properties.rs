//! Arbitrary operations on every policy, beside a model that knows what must hold after each.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;
use psp_server::policy::{
    Action, Darc, DarcStatic, Event, RequestId, Sample, Scheduler, SchedulerSetup,
};
use psp_server::{Policy, RequestType, TypeSpec, TypeTable, WorkerId};

#[derive(Debug, Clone)]
enum Operation {
    /// Requests of these types arrive in one burst.
    Arrive(Vec<u32>),
    /// The n-th busy worker is done; its request took this long.
    Complete { nth: usize, service_ns: u64 },
    /// The n-th busy worker is done and measured nothing.
    CompleteUnmeasured { nth: usize },
    /// Time passes.
    Advance(u64),
    /// Time is said to pass.
    Tick,
}

#[derive(Debug, Clone)]
struct Case {
    policy: Policy,
    workers: usize,
    types: TypeTable,
    seed: u64,
    operations: Vec<Operation>,
}

/// One more type number than are ever registered.
const TYPES_MAX: u32 = 6;

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let request_type = prop_oneof![9 => 0..TYPES_MAX, 1 => Just(u32::MAX)];
    let service_ns = prop_oneof![Just(0_u64), 1..200_u64, 1_000..2_000_000_u64];
    let operation = prop_oneof![
        4 => prop::collection::vec(request_type, 1..6).prop_map(Operation::Arrive),
        6 => (any::<usize>(), service_ns)
            .prop_map(|(nth, service_ns)| Operation::Complete { nth, service_ns }),
        1 => any::<usize>().prop_map(|nth| Operation::CompleteUnmeasured { nth }),
        2 => (0..3_000_000_u64).prop_map(Operation::Advance),
        1 => Just(Operation::Tick),
    ];
    prop::collection::vec(operation, 0..200)
}

fn types() -> impl Strategy<Value = TypeTable> {
    let hint = prop::option::weighted(
        0.8,
        prop_oneof![Just(0_u64), 1..5_000_u64, Just(1_000_000_u64)],
    );
    let share = prop::option::of(prop_oneof![0.0..1.5_f64, Just(f64::NAN), Just(-1.0)]);
    let capacity = prop::option::of(0..4_usize);
    let spec = (hint, share, capacity).prop_map(|(hint, share, capacity)| TypeSpec {
        service_time: hint.map(Duration::from_nanos),
        share,
        queue_capacity: capacity,
        ..TypeSpec::new("T")
    });
    prop::collection::vec(spec, 0..TYPES_MAX as usize).prop_map(|specs| specs.into_iter().collect())
}

fn policy(workers: usize) -> impl Strategy<Value = Policy> {
    let delta = prop_oneof![Just(1.0), Just(2.0), Just(100.0)];
    let windows = (1..20_u64, 1..2_000_u64, 1..5_u64, 0.01..=1.0_f64);
    let darc = (delta.clone(), windows, 1..=workers, any::<bool>()).prop_map(
        |(delta, (samples_min, window_max_us, aged_min, weight), spillway, stealing)| {
            Darc::default()
                .delta(delta)
                .slowdown_trigger(1.0)
                .demand_deviation(0.01)
                .samples_min(samples_min)
                .window_max(Duration::from_micros(1_000 + window_max_us))
                .window_max_samples_min(aged_min)
                .ewma_weight(weight)
                .spillway(spillway)
                .stealing(stealing)
                .into()
        },
    );
    let darc_static = (0..workers, delta)
        .prop_map(|(reserved, delta)| DarcStatic::default().reserved(reserved).delta(delta).into());
    prop_oneof![
        1 => Just(Policy::d_fcfs()),
        1 => Just(Policy::c_fcfs()),
        1 => Just(Policy::fixed_priority()),
        2 => darc_static,
        5 => darc,
    ]
}

fn case() -> impl Strategy<Value = Case> {
    prop_oneof![1..5_usize, Just(14), Just(70)]
        .prop_flat_map(|workers| {
            (
                policy(workers),
                Just(workers),
                types(),
                any::<u64>(),
                operations(),
            )
        })
        .prop_map(|(policy, workers, types, seed, operations)| Case {
            policy,
            workers,
            types,
            seed,
            operations,
        })
}

/// A request that waits in the model.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Waiting {
    id: u32,
    slot: usize,
}

/// What must be true of any scheduler, kept in the simplest way.
struct Model<'a> {
    case: &'a Case,
    scheduler: Box<dyn Scheduler>,
    now_ns: u64,
    types_of_requests: Vec<RequestType>,
    /// In order of arrival over all types.
    waiting: VecDeque<Waiting>,
    running: Vec<Option<RequestType>>,
    /// Refusals that the scheduler owes, in order.
    refusals: VecDeque<u32>,
    refused: Vec<u64>,
    ran: usize,
}

const CAPACITY: usize = 5;

impl<'a> Model<'a> {
    fn new(case: &'a Case) -> Self {
        assert_eq!(case.policy.validate(case.workers), Ok(()));
        let setup = SchedulerSetup {
            inline: false,
            workers: case.workers,
            types: &case.types,
            queue_capacity: CAPACITY,
            preemption: None,
            seed: case.seed,
        };
        Self {
            case,
            scheduler: case.policy.scheduler(&setup),
            now_ns: 0,
            types_of_requests: Vec::new(),
            waiting: VecDeque::new(),
            running: vec![None; case.workers],
            refusals: VecDeque::new(),
            refused: vec![0; case.types.len() + 1],
            ran: 0,
        }
    }

    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Arrive(types) => {
                for &number in types {
                    self.arrive(RequestType::new(number));
                }
            }
            Operation::Complete { nth, service_ns } => self.complete(*nth, Some(*service_ns)),
            Operation::CompleteUnmeasured { nth } => self.complete(*nth, None),
            Operation::Advance(by_ns) => self.now_ns += by_ns,
            Operation::Tick => self.scheduler.on_event(self.now_ns, Event::Tick),
        }
        self.poll_all();
        self.check_rest();
    }

    fn queued(&self, slot: usize) -> usize {
        self.waiting.iter().filter(|w| w.slot == slot).count()
    }

    fn arrive(&mut self, request_type: RequestType) {
        let id = u32::try_from(self.types_of_requests.len()).unwrap();
        self.types_of_requests.push(request_type);
        let slot = self.case.types.slot(request_type);
        let spec = self.case.types.specs().get(slot);
        let capacity = spec.and_then(|spec| spec.queue_capacity);
        if self.queued(slot) < capacity.unwrap_or(CAPACITY) {
            self.waiting.push_back(Waiting { id, slot });
        } else {
            self.refusals.push_back(id);
            self.refused[slot] += 1;
        }
        let arrived = Event::Arrived {
            request: RequestId(id),
            request_type,
        };
        self.scheduler.on_event(self.now_ns, arrived);
    }

    fn complete(&mut self, nth: usize, service_ns: Option<u64>) {
        let busy: Vec<usize> = (0..self.case.workers)
            .filter(|&worker| self.running[worker].is_some())
            .collect();
        if busy.is_empty() {
            return;
        }
        let worker = busy[nth % busy.len()];
        let request_type = self.running[worker].take().unwrap();
        let sample = service_ns.map(|service_ns| Sample {
            request_type,
            count: 1,
            service_ns,
        });
        let completed = Event::Completed {
            worker: WorkerId(u32::try_from(worker).unwrap()),
            samples: sample.as_slice(),
        };
        self.scheduler.on_event(self.now_ns, completed);
    }

    fn poll_all(&mut self) {
        while let Some(action) = self.scheduler.poll(self.now_ns) {
            match action {
                Action::Reject {
                    request,
                    request_type,
                } => {
                    assert_eq!(self.refusals.pop_front(), Some(request.0), "not owed");
                    assert_eq!(self.types_of_requests[request.0 as usize], request_type);
                }
                Action::Preempt { .. } => panic!("nothing can be preempted here"),
                Action::Run {
                    worker,
                    request,
                    request_type,
                    ..
                } => self.check_run(worker, request, request_type),
            }
        }
        assert_eq!(self.refusals, [], "requests were neither run nor refused");
    }

    fn check_run(&mut self, worker: WorkerId, request: RequestId, request_type: RequestType) {
        assert_eq!(self.types_of_requests[request.0 as usize], request_type);
        let position = self.waiting.iter().position(|w| w.id == request.0);
        let position = position.expect("it ran already, or was refused");
        let slot = self.waiting[position].slot;
        let mut before = self.waiting.iter().take(position);
        match self.case.policy {
            Policy::DFcfs => {}
            Policy::CFcfs => assert_eq!(position, 0, "not the oldest"),
            _ => assert!(
                before.all(|w| w.slot != slot && !self.fcfs_together(w.slot, slot)),
                "an older one of its group waits"
            ),
        }
        assert!(self.may_run(slot, worker.index()), "{worker:?} is not its");
        self.waiting.remove(position);
        let running = &mut self.running[worker.index()];
        assert_eq!(*running, None, "{worker:?} is busy");
        *running = Some(request_type);
        self.ran += 1;
    }

    /// Whether two types are in one group, and so served in order of arrival.
    fn fcfs_together(&self, a: usize, b: usize) -> bool {
        self.scheduler.type_status(a).group == self.scheduler.type_status(b).group
    }

    /// Whether the policy promises a type a worker. For d-FCFS that cannot be seen from outside.
    fn may_run(&self, slot: usize, worker: usize) -> bool {
        let workers = self.case.workers;
        let status = |slot| self.scheduler.type_status(slot);
        let mut known = (0..self.case.types.len()).filter_map(|slot| status(slot).group);
        match &self.case.policy {
            Policy::DFcfs
            | Policy::CFcfs
            | Policy::FixedPriority
            | Policy::Sq(_)
            | Policy::Mq(_)
            | Policy::Jbsq(_)
            | Policy::Jsq(_)
            | Policy::Synergy(_) => true,
            Policy::DarcStatic(settings) => {
                worker >= settings.reserved
                    || status(slot).group == Some(0)
                    || known.next().is_none()
            }
            Policy::Darc(_) if self.scheduler.reservation_updates() == 0 => true,
            Policy::Darc(settings) => {
                let status = status(slot);
                let Some(first) = status.worker_first else {
                    return worker >= workers - settings.spillway;
                };
                let end = first.index() + status.workers_reserved;
                let further = if settings.stealing {
                    end
                } else {
                    self.reserved_end()
                };
                (first.index()..end).contains(&worker) || worker >= further
            }
        }
    }

    /// First worker that is reserved for no group.
    fn reserved_end(&self) -> usize {
        (0..self.case.types.len())
            .filter_map(|slot| {
                let status = self.scheduler.type_status(slot);
                Some(status.worker_first?.index() + status.workers_reserved)
            })
            .max()
            .unwrap_or(0)
    }

    /// What must hold when the scheduler has nothing more to do.
    fn check_rest(&self) {
        for slot in 0..=self.case.types.len() {
            let status = self.scheduler.type_status(slot);
            assert_eq!(status.queued, self.queued(slot));
            assert_eq!(status.rejections, self.refused[slot]);
        }
        if self.case.policy == Policy::DFcfs {
            return;
        }
        let idle: Vec<usize> = (0..self.case.workers)
            .filter(|&worker| self.running[worker].is_none())
            .collect();
        for waiting in &self.waiting {
            let could = idle
                .iter()
                .find(|&&worker| self.may_run(waiting.slot, worker));
            assert_eq!(could, None, "{waiting:?} waits for nothing");
        }
    }

    fn drain(&mut self) {
        for nth in 0..=self.types_of_requests.len() {
            let measured = (nth % 3 != 0).then_some(1_000);
            self.now_ns += 1_000;
            self.complete(nth, measured);
            self.poll_all();
            self.check_rest();
        }
        assert_eq!(self.waiting, [], "stranded");
        let refused: u64 = self.refused.iter().sum();
        let answered = self.ran + usize::try_from(refused).unwrap();
        assert_eq!(answered, self.types_of_requests.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Each request runs once or is refused once, in order and where it may; no worker gets two;
    /// nothing waits for a worker that is idle and allowed; only a full queue refuses; and in the
    /// end everything has run, whatever windows closed in between.
    #[test]
    fn nothing_is_lost_doubled_or_misplaced(case in case()) {
        let mut model = Model::new(&case);
        for operation in &case.operations {
            model.apply(operation);
        }
        model.drain();
    }
}
