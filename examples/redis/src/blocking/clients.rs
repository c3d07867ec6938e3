//! The clients that wait, in order, and how they are served.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::{Condvar, Mutex, MutexGuard};
use psp_protocols::Sink;
use psp_protocols::resp::Encoder;
use psp_server::ServerHandle;
use psp_store::{Databases, Keyspace, ReadyKey};

use super::delivery::{Deliveries, Delivery};
use super::{Blocking, LateReply, Line, Sharing, held_at};
use crate::client::ClientInfo;
use crate::command::Context;
use crate::state::ServerState;
use crate::stats::WorkerStats;
use crate::tracking::LateChanges;
use crate::transcript::Transcript;

/// Memory that all waiting commands may hold for their keys, in bytes.
const HELD_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Clients that are served, or whose waits end, before other threads have a turn.
const CLIENTS_PER_TURN: usize = 32;
/// How often the timer thread looks whether the server still runs, while clients wait.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// How a client stops waiting without an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unblocked {
    /// It gets the reply of a timeout.
    TimedOut,
    /// It gets an error, as `CLIENT UNBLOCK` wants it.
    ByError,
    /// It gets an error, because the server stops.
    Stopped,
    /// It gets an error, because those who wait hold too much memory.
    Refused,
}

impl Unblocked {
    const fn error(self) -> Option<&'static str> {
        match self {
            Self::TimedOut => None,
            Self::ByError => Some("UNBLOCKED client unblocked via CLIENT UNBLOCK"),
            Self::Stopped => Some("UNBLOCKED the server is shutting down"),
            Self::Refused => Some("BUSY clients wait for too many keys"),
        }
    }
}

/// All clients that wait.
#[derive(Debug)]
pub struct BlockedClients {
    databases: Arc<Databases>,
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: Mutex<Waiting>,
    /// The timer thread has something to do before the time for which it waits.
    changed: Condvar,
}

/// In the order of the numbers, clients are served.
#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    clients: BTreeMap<u64, Blocked>,
    /// By the number of the database, and the key.
    by_key: HashMap<usize, HashMap<Box<[u8]>, Vec<Queue>>>,
    /// The number of a client's wait, by the client's id.
    by_client: HashMap<u64, u64>,
    deadlines: BTreeSet<(Instant, u64)>,
    /// Until when the timer thread waits; `None` while no client needs it.
    timer_until: Option<Instant>,
    /// What the commands hold.
    held_bytes: usize,
    /// The server, once somebody has waited.
    runtime: Option<ServerHandle>,
    /// No client will wait any more.
    is_over: bool,
}

/// Those who wait in one line at one key. Never empty.
#[derive(Debug)]
struct Queue {
    line: Line,
    numbers: BTreeSet<u64>,
}

/// A client that waits.
struct Blocked {
    command: Blocking,
    /// The number of the database of its keys, which is the client's for as long as it waits.
    database: usize,
    client: Arc<ClientInfo>,
    reply: Box<dyn LateReply>,
}

impl std::fmt::Debug for Blocked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blocked")
            .field("client", &self.client.id)
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}

impl Blocked {
    /// Ends the wait without an element.
    fn end(self, end: Unblocked) {
        let Self { command, client, mut reply, .. } = self;
        {
            let out: &mut dyn Sink = &mut *reply;
            let mut out = Encoder::new(out, client.version());
            match end.error() {
                None => (command.timed_out)(&mut out),
                Some(error) => out.error(error),
            }
        }
        reply.finish();
    }
}

impl BlockedClients {
    /// None yet. Clients will wait for keys of `databases`. Starts the thread that ends waits.
    #[must_use]
    pub fn new(databases: Arc<Databases>) -> Self {
        let inner = Arc::<Inner>::default();
        let (served, keys) = (Arc::clone(&inner), Arc::clone(&databases));
        let spawned = thread::Builder::new()
            .name("psp-blocked".to_owned())
            .spawn(move || end_waits(&served, &keys));
        if let Err(error) = spawned {
            tracing::error!(%error, "no thread for timeouts: blocked clients wait for ever");
        }
        Self { databases, inner }
    }

