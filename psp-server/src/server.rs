//! Servers: their builder, their life, and the handle that handlers get.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::{Poll, Waker};
use psp_protocols::Framing;

use crate::admission;
use crate::classifier::Classifier;
use crate::config::{Config, Topology};
use crate::error::{BuildError, RunError};
use crate::handler::Handler;
use crate::policy::{Policy, PolicyError};
use crate::preempt::{PreemptPolicy, SignalPreemptible};
use crate::request_type::{RequestType, TypeSpec, TypeTable};
use crate::runtime::cores::Cores;
use crate::runtime::policy_mailbox::PolicyMailbox;
use crate::runtime::shared::Shared;
#[cfg(feature = "dpdk")]
use crate::runtime::stages;
use crate::runtime::{Launch, WAKER, launch};
use crate::shutdown::Shutdown;
use crate::telemetry::{Snapshot, Telemetry};
use crate::transport::PacketPort;
use crate::transport::datagram::{Endpoint, Outlet};
use crate::transport::listener::{bind_udp, listen_tcp};

/// Datagrams that are between two states while every typed queue is full.
const DATAGRAMS_SPARE: usize = 64;

/// A server that is bound to its addresses and ready to run.
pub struct Server<F, K, H: Handler> {
    parts: ServerBuilder<F, K, H>,
    shared: Arc<Shared>,
    cores: Cores,
    poll: Poll,
    waker: Arc<Waker>,
    listeners: Vec<TcpListener>,
    udp_sockets: Vec<mio::net::UdpSocket>,
    packet_port: Option<PacketPort>,
    local_addrs: Vec<SocketAddr>,
}

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainReport {
    /// Requests and connections that were given up because the drain timeout was over.
    pub abandoned: usize,
}

/// What a server is made of. See [`Server::builder`].
#[derive(Debug)]
pub struct ServerBuilder<F, K, H> {
    settings: Settings,
    framing: F,
    classifier: K,
    handler: H,
}

/// The part of a builder that does not depend on the user's types.
#[derive(Debug)]
struct Settings {
    tcp: Vec<SocketAddr>,
    udp: Vec<SocketAddr>,
    #[cfg(feature = "dpdk")]
    dpdk: Option<crate::dpdk::DpdkConfig>,
    types: Option<TypeTable>,
    policy: Policy,
    config: Config,
    /// The handler's author vouches for it, see [`SignalPreemptible`].
    signal_preemptible: bool,
    error: Option<BuildError>,
}

/// Stands in the builder where a framing, classifier or handler was not given yet.
#[derive(Debug, Clone, Copy)]
pub struct Missing;

/// The classifier of a server that was given none: every request is of the one type `request`.
#[derive(Debug, Clone, Copy)]
pub struct OneType;

impl Classifier for OneType {
    fn classify(&self, _request: &[u8]) -> RequestType {
        RequestType::new(0)
    }

    fn types(&self) -> TypeTable {
        TypeTable::from_iter([TypeSpec::new("request")])
    }
}

impl Server<(), (), fn(crate::Request<'_, ()>, &mut crate::Reply<'_>)> {
    /// Starts a builder. A framing and a handler are needed, and at least one address.
    #[must_use]
    pub fn builder() -> ServerBuilder<Missing, OneType, Missing> {
        let settings = Settings {
            tcp: Vec::new(),
            udp: Vec::new(),
            #[cfg(feature = "dpdk")]
            dpdk: None,
            types: None,
            policy: Policy::c_fcfs(),
            config: Config::default(),
            signal_preemptible: false,
            error: None,
        };
        ServerBuilder {
            settings,
            framing: Missing,
            classifier: OneType,
            handler: Missing,
        }
    }
}

impl<F, K, H> ServerBuilder<F, K, H> {
    /// Serves TCP on `address`; may be called more than once. An address that does not resolve is
    /// reported by [`build`](Self::build).
    #[must_use]
    pub fn tcp(mut self, address: impl ToSocketAddrs + std::fmt::Debug) -> Self {
        let address = self.resolve(&address);
        self.settings.tcp.extend(address);
        self
    }

    /// Serves UDP on `address`; may be called more than once.
    #[must_use]
    pub fn udp(mut self, address: impl ToSocketAddrs + std::fmt::Debug) -> Self {
        let address = self.resolve(&address);
        self.settings.udp.extend(address);
        self
    }

    /// Serves UDP on a port that is polled through DPDK. A server has one; a second call replaces the
    /// first.
    ///
    /// The net thread polls all the time where each thread has a core to itself. With the feature
    /// `dpdk`.
    #[cfg(feature = "dpdk")]
    #[must_use]
    pub fn listen_dpdk(mut self, config: crate::dpdk::DpdkConfig) -> Self {
        self.settings.dpdk = Some(config);
        self
    }

