//! The builder of servers.

use std::fmt;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::Instant;

use psp_policy::admission::{Admission, AdmissionSettings, Admit};
use psp_policy::elastic::Workers;
use psp_policy::{Policy, PreemptPolicy, RequestType, TypeSpec, TypeTable};
use psp_protocols::Framing;

use crate::admin::AdminListener;
use crate::admission;
use crate::classifier::Classifier;
use crate::config::{AdmissionMode, Config, Topology};
use crate::error::BuildError;
use crate::fiber::Helpers;
use crate::handler::Handler;
use crate::limits::DATAGRAM_BYTES_TOTAL_MAX;
use crate::listen::{Place, Places, resolve};
use crate::preempt;
use crate::reply::Deferrals;
use crate::request_types;
use crate::runtime::Port;
use crate::runtime::host::cores::Cores;
use crate::server::Server;
use crate::settings;
#[cfg(feature = "admin")]
use crate::shared::MoreMetrics;
use crate::shared::{Gate, PolicyMailbox, PollWithin, Shared};
use crate::shutdown::Shutdown;
use crate::signal_preemptible::SignalPreemptible;
use crate::telemetry::{Parts, SlowLog, Telemetry};
use crate::trace::Trace;
use crate::transport::PacketPort;
#[cfg(feature = "dpdk")]
use crate::transport::PolledBy;
use crate::transport::budget::Budget;
use crate::transport::datagram::buffer_len;
use crate::transport::owed::owed_max;

/// Datagrams that may be between two states while every typed queue is full.
const DATAGRAMS_SPARE: usize = 64;

/// Requests for which admission sets memory aside: one for each connection, within these bounds.
const LET_IN_MIN: usize = 1 << 14;
const LET_IN_MAX: usize = 1 << 18;

/// Settings and parts of a server. See [`Server::builder`].
#[derive(Debug)]
pub struct ServerBuilder<F, K, H> {
    settings: Settings,
    framing: F,
    classifier: K,
    handler: H,
}

/// The settings of a builder, which do not depend on the user's types.
#[derive(Debug)]
struct Settings {
    places: Places,
    #[cfg(feature = "dpdk")]
    dpdk: Option<crate::dpdk::DpdkConfig>,
    types: Option<TypeTable>,
    /// What the program set.
    own: settings::Settings,
    /// Settings that come before these, such as those of a file.
    given: settings::Settings,
    /// Values that were set one by one. They come before those of the program's configuration.
    workers: Option<Workers>,
    topology: Option<Topology>,
    preempt: Option<PreemptPolicy>,
    /// Makes an admission of the program's own.
    make_admit: Option<MakeAdmit>,
    /// The handler's author signed [`SignalPreemptible`].
    signal_preemptible: bool,
    poll_within: Option<PollWithin>,
    #[cfg(feature = "admin")]
    more_metrics: MoreMetrics,
    error: Option<BuildError>,
}

/// Makes an admission for so many workers, and these types.
struct MakeAdmit(Box<MakesAdmit>);

type MakesAdmit = dyn FnOnce(usize, &TypeTable) -> Box<dyn Admit> + Send;

impl fmt::Debug for MakeAdmit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MakeAdmit").finish_non_exhaustive()
    }
}

/// Stands in the builder for a framing or handler that was not given yet.
#[derive(Debug, Clone, Copy)]
pub struct Missing;

/// Stands in the builder for a handler that was not given yet, after
/// [`signal_preemption`](ServerBuilder::signal_preemption).
#[derive(Debug, Clone, Copy)]
pub struct MissingPreemptible;

/// A place in the builder that a handler `G` may take. A builder takes one handler.
pub trait HandlerPlace<G> {
    /// The builder allows [`PreemptPolicy::Signal`] for the handler.
    const SIGNAL_PREEMPTIBLE: bool;
}

impl<G> HandlerPlace<G> for Missing {
    const SIGNAL_PREEMPTIBLE: bool = false;
}

impl<G: SignalPreemptible> HandlerPlace<G> for MissingPreemptible {
    const SIGNAL_PREEMPTIBLE: bool = true;
}

/// The classifier of a server without another: every request has the one type `request`.
#[derive(Debug, Clone, Copy)]
pub struct OneType;