    /// Number of clients that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.waiting.lock().clients.len()
    }

    /// Number of clients whose wait has an end.
    #[must_use]
    pub fn timed(&self) -> usize {
        self.inner.waiting.lock().deadlines.len()
    }

    /// Number of keys for which clients wait.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.inner.waiting.lock().by_key.values().map(HashMap::len).sum()
    }

    /// Whether no client waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lets `client` wait, unless it has left. If an element came after its command looked for one, it is served at
    /// once, unless others wait for it, too.
    pub fn wait(
        &self,
        server: &ServerState,
        stats: &WorkerStats,
        client: &Arc<ClientInfo>,
        command: Blocking,
        reply: Box<dyn LateReply>,
    ) {
        let blocked = Blocked {
            command,
            database: client.database(),
            client: Arc::clone(client),
            reply,
        };
        if blocked.reply.is_abandoned() {
            return blocked.reply.discard();
        }
        psp_server::no_preempt(|| {
            let mut deliveries = Deliveries::of(server);
            let mut waiting = self.inner.waiting.lock();
            if waiting.runtime.is_none() {
                waiting.runtime = server.runtime.get().cloned();
            }
            if waiting.is_stopping() {
                return blocked.end(Unblocked::Stopped);
            }
            if waiting.held_bytes + blocked.command.held_bytes() > HELD_BYTES_MAX {
                return blocked.end(Unblocked::Refused);
            }
            if waiting.needs_timer(blocked.command.deadline) {
                self.inner.changed.notify_one();
            }
            waiting.last += 1;
            let number = waiting.last;
            waiting.add(&self.databases, number, blocked);
            if self.databases.has_ready() {
                serve(&mut waiting, &mut deliveries, server, stats);
            }
            deliveries.extend(waiting.serve_newcomer(number, server, stats));
            drop(waiting);
            deliveries.send();
        });
    }

    /// Serves those who wait for keys that have been stored. Every command that may store one calls this when it has
    /// ended.
    #[inline]
    pub fn serve(&self, server: &ServerState, stats: &WorkerStats) {
        if self.databases.has_ready() {
            // Another request of this worker could need the lock.
            psp_server::no_preempt(|| {
                let mut deliveries = Deliveries::of(server);
                serve(&mut self.inner.waiting.lock(), &mut deliveries, server, stats);
                deliveries.send();
            });
        }
    }

    /// Whether clients wait in this line at a key.
    pub(super) fn has_line(&self, database: usize, key: &[u8], line: &Line) -> bool {
        psp_server::no_preempt(|| {
            let waiting = self.inner.waiting.lock();
            let by_key = waiting.by_key.get(&database);
            let queues = by_key.and_then(|by_key| by_key.get(key));
            queues.is_some_and(|queues| queues.iter().any(|queue| queue.line == *line))
        })
    }

    /// `CLIENT UNBLOCK`: whether the client waited.
    pub fn unblock(&self, client: u64, end: Unblocked) -> bool {
        let blocked = self.remove(client);
        blocked.map(|blocked| blocked.end(end)).is_some()
    }

    /// Forgets a client whose connection is gone.
    pub fn forget(&self, client: u64) {
        drop(self.remove(client));
    }

    /// The wait of a client, by the client's id, which waits no longer.
    fn remove(&self, client: u64) -> Option<Blocked> {
        psp_server::no_preempt(|| {
            let mut waiting = self.inner.waiting.lock();
            let number = waiting.by_client.get(&client).copied()?;
            waiting.remove(&self.databases, number)
        })
    }
}

impl Drop for BlockedClients {
    fn drop(&mut self) {
        self.inner.waiting.lock().is_over = true;
        self.inner.changed.notify_one();
    }
}

/// Ready keys whose clients are being served. They count as served in the end, even if a command panics.
struct Served<'a>(&'a Databases, usize);

