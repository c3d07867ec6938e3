//! What all threads of a server read.

use std::fmt::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use psp_policy::elastic::{Elastic, ElasticScheduler};
use psp_policy::{Policy, PreemptPolicy, RequestType, Scheduler, SchedulerSetup, TypeSpec, TypeTable, WorkerId};

use crate::admission;
use crate::config::{Config, Topology};
use crate::fiber::{Helpers, Surroundings};
use crate::own_policies::OwnPolicies;
use crate::reply::Deferrals;
#[cfg(test)]
use crate::request_types;
use crate::settings::Settings;
use crate::shared::{Gate, PolicyMailbox};
use crate::shutdown::Shutdown;
use crate::telemetry::{Parts, SlowLog, Telemetry};
use crate::trace::Trace;
use crate::transport::budget::{Budget, EXEMPT_BYTES};
use crate::transport::request_key::PortNumber;

/// Settings, counters and the way to stop. All threads and all
/// [`ServerHandle`](super::ServerHandle)s share it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    /// The hints of request types that were given.
    pub(crate) hints: Vec<TypeSpec>,
    /// Policies that texts may name beside those of the crate.
    pub(crate) own_policies: OwnPolicies,
    /// What the program set, which holds where its file names nothing.
    pub(crate) own: Settings,
    pub(crate) topology: Topology,
    /// All workers, present or absent.
    pub(crate) workers: usize,
    /// The fewest that are present.
    pub(crate) workers_min: usize,
    /// The net thread may poll while it is idle: a core is left over.
    pub(crate) polls: bool,
    pub(crate) policy: PolicyMailbox,
    /// What is let in under overload; `None` without admission.
    pub(crate) gate: Option<Gate>,
    /// The policy in force can preempt requests.
    pub(crate) can_preempt: AtomicBool,
    /// The registered types. In a server with TLS, the type of handshakes comes last.
    pub(crate) types: TypeTable,
    /// The type of TLS handshakes, which no classifier can name.
    pub(crate) handshake: Option<RequestType>,
    /// How requests of each type yield, by the type's slot; `UNKNOWN` comes last.
    pub(crate) preempt: Vec<PreemptPolicy>,
    pub(crate) telemetry: Telemetry,
    /// What threads record while a trace is made.
    pub(crate) trace: Trace,
    /// Requests that took long.
    pub(crate) slow: SlowLog,
    /// Which figures the server has.
    pub(crate) parts: Parts,
    /// The memory that is held for all peers.
    pub(crate) buffers: Arc<Budget>,
    /// One entry for each thread that receives requests.
    pub(crate) deferrals: Vec<Arc<Deferrals>>,
    /// Threads that run what blocks in the kernel for requests on contexts.
    pub(crate) helpers: Arc<Helpers>,
    /// What each poll of a request that waits runs within.
    pub(crate) poll_within: Option<PollWithin>,
    #[cfg(feature = "admin")]
    pub(crate) more_metrics: MoreMetrics,
    pub(crate) shutdown: Shutdown,
    /// Where the admin port listens, if there is one.
    pub(crate) admin_addr: Option<SocketAddr>,
    /// All workers are ready, from then on.
    pub(crate) is_serving: AtomicBool,
    /// A signal stops the server, at once or after the delay.
    pub(crate) is_leaving: AtomicBool,
    pub(crate) started: Instant,
    /// Connections that may be open at once; may change while the server runs.
    pub(crate) connections_max: AtomicUsize,
    /// Idle timeout; may change while the server runs.
    pub(crate) idle_timeout_s: AtomicU64,
    /// Unsent output of a connection at most; may change while the server runs.
    pub(crate) output_bytes_max: AtomicUsize,
}

/// A function that calls its argument, once, with whatever it sets up around it.
#[derive(Clone)]
pub(crate) struct PollWithin(pub(crate) Arc<Surroundings>);