    fn resolve(&mut self, address: &(impl ToSocketAddrs + std::fmt::Debug)) -> Option<SocketAddr> {
        let none = || std::io::Error::new(std::io::ErrorKind::NotFound, "no address");
        let resolved = address
            .to_socket_addrs()
            .and_then(|mut all| all.next().ok_or_else(none));
        resolved
            .map_err(|source| {
                let address = format!("{address:?}");
                self.settings
                    .error
                    .get_or_insert(BuildError::Resolve { address, source });
            })
            .ok()
    }

    /// Sets the protocol.
    #[must_use]
    pub fn framing<G: Framing>(self, framing: G) -> ServerBuilder<G, K, H> {
        let Self {
            settings,
            classifier,
            handler,
            ..
        } = self;
        ServerBuilder {
            settings,
            framing,
            classifier,
            handler,
        }
    }

    /// Sets the classifier. Without one, every request is of one type.
    #[must_use]
    pub fn classifier<L: Classifier>(self, classifier: L) -> ServerBuilder<F, L, H> {
        let Self {
            settings,
            framing,
            handler,
            ..
        } = self;
        ServerBuilder {
            settings,
            framing,
            classifier,
            handler,
        }
    }

    /// Sets the handler.
    #[must_use]
    pub fn handler<G: Handler>(self, handler: G) -> ServerBuilder<F, K, G> {
        let Self {
            mut settings,
            framing,
            classifier,
            ..
        } = self;
        settings.signal_preemptible = false;
        ServerBuilder {
            settings,
            framing,
            classifier,
            handler,
        }
    }

    /// Registers request types, in place of those that the classifier knows.
    #[must_use]
    pub fn types(mut self, types: impl IntoIterator<Item = TypeSpec>) -> Self {
        self.settings.types = Some(types.into_iter().collect());
        self
    }

    /// Sets the policy: a [`Policy`], or the settings of one.
    ///
    /// One that [needs preemption](Policy::needs_preemption) is refused by [`build`](Self::build) where
    /// [`Config::preempt`] is `none`, or the topology [`Inline`](Topology::Inline).
    #[must_use]
    pub fn policy(mut self, policy: impl Into<Policy>) -> Self {
        self.settings.policy = policy.into();
        self
    }

    /// Sets the number of workers.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.settings.config.workers = Some(workers);
        self
    }

    /// Sets the topology.
    #[must_use]
    pub fn topology(mut self, topology: Topology) -> Self {
        self.settings.config.topology = topology;
        self
    }

    /// Sets how policies that share time make a request give way.
    #[must_use]
    pub fn preempt(mut self, preempt: PreemptPolicy) -> Self {
        self.settings.config.preempt = preempt;
        self
    }

    /// Sets everything else, and replaces what [`workers`](Self::workers),
    /// [`topology`](Self::topology) and [`preempt`](Self::preempt) had set.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.settings.config = config;
        self
    }
}

impl<F, K, H: SignalPreemptible> ServerBuilder<F, K, H> {
    /// Allows [`PreemptPolicy::Signal`] for this handler.
    #[must_use]
    pub fn signal_preemption(mut self) -> Self {
        self.settings.signal_preemptible = true;
        self
    }
}