impl Drop for Served<'_> {
    fn drop(&mut self) {
        self.0.served(self.1);
    }
}

/// What the timer thread does, until the server is gone.
fn end_waits(inner: &Inner, databases: &Databases) {
    let mut waiting = inner.waiting.lock();
    let mut ended = 0_usize;
    while !waiting.is_over {
        let now = Instant::now();
        if let Some((number, end)) = waiting.next_to_end(now) {
            if let Some(blocked) = waiting.remove(databases, number) {
                blocked.end(end);
            }
            ended += 1;
            if ended.is_multiple_of(CLIENTS_PER_TURN) {
                MutexGuard::bump(&mut waiting);
            }
        } else if waiting.clients.is_empty() {
            waiting.timer_until = None;
            inner.changed.wait(&mut waiting);
        } else {
            let check = now + STOP_CHECK_INTERVAL;
            let first = waiting.deadlines.first();
            let until = first.map_or(check, |(deadline, _)| check.min(*deadline));
            waiting.timer_until = Some(until);
            inner.changed.wait_until(&mut waiting, until);
        }
    }
}

/// Serves clients until no awaited key is ready. A client that moves an element makes another key ready.
fn serve(
    waiting: &mut MutexGuard<'_, Waiting>,
    deliveries: &mut Deliveries,
    server: &ServerState,
    stats: &WorkerStats,
) {
    let mut clients = 0_usize;
    loop {
        let ready = server.databases.take_ready();
        if ready.is_empty() {
            break;
        }
        let _served = Served(&server.databases, ready.len());
        for ReadyKey { database, key } in &ready {
            let store = server.databases.get(*database);
            let (mut from, mut done) = (0, Vec::new());
            while let Some(number) = waiting.next_for(store, key, from, &done) {
                from = number + 1;
                let delivery = waiting.serve_client(number, key, server, stats);
                done.extend(waiting.line_without_share(number));
                deliveries.extend(delivery);
                clients += 1;
                if clients.is_multiple_of(CLIENTS_PER_TURN) {
                    MutexGuard::unlocked_fair(waiting, || deliveries.send());
                }
            }
        }
    }
}

impl Waiting {
    fn is_stopping(&self) -> bool {
        let runtime = self.runtime.as_ref();
        runtime.is_some_and(ServerHandle::is_stopping)
    }

    /// Whether the timer thread waits for too long for a wait that ends at `deadline`.
    fn needs_timer(&self, deadline: Option<Instant>) -> bool {
        self.timer_until.is_none_or(|until| deadline.is_some_and(|deadline| deadline < until))
    }

    /// Lets a client wait at its place. Keys that hold something to take are ready.
    fn add(&mut self, databases: &Databases, number: u64, blocked: Blocked) {
        let line = &blocked.command.line;
        let store = databases.get(blocked.database);
        let by_key = self.by_key.entry(blocked.database).or_default();
        for key in &blocked.command.keys {
            store.await_key(key, line.awaits());
            if line.sharing == Sharing::Taken && store.peek(key, |entry| entry.is_some()) {
                store.make_ready(key);
            }
            let queues = by_key.entry(key.clone()).or_default();
            match queues.iter_mut().find(|queue| queue.line == *line) {
                Some(queue) => drop(queue.numbers.insert(number)),
                None => queues.push(Queue { line: line.clone(), numbers: BTreeSet::from([number]) }),
            }
        }
        let deadline = blocked.command.deadline;
        self.deadlines.extend(deadline.map(|deadline| (deadline, number)));
        self.held_bytes += blocked.command.held_bytes();
        self.by_client.insert(blocked.client.id, number);
        blocked.client.set_blocked(true);
        self.clients.insert(number, blocked);
    }

