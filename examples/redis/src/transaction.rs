//! A client's transaction: the commands between MULTI and EXEC, and the keys of WATCH.
//!
//! ```text
//!   MULTI ──► commands are queued ──► EXEC: all of them on a fork of the keyspace, one commit
//!   WATCH key ─ the key's entry ────────────────────────► still the same, or nothing runs
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use psp_server::{Body, RequestType};
use psp_store::{Databases, Keyspace, Watched};
use smallvec::SmallVec;

use crate::error::CommandError;
use crate::parse::Result;
use crate::size_class;

/// Commands that run between MULTI and EXEC, rather than being queued.
const RUN_AT_ONCE: &[&str] = &["discard", "exec", "multi", "quit", "reset", "watch"];

/// Most keys that a client may watch.
const WATCHED_MAX: usize = 1 << 20;

/// Stands for no transaction in [`TransactionState::queued`].
const NONE: usize = usize::MAX;

/// The transaction of one connection. Only its own requests change it.
#[derive(Debug)]
pub struct TransactionState {
    /// Number of queued commands, for others to read; [`NONE`] without MULTI.
    queued: AtomicUsize,
    watching: AtomicUsize,
    /// The database that the last queued SELECT names; [`NONE`] without one.
    database: AtomicUsize,
    bytes: AtomicUsize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    queue: Queue,
    watched: Vec<Watched>,
}

/// The commands of a transaction.
#[derive(Debug, Default)]
struct Queue {
    commands: Vec<QueuedCommand>,
    bytes: usize,
    /// The longest type of a command; `None` without commands.
    longest: Option<RequestType>,
    /// A command could not be queued, so EXEC runs none of them.
    failed: bool,
    /// CLIENT PAUSE WRITE holds one of the commands.
    is_held_by_pause: bool,
}

/// A command that EXEC runs.
#[derive(Debug)]
pub struct QueuedCommand {
    /// Its index in the [`CommandTable`](crate::command::CommandTable).
    pub index: usize,
    /// All arguments but the kept one, one after the other.
    bytes: Box<[u8]>,
    /// The one that was too long to be copied, and its index.
    kept: Option<(usize, Bytes)>,
    /// Where each argument ends.
    ends: SmallVec<[usize; 4]>,
}

impl QueuedCommand {
    fn new(index: usize, args: &[&[u8]], body: Body<'_>) -> Self {
        let mut places = args.iter().enumerate();
        let kept = places.find_map(|(place, arg)| Some((place, body.keep(arg)?)));
        let mut args: SmallVec<[&[u8]; 8]> = SmallVec::from_slice(args);
        if let Some((place, _)) = kept {
            args[place] = &[];
        }
        let ends = args.iter().scan(0, |end, arg| {
            *end += arg.len();
            Some(*end)
        });
        Self {
            index,
            ends: ends.collect(),
            bytes: args.concat().into(),
            kept,
        }
    }

    /// What may be kept of the arguments.
    pub fn body(&self) -> Body<'_> {
        Body::new(self.kept.as_ref().map(|(_, bytes)| bytes))
    }

    /// The arguments, the name first.
    pub fn args(&self) -> SmallVec<[&[u8]; 8]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        let ranges = starts.zip(&self.ends);
        let args = ranges.map(|(start, end)| &self.bytes[*start..*end]);
        let mut args: SmallVec<[&[u8]; 8]> = args.collect();
        if let Some((place, bytes)) = &self.kept {
            args[*place] = bytes;
        }
        args
    }
}

/// What EXEC runs.
#[derive(Debug)]
pub struct Transaction {
    /// The commands, in order.
    pub commands: Vec<QueuedCommand>,
    /// What must not have changed.
    pub watched: Vec<Watched>,
    /// A command could not be queued.
    pub failed: bool,
}

impl Default for TransactionState {
    fn default() -> Self {
        Self {
            queued: AtomicUsize::new(NONE),
            watching: AtomicUsize::new(0),
            database: AtomicUsize::new(NONE),
            bytes: AtomicUsize::new(0),
            inner: Mutex::default(),
        }
    }
}

impl TransactionState {
    /// Number of queued commands; `None` without MULTI.
    #[inline]
    #[must_use]
    pub fn queued(&self) -> Option<usize> {
        let queued = self.queued.load(Ordering::Relaxed);
        (queued != NONE).then_some(queued)
    }

    /// Number of watched keys.
    #[must_use]
    pub fn watching(&self) -> usize {
        self.watching.load(Ordering::Relaxed)
    }

    /// Bytes of the queued commands.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether EXEC now would run a command that CLIENT PAUSE WRITE holds.
    #[must_use]
    pub fn is_held_by_pause(&self) -> bool {
        self.inner.lock().queue.is_held_by_pause
    }

    /// Whether the command of this name is queued rather than run.
    #[inline]
    #[must_use]
    pub fn queues(&self, name: &str) -> bool {
        self.queued().is_some() && !RUN_AT_ONCE.contains(&name)
    }