impl<H> Classifier<H> for OneType {
    fn classify(&self, _request: &[u8], _head: &H) -> RequestType {
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
            places: Places::default(),
            #[cfg(feature = "dpdk")]
            dpdk: None,
            types: None,
            own: settings::Settings::default(),
            given: settings::Settings::default(),
            workers: None,
            topology: None,
            preempt: None,
            make_admit: None,
            signal_preemptible: false,
            poll_within: None,
            #[cfg(feature = "admin")]
            more_metrics: MoreMetrics::default(),
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
    /// Serves TCP on every address that `address` resolves to, such as `[::1]` and `127.0.0.1` for `localhost`; may
    /// be called more than once. With port 0 the system chooses a port, the same for all addresses of a name.
    ///
    /// [`build`](Self::build) reports an address that does not resolve or cannot be bound. An address that this
    /// machine does not have is no error if it has another one of the name.
    #[must_use]
    pub fn tcp(mut self, address: impl ToSocketAddrs + std::fmt::Debug) -> Self {
        let addresses = self.resolve(&address);
        self.settings.places.add(Place::Tcp(addresses));
        self
    }

    /// Serves TLS on every address that `address` resolves to, like [`tcp`](Self::tcp); may be called more than once.
    /// Needs the feature `tls`.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, address: impl ToSocketAddrs + std::fmt::Debug, config: &crate::tls::TlsConfig) -> Self {
        let addresses = self.resolve(&address);
        let place = Place::Tls(config.clone(), Box::new(Place::Tcp(addresses)));
        self.settings.places.add(place);
        self
    }