    fn remove(&mut self, databases: &Databases, number: u64) -> Option<Blocked> {
        let blocked = self.clients.remove(&number)?;
        let store = databases.get(blocked.database);
        let by_key = self.by_key.entry(blocked.database).or_default();
        for key in &blocked.command.keys {
            store.stop_awaiting(key, blocked.command.line.awaits());
            if let Some(queues) = by_key.get_mut(key) {
                queues.retain_mut(|queue| {
                    queue.numbers.remove(&number);
                    !queue.numbers.is_empty()
                });
                if queues.is_empty() {
                    by_key.remove(key);
                }
            }
        }
        let deadline = blocked.command.deadline;
        if let Some(deadline) = deadline {
            self.deadlines.remove(&(deadline, number));
        }
        self.held_bytes -= blocked.command.held_bytes();
        self.by_client.remove(&blocked.client.id);
        blocked.client.set_blocked(false);
        Some(blocked)
    }

    /// A client whose wait ends by now without an element, and how.
    fn next_to_end(&self, now: Instant) -> Option<(u64, Unblocked)> {
        if self.is_stopping() {
            let first = self.clients.first_key_value();
            return first.map(|(&number, _)| (number, Unblocked::Stopped));
        }
        let &(deadline, number) = self.deadlines.first()?;
        (deadline <= now).then_some((number, Unblocked::TimedOut))
    }

    /// The first client from number `from` on that has to look at the key, unless its line is `done`.
    fn next_for(&self, store: &Keyspace, key: &[u8], from: u64, done: &[Line]) -> Option<u64> {
        let held = held_at(store, key);
        let queues = self.by_key.get(&store.number())?.get(key)?.iter();
        let queues = queues.filter(|queue| queue.line.looks_at(held) && !done.contains(&queue.line));
        let numbers = queues.filter_map(|queue| queue.numbers.range(from..).next().copied());
        numbers.min()
    }

    /// The line of a client that still waits, if the others in it then get nothing, too.
    fn line_without_share(&self, number: u64) -> Option<Line> {
        let line = &self.clients.get(&number)?.command.line;
        matches!(line.sharing, Sharing::Group(_)).then(|| line.clone())
    }

    /// Serves a client that has begun to wait with what came since its command looked, unless others may take it.
    fn serve_newcomer(&mut self, number: u64, server: &ServerState, stats: &WorkerStats) -> Option<Delivery> {
        let Blocked { command, database, .. } = self.clients.get(&number)?;
        let store = server.databases.get(*database);
        if command.line.sharing == Sharing::Taken {
            return None;
        }
        let keys = command.keys.iter();
        let keys = keys.filter(|key| command.line.looks_at(held_at(store, key)));
        let keys: Vec<_> = keys.cloned().collect();
        keys.iter().find_map(|key| self.serve_client(number, key, server, stats))
    }

    /// Serves a client with what the key holds, if that is still there. The client does not wait meanwhile: should its
    /// command panic, it gets an error.
    fn serve_client(&mut self, number: u64, key: &[u8], server: &ServerState, stats: &WorkerStats) -> Option<Delivery> {
        let blocked = self.remove(&server.databases, number)?;
        if blocked.reply.is_abandoned() {
            blocked.reply.discard();
            return None;
        }
        let context = Context::of_waiting(server, &blocked.client, stats);
        let version = blocked.client.version();
        let mut text = Transcript::new(usize::MAX);
        let out: &mut dyn Sink = &mut text;
        let mut out = Encoder::new(out, version);
        let started = Instant::now();
        let attempted = blocked.command.attempt(&context, key, &mut out);
        if let Ok(false) = attempted {
            self.add(&server.databases, number, blocked);
            return None;
        }
        let error = attempted.err();
        if let Some(error) = &error {
            out.error(&error.to_string());
        }
        let served = blocked.command.sent.as_ref().and_then(|sent| {
            let (who, args) = ((&*blocked.client, stats), &sent.args());
            let busy = [sent.busy, started.elapsed()];
            let records = &server.records;
            records.waited(who, sent.entry, args, busy, error.as_ref());
            LateChanges::of(&server.clients.tracking, &blocked.client, sent.spec, args)
        });
        Some(Delivery { reply: blocked.reply, version, text, served })
    }
}
