//! What a seed stands for: the server's settings, the clients' habits, and the faults of a simulation.
//!
//! Each seed has some of the faults, and others not at all, so that rare ones are not always hidden by frequent ones.

use std::str::FromStr;
use std::time::Duration;

use psp_policy::{Policy, PreemptPolicy, TypeSpec, TypeTable};

use super::faults::{Fault, ONCE_IN};
use super::losses::Losses;
use super::worker::Habits;
use crate::admission;
use crate::config::{AdmissionMode, Config, Topology};
use crate::shared::Shared;
use crate::simulated::Limits;
use crate::simulated::random::Random;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

/// Places in a typed queue that is not to be full.
const QUEUE_CAPACITY: usize = 1024;

/// Policies that run requests to completion.
const TO_COMPLETION: [&str; 14] = [
    "darc",
    "c-fcfs",
    "d-fcfs",
    "stealing",
    "fixed-priority",
    "static-partition",
    "darc-static",
    "sjf",
    "edf",
    "drr",
    "wrr",
    "cscq",
    "darc-lending",
    "darc-distributed",
];
/// Those that preempt them.
const PREEMPTIVE: [&str; 8] = [
    "mq quantum-us=20",
    "sq quantum-us=20",
    "mq quantum-us=200",
    "jbsq",
    "jsq",
    "synergy",
    "darc-lending",
    "darc-distributed",
];

/// See the [module](self).
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// Requests that clients send at least, before no new ones come.
    pub(super) requests: u64,
    pub(super) topology: Topology,
    pub(super) config: Config,
    pub(super) workers: usize,
    pub(super) workers_min: usize,
    pub(super) types: TypeTable,
    pub(super) policies: Vec<Policy>,
    /// Time between two changes of the policy; 0 for never.
    pub(super) policy_every_ns: u64,
    pub(super) in_order: bool,
    pub(super) network: Limits,
    pub(super) habits: Habits,
    pub(super) clients: Clients,
    pub(super) later_ns_max: u64,
    /// Clock jumps: one in so many looks of the watch; 0 for none.
    pub(super) jumps: u64,
    pub(super) jump_ns_max: u64,
    pub(super) net_losses: Losses,
    /// Time between two changes of the values' size, and how large they become; 0 for never.
    pub(super) grow_every_ns: u64,
    pub(super) size_max: u64,
    /// The longest time until somebody kills endless requests.
    pub(super) kill_ns_max: u64,
    /// The control type, if there is one.
    pub(super) control: Option<u8>,
    /// The drain begins after so many requests, in the middle of the load.
    pub(super) drain_at: Option<u64>,
    /// A worker dies after so many requests.
    pub(super) dies_at: Option<u64>,
    pub(super) fault: Fault,
}

/// The clients, and what they do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clients {
    pub(super) count: usize,
    /// Requests of one client.
    pub(super) requests_max: u64,
    /// Requests that a client sends before it has replies.
    pub(super) depth_max: u64,
    /// Requests with one write.
    pub(super) burst_max: u64,
    pub(super) think_ns_max: u64,
    pub(super) latency_ns_max: u64,
    /// One write in so many is a part of a request; 0 for none.
    pub(super) partial: u64,
    /// One request in so many takes long, has a long payload, a long reply, a deadline; 0 for none.
    pub(super) long: u64,
    pub(super) long_ns_max: u64,
    /// One request in so many takes as long as values are large, or until it is killed; 0 for none.
    pub(super) sized: u64,
    pub(super) endless: u64,
    pub(super) large: u64,
    pub(super) large_max: u64,
    pub(super) deadlines: u64,
    /// One request in so many is of an odd kind.
    pub(super) odd: u64,
    /// One client in so many leaves in the middle, reads slowly, ends its side behind its requests, sends bytes that
    /// are no request, stays silent in the end; 0 for none.
    pub(super) leaving: u64,
    pub(super) slow: u64,
    /// One client in so many reads nothing before it has written all that it is about to.
    pub(super) writing_first: u64,
    pub(super) half_closing: u64,
    pub(super) malformed: u64,
    pub(super) idle: u64,
}