    /// Serves TLS on the connections of a listener that the caller made; may be called more than once. Needs the
    /// feature `tls`.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls_listener(mut self, listener: TcpListener, config: &crate::tls::TlsConfig) -> Self {
        let place = Place::Tls(config.clone(), Box::new(Place::TcpListener(listener)));
        self.settings.places.add(place);
        self
    }

    /// Serves the connections of a listener that the caller made; may be called more than once.
    #[must_use]
    pub fn tcp_listener(mut self, listener: TcpListener) -> Self {
        self.settings.places.add(Place::TcpListener(listener));
        self
    }

    /// Serves a Unix socket at `path`; may be called more than once. The server removes the file when it stops
    /// listening. It replaces a file that a server left behind, and [`build`](Self::build) refuses a path on which
    /// a process listens.
    #[must_use]
    pub fn unix(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.places.add(Place::Unix(path.into()));
        self
    }

    /// Sets the permissions of the files of [`unix`](Self::unix), as `chmod(2)` takes them: with `0o600` only the
    /// server's user may connect. Without a mode, the process's umask decides. [`build`](Self::build) refuses a mode
    /// where there is no such file.
    #[must_use]
    pub fn unix_mode(mut self, mode: u32) -> Self {
        self.settings.places.unix_mode = Some(mode);
        self
    }

    /// Serves the connections of a Unix listener that the caller made; may be called more than once. The server
    /// does not remove its file.
    #[must_use]
    pub fn unix_listener(mut self, listener: UnixListener) -> Self {
        self.settings.places.add(Place::UnixListener(listener));
        self
    }

    /// Serves the sockets that a service manager passed to the process, as systemd does for a `.socket` unit
    /// (`LISTEN_FDS`, `LISTEN_PID`): TCP and Unix listeners, and UDP sockets.
    ///
    /// [`build`](Self::build) takes the sockets. It fails if there are none, or one of another kind, and says which. It
    /// removes the variables from the environment, so only one server of a process gets the sockets.
    #[must_use]
    pub fn listen_fds(mut self) -> Self {
        self.settings.places.add(Place::Passed);
        self
    }

    /// Serves UDP on every address that `address` resolves to, like [`tcp`](Self::tcp); may be called more than
    /// once.
    #[must_use]
    pub fn udp(mut self, address: impl ToSocketAddrs + std::fmt::Debug) -> Self {
        let addresses = self.resolve(&address);
        self.settings.places.add(Place::Udp(addresses));
        self
    }

    /// Serves UDP on a port that the net thread polls through DPDK, or in the topology
    /// [`Distributed`](Topology::Distributed) each worker, which has receive queues of its own. A server has at most
    /// one port; a second call replaces the first. Needs the feature `dpdk`.
    ///
    /// If each thread has a core to itself, those that poll do so all the time. [`build`](Self::build) refuses workers
    /// beyond the port's queues in the topology `Distributed`.
    #[cfg(feature = "dpdk")]
    #[must_use]
    pub fn listen_dpdk(mut self, config: crate::dpdk::DpdkConfig) -> Self {
        self.settings.dpdk = Some(config);
        self
    }

    /// Adds figures of the program's own to those that the [admin port](Config::admin) serves: what `render` writes in
    /// Prometheus' text format. With the recorder of the crate `metrics` that is
    /// `let prometheus = PrometheusBuilder::new().install_recorder()?` and `.metrics(move || prometheus.render())`.
    /// Their names must differ from those of [this crate](crate#metrics). The same clients may read both. Needs the
    /// feature `admin`.
    #[cfg(feature = "admin")]
    #[must_use]
    pub fn metrics(mut self, render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.settings.more_metrics = MoreMetrics(Some(Arc::new(render)));
        self
    }

    /// Has each poll of a request that [waits](crate::wait()) call `within`, which calls its argument, once: the poll.
    /// So a runtime's context is there for the futures that need it. A poll within it is not preempted.
    #[must_use]
    pub fn poll_within(mut self, within: impl Fn(&mut dyn FnMut()) + Send + Sync + 'static) -> Self {
        self.settings.poll_within = Some(PollWithin(Arc::new(within)));
        self
    }

    /// Has each poll of a request that [waits](crate::wait()) enter a runtime of tokio. So its timers and sockets work
    /// in handlers, and all that is built on them. The runtime's own threads drive them: it is one with
    /// `new_multi_thread`, or some thread blocks on it. Needs the feature `tokio`.
    ///
    /// A future is made in the runtime, too, if it is made in the poll:
    /// `wait(async { tokio::time::sleep(short).await })`.
    #[cfg(feature = "tokio")]
    #[must_use]
    pub fn tokio(self, runtime: tokio::runtime::Handle) -> Self {
        self.poll_within(move |poll| {
            let _entered = runtime.enter();
            poll();
        })
    }

    fn resolve(&mut self, address: &(impl ToSocketAddrs + std::fmt::Debug)) -> Vec<SocketAddr> {
        resolve(address).unwrap_or_else(|error| {
            self.settings.error.get_or_insert(error);
            Vec::new()
        })
    }

    /// Sets the protocol.
    #[must_use]
    pub fn framing<G: Framing>(self, framing: G) -> ServerBuilder<G, K, H> {
        ServerBuilder {
            settings: self.settings,
            framing,
            classifier: self.classifier,
            handler: self.handler,
        }
    }

    /// Sets the classifier. Without one, every request is of one type.
    #[must_use]
    pub fn classifier<L>(self, classifier: L) -> ServerBuilder<F, L, H> {
        ServerBuilder {
            settings: self.settings,
            framing: self.framing,
            classifier,
            handler: self.handler,
        }
    }

    /// Sets the handler, once.
    #[must_use]
    pub fn handler<G>(mut self, handler: G) -> ServerBuilder<F, K, G>
    where
        H: HandlerPlace<G>,
    {
        self.settings.signal_preemptible = H::SIGNAL_PREEMPTIBLE;
        self.put_handler(handler)
    }

    fn put_handler<G>(self, handler: G) -> ServerBuilder<F, K, G> {
        ServerBuilder {
            settings: self.settings,
            framing: self.framing,
            classifier: self.classifier,
            handler,
        }
    }

    /// Registers request types in place of the classifier's own.
    #[must_use]
    pub fn types(mut self, types: impl IntoIterator<Item = TypeSpec>) -> Self {
        self.settings.types = Some(types.into_iter().collect());
        self
    }

    /// Sets the policy: a [`Policy`], or the settings of one. [`settings`](Self::settings) may name another one.
    ///
    /// [`build`](Self::build) refuses a policy that [needs preemption](Policy::needs_preemption) if
    /// [`Config::preempt`] is `none` or the topology is [`Inline`](Topology::Inline).
    #[must_use]
    pub fn policy(mut self, policy: impl Into<Policy>) -> Self {
        self.settings.own.policy = policy.into();
        self
    }

    /// Registers [policies](Policy::custom) that a [watched file](settings::Settings::watch) and
    /// [`ServerHandle::parse_policy`](crate::ServerHandle::parse_policy) may name beside those of the crate, as the
    /// [admin port](Config::admin) does. The one of [`policy`](Self::policy), and those of
    /// [`settings`](Self::settings), are registered as they are.
    #[must_use]
    pub fn policies(mut self, policies: impl IntoIterator<Item = Policy>) -> Self {
        self.settings.own = self.settings.own.policies(policies);
        self
    }

    /// Sets an [admission](Admit) of one's own in the place of [`Admission`]. `make` gets the number of workers that
    /// are present at first, and all types. It decides unless [`Config::admission`] is [`Off`](AdmissionMode::Off).
    ///
    /// `psp_policy::conformance::check_admit` tests what it promises. Threads that receive requests share it, one at a
    /// time, and wait for its answers.
    #[must_use]
    pub fn admission<A: Admit + 'static>(mut self, make: impl FnOnce(usize, &TypeTable) -> A + Send + 'static) -> Self {
        let make = |workers: usize, types: &TypeTable| -> Box<dyn Admit> { Box::new(make(workers, types)) };
        self.settings.make_admit = Some(MakeAdmit(Box::new(make)));
        self
    }

    /// Sets the number of workers, or a range within which they come and go: `2..=8`. Whatever
    /// [`config`](Self::config) says.
    #[must_use]
    pub fn workers(mut self, workers: impl Into<Workers>) -> Self {
        self.settings.workers = Some(workers.into());
        self
    }

    /// Sets the topology, whatever [`config`](Self::config) says.
    #[must_use]
    pub fn topology(mut self, topology: Topology) -> Self {
        self.settings.topology = Some(topology);
        self
    }

    /// Sets the mechanism by which policies that share time preempt a request, whatever
    /// [`config`](Self::config) says.
    #[must_use]
    pub fn preempt(mut self, preempt: PreemptPolicy) -> Self {
        self.settings.preempt = Some(preempt);
        self
    }

    /// Sets policy, configuration and hints of types at once, such as those of a file. What they name comes before what
    /// the builder's other methods say, in whatever order the methods are called, and the rest stays the builder's.
    ///
    /// [`build`](Self::build) refuses hints for a type that the classifier does not have.
    #[must_use]
    pub fn settings(mut self, settings: settings::Settings) -> Self {
        self.settings.given = settings;
        self
    }

    /// Sets the configuration at once. Values of [`workers`](Self::workers), [`topology`](Self::topology) and
    /// [`preempt`](Self::preempt) come first, in whatever order the methods are called.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.settings.own.server = config;
        self
    }
}

