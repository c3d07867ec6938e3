//! The state that all connections of a server share.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use psp_server::sync::oneshot::Receiver;
use psp_server::{Peer, Policy, ServerHandle, Topology};
use psp_store::{Databases, unix_time_ms};

use crate::acl::Acl;
use crate::blocking::BlockedClients;
use crate::client::{Client, ClientInfo, LocalAddresses, Registry};
use crate::config::Config;
use crate::eviction::Evictions;
use crate::keyspace_events::Notifier;
use crate::memory::Memory;
use crate::pause::PausedCommands;
use crate::persistence::Persistence;
use crate::pubsub::PubSub;
use crate::record::Records;
use crate::scripts::Scripts;
use crate::settings::Settings;
use crate::stats::{ErrorCounts, Rates, Totals, WorkerStats, errors_since};
use crate::tracking::Tracking;
use crate::turns;

/// The state of a server.
#[derive(Debug)]
pub struct ServerState {
    /// All keys.
    pub databases: Arc<Databases>,
    /// The settings that `CONFIG` shows and changes.
    pub settings: Settings,
    /// All users.
    pub acl: Acl,
    /// What EVAL and SCRIPT work with.
    pub scripts: Scripts,
    /// The memory of the process.
    pub memory: Memory,
    /// How keys are evicted.
    pub evictions: Evictions,
    /// All connections.
    pub clients: Arc<Registry>,
    /// What is recorded of the commands that have run.
    pub records: Records,
    /// The commands that CLIENT PAUSE holds.
    pub paused: PausedCommands,
    /// What saves and loads the data set.
    pub persistence: Persistence,
    /// Where the server listens; the configuration's addresses until that is known.
    pub local_addresses: OnceLock<LocalAddresses>,
    /// What tells subscribers about keys.
    pub notifier: Arc<Notifier>,
    /// When the server started.
    pub started_at: Instant,
    /// When the server started, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// A random number of 40 hexadecimal digits that identifies this run of the server.
    pub run_id: String,
    /// The running server; empty until it runs.
    pub runtime: OnceLock<ServerHandle>,
    /// How fast counters grow.
    pub rates: Rates,
    workers: Mutex<Workers>,
}

#[derive(Debug, Default)]
struct Workers {
    stats: Vec<Arc<WorkerStats>>,
    /// Sums at the last `CONFIG RESETSTAT`. Only workers write their counters.
    zero: Option<Box<Totals>>,
    /// [`ServerState::dropped_objects`] then.
    dropped_objects: usize,
}

impl Default for ServerState {
    fn default() -> Self {
        Self::new(Settings::default())
    }
}