impl Plan {
    /// The plan of a seed, for about so many requests.
    pub(super) fn of(seed: u64, requests: u64) -> Self {
        let mut random = Random::new(seed);
        let random = &mut random;
        let topology = *random.pick(&[Topology::Inline, Topology::Dedicated, Topology::Dedicated]);
        let workers = random.between(1, if topology == Topology::Inline { 4 } else { 6 }) as usize;
        let workers_min = match random.once_in(4) {
            true => random.between(1, workers as u64) as usize,
            false => workers,
        };
        let preempts = topology == Topology::Dedicated && random.once_in(2);
        let names: &[&str] = if preempts { &PREEMPTIVE } else { &TO_COMPLETION };
        let policies = (0..4).map(|_| policy(random.pick::<&str>(names))).collect();
        let mut maybe = |times: u64, low: u64, high: u64, otherwise: u64| match random.once_in(times) {
            true => random.between(low, high),
            false => otherwise,
        };
        let config = Config::default()
            .topology(topology)
            .preempt(PreemptPolicy::Cooperative)
            .stack_bytes(1 << 20)
            .contexts_per_worker(maybe(2, 2, 6, 32) as usize)
            .queue_capacity(maybe(3, 1, 8, QUEUE_CAPACITY as u64) as usize)
            .backpressure_ms(maybe(3, 0, 3, 1000))
            .connections_max(maybe(6, 1, 40, 10_000) as usize)
            .connections_per_address_max(maybe(6, 1, 6, 0) as usize)
            .buffered_bytes_max(maybe(6, 200_000, 2_000_000, 1 << 30) as usize)
            .idle_timeout_s(maybe(4, 1, 3, 0))
            .output_timeout_s(maybe(3, 1, 5, 60))
            .output_high_water_bytes(maybe(2, 1, 20_000, 256 * 1024) as usize)
            .half_close_grace_ms(maybe(6, 0, 1, 1) * 100)
            .seed(seed);
        let count = maybe(3, 100, 400, 1);
        let count = if count > 1 { count } else { maybe(1, 2, 60, 1) } as usize;
        let clients = Clients {
            count,
            requests_max: maybe(2, 1, 20, 300),
            depth_max: maybe(2, 1, 3, 64),
            burst_max: maybe(2, 1, 4, 32),
            think_ns_max: maybe(2, 0, MS, 20 * US),
            latency_ns_max: maybe(3, 1, MS, 30 * US),
            partial: maybe(2, 2, 50, 0),
            long: maybe(2, 10, 300, 0),
            long_ns_max: maybe(2, 50 * US, 5 * MS, 300 * US),
            sized: maybe(2, 2, 50, 0),
            endless: maybe(3, 20, 1_000, 0),
            large: maybe(2, 20, 500, 0),
            large_max: maybe(2, 1_000, 300_000, 20_000),
            deadlines: maybe(3, 2, 50, 0),
            odd: maybe(2, 5, 100, 0),
            leaving: maybe(2, 2, 10, 0),
            slow: maybe(4, 3, 20, 0),
            writing_first: maybe(2, 2, 10, 0),
            half_closing: maybe(2, 2, 6, 0),
            malformed: maybe(3, 3, 20, 0),
            idle: maybe(3, 3, 20, 0),
        };
        // Other programs have the cores much of the time.
        let is_busy = maybe(5, 1, 1, 0) == 1;
        let (times, most, least) = match is_busy {
            true => (1, 10, 100),
            false => (3, 50, 2_000),
        };
        let habits = Habits {
            begin_ns_max: maybe(2, 0, 100 * US, 5 * US),
            yield_ns_max: maybe(2, 0, 300 * US, US),
            blocked: maybe(2, 3, 100, 0),
            wake_ns_max: maybe(2, 0, 10 * MS, 50 * US),
            losses: maybe(times, most, least, 0),
            loss_ns_max: maybe(2, MS, 300 * MS, MS),
            held_max: config.contexts() - 1,
        };
        let network = Limits {
            input_max: maybe(2, 100, 5_000, 200_000) as usize,
            output_max: maybe(2, 100, 5_000, 200_000) as usize,
            interrupted: maybe(3, 10, 500, 0),
            short_writes: maybe(3, 2, 100, 0),
            spurious: maybe(4, 2, 50, 0),
            lossy: 0,
            seed: seed ^ 0x5EED,
        };
        let drain_at = maybe(4, 1, requests, 0);
        let dies_at = maybe(30, requests / 4, requests, 0);
        let (policy_every_ns, later_ns_max) = (maybe(2, 100 * US, 20 * MS, 0), maybe(2, 0, 20 * MS, 30 * US));
        let (jumps, jump_ns_max) = (maybe(4, 2, 200, 0), maybe(2, 4 * S, 10 * S, 300 * MS));
        let net_losses = match is_busy {
            true => Losses {
                every_ns: maybe(1, 500 * US, 50 * MS, 0),
                pieces: maybe(1, 5, 500, 0),
                ns_max: maybe(1, MS, 100 * MS, 0),
            },
            false => Losses::default(),
        };
        let (grow_every_ns, size_max) = (maybe(1, 50 * US, 5 * MS, 0), maybe(2, 2, 2_000, 20));
        // All clients may wait behind each other's endless requests.
        let kill_ns_max = maybe(4, 100 * MS, 3 * S, 5 * MS).min(30 * S / count as u64);
        let (in_order, types) = (maybe(3, 0, 0, 1) == 1, maybe(1, 1, 4, 1));
        let max_wait = (0..types).map(|_| maybe(8, 20, 5_000, 0)).collect::<Vec<_>>();
        let capacity = (0..types).map(|_| maybe(8, 1, 4, 0)).collect::<Vec<_>>();
        let hints = (0..types).map(|number| maybe(2, 1, 20 * (number + 1), 0)).collect::<Vec<_>>();
        let control = maybe(2, 1, types, 0) as usize;
        let config = config
            .net_budget_us(maybe(2, 1, 200, 1000))
            .stuck_after_ms(maybe(3, 1, 100, 10_000))
            .stuck_after_means(maybe(2, 0, 20, 100))
            .requests_per_connection_max(maybe(2, 1, 4, 64) as usize)
            .long_us(maybe(3, 1, 50, 100));
        let admission = match maybe(3, 1, 1, 0) {
            0 => AdmissionMode::Off,
            _ => AdmissionMode::On,
        };
        let config = config.admission(admission);
        let slos = (0..types).map(|_| maybe(2, 20, 20_000, 0)).collect::<Vec<_>>();
        let mut table = TypeTable::new();
        for number in 0..types as usize {
            let mut spec = TypeSpec::new(format!("type{number}"));
            if number + 1 == control {
                spec = spec.control();
            }
            if max_wait[number] > 0 {
                spec = spec.max_wait(Duration::from_micros(max_wait[number]));
            }
            if capacity[number] > 0 {
                spec = spec.queue_capacity(capacity[number] as usize);
            }
            if hints[number] > 0 {
                spec = spec.service_time(Duration::from_micros(hints[number]));
            }
            if slos[number] > 0 && admission == AdmissionMode::On {
                spec = spec.slo(Duration::from_micros(slos[number]));
            }
            table.register(spec);
        }
        Self {
            seed,
            requests,
            topology,
            config,
            workers,
            workers_min,
            types: table,
            policies,
            policy_every_ns,
            in_order,
            network,
            habits,
            clients,
            later_ns_max,
            jumps,
            jump_ns_max,
            net_losses,
            grow_every_ns: if clients.sized > 0 { grow_every_ns } else { 0 },
            size_max,
            kill_ns_max,
            control: (control > 0).then(|| control as u8 - 1),
            drain_at: (drain_at > 0).then_some(drain_at),
            dies_at: (dies_at > 0).then_some(dies_at),
            fault: Fault::None,
        }
    }

