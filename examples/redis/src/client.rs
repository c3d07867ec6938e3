//! Connections: the state of each, and the registry of all open ones.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use imbl::OrdMap;
use parking_lot::Mutex;
use psp_protocols::resp::Version;
use psp_server::Peer;

use crate::blocking::BlockedClients;
use crate::command::CommandTable;
use crate::pubsub::{PubSub, Subscriber, TopicKind};
use crate::transaction::TransactionState;

/// The state of one connection.
#[derive(Debug)]
pub struct ClientInfo {
    /// The connection's number; never reused.
    pub id: u64,
    /// The other end of the connection.
    pub peer: Peer,
    connected_at: Instant,
    version: AtomicU8,
    authenticated: AtomicBool,
    blocked: AtomicBool,
    database: AtomicUsize,
    /// MULTI and WATCH.
    pub transaction: TransactionState,
    /// SUBSCRIBE and its relatives.
    pub subscriber: Subscriber,
    last_command: AtomicUsize,
    active_ms: AtomicU64,
    labels: Mutex<Labels>,
}

/// The names that a client gives itself and its library. Empty until the client sets them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// `CLIENT SETNAME`.
    pub name: String,
    /// `CLIENT SETINFO LIB-NAME`.
    pub lib_name: String,
    /// `CLIENT SETINFO LIB-VER`.
    pub lib_version: String,
}

impl ClientInfo {
    /// The protocol version in use.
    #[must_use]
    pub fn version(&self) -> Version {
        match self.version.load(Ordering::Relaxed) {
            3 => Version::Resp3,
            _ => Version::Resp2,
        }
    }

    /// Switches to another protocol version.
    pub fn set_version(&self, version: Version) {
        self.version
            .store(version_number(version), Ordering::Relaxed);
    }

    /// Whether the client gets messages that it could take for replies, so that it may run few commands.
    #[inline]
    #[must_use]
    pub fn is_in_subscribed_mode(&self) -> bool {
        self.subscriber.is_subscribed() && self.version() == Version::Resp2
    }

    /// Whether the client may run all commands.
    #[must_use]
    pub fn is_authenticated(&self) -> bool {
        self.authenticated.load(Ordering::Relaxed)
    }

    /// Sets whether the client may run all commands.
    pub fn set_authenticated(&self, authenticated: bool) {
        self.authenticated.store(authenticated, Ordering::Relaxed);
    }

    /// The number of the selected database.
    #[inline]
    #[must_use]
    pub fn database(&self) -> usize {
        self.database.load(Ordering::Relaxed)
    }

    /// Selects another database.
    pub(crate) fn set_database(&self, number: usize) {
        self.database.store(number, Ordering::Relaxed);
    }

    /// The number of the database in which the client's next command will run, as far as its transaction says.
    #[must_use]
    pub fn next_database(&self) -> usize {
        self.transaction
            .database()
            .unwrap_or_else(|| self.database())
    }