impl<F, K, H: SignalPreemptible> ServerBuilder<F, K, H> {
    /// Allows [`PreemptPolicy::Signal`] for this handler. May be called before [`handler`](Self::handler), too.
    #[must_use]
    pub fn signal_preemption(mut self) -> Self {
        self.settings.signal_preemptible = true;
        self
    }
}

impl<F, K> ServerBuilder<F, K, Missing> {
    /// Allows [`PreemptPolicy::Signal`] for the handler that follows, which has to be [`SignalPreemptible`].
    #[must_use]
    pub fn signal_preemption(self) -> ServerBuilder<F, K, MissingPreemptible> {
        self.put_handler(MissingPreemptible)
    }
}

impl<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>> ServerBuilder<F, K, H> {
    /// Checks the settings and binds the addresses. Nothing is allocated or bound before all settings are checked.
    ///
    /// # Errors
    /// A setting is out of its range, or an address cannot be bound.
    pub fn build(mut self) -> Result<Server<F, K, H>, BuildError> {
        let plan = self.plan()?;
        let (workers, datagrams) = (plan.workers.max, plan.datagrams);
        let mut bound = std::mem::take(&mut self.settings.places).bind(plan.receivers)?;
        let listeners = std::mem::take(&mut bound.listeners).into_iter();
        let ports = listeners.map(Port::new).collect::<Result<_, _>>()?;
        let mut local_addrs = bound.local_addrs();
        let packet_port = { &self.settings }.open_packet_port(plan.topology, workers, datagrams)?;
        local_addrs.extend(packet_port.as_ref().map(PacketPort::address));
        let config = &plan.settings.server;
        let admin = config.admin.as_deref();
        let admin = admin.map(|place| AdminListener::bind(place, config));
        let admin = admin.transpose()?;
        let parts = Parts {
            tls: plan.handshake.is_some(),
            datagrams: packet_port.is_some() || !bound.udp_sockets.is_empty(),
            polled_port: packet_port.is_some(),
            elastic: plan.workers.min < workers,
            arbiter: config.arbiter.is_some(),
            admission: plan.has_admission,
        };
        let cores = plan.cores.clone();
        let owed_max = owed_max(self.framing.replies_in_order());
        let admin_addr = admin.as_ref().map(AdminListener::address);
        let shared = Arc::new(self.settings.shared(plan, parts, owed_max, admin_addr));
        Ok(Server {
            framing: self.framing,
            classifier: self.classifier,
            handler: self.handler,
            shared,
            cores,
            ports,
            udp_sockets: bound.udp_sockets,
            packet_port,
            datagrams,
            local_addrs,
            unix_paths: bound.unix_paths,
            admin,
        })
    }