impl<F: Framing, K: Classifier, H: Handler> ServerBuilder<F, K, H> {
    /// Checks the settings and binds the addresses.
    ///
    /// # Errors
    /// A setting out of its range, or an address that cannot be had.
    pub fn build(mut self) -> Result<Server<F, K, H>, BuildError> {
        if let Some(error) = self.settings.error.take() {
            return Err(error);
        }
        let config = &self.settings.config;
        config.validate()?;
        config.preempt.validate(self.settings.signal_preemptible)?;
        if self.settings.has_no_address() {
            return Err(BuildError::NoAddress);
        }
        let cores = Cores::discover();
        let Settings { config, policy, .. } = &self.settings;
        let topology = admission::topology(config, policy, cores.count);
        let workers = self.settings.config.workers.unwrap_or(match topology {
            // One more for long requests than there are cores costs nothing while they are idle.
            Topology::Inline => cores.count.max(2),
            _ => cores.count.saturating_sub(1).max(2),
        });
        let types = self
            .settings
            .types
            .take()
            .unwrap_or_else(|| self.classifier.types());
        let preempt = preempt_by_slot(&types, self.settings.config.preempt)?;
        let Settings { config, policy, .. } = &self.settings;
        admission::admit(policy, config, topology, workers).map_err(|error| {
            BuildError::Setting {
                setting: "policy",
                reason: error.to_string(),
            }
        })?;

        let poll = new_poll()?;
        let waker =
            Arc::new(
                Waker::new(poll.registry(), WAKER).map_err(|source| BuildError::Setting {
                    setting: "waker",
                    reason: source.to_string(),
                })?,
            );
        let mut local_addrs = Vec::new();
        let mut listeners = Vec::new();
        for &address in &self.settings.tcp {
            let listener = listen_tcp(address)?;
            local_addrs.push(listener.local_addr().unwrap_or(address));
            listeners.push(listener);
        }
        let mut udp_sockets = Vec::new();
        for &address in &self.settings.udp {
            let socket = bind_udp(address)?;
            local_addrs.push(socket.local_addr().unwrap_or(address));
            udp_sockets.push(socket);
        }
        let requests = datagrams(&self.settings.config, &types, workers);
        let packet_port = self.settings.open_packet_port(workers, requests)?;
        local_addrs.extend(packet_port.as_ref().map(PacketPort::address));
        let shared = Arc::new(Shared {
            telemetry: Telemetry::new(types.len() + 1, workers),
            connections_max: AtomicUsize::new(self.settings.config.connections_max),
            idle_timeout_s: AtomicU64::new(self.settings.config.idle_timeout_s),
            config: self.settings.config.clone(),
            topology,
            workers,
            policy: PolicyMailbox::new(self.settings.policy.clone()),
            types,
            preempt,
            shutdown: Shutdown::new(),
            started: Instant::now(),
        });
        Ok(Server {
            parts: self,
            shared,
            cores,
            poll,
            waker,
            listeners,
            udp_sockets,
            packet_port,
            local_addrs,
        })
    }
}

impl Settings {
    fn has_no_address(&self) -> bool {
        #[cfg(feature = "dpdk")]
        if self.dpdk.is_some() {
            return false;
        }
        self.tcp.is_empty() && self.udp.is_empty()
    }

    /// Opens the port of DPDK that was asked for, if any.
    #[cfg(feature = "dpdk")]
    fn open_packet_port(
        &self,
        workers: usize,
        requests: usize,
    ) -> Result<Option<PacketPort>, BuildError> {
        let open = |config| PacketPort::open(config, workers, requests);
        self.dpdk.as_ref().map(open).transpose().map_err(Into::into)
    }

    #[cfg(not(feature = "dpdk"))]
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "as with the feature"
    )]
    fn open_packet_port(&self, _: usize, _: usize) -> Result<Option<PacketPort>, BuildError> {
        Ok(None)
    }
}

/// Datagrams of sockets, or of a port, that may be waiting or in flight.
fn datagrams(config: &Config, types: &TypeTable, workers: usize) -> usize {
    let capacity = |spec: &TypeSpec| spec.queue_capacity.unwrap_or(config.queue_capacity);
    let queued: usize = types.specs().iter().map(capacity).sum();
    queued + config.queue_capacity + workers + DATAGRAMS_SPARE
}

/// How each type gives way, by its slot.
fn preempt_by_slot(
    types: &TypeTable,
    server: PreemptPolicy,
) -> Result<Vec<PreemptPolicy>, BuildError> {
    let of = |spec: &TypeSpec| match spec.preempt {
        None => Ok(server),
        Some(PreemptPolicy::None) => Ok(PreemptPolicy::None),
        Some(PreemptPolicy::Cooperative) if server != PreemptPolicy::None => {
            Ok(PreemptPolicy::Cooperative)
        }
        Some(chosen) if chosen == server => Ok(server),
        Some(chosen) => Err(BuildError::Setting {
            setting: "preempt",
            reason: format!(
                "type {} asks for {chosen}, which a server with {server} does not have",
                spec.name
            ),
        }),
    };
    let slots = types.specs().iter().map(of);
    slots.chain([Ok(server)]).collect()
}

fn new_poll() -> Result<Poll, BuildError> {
    Poll::new().map_err(|source| BuildError::Setting {
        setting: "event queue",
        reason: source.to_string(),
    })
}