    /// Whether the client waits for a key.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed)
    }

    /// Sets whether the client waits for a key.
    pub(crate) fn set_blocked(&self, blocked: bool) {
        self.blocked.store(blocked, Ordering::Relaxed);
    }

    /// The client's names for itself and its library.
    #[must_use]
    pub fn labels(&self) -> Labels {
        self.labels.lock().clone()
    }

    /// Changes the labels.
    pub fn relabel(&self, change: impl FnOnce(&mut Labels)) {
        change(&mut self.labels.lock());
    }

    /// Records that the client runs the command with this index in the [`CommandTable`], at `now`.
    pub fn note_command(&self, index: usize, now: Instant) {
        let age = now.saturating_duration_since(self.connected_at).as_millis();
        self.last_command.store(index, Ordering::Relaxed);
        self.active_ms
            .store(u64::try_from(age).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The client's line in `CLIENT LIST`, without the line end. `unix` is the path of the server's Unix socket, which
    /// stands for the address of its clients, as in Redis.
    #[must_use]
    pub fn line(&self, unix: Option<&Path>) -> String {
        let age = self.connected_at.elapsed();
        let active_ms = u128::from(self.active_ms.load(Ordering::Relaxed));
        let idle_s = age.as_millis().saturating_sub(active_ms) / 1000;
        let specs = CommandTable::get().specs();
        let command = specs.get(self.last_command.load(Ordering::Relaxed));
        let labels = self.labels();
        let transaction = &self.transaction;
        let queued = transaction
            .queued()
            .map_or(-1, |queued| i64::try_from(queued).unwrap_or(i64::MAX));
        let (address, connection) = match self.peer.ip() {
            Some(address) => (address.to_string(), None),
            None => {
                let path = unix.map_or_else(|| "unix".into(), Path::to_string_lossy);
                (format!("{path}:0"), Some('U'))
            }
        };
        let subscriber = self.subscriber.is_subscribed().then_some('P');
        let flags = [self.is_blocked().then_some('b'), subscriber, connection];
        let mut flags: String = flags.into_iter().flatten().collect();
        if flags.is_empty() {
            flags.push('N');
        }
        let mut line = format!("id={} addr={address} ", self.id);
        // Writing to a String does not fail.
        let _ok = write!(
            line,
            "name={} age={} idle={idle_s} flags={flags} db={} sub={} psub={} ssub={} \
             multi={queued} watch={} cmd={} user=default lib-name={} lib-ver={} resp={}",
            labels.name,
            age.as_secs(),
            self.database(),
            self.subscriber.count(TopicKind::Channel),
            self.subscriber.count(TopicKind::Pattern),
            self.subscriber.count(TopicKind::Shard),
            transaction.watching(),
            command.map_or("NULL", |spec| spec.name),
            labels.lib_name,
            labels.lib_version,
            version_number(self.version()),
        );
        line
    }
}

/// The number of a version in HELLO.
#[must_use]
pub fn version_number(version: Version) -> u8 {
    match version {
        Version::Resp2 => 2,
        Version::Resp3 => 3,
    }
}

/// A connection. It leaves the [`Registry`] when it is dropped.
#[derive(Debug)]
pub struct Client {
    info: Arc<ClientInfo>,
    registry: Arc<Registry>,
}

impl std::ops::Deref for Client {
    type Target = ClientInfo;

    fn deref(&self) -> &ClientInfo {
        &self.info
    }
}

impl Client {
    /// What others may know of it.
    #[must_use]
    pub fn info(&self) -> &Arc<ClientInfo> {
        &self.info
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.info.is_blocked() {
            self.registry.blocked.forget(self.info.id);
        }
        if self.info.subscriber.is_subscribed() {
            PubSub::forget_gone(&self.registry.pubsub, &self.info);
        }
        self.registry.clients.lock().remove(&self.info.id);
    }
}

/// All open connections.
#[derive(Debug)]
pub struct Registry {
    /// Persistent, so that `CLIENT LIST` walks a snapshot and blocks no other request.
    clients: Mutex<OrdMap<u64, Arc<ClientInfo>>>,
    accepted: AtomicU64,
    /// Those that wait for a key.
    pub blocked: BlockedClients,
    /// What they are subscribed to.
    pub pubsub: Arc<PubSub>,
}

impl Registry {
    /// No connections yet.
    #[must_use]
    pub fn new(blocked: BlockedClients, pubsub: Arc<PubSub>) -> Self {
        Self {
            clients: Mutex::default(),
            accepted: AtomicU64::new(0),
            blocked,
            pubsub,
        }
    }

    /// Adds a connection.
    pub fn connect(self: &Arc<Self>, peer: Peer, authenticated: bool) -> Client {
        let id = self.accepted.fetch_add(1, Ordering::Relaxed) + 1;
        let info = Arc::new(ClientInfo {
            id,
            peer,
            connected_at: Instant::now(),
            version: AtomicU8::new(2),
            authenticated: AtomicBool::new(authenticated),
            blocked: AtomicBool::new(false),
            database: AtomicUsize::new(0),
            transaction: TransactionState::default(),
            subscriber: Subscriber::default(),
            last_command: AtomicUsize::new(usize::MAX),
            active_ms: AtomicU64::new(0),
            labels: Mutex::default(),
        });
        self.clients.lock().insert(id, Arc::clone(&info));
        Client {
            info,
            registry: Arc::clone(self),
        }
    }

    /// An open connection, by its id.
    #[must_use]
    pub fn find(&self, id: u64) -> Option<Arc<ClientInfo>> {
        self.clients.lock().get(&id).cloned()
    }

    /// All open connections, ordered by id.
    #[must_use]
    pub fn snapshot(&self) -> OrdMap<u64, Arc<ClientInfo>> {
        self.clients.lock().clone()
    }

    /// Number of open connections.
    #[must_use]
    pub fn len(&self) -> usize {
        self.clients.lock().len()
    }

    /// Whether no connection is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of connections ever accepted.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }
}