    /// Checks all settings.
    fn plan(&mut self) -> Result<Plan, BuildError> {
        if let Some(error) = self.settings.error.take() {
            return Err(error);
        }
        let settings = self.settings.merge();
        let config = &settings.server;
        config.validate()?;
        config.validate_admin()?;
        settings.own_policies.validate()?;
        preempt::validate(config.preempt, self.settings.signal_preemptible)?;
        self.settings.places.validate()?;
        if self.settings.has_no_address() {
            return Err(BuildError::NoAddress);
        }
        let cores = Cores::discover();
        let cores = match config.arbiter {
            Some(_) => cores.unpinned(),
            None => cores,
        };
        let topology = admission::topology(config, &settings.policy, cores.count);
        let by_cores = admission::workers_by_cores(topology, cores.count);
        let workers = config.workers.unwrap_or(by_cores.into());
        let types = self.settings.types.take();
        let types = types.unwrap_or_else(|| self.classifier.types());
        let mut types = request_types::with_hints(types, &settings.types)?;
        request_types::validate(&types)?;
        let executors = request_types::executors(&types, topology, workers.max);
        config.validate_stacks(executors)?;
        let has_tls = self.settings.places.has_tls();
        let handshake = has_tls.then(|| request_types::register_handshake(&mut types)).transpose()?;
        let preempt = request_types::preempt_by_slot(&types, config.preempt)?;
        admission::admit(&settings.policy, config, topology, workers.max)?;
        let receivers = admission::receivers(topology, workers.max);
        if receivers > 1 {
            self.settings.admit_distributed(workers.min < workers.max)?;
        }
        let datagrams = self.settings.datagrams(&types, config, workers.max, receivers)?;
        let has_admission = self.settings.has_admission(&types, config);
        Ok(Plan {
            settings,
            cores,
            topology,
            workers,
            executors,
            receivers,
            datagrams,
            types,
            handshake,
            preempt,
            has_admission,
        })
    }
}

/// What a server is to be, by settings that were checked.
struct Plan {
    settings: settings::Settings,
    cores: Cores,
    topology: Topology,
    workers: Workers,
    /// Threads that run requests as workers.
    executors: usize,
    /// Threads that receive requests.
    receivers: usize,
    /// Datagrams that may wait or be in flight, at each of these.
    datagrams: usize,
    types: TypeTable,
    handshake: Option<RequestType>,
    /// The mechanism by type slot.
    preempt: Vec<PreemptPolicy>,
    has_admission: bool,
}

impl Settings {
    /// The state that all threads share.
    fn shared(mut self, plan: Plan, parts: Parts, owed_max: usize, admin_addr: Option<SocketAddr>) -> Shared {
        let (receivers, executors) = (plan.receivers, plan.executors);
        let gate = self.gate(&plan);
        let config = plan.settings.server;
        let buffers = Arc::new(Budget::new(config.buffered_bytes()));
        let workers = plan.workers.max;
        Shared {
            parts,
            telemetry: Telemetry::new(plan.types.len() + 1, receivers, executors),
            trace: Trace::new(receivers, executors),
            slow: SlowLog::new(&plan.types, config.slow_us),
            deferrals: (0..receivers).map(|_| Arc::new(Deferrals::new(buffers.clone(), owed_max))).collect(),
            buffers,
            connections_max: AtomicUsize::new(config.connections_max),
            idle_timeout_s: AtomicU64::new(config.idle_timeout_s),
            output_bytes_max: AtomicUsize::new(config.output_bytes_max),
            topology: plan.topology,
            workers,
            workers_min: plan.workers.min,
            polls: plan.cores.spare_for(workers + 1) && config.spin_us > 0,
            helpers: Helpers::new(config.blocking_threads_max, move || plan.cores.unpin()),
            config,
            hints: plan.settings.types,
            own_policies: plan.settings.own_policies,
            own: self.own,
            policy: PolicyMailbox::new(plan.settings.policy),
            gate,
            can_preempt: AtomicBool::new(false),
            types: plan.types,
            handshake: plan.handshake,
            preempt: plan.preempt,
            poll_within: self.poll_within,
            #[cfg(feature = "admin")]
            more_metrics: self.more_metrics,
            shutdown: Shutdown::new(),
            admin_addr,
            is_serving: AtomicBool::new(false),
            is_leaving: AtomicBool::new(false),
            started: Instant::now(),
        }
    }

