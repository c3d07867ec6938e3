//! The handle to a running server.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use psp_policy::{Policy, PolicyError, TypeSpec};

use super::gate::Gate;
use super::state::Shared;
use crate::admission;
use crate::config::{Config, Topology};
use crate::settings::Settings;
use crate::telemetry::{SlowRequest, Snapshot};
#[cfg(feature = "admin")]
use crate::trace::Trace;

/// A handle to a running server, for handlers and operators. Cheap to clone.
#[derive(Clone)]
pub struct ServerHandle {
    shared: Arc<Shared>,
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ServerHandle")
            .field("policy", &self.policy())
            .field("topology", &self.topology())
            .field("workers", &self.workers())
            .finish_non_exhaustive()
    }
}

impl ServerHandle {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// All counters.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.read(true)
    }

    /// The same without histograms, which are most of what there is to read: those of the types are empty.
    #[must_use]
    pub fn counters(&self) -> Snapshot {
        self.read(false)
    }

    fn read(&self, has_histograms: bool) -> Snapshot {
        let shared = &*self.shared;
        Snapshot::read(
            &shared.telemetry,
            &shared.types,
            shared.parts,
            shared.buffers.held_bytes(),
            shared.replies_deferred(),
            &shared.gate.as_ref().map(Gate::statuses).unwrap_or_default(),
            has_histograms,
        )
    }

    /// The policy that was set last. The net thread may be about to put it in force.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.shared.policy.policy()
    }

    /// Changes the policy. The net thread puts it in force before it next reads from a socket. In the topology
    /// `distributed` each worker does so when its turn has ended. Queued and
    /// running requests go on under the new policy, and no request is lost. If the old policy never preempts, requests
    /// that run at the change run to their end. The measurements of the old policy
    /// are lost: a policy starts from the hints of the request types.
    ///
    /// # Errors
    /// The error that [`ServerBuilder::build`](crate::ServerBuilder::build) would have for this policy. The old
    /// policy stays in force.
    pub fn set_policy(&self, policy: impl Into<Policy>) -> Result<(), PolicyError> {
        let policy = policy.into();
        let shared = &self.shared;
        admission::admit(&policy, &shared.config, shared.topology, shared.workers)?;
        admission::admit_switch(&[&shared.policy.policy(), &policy], &shared.scheduler_setup())?;
        shared.policy.post(policy);
        Ok(())
    }

    /// The policy that a line names, with its settings: `mq quantum-us=20`, or one of the
    /// [program's own](crate::ServerBuilder::policies).
    ///
    /// # Errors
    /// When no policy has that name, or a setting is not one of it.
    pub fn parse_policy(&self, line: &str) -> Result<Policy, PolicyError> {
        self.shared.own_policies.parse(line)
    }

    /// The settings that the program's own code gave to the builder.
    pub(crate) fn own_settings(&self) -> Settings {
        let mut own = self.shared.own.clone();
        own.own_policies = self.shared.own_policies.clone();
        own
    }

    /// The hints of request types that the server was built with.
    pub(crate) fn hints(&self) -> &[TypeSpec] {
        &self.shared.hints
    }

    /// The topology in force; never [`Topology::Auto`].
    #[must_use]
    pub fn topology(&self) -> Topology {
        self.shared.topology
    }

    /// Number of workers. If they come and go, the most that there can be; the
    /// [snapshot](Self::snapshot) says how many are present.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.shared.workers
    }

    /// The threads that run requests as workers.
    #[cfg(feature = "admin")]
    pub(crate) fn executors(&self) -> usize {
        self.shared.executors()
    }

    /// The fewest workers that are present: [`workers`](Self::workers) unless they come and go.
    #[must_use]
    pub fn workers_min(&self) -> usize {
        self.shared.workers_min
    }

    /// The settings that the server was built with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// Time since the server was built.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.shared.started.elapsed()
    }

    /// Connections that may be open at once.
    #[must_use]
    pub fn connections_max(&self) -> usize {
        self.shared.connections_max.load(Ordering::Relaxed)
    }

    /// Changes how many connections may be open at once. Open connections stay open.
    pub fn set_connections_max(&self, connections_max: usize) {
        self.shared.connections_max.store(connections_max, Ordering::Relaxed);
    }

    /// Seconds after which an idle connection is closed; 0 for never.
    #[must_use]
    pub fn idle_timeout_s(&self) -> u64 {
        self.shared.idle_timeout_s.load(Ordering::Relaxed)
    }

    /// Changes the idle timeout; 0 for never.
    pub fn set_idle_timeout_s(&self, idle_timeout_s: u64) {
        self.shared.idle_timeout_s.store(idle_timeout_s, Ordering::Relaxed);
    }

    /// Bytes that are held for all peers now, of those that [may be](Config::buffered_bytes_max).
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.shared.buffers.held_bytes()
    }

    /// [How much unsent output](Config::output_bytes_max) a connection may have; 0 for what the buffers allow.
    #[must_use]
    pub fn output_bytes_max(&self) -> usize {
        self.shared.output_bytes_max.load(Ordering::Relaxed)
    }

    /// Changes [how much unsent output](Config::output_bytes_max) a connection may have; 0 for what the buffers allow.
    pub fn set_output_bytes_max(&self, output_bytes_max: usize) {
        self.shared.output_bytes_max.store(output_bytes_max, Ordering::Relaxed);
    }

    /// Changes from when on requests are [slow](Config::slow_us), in microseconds; 0 for never. Types that say
    /// something else keep that.
    pub fn set_slow_us(&self, slow_us: u64) {
        self.shared.slow.set_slow_us(slow_us);
    }

    /// The last 128 requests that were [slow](Config::slow_us), the last one first.
    #[must_use]
    pub fn slow_requests(&self) -> Vec<SlowRequest> {
        self.shared.slow.last()
    }

    /// How many requests were slow. Of those that ended at the same instant as another one, some are only counted.
    #[must_use]
    pub fn slow_requests_total(&self) -> u64 {
        self.shared.slow.count()
    }

    /// Stops the server as its [`Shutdown`](crate::Shutdown) would.
    pub fn shut_down(&self) {
        self.shared.shutdown.trigger();
    }

    /// Where the [admin port](Config::admin) listens, if the server has one.
    #[must_use]
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.shared.admin_addr
    }

    /// What the program's own function writes of figures beside the server's.
    #[cfg(feature = "admin")]
    pub(crate) fn more_metrics(&self) -> Option<String> {
        self.shared.more_metrics.0.as_ref().map(|render| render())
    }

    /// Names of the types by their slots; `UNKNOWN` comes last.
    #[cfg(feature = "admin")]
    pub(crate) fn type_names(&self) -> Vec<String> {
        let types = &self.shared.types;
        let names = (0..=types.len()).map(|slot| types.name_of_slot(slot).to_owned());
        names.collect()
    }

    /// Whether all workers are ready and the server takes requests: neither before it runs, nor from the signal that
    /// stops it on, in the [delay](Config::drain_delay_ms) before it drains and while it drains.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shared.is_serving.load(Ordering::Relaxed) && !self.is_leaving()
    }

    /// The first net thread that stands still now, in words.
    #[cfg(feature = "admin")]
    pub(crate) fn stalled(&self) -> Option<String> {
        let mut receivers = self.shared.telemetry.receivers.iter();
        let port = receivers.position(|receiver| receiver.stalled_ns.get() > 0)?;
        Some(self.shared.describe_stall(port))
    }

    /// Whether clients should go elsewhere: the server drains, or will after its [delay](Config::drain_delay_ms).
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.shared.is_leaving.load(Ordering::Relaxed) || self.is_stopping()
    }

    /// Whether the server drains, or is about to: because of [`shut_down`](Self::shut_down), a signal, or the shutdown
    /// that it runs until.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.shared.shutdown.is_triggered()
    }
}

/// So that a trace can be made of the server.
#[cfg(feature = "admin")]
impl AsRef<Trace> for ServerHandle {
    fn as_ref(&self) -> &Trace {
        &self.shared.trace
    }
}
