//! What all threads of a server read.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Instant;

use super::policy_mailbox::PolicyMailbox;
use crate::admission;
use crate::config::{Config, Topology};
use crate::policy::SchedulerSetup;
use crate::policy::WorkerId;
use crate::preempt::PreemptPolicy;
use crate::request_type::TypeTable;
use crate::shutdown::Shutdown;
use crate::telemetry::Telemetry;

/// Settings, counters and the way to stop. Shared by all threads and by
/// [`ServerHandle`](crate::ServerHandle)s.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) topology: Topology,
    pub(crate) workers: usize,
    pub(crate) policy: PolicyMailbox,
    pub(crate) types: TypeTable,
    /// How each type gives way, by its slot; `UNKNOWN` comes last.
    pub(crate) preempt: Vec<PreemptPolicy>,
    pub(crate) telemetry: Telemetry,
    pub(crate) shutdown: Shutdown,
    pub(crate) started: Instant,
    /// The limits that may change while the server runs.
    pub(crate) connections_max: AtomicUsize,
    pub(crate) idle_timeout_s: AtomicU64,
}

impl Shared {
    /// What every scheduler of this server is built for.
    pub(crate) fn scheduler_setup(&self) -> SchedulerSetup<'_> {
        SchedulerSetup {
            workers: self.workers,
            types: &self.types,
            queue_capacity: self.config.queue_capacity,
            inline: self.topology == Topology::Inline,
            preemption: admission::preemption(&self.config, self.topology),
            seed: self.config.seed,
        }
    }

    /// That of a server with so many workers that does not run.
    #[cfg(test)]
    pub(crate) fn example(config: Config, types: TypeTable, workers: usize) -> Self {
        Self {
            telemetry: Telemetry::new(types.len() + 1, workers),
            connections_max: AtomicUsize::new(config.connections_max),
            idle_timeout_s: AtomicU64::new(config.idle_timeout_s),
            preempt: vec![config.preempt; types.len() + 1],
            config,
            topology: Topology::Dedicated,
            workers,
            policy: PolicyMailbox::new(crate::policy::Policy::c_fcfs()),
            types,
            shutdown: Shutdown::new(),
            started: Instant::now(),
        }
    }
}

impl Shared {
    /// Names a worker, and the type in `slot` if that is one. Does not allocate, lock or panic.
    pub(crate) fn describe(
        &self,
        worker: WorkerId,
        slot: usize,
        out: &mut dyn fmt::Write,
    ) -> fmt::Result {
        write!(out, "worker {}", worker.0)?;
        if slot <= self.types.len() {
            let name = self.types.name_of_slot(slot);
            write!(out, " in a request of type {name}")?;
        }
        Ok(())
    }
}
