//! Connections: the state of each, and the registry of all open ones.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use imbl::OrdMap;
use parking_lot::Mutex;
use psp_protocols::resp::Version;
use psp_server::{Closer, Peer, PushBatch};
use quanta::Instant;

use crate::acl::Account;
use crate::blocking::BlockedClients;
use crate::command::CommandTable;
use crate::monitors::Monitors;
use crate::parse;
use crate::pubsub::{Outlet, OutputLimit, PubSub, Sent, Subscriber, TopicKind};
use crate::tracking::{Mode, Tracking, TrackingState};
use crate::transaction::TransactionState;

/// The state of one connection.
pub struct ClientInfo {
    /// The connection's number; never reused.
    pub id: u64,
    /// The other end of the connection.
    pub peer: Peer,
    connected_at: Instant,
    version: AtomicU8,
    /// Which user it is.
    pub account: Arc<Account>,
    blocked: AtomicBool,
    /// It has written since the last replies.
    has_written: AtomicBool,
    database: AtomicUsize,
    /// Set by the first request.
    closer: OnceLock<Closer>,
    killed: AtomicBool,
    left: AtomicBool,
    replies: AtomicU8,
    no_evict: AtomicBool,
    no_touch: AtomicBool,
    monitor: AtomicBool,
    /// Where lines go if the client runs MONITOR.
    monitor_outlet: Mutex<Option<Box<dyn Outlet>>>,
    /// MULTI and WATCH.
    pub transaction: TransactionState,
    /// SUBSCRIBE and its relatives.
    pub subscriber: Subscriber,
    /// CLIENT TRACKING.
    pub tracking: TrackingState,
    last_command: AtomicUsize,
    active_s: AtomicU64,
    labels: Mutex<Labels>,
}

impl std::fmt::Debug for ClientInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientInfo")
            .field("id", &self.id)
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

/// Which replies a client wants: CLIENT REPLY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Replies {
    /// All of them.
    All,
    /// None.
    None,
    /// All but that of the next command.
    SkipNext,
    /// All but that of the command that runs.
    SkipThis,
}

impl Replies {
    const EACH: [Self; 4] = [Self::All, Self::None, Self::SkipNext, Self::SkipThis];
}

/// Kinds of clients, as CLIENT LIST and CLIENT KILL divide them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientKind {
    /// A client without subscriptions.
    Normal,
    /// A client with subscriptions.
    PubSub,
    /// A master or a replica, of which there are none.
    Replication,
}

impl ClientKind {
    /// The kind of this name.
    #[must_use]
    pub fn named(name: &[u8]) -> Option<Self> {
        const NAMES: [(&str, ClientKind); 5] = [
            ("normal", ClientKind::Normal),
            ("pubsub", ClientKind::PubSub),
            ("master", ClientKind::Replication),
            ("replica", ClientKind::Replication),
            ("slave", ClientKind::Replication),
        ];
        let found = NAMES.iter().find(|(known, _)| parse::is(name, known));
        found.map(|(_, kind)| *kind)
    }
}

/// What the server knows of all clients' addresses.
#[derive(Debug, Clone, Default)]
pub struct LocalAddresses {
    /// The path of the server's Unix socket, which stands for the address of its clients, as in Redis.
    pub unix: Option<String>,
    /// Where the server listens for others.
    pub ip: Vec<SocketAddr>,
}

impl LocalAddresses {
    /// The addresses of a client and of the server's end of the connection.
    #[must_use]
    pub fn of(&self, peer: &Peer) -> (String, String) {
        match peer.ip() {
            Some(address) => {
                let same = self.ip.iter().find(|it| it.is_ipv4() == address.is_ipv4());
                let local = same.or(self.ip.first());
                (address.to_string(), local.map_or_else(String::new, SocketAddr::to_string))
            }
            None => {
                let path = format!("{}:0", self.unix.as_deref().unwrap_or("unix"));
                (path.clone(), path)
            }
        }
    }
}

/// What the request that a client runs takes.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestBytes {
    /// Its bytes as a frame.
    pub frame: usize,
    /// Those of its arguments.
    pub arguments: usize,
}

impl RequestBytes {
    /// Of a request with these arguments.
    #[must_use]
    pub fn of(args: &[&[u8]]) -> Self {
        let digits = |number: usize| number.checked_ilog10().map_or(1, |log| log as usize + 1);
        let line = |number| 3 + digits(number);
        let frames = args.iter().map(|arg| line(arg.len()) + arg.len() + 2);
        Self {
            frame: line(args.len()) + frames.sum::<usize>(),
            arguments: args.iter().map(|arg| arg.len()).sum(),
        }
    }
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
    /// A command may have changed something that is logged.
    pub fn note_write(&self) {
        self.has_written.store(true, Ordering::Relaxed);
    }