    /// MULTI.
    ///
    /// # Errors
    /// The client sent MULTI before.
    pub fn begin(&self) -> Result<()> {
        if self.queued().is_some() {
            return Err(CommandError::line("ERR MULTI calls can not be nested"));
        }
        self.inner.lock().queue = Queue::default();
        self.queued.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// The type of EXEC now, by the number and the types of the queued commands.
    #[must_use]
    pub fn request_type(&self) -> Option<RequestType> {
        let count = self.queued()?;
        let longest = self.inner.lock().queue.longest?;
        Some(size_class::of_transaction(count, longest))
    }

    /// The number of the database in which the next queued command will run; `None` if that is the client's.
    #[must_use]
    pub fn database(&self) -> Option<usize> {
        let number = self.database.load(Ordering::Relaxed);
        (number != NONE).then_some(number)
    }

    /// A SELECT was queued for the database of this number, which exists.
    pub fn note_select(&self, database: usize) {
        self.database.store(database, Ordering::Relaxed);
    }

    /// Adds a command that is of `request_type`. All arguments together may have up to `bytes_max`. `is_held_by_pause`:
    /// CLIENT PAUSE WRITE holds it.
    ///
    /// # Errors
    /// They have more. The transaction has failed.
    pub fn queue(
        &self,
        index: usize,
        (args, body): (&[&[u8]], Body<'_>),
        request_type: RequestType,
        bytes_max: usize,
        is_held_by_pause: bool,
    ) -> Result<()> {
        let queue = &mut self.inner.lock().queue;
        let len: usize = args.iter().map(|arg| arg.len()).sum();
        queue.bytes = queue.bytes.saturating_add(len + size_of::<QueuedCommand>());
        if queue.bytes > bytes_max {
            *queue = Queue { failed: true, bytes: queue.bytes, ..Queue::default() };
            return Err(CommandError::line("ERR the commands of the transaction are longer than request-len-max"));
        }
        if !queue.failed {
            queue.commands.push(QueuedCommand::new(index, args, body));
            queue.longest = queue.longest.max(Some(request_type));
            queue.is_held_by_pause |= is_held_by_pause;
            self.bytes.store(queue.bytes, Ordering::Relaxed);
        }
        self.queued.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Records that a command was refused. If there is a transaction, EXEC will run nothing.
    pub fn fail(&self) {
        if self.queued().is_some() {
            let queue = &mut self.inner.lock().queue;
            queue.failed = true;
            queue.commands.clear();
        }
    }

    /// Whether one of the queued commands is `long`, which gets its index and its arguments.
    pub fn has_queued(&self, mut long: impl FnMut(usize, &[&[u8]]) -> bool) -> bool {
        let inner = self.inner.lock();
        let mut commands = inner.queue.commands.iter();
        commands.any(|command| long(command.index, &command.args()))
    }

    /// Ends the transaction, for EXEC and DISCARD. No keys are watched any more. `None` without MULTI.
    pub fn take(&self) -> Option<Transaction> {
        self.queued()?;
        let Inner { queue, watched } = std::mem::take(&mut *self.inner.lock());
        self.queued.store(NONE, Ordering::Relaxed);
        self.watching.store(0, Ordering::Relaxed);
        self.database.store(NONE, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        Some(Transaction { commands: queue.commands, watched, failed: queue.failed })
    }

    /// WATCH. A key that is watched already stays as it was. Calls `pace` for each key.
    ///
    /// # Errors
    /// The client watches too many keys, or sent MULTI before.
    pub fn watch(&self, store: &Keyspace, keys: &[&[u8]], pace: &dyn Fn()) -> Result<()> {
        if self.queued().is_some() {
            return Err(CommandError::line("ERR WATCH inside MULTI is not allowed"));
        }
        if self.watching() + keys.len() > WATCHED_MAX {
            return Err(CommandError::line("ERR too many watched keys"));
        }
        let keys = keys.iter().inspect(|_| pace());
        let mut watched: Vec<Watched> = keys.map(|key| store.watch(key)).collect();
        let all = &mut self.inner.lock().watched;
        all.append(&mut watched);
        self.watching.store(all.len(), Ordering::Relaxed);
        Ok(())
    }

    /// UNWATCH. Returns the keys, which may be many to drop.
    pub fn unwatch(&self) -> Vec<Watched> {
        self.watching.store(0, Ordering::Relaxed);
        std::mem::take(&mut self.inner.lock().watched)
    }

    /// Forgets everything, for RESET.
    pub fn reset(&self) {
        let _transaction = self.take();
        self.unwatch();
    }

    /// Runs `run` on a fork of `databases` and stores the outcome, unless a watched key has changed.
    pub fn commit<R>(
        databases: &Arc<Databases>,
        watched: &[Watched],
        mut run: impl FnMut(&Databases) -> R,
    ) -> Option<R> {
        databases.transact(watched, |fork| {
            if fork.is_locked() {
                // Another request of this worker could need the locks.
                psp_server::critical(|| run(fork))
            } else {
                run(fork)
            }
        })
    }
}