impl fmt::Debug for PollWithin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PollWithin").finish_non_exhaustive()
    }
}

/// Writes figures of the process that are not the server's, if there are any.
#[cfg(feature = "admin")]
#[derive(Clone, Default)]
pub(crate) struct MoreMetrics(pub(crate) Option<Arc<dyn Fn() -> String + Send + Sync>>);

#[cfg(feature = "admin")]
impl fmt::Debug for MoreMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MoreMetrics").finish_non_exhaustive()
    }
}

impl Shared {
    /// A signal stops the server. It is not ready from now on, and goes on as before until this returns.
    pub(crate) fn leave(&self) {
        self.is_leaving.store(true, Ordering::Relaxed);
        let delay_ms = self.config.drain_delay_ms;
        if delay_ms > 0 {
            tracing::info!(delay_ms, "not ready any more");
            thread::sleep(Duration::from_millis(delay_ms));
        }
    }

    /// The threads that run requests as workers: the workers, and in `dedicated` the net thread if it runs control
    /// requests.
    pub(crate) fn executors(&self) -> usize {
        self.telemetry.workers.len()
    }

    /// How many workers run the requests that one thread receives.
    pub(crate) fn workers_each(&self) -> usize {
        match self.topology {
            Topology::Distributed => 1,
            _ => self.workers,
        }
    }

    /// The deferred replies to requests of a port.
    #[inline]
    pub(crate) fn deferrals_of(&self, port: PortNumber) -> &Arc<Deferrals> {
        &self.deferrals[port.index()]
    }

    /// How many replies are deferred and not complete.
    pub(crate) fn replies_deferred(&self) -> usize {
        self.deferrals.iter().map(|deferrals| deferrals.open()).sum()
    }

    /// What each poll of a request that waits runs within.
    #[inline]
    pub(crate) fn surroundings(&self) -> Option<&Surroundings> {
        self.poll_within.as_ref().map(|within| &*within.0)
    }

    /// Slot of a type in arrays and traces; `usize::MAX` if there is none.
    #[inline]
    pub(crate) fn slot_of(&self, request_type: Option<RequestType>) -> usize {
        request_type.map_or(usize::MAX, |request_type| self.types.slot(request_type))
    }

    /// A scheduler for a policy that is about to be in force. Tasks that are sent to workers from now on may be
    /// preempted if the policy can do that.
    pub(crate) fn scheduler(&self, policy: &Policy) -> Box<dyn Scheduler> {
        let setup = self.scheduler_setup();
        self.set_can_preempt(setup.preemption.is_some() && policy.can_preempt());
        policy.scheduler(&setup)
    }

    /// Tasks that are sent to workers from now on may be preempted, or not.
    pub(crate) fn set_can_preempt(&self, can_preempt: bool) {
        // The rings order this against the tasks.
        self.can_preempt.store(can_preempt, Ordering::Relaxed);
    }

    /// The first scheduler, with the fewest workers present, which come and go if there may be more.
    pub(crate) fn elastic_scheduler(&self, scheduler: Box<dyn Scheduler>) -> ElasticScheduler {
        let (min, setup) = (self.workers_min, self.scheduler_setup());
        self.telemetry.elastic.present.set(min as u64);
        let settings = self.config.elastic_settings();
        let elastic = (min < self.workers).then(|| Elastic::new(&setup, min, settings));
        ElasticScheduler::new(scheduler, elastic)
    }

    /// Whether the policy in force can preempt requests.
    #[inline]
    pub(crate) fn can_preempt(&self) -> bool {
        self.can_preempt.load(Ordering::Relaxed)
    }

    /// Length of the longest reply on a connection, in bytes: it is no longer than what a connection may hold.
    #[inline]
    pub(crate) fn reply_bytes_max(&self) -> usize {
        self.config.reply_bytes_max.min(self.buffers.share_bytes())
    }