impl<F: Framing, K: Classifier, H: Handler> Server<F, K, H> {
    /// The addresses it listens on: first TCP, then UDP, each in the order given, and last that on a
    /// port that is polled.
    #[must_use]
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.local_addrs
    }

    /// A handle to its counters and limits.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        ServerHandle {
            shared: self.shared.clone(),
        }
    }

    /// Serves until SIGTERM or SIGINT, then drains.
    ///
    /// # Errors
    /// When a thread or the signal handlers cannot be set up, or the event queue fails.
    pub fn run(self) -> Result<DrainReport, RunError> {
        let shutdown = Shutdown::on_signals()?;
        self.run_until(&shutdown)
    }

    /// Serves on this thread and its workers' until `shutdown` is triggered, then drains: takes no
    /// more requests, answers those it has, and returns when that is done or the drain timeout is
    /// over.
    ///
    /// # Errors
    /// When a thread cannot be started or the event queue fails.
    pub fn run_until(self, shutdown: &Shutdown) -> Result<DrainReport, RunError> {
        let Self {
            parts,
            shared,
            cores,
            poll,
            waker,
            listeners,
            udp_sockets,
            packet_port,
            local_addrs,
        } = self;
        shutdown.attach(waker.clone());
        shared.shutdown.attach(waker.clone());
        shared.policy.attach(waker.clone());
        let setup = shared.scheduler_setup();
        let scheduler = parts.settings.policy.scheduler(&setup);
        let datagrams = datagrams(&shared.config, &shared.types, shared.workers);
        let handler = Arc::new(parts.handler);
        handler.init(ServerHandle {
            shared: shared.clone(),
        });
        let endpoints = udp_sockets
            .into_iter()
            .zip(&local_addrs[listeners.len()..])
            .map(|(socket, &address)| {
                Arc::new(Endpoint {
                    outlet: Outlet::Socket(socket),
                    state: handler.connect(address),
                })
            })
            .collect();
        let packets = packet_port.map(|port| {
            let state = handler.connect(port.address());
            port.serve(state)
        });
        tracing::info!(
            addresses = ?local_addrs,
            policy = parts.settings.policy.spelled(),
            topology = %shared.topology,
            workers = shared.workers,
            cores = cores.count,
            "serving"
        );
        launch(
            Launch {
                poll,
                waker,
                listeners,
                endpoints,
                packets,
                classifier: parts.classifier,
                scheduler,
                handler,
                framing: Arc::new(parts.framing),
                shared,
                cores,
                datagrams,
            },
            shutdown,
        )
    }
}

#[cfg(feature = "dpdk")]
impl<F: Framing, K: Classifier, H: Handler> Server<F, K, H> {
    /// Puts requests of the server's port through the stages of a net worker and a worker, in place of
    /// serving them, and notes what each costs; `None` without a port. For benchmarks.
    #[doc(hidden)]
    #[must_use]
    pub fn measure_stages(self, requests: u64) -> Option<crate::dpdk::Stages> {
        let Self {
            parts,
            shared,
            waker,
            packet_port,
            ..
        } = self;
        let handler = Arc::new(parts.handler);
        let port = packet_port?;
        let state = handler.connect(port.address());
        let scheduler = parts.settings.policy.scheduler(&shared.scheduler_setup());
        let bench = stages::Bench {
            packets: port.serve(state),
            classifier: parts.classifier,
            scheduler,
            framing: Arc::new(parts.framing),
            handler,
            datagrams: datagrams(&shared.config, &shared.types, shared.workers),
            shared,
            waker,
        };
        Some(stages::measure(bench, requests))
    }
}

/// A handle to a running server, for handlers and operators. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ServerHandle {
    shared: Arc<Shared>,
}

impl ServerHandle {
    /// All counters.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::read(&self.shared.telemetry, &self.shared.types)
    }

    /// The policy in force. One that was set a moment ago may be about to take over.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.shared.policy.policy()
    }

    /// Changes the policy. The net thread takes the new one before it next reads from a socket; what waits
    /// and runs goes on under it, and no request is lost. What the old one had measured is: a
    /// policy starts from hints.
    ///
    /// # Errors
    /// What [`ServerBuilder::build`] would say of it. The policy in force stays then.
    pub fn set_policy(&self, policy: impl Into<Policy>) -> Result<(), PolicyError> {
        let policy = policy.into();
        let shared = &self.shared;
        admission::admit(&policy, &shared.config, shared.topology, shared.workers)?;
        shared.policy.post(policy);
        Ok(())
    }

    /// The topology in force; never [`Topology::Auto`].
    #[must_use]
    pub fn topology(&self) -> Topology {
        self.shared.topology
    }

    /// Number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.shared.workers
    }

    /// The settings it was built with.
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

    /// Changes how many connections may be open at once. Those that are open stay.
    pub fn set_connections_max(&self, connections_max: usize) {
        self.shared
            .connections_max
            .store(connections_max, Ordering::Relaxed);
    }

    /// Seconds after which an idle connection is closed; 0 for never.
    #[must_use]
    pub fn idle_timeout_s(&self) -> u64 {
        self.shared.idle_timeout_s.load(Ordering::Relaxed)
    }

    /// Changes the idle timeout; 0 for never.
    pub fn set_idle_timeout_s(&self, idle_timeout_s: u64) {
        self.shared
            .idle_timeout_s
            .store(idle_timeout_s, Ordering::Relaxed);
    }

    /// Stops the server as its shutdown would.
    pub fn shut_down(&self) {
        self.shared.shutdown.trigger();
    }
}