    /// Whether one has since the last call.
    pub fn take_written(&self) -> bool {
        self.has_written.load(Ordering::Relaxed) && self.has_written.swap(false, Ordering::Relaxed)
    }

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
        self.version.store(version_number(version), Ordering::Relaxed);
    }

    /// Whether the client gets messages that it could take for replies, so that it may run few commands.
    #[inline]
    #[must_use]
    pub fn is_in_subscribed_mode(&self) -> bool {
        self.subscriber.is_subscribed() && self.version() == Version::Resp2
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
        self.transaction.database().unwrap_or_else(|| self.database())
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

    /// How long the client has been connected.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.connected_at.elapsed()
    }

    /// Records that the client runs the entry with this index in the [`CommandTable`], at `now`.
    pub fn note_command(&self, index: usize, now: Instant) {
        let age = now.saturating_duration_since(self.connected_at);
        self.last_command.store(index, Ordering::Relaxed);
        self.active_s.store(age.as_secs(), Ordering::Relaxed);
    }

    /// What closes the connection; its first request sets it. Returns whether the connection was killed before.
    pub fn set_closer(&self, closer: impl FnOnce() -> Option<Closer>) -> bool {
        if let Some(closer) = closer() {
            let _ = self.closer.set(closer);
        }
        self.killed.load(Ordering::SeqCst)
    }

    /// Whether it is known how to close the connection.
    #[inline]
    #[must_use]
    pub fn has_closer(&self) -> bool {
        self.closer.get().is_some()
    }

    /// Sends a message that belongs to no subscription.
    pub(crate) fn push(&self, message: Bytes, batch: &mut PushBatch, limit: &OutputLimit) -> Sent {
        let outlet = || Some(Box::new(self.closer.get()?.pusher()?) as Box<dyn Outlet>);
        self.subscriber.push(message, outlet, batch, limit)
    }

    /// Whether no peer reads what is sent to the client.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.left.load(Ordering::SeqCst)
    }

    /// Closes the connection, or lets its first request close it.
    fn kill(&self) {
        self.killed.store(true, Ordering::SeqCst);
        if let Some(closer) = self.closer.get() {
            closer.close();
        }
    }

    /// Whether the client wants all replies.
    #[inline]
    #[must_use]
    pub fn wants_all_replies(&self) -> bool {
        self.replies.load(Ordering::Relaxed) == Replies::All as u8
    }

    /// Which replies the client wants.
    #[must_use]
    pub fn replies(&self) -> Replies {
        let number = self.replies.load(Ordering::Relaxed);
        let mut each = Replies::EACH.into_iter();
        each.find(|it| *it as u8 == number).unwrap_or(Replies::All)
    }

    /// Sets which replies the client wants.
    pub fn set_replies(&self, replies: Replies) {
        self.replies.store(replies as u8, Ordering::Relaxed);
    }

    /// A request of the client has ended: what CLIENT REPLY SKIP skips is skipped.
    #[inline]
    pub fn end_of_request(&self) {
        if self.replies.load(Ordering::Relaxed) == Replies::SkipThis as u8 {
            self.set_replies(Replies::All);
        }
    }

    /// Whether the client is a monitor.
    #[must_use]
    pub fn is_monitor(&self) -> bool {
        self.monitor.load(Ordering::Relaxed)
    }

    /// Sets whether the client is a monitor.
    pub(crate) fn set_monitor(&self, monitor: bool) {
        self.monitor.store(monitor, Ordering::Relaxed);
    }

    /// Says where lines go if the client is about to run MONITOR.
    pub fn offer_outlet(&self, outlet: Option<Box<dyn Outlet>>) {
        *self.monitor_outlet.lock() = outlet;
    }

    /// Where lines go.
    pub(crate) fn take_outlet(&self) -> Option<Box<dyn Outlet>> {
        self.monitor_outlet.lock().take()
    }

    /// CLIENT NO-EVICT. The server evicts no client.
    pub fn set_no_evict(&self, no_evict: bool) {
        self.no_evict.store(no_evict, Ordering::Relaxed);
    }

    /// CLIENT NO-TOUCH: its commands leave keys as recently and as often used as they were.
    pub fn set_no_touch(&self, no_touch: bool) {
        self.no_touch.store(no_touch, Ordering::Relaxed);
    }

    /// Whether its commands do not count as uses of their keys.
    #[inline]
    #[must_use]
    pub fn is_no_touch(&self) -> bool {
        self.no_touch.load(Ordering::Relaxed)
    }

    /// The kind of the client.
    #[must_use]
    pub fn kind(&self) -> ClientKind {
        if self.subscriber.is_subscribed() {
            ClientKind::PubSub
        } else {
            ClientKind::Normal
        }
    }

    fn flags(&self) -> String {
        let is_in_transaction = self.transaction.queued().is_some();
        let tracking = self.tracking.modes();
        let flags = [
            (self.is_monitor(), 'O'),
            (self.subscriber.is_subscribed(), 'P'),
            (is_in_transaction, 'x'),
            (self.is_blocked(), 'b'),
            (tracking.has(Mode::On), 't'),
            (tracking.has(Mode::BrokenRedirect), 'R'),
            (tracking.has(Mode::Broadcast), 'B'),
            (self.peer.ip().is_none(), 'U'),
            (self.no_evict.load(Ordering::Relaxed), 'e'),
            (self.is_no_touch(), 'T'),
        ];
        let set: String = flags.iter().filter_map(|(is_set, flag)| is_set.then_some(flag)).collect();
        if set.is_empty() { "N".to_owned() } else { set }
    }

    /// The client's line in `CLIENT LIST`, without the line end. `request` is what its request takes that runs now.
    #[must_use]
    pub fn line(&self, local: &LocalAddresses, request: RequestBytes) -> String {
        let age = self.age();
        let active_s = self.active_s.load(Ordering::Relaxed);
        let idle_s = age.as_secs().saturating_sub(active_s);
        let command = CommandTable::get().entry(self.last_command.load(Ordering::Relaxed));
        let labels = self.labels();
        let transaction = &self.transaction;
        let queued = transaction.queued().map_or(-1, |queued| i64::try_from(queued).unwrap_or(i64::MAX));
        let (address, local_address) = local.of(&self.peer);
        let (queued_bytes, pushed_bytes) = (transaction.bytes(), self.subscriber.queued_bytes());
        let total_bytes = size_of::<Self>() + request.frame + queued_bytes + pushed_bytes;
        let mut line = format!("id={} addr={address} laddr={local_address} fd=-1 ", self.id);
        // Writing to a String does not fail.
        let _ok = write!(
            line,
            "name={} age={} idle={idle_s} flags={} db={} sub={} psub={} ssub={} multi={queued} watch={} \
             qbuf={} qbuf-free=0 argv-mem={} multi-mem={queued_bytes} rbs=0 rbp=0 obl=0 oll={} omem={pushed_bytes} \
             tot-mem={total_bytes} events=r cmd={} user={} redir={} resp={} lib-name={} lib-ver={}",
            labels.name,
            age.as_secs(),
            self.flags(),
            self.database(),
            self.subscriber.count(TopicKind::Channel),
            self.subscriber.count(TopicKind::Pattern),
            self.subscriber.count(TopicKind::Shard),
            transaction.watching(),
            request.frame,
            request.arguments,
            usize::from(pushed_bytes > 0),
            command.map_or("NULL", |entry| entry.name()),
            String::from_utf8_lossy(self.account.user().name()),
            self.tracking.redirect_id(),
            version_number(self.version()),
            labels.lib_name,
            labels.lib_version,
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
        self.registry.leave(&self.info);
        if self.info.is_blocked() {
            self.registry.blocked.forget(self.info.id);
        }
        if self.info.is_monitor() {
            self.registry.monitors.remove(&self.info);
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
    /// What they keep copies of.
    pub tracking: Arc<Tracking>,
    /// Those that see all commands.
    pub monitors: Monitors,
}

impl Registry {
    /// No connections yet.
    #[must_use]
    pub fn new(blocked: BlockedClients, pubsub: Arc<PubSub>, tracking: Arc<Tracking>) -> Self {
        Self {
            clients: Mutex::default(),
            accepted: AtomicU64::new(0),
            blocked,
            pubsub,
            tracking,
            monitors: Monitors::default(),
        }
    }

    /// Adds a connection.
    pub fn connect(self: &Arc<Self>, peer: Peer, account: Account) -> Client {
        let id = self.accepted.fetch_add(1, Ordering::Relaxed) + 1;
        let info = Arc::new(ClientInfo {
            id,
            peer,
            connected_at: Instant::now(),
            version: AtomicU8::new(2),
            account: Arc::new(account),
            blocked: AtomicBool::new(false),
            has_written: AtomicBool::new(false),
            database: AtomicUsize::new(0),
            closer: OnceLock::new(),
            killed: AtomicBool::new(false),
            left: AtomicBool::new(false),
            replies: AtomicU8::new(Replies::All as u8),
            no_evict: AtomicBool::new(false),
            no_touch: AtomicBool::new(false),
            monitor: AtomicBool::new(false),
            monitor_outlet: Mutex::default(),
            transaction: TransactionState::default(),
            subscriber: Subscriber::default(),
            tracking: TrackingState::default(),
            last_command: AtomicUsize::new(usize::MAX),
            active_s: AtomicU64::new(0),
            labels: Mutex::default(),
        });
        self.clients.lock().insert(id, Arc::clone(&info));
        Client { info, registry: Arc::clone(self) }
    }

    /// Sends a line to the monitors, within the limit of subscribers.
    pub fn show(&self, line: &Bytes) {
        let closed = self.monitors.send(line, &self.pubsub.limit());
        self.pubsub.count_closed(closed);
    }

    /// A connection closes, or is closed: no peer reads what is sent to it.
    pub fn leave(&self, client: &Arc<ClientInfo>) {
        client.left.store(true, Ordering::SeqCst);
        self.tracking.forget_gone(client);
    }

    /// Closes a connection. It is none of the open ones from now on.
    pub fn kill(&self, client: &Arc<ClientInfo>) {
        self.leave(client);
        self.clients.lock().remove(&client.id);
        client.kill();
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