    /// Unsent output of a connection with which none of its requests runs.
    #[inline]
    pub(crate) fn output_limit_bytes(&self) -> usize {
        let of_budget = (self.config.buffered_bytes() / 2).max(EXEMPT_BYTES);
        match self.output_bytes_max.load(Ordering::Relaxed) {
            0 => of_budget,
            output_bytes_max => output_bytes_max.min(of_budget),
        }
    }

    /// The setup of every scheduler of this server: one for each thread that receives requests.
    pub(crate) fn scheduler_setup(&self) -> SchedulerSetup<'_> {
        self.setup_of(self.workers_each()).inline(self.topology != Topology::Dedicated)
    }

    /// The setup of workers that schedule themselves: all of them together, none of which receives for the others.
    pub(crate) fn group_setup(&self) -> SchedulerSetup<'_> {
        self.setup_of(self.workers)
    }

    fn setup_of(&self, workers: usize) -> SchedulerSetup<'_> {
        SchedulerSetup::new(workers, &self.types)
            .present(self.workers_min.min(workers))
            .queue_capacity(self.config.queue_capacity)
            .preemption(admission::preemption(&self.config, self.topology, self.polls))
            .contexts(admission::contexts(&self.config, self.topology))
            .stuck(self.config.stuck_after())
            .seed(self.config.seed)
    }

    /// Names a worker and, if `slot` is the slot of a type, that type. Does not allocate, lock or panic.
    pub(crate) fn describe(&self, worker: WorkerId, slot: usize, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "worker {}", worker.0)?;
        if slot <= self.types.len() {
            let name = self.types.name_of_slot(slot);
            write!(out, " in a request of type {name}")?;
        }
        Ok(())
    }

    /// Says that the driver of a port stands still, for how long, and what it runs.
    pub(crate) fn describe_stall(&self, port: usize) -> String {
        let receiver = &self.telemetry.receivers[port];
        let for_ms = receiver.stalled_ns.get() / 1_000_000;
        let mut text = format!("a net thread has stood still for {for_ms} ms: ");
        // A string takes what is written.
        let _ = match receiver.turning.0.running() {
            Some((worker, slot)) => self.describe(worker, slot, &mut text),
            None => text.write_str("it runs no request"),
        };
        text
    }

    /// The state of a server with so many workers that does not run.
    #[cfg(test)]
    pub(crate) fn example(config: Config, types: TypeTable, workers: usize) -> Self {
        let buffers = Arc::new(Budget::new(config.buffered_bytes()));
        let executors = request_types::executors(&types, Topology::Dedicated, workers);
        Self {
            telemetry: Telemetry::new(types.len() + 1, 1, executors),
            trace: Trace::new(1, executors),
            slow: SlowLog::new(&types, config.slow_us),
            parts: Parts::default(),
            deferrals: vec![Arc::new(Deferrals::new(buffers.clone(), 1))],
            buffers,
            connections_max: AtomicUsize::new(config.connections_max),
            idle_timeout_s: AtomicU64::new(config.idle_timeout_s),
            output_bytes_max: AtomicUsize::new(config.output_bytes_max),
            helpers: Helpers::new(config.blocking_threads_max, || {}),
            preempt: vec![config.preempt; types.len() + 1],
            config,
            hints: Vec::new(),
            own_policies: OwnPolicies::default(),
            own: Settings::default(),
            topology: Topology::Dedicated,
            workers,
            workers_min: workers,
            polls: false,
            policy: PolicyMailbox::new(Policy::c_fcfs()),
            gate: None,
            can_preempt: AtomicBool::new(false),
            types,
            handshake: None,
            poll_within: None,
            #[cfg(feature = "admin")]
            more_metrics: MoreMetrics::default(),
            shutdown: Shutdown::new(),
            admin_addr: None,
            is_serving: AtomicBool::new(false),
            is_leaving: AtomicBool::new(false),
            started: Instant::now(),
        }
    }
}