impl ServerState {
    /// The state of a server that starts now, without keys.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let databases = Arc::new(Databases::new(settings.config.databases));
        let blocked = BlockedClients::new(Arc::clone(&databases));
        let limit = settings.config.client_output_buffer_limit;
        let pubsub = Arc::new(PubSub::new(limit));
        let classes = settings.config.notify_keyspace_events;
        let notifier = Arc::new(Notifier::new(classes, Arc::clone(&pubsub)));
        let tracking = Arc::new(Tracking::new(Arc::clone(&pubsub)));
        let expired = (Arc::clone(&notifier), Arc::clone(&tracking));
        databases.on_expired(move |database, key, what| {
            let (notifier, tracking) = &expired;
            notifier.expired(database, key, what);
            tracking.invalidate(None, &[key]);
        });
        databases.hold_locks_by(|section| psp_server::critical(section));
        databases.yield_by(psp_server::checkpoint);
        databases.take_turns_by(turns::take);
        let state = Self {
            databases,
            acl: Acl::new(&settings.config),
            persistence: Persistence::new(&settings.config),
            settings,
            scripts: Scripts::default(),
            memory: Memory::new(),
            evictions: Evictions::default(),
            notifier,
            records: Records::default(),
            paused: PausedCommands::default(),
            local_addresses: OnceLock::new(),
            clients: Arc::new(Registry::new(blocked, pubsub, tracking)),
            started_at: Instant::now(),
            started_at_ms: unix_time_ms(),
            run_id: format!("{:032x}{:08x}", rand::random::<u128>(), rand::random::<u32>()),
            runtime: OnceLock::new(),
            rates: Rates::default(),
            workers: Mutex::default(),
        };
        state.configure_eviction(&state.settings.config);
        state
    }

    /// The path of the server's own Unix socket.
    #[must_use]
    pub fn unix_socket(&self) -> Option<&Path> {
        self.settings.config.sockets.unix.as_deref()
    }

    /// Where the server listens.
    #[must_use]
    pub fn local_addresses(&self) -> &LocalAddresses {
        self.local_addresses.get_or_init(|| {
            let config = &self.settings.config;
            let addresses = config.bind.iter();
            self.listening(addresses.map(|ip| SocketAddr::new(*ip, config.port)))
        })
    }

    /// The server's Unix socket, and these addresses.
    #[must_use]
    pub fn listening(&self, ip: impl IntoIterator<Item = SocketAddr>) -> LocalAddresses {
        let unix = self.unix_socket();
        LocalAddresses {
            unix: unix.map(|path| path.to_string_lossy().into_owned()),
            ip: ip.into_iter().collect(),
        }
    }

    /// Adopts the changeable settings of a configuration that was read again. Also records those that
    /// the program does not know by itself in `started`, the configuration at the start.
    pub fn take_over(&self, started: &mut Config, config: &Config) {
        self.settings.take_over(started, config);
        self.persistence.take_over(started, config);
        self.take_over_users(started, config);
        let limit = config.client_output_buffer_limit;
        self.clients.pubsub.set_limit(limit);
        started.client_output_buffer_limit = limit;
        let classes = config.notify_keyspace_events;
        self.notifier.set_classes(classes);
        started.notify_keyspace_events = classes;
        self.configure_eviction(config);
    }

    /// Users stay as they are, but for the password of the default one if the configuration has another one than it
    /// had.
    fn take_over_users(&self, started: &mut Config, config: &Config) {
        let password = config.requirepass.as_deref().unwrap_or_default();
        if self.acl.requirepass() != password.as_bytes() {
            self.acl.set_requirepass(&self.clients, password.as_bytes());
        }
        started.requirepass.clone_from(&config.requirepass);
        self.acl.log.set_len_max(config.acllog_max_len);
        started.acllog_max_len = config.acllog_max_len;
        self.acl.set_pubsub_default(config.acl_pubsub_default);
        started.acl_pubsub_default = config.acl_pubsub_default;
    }

    /// What replies to the client wait for: that the disk has what it has written, if `appendfsync` says so.
    #[inline]
    pub fn fence(&self, client: &ClientInfo) -> Option<Receiver<()>> {
        let log = &self.persistence.log;
        if !log.is_on() || !(client.take_written() || log.reads_durable()) {
            return None;
        }
        log.fence(self.databases.journal())
    }

    /// Registers an accepted connection.
    pub fn connect(&self, peer: Peer) -> Client {
        self.acl.open(|account| self.clients.connect(peer, account))
    }

    /// Creates the counters of one more worker.
    pub fn add_worker(&self) -> Arc<WorkerStats> {
        let stats = Arc::new(WorkerStats::default());
        self.workers.lock().stats.push(Arc::clone(&stats));
        stats
    }

    /// Whether the server drains.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.runtime.get().is_some_and(ServerHandle::is_stopping)
    }

    /// Most connections that may be open at once.
    #[must_use]
    pub fn connections_max(&self) -> usize {
        let configured = self.settings.config.server.connections_max;
        self.runtime.get().map_or(configured, ServerHandle::connections_max)
    }

    /// Seconds after which an idle connection is closed; 0 for never.
    #[must_use]
    pub fn idle_timeout_s(&self) -> u64 {
        let configured = self.settings.config.server.idle_timeout_s;
        self.runtime.get().map_or(configured, ServerHandle::idle_timeout_s)
    }

    /// Replies that may wait for a client; 0 for no limit but that of all buffers.
    #[must_use]
    pub fn output_bytes_max(&self) -> usize {
        let configured = self.settings.config.server.output_bytes_max;
        self.runtime.get().map_or(configured, ServerHandle::output_bytes_max)
    }

    /// The current policy.
    #[must_use]
    pub fn policy(&self) -> Policy {
        let configured = || self.settings.config.policy.clone();
        self.runtime.get().map_or_else(configured, ServerHandle::policy)
    }

    /// The server's thread topology.
    #[must_use]
    pub fn topology(&self) -> Topology {
        self.runtime.get().map_or(self.settings.config.server.topology, ServerHandle::topology)
    }

    /// Number of workers; 0 until it is known.
    #[must_use]
    pub fn workers(&self) -> usize {
        let configured = self.settings.config.server.workers;
        let configured = configured.map_or(0, |workers| workers.max);
        self.runtime.get().map_or(configured, ServerHandle::workers)
    }

    /// Counters of all workers since the last reset.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let workers = self.workers.lock();
        let totals = workers.totals();
        match &workers.zero {
            Some(zero) => totals.since(zero),
            None => totals,
        }
    }

    /// Calls of all commands since the last reset.
    #[must_use]
    pub fn calls(&self) -> u64 {
        let workers = self.workers.lock();
        let calls: u64 = workers.stats.iter().map(|stats| stats.calls()).sum();
        calls - workers.zero.as_ref().map_or(0, |zero| zero.calls())
    }

    /// Error replies since the last reset.
    #[must_use]
    pub fn errors(&self) -> ErrorCounts {
        let workers = self.workers.lock();
        let mut errors = ErrorCounts::new();
        for stats in &workers.stats {
            stats.add_errors_to(&mut errors);
        }
        match &workers.zero {
            Some(zero) => errors_since(errors, &zero.errors),
            None => errors,
        }
    }

    /// Values and keys that were dropped in the background since the last reset.
    #[must_use]
    pub fn dropped_objects(&self) -> usize {
        let before = self.workers.lock().dropped_objects;
        self.databases.dropped_objects() - before
    }

    /// Resets all command counters to zero.
    pub fn reset_stats(&self) {
        let mut workers = self.workers.lock();
        workers.dropped_objects = self.databases.dropped_objects();
        workers.zero = Some(Box::new(workers.totals()));
    }
}

impl Workers {
    fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for stats in &self.stats {
            stats.add_to(&mut totals);
        }
        totals
    }
}