    fn has_admission(&self, types: &TypeTable, config: &Config) -> bool {
        match config.admission {
            AdmissionMode::Auto => self.make_admit.is_some() || types.specs().iter().any(|spec| spec.slo.is_some()),
            AdmissionMode::Off => false,
            AdmissionMode::On => true,
        }
    }

    /// What decides which requests are let in, if anything does.
    fn gate(&mut self, plan: &Plan) -> Option<Gate> {
        let own = self.make_admit.take().filter(|_| plan.has_admission);
        let (workers, types) = (plan.workers.min, &plan.types);
        let admit: Box<dyn Admit> = match own {
            Some(MakeAdmit(make)) => make(workers, types),
            None if plan.has_admission => {
                // Requests that wait in their handlers count, too.
                let requests_max = plan.settings.server.connections_max.clamp(LET_IN_MIN, LET_IN_MAX);
                let settings = AdmissionSettings::default().requests_max(requests_max);
                Box::new(Admission::new(workers, types, settings))
            }
            None => return None,
        };
        let is_shared = plan.topology == Topology::Distributed;
        Some(Gate::new(admit, workers, types.len() + 1, is_shared))
    }

    /// Puts the values that were set one by one among the program's settings, and returns what holds altogether.
    fn merge(&mut self) -> settings::Settings {
        let settings::Settings { policy, server, own_policies, .. } = &mut self.own;
        server.workers = self.workers.or(server.workers);
        server.topology = self.topology.unwrap_or(server.topology);
        server.preempt = self.preempt.unwrap_or(server.preempt);
        own_policies.add(Some(policy.clone()).filter(|policy| matches!(policy, Policy::Custom(_))));
        let given = std::mem::take(&mut self.given);
        let merged = given.clone().over(self.own.clone());
        self.own = given.without_text().over(std::mem::take(&mut self.own));
        merged
    }

    /// Datagrams of sockets, or of a polled port, that may wait or be in flight, at each of so many `receivers`.
    fn datagrams(
        &self,
        types: &TypeTable,
        config: &Config,
        workers: usize,
        receivers: usize,
    ) -> Result<usize, BuildError> {
        let queued = request_types::queued_max(types, config);
        let datagrams = queued + workers + DATAGRAMS_SPARE;
        let bytes_max = config.datagram_bytes_max;
        let all = datagrams * receivers;
        let total = all as u128 * buffer_len(bytes_max) as u128;
        if self.places.may_have_udp() && total > DATAGRAM_BYTES_TOTAL_MAX.into() {
            return Err(BuildError::Datagrams {
                bytes_max,
                datagrams: all,
                total,
                max: DATAGRAM_BYTES_TOTAL_MAX,
            });
        }
        Ok(datagrams)
    }

    /// Refuses what workers that receive for themselves cannot do.
    fn admit_distributed(&self, come_and_go: bool) -> Result<(), BuildError> {
        let refused = [(
            come_and_go,
            "a range of workers",
            "who is present depends on the load of all workers, which only a dispatcher sees",
        )];
        match refused.into_iter().find(|&(is_set, ..)| is_set) {
            Some((_, setting, reason)) => Err(BuildError::NotDistributed { setting, reason }),
            None => Ok(()),
        }
    }

    fn has_no_address(&self) -> bool {
        #[cfg(feature = "dpdk")]
        if self.dpdk.is_some() {
            return false;
        }
        self.places.is_empty()
    }

    /// Opens the DPDK port that the settings ask for, if any.
    #[cfg(feature = "dpdk")]
    fn open_packet_port(
        &self,
        topology: Topology,
        workers: usize,
        requests: usize,
    ) -> Result<Option<PacketPort>, BuildError> {
        let polled_by = match topology {
            Topology::Distributed => PolledBy::Workers,
            _ => PolledBy::NetThread,
        };
        let open = |config| PacketPort::open(config, polled_by, workers, requests);
        self.dpdk.as_ref().map(open).transpose().map_err(Into::into)
    }

    #[cfg(not(feature = "dpdk"))]
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "the signature with the feature"
    )]
    fn open_packet_port(&self, _: Topology, _: usize, _: usize) -> Result<Option<PacketPort>, BuildError> {
        Ok(None)
    }
}