    /// The policy that the server begins with: the first that it can run.
    pub(super) fn first_policy(&self, shared: &Shared) -> Policy {
        let can_run = |policy: &&Policy| admission::admit(policy, &self.config, self.topology, shared.workers).is_ok();
        let first = self.policies.iter().find(can_run);
        first.cloned().unwrap_or_else(Policy::c_fcfs)
    }

    /// The same with a component that fails, and without what could hide that.
    pub(super) fn with(mut self, fault: Fault) -> Self {
        self.fault = fault;
        self.policy_every_ns = 0;
        self.config.admission = AdmissionMode::Off;
        (self.drain_at, self.dies_at) = (None, None);
        // A request that was lost is waited for as long.
        self.config.drain_timeout_ms = 200;
        match fault {
            Fault::LosesBytes => self.network.lossy = ONCE_IN,
            Fault::Forgets => self.clients.odd = 5,
            Fault::HoldsThread => {
                self.clients.endless = ONCE_IN;
                self.set_topology(Topology::Inline);
            }
            Fault::ControlWaits => {
                self.clients.endless = ONCE_IN;
                self.set_topology(Topology::Dedicated);
                (self.workers, self.workers_min) = (1, 1);
                self.policies = vec![Policy::c_fcfs()];
                (self.types, self.control) = (TypeTable::new(), Some(0));
                self.types.register(TypeSpec::new("kill"));
            }
            _ => {}
        }
        self
    }

    fn set_topology(&mut self, topology: Topology) {
        self.topology = topology;
        self.config.topology = topology;
    }

    /// Whether a client kills endless requests: it has to be let in, and its requests must not be refused.
    pub(super) fn has_operator(&self) -> bool {
        self.control.is_some() && !self.may_refuse() && !self.has_little_memory()
    }

    /// Whether the server may stand still for a time.
    pub(super) fn stands_still(&self) -> bool {
        self.jumps > 0 || self.net_losses.every_ns > 0
    }

    /// Whether requests may be refused that would not be answered in time.
    pub(super) fn has_admission(&self) -> bool {
        self.config.admission == AdmissionMode::On
    }

    /// Whether some typed queue may be full.
    pub(super) fn queues_may_be_full(&self) -> bool {
        let own = self.types.specs().iter().filter_map(|spec| spec.queue_capacity);
        let smallest = own.chain([self.config.queue_capacity]).min();
        // Requests of clients that left wait in queues, too.
        let waiting_max = match self.clients.leaving {
            0 if self.in_order => self.clients.count,
            0 => self.clients.count * self.config.requests_per_connection_max,
            _ => QUEUE_CAPACITY - 1,
        };
        smallest.is_some_and(|smallest| smallest <= waiting_max)
    }

    /// Whether connections may be refused.
    pub(super) fn may_refuse(&self) -> bool {
        self.config.connections_max < 10_000 || self.config.connections_per_address_max > 0
    }

    /// The longest reply that there may be: it has three quarters of the budget.
    pub(super) fn reply_bytes_max(&self) -> usize {
        let budget = self.config.buffered_bytes();
        self.config.reply_bytes_max.min(budget - budget / 4)
    }

    /// Whether the budget for buffered bytes may be exhausted.
    pub(super) fn has_little_memory(&self) -> bool {
        self.config.buffered_bytes() < 1 << 30
    }
}

fn policy(spelled: &str) -> Policy {
    Policy::from_str(spelled).expect("the table has policies")
}
