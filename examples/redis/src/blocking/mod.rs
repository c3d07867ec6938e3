//! Blocking commands: a client that finds nothing to pop waits, and holds neither a worker nor a stack meanwhile.
//!
//! ```text
//!   BLPOP k ─► nothing there ─► Blocking ─► BlockedClients::wait ── k is awaited, the reply is deferred
//!                                                  │
//!   RPUSH k ─► stored, k is ready ─► serve ────────┤ the first client that waits for k gets its element
//!   timer thread, CLIENT UNBLOCK ──────────────────┘ or nothing
//! ```
//!
//! The worker that ran the writing command serves those who waited, before its own client gets its reply. They are
//! served in the order in which they began to wait. All who read a stream get what comes; of the members of a consumer
//! group, one does.

mod clients;
mod delivery;
mod timeout;

use std::fmt;
use std::mem::{Discriminant, discriminant};
use std::time::{Duration, Instant};

use psp_protocols::Sink;
use psp_server::DeferredReply;
use psp_store::{Awaits, Keyspace, List, Value};

pub use clients::{BlockedClients, Unblocked};
pub(crate) use timeout::{deadline, deadline_ms};

use crate::command::{CommandSpec, Context, ReplyEncoder};
use crate::error::CommandError;
use crate::keyspace_events::{Observation, ReplyHead};
use crate::parse::Result;
use crate::typed::Typed;

/// Memory that one command may hold for the keys that it waits for, in bytes.
const COMMAND_BYTES_MAX: usize = 1024 * 1024;
/// How often a command has those served that wait before it for one of its keys. More elements come for them meanwhile.
const SERVINGS_MAX: usize = 8;
/// Memory of one key beside three copies of its name, about.
const KEY_BYTES: usize = 384;

/// Tries to serve a command with the key: `true` if it has written the reply.
type Attempt = Box<dyn Fn(&Context<'_>, &[u8], &mut ReplyEncoder<'_>) -> Result<bool> + Send>;

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ValueType(Discriminant<Value>);

impl ValueType {
    fn of(value: &Value) -> Self {
        Self(discriminant(value))
    }
}

/// The type of what the key holds.
fn held_at(store: &Keyspace, key: &[u8]) -> Option<ValueType> {
    store.peek(key, |entry| entry.map(|entry| ValueType::of(entry.value())))
}

/// What the clients that wait for one key do to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// What one takes, the others do not get: those who came first are first.
    Taken,
    /// Each reads for itself.
    Read,
    /// The members of this group share what comes, and get an error when their group or the key is gone.
    Group(Box<[u8]>),
}

/// The clients that wait for the same at one key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    /// The type that the commands wait for. Values of others do not end the wait.
    awaited: ValueType,
    sharing: Sharing,
}

impl Line {
    /// Whether those in the line have to look at a key that holds a value of this type.
    fn looks_at(&self, held: Option<ValueType>) -> bool {
        held == Some(self.awaited) || self.awaits() == Awaits::ValueOrRemoval
    }

    fn awaits(&self) -> Awaits {
        match self.sharing {
            Sharing::Taken | Sharing::Read => Awaits::Value,
            Sharing::Group(_) => Awaits::ValueOrRemoval,
        }
    }
}

/// A command that waits for one of its keys.
pub struct Blocking {
    keys: Vec<Box<[u8]>>,
    line: Line,
    attempt: Attempt,
    /// When the command ends without an element; `None` for never.
    deadline: Option<Instant>,
    /// Writes the reply of a command that finds nothing where it may not wait.
    nothing: fn(&mut ReplyEncoder<'_>),
    /// Writes the reply when the command's time is over.
    timed_out: fn(&mut ReplyEncoder<'_>),
    /// The command, once its client waits.
    sent: Option<Sent>,
}

/// A command as its client sent it.
struct Sent {
    spec: &'static CommandSpec,
    entry: usize,
    /// Its service time before the wait.
    busy: Duration,
    args: Vec<Box<[u8]>>,
}

impl Sent {
    fn held_bytes(&self) -> usize {
        let args = self.args.iter();
        args.map(|arg| arg.len() + size_of::<Box<[u8]>>()).sum()
    }

    fn args(&self) -> Vec<&[u8]> {
        self.args.iter().map(|arg| &**arg).collect()
    }
}

impl Blocking {
    /// A command that waits until one of `keys` holds a `T` and `attempt` has served it.
    pub(crate) fn on<T: Typed + Default>(
        keys: &[&[u8]],
        deadline: Option<Instant>,
        nothing: fn(&mut ReplyEncoder<'_>),
        attempt: impl Fn(&Context<'_>, &[u8], &mut ReplyEncoder<'_>) -> Result<bool> + Send + 'static,
    ) -> Self {
        Self {
            keys: keys.iter().map(|key| Box::from(*key)).collect(),
            line: Line {
                awaited: ValueType::of(&T::default().into_value()),
                sharing: Sharing::Taken,
            },
            attempt: Box::new(attempt),
            deadline,
            nothing,
            timed_out: |out| out.null_array(),
            sent: None,
        }
    }

    /// A command that waits for its time to be over. No key ends the wait.
    pub(crate) fn for_a_time(deadline: Option<Instant>, over: fn(&mut ReplyEncoder<'_>)) -> Self {
        Self {
            timed_out: over,
            ..Self::on::<List>(&[], deadline, over, |_, _, _| Ok(false))
        }
    }

    /// The command shares so with others.
    pub(crate) fn sharing(mut self, sharing: Sharing) -> Self {
        self.line.sharing = sharing;
        self
    }

    /// Runs the command: it is served now, or the client waits. In transactions and scripts it does not wait.
    ///
    /// # Errors
    /// Those of the attempt; the client would wait for too many keys; memory is short.
    pub(crate) fn run(self, context: &mut Context<'_>, out: &mut ReplyEncoder<'_>) -> Result<()> {
        for key in &self.keys {
            if !self.is_behind(context, key) && (self.attempt)(context, key, out)? {
                return Ok(());
            }
        }
        if !context.may_block {
            (self.nothing)(out);
        } else if self.held_bytes() > COMMAND_BYTES_MAX {
            return Err(CommandError::line("ERR too many keys to wait for"));
        } else {
            context.server.check_memory()?;
            context.blocking = Some(Box::new(self));
        }
        Ok(())
    }

    /// Remembers the command, whose client waits from now on. `entry` is its index in the
    /// [`CommandTable`](crate::command::CommandTable). It took `busy` so far.
    pub(crate) fn remember(&mut self, spec: &'static CommandSpec, (entry, busy): (usize, Duration), args: &[&[u8]]) {
        self.sent = Some(Sent {
            spec,
            entry,
            busy,
            args: args.iter().map(|arg| Box::from(*arg)).collect(),
        });
    }

    /// Tries to serve the command with the key, and publishes its events: `true` if it has written the reply.
    fn attempt(&self, context: &Context<'_>, key: &[u8], out: &mut ReplyEncoder<'_>) -> Result<bool> {
        let are_wanted = !context.server.notifier.classes().are_off();
        let Some(sent) = self.sent.as_ref().filter(|_| are_wanted) else {
            return (self.attempt)(context, key, out);
        };
        let args = sent.args();
        let observation = Observation::begin(sent.spec, context, &args);
        let is_served = (self.attempt)(context, key, out)?;
        if let Some(observation) = observation.filter(|_| is_served) {
            observation.end(context, &ReplyHead::of_something());
        }
        Ok(is_served)
    }

    /// Whether others came first, who get the next element that the key has. If it has some already, they are served
    /// here: what they leave is for this command, before what its other keys have.
    fn is_behind(&self, context: &Context<'_>, key: &[u8]) -> bool {
        if !context.may_block || self.line.sharing != Sharing::Taken || !context.store.is_awaited(key) {
            return false;
        }
        let blocked = &context.server.clients.blocked;
        for _ in 0..SERVINGS_MAX {
            let held = held_at(context.store, key);
            if held.is_some_and(|held| held != self.line.awaited)
                || !blocked.has_line(context.database, key, &self.line)
            {
                return false;
            }
            if held.is_none() {
                return true;
            }
            context.store.make_ready(key);
            blocked.serve(context.server, context.stats);
        }
        true
    }

    /// Memory that the keys and the arguments take while the client waits.
    fn held_bytes(&self) -> usize {
        let group_bytes = match &self.line.sharing {
            Sharing::Group(name) => name.len(),
            Sharing::Taken | Sharing::Read => 0,
        };
        let keys = self.keys.iter();
        let keys = keys.map(|key| 3 * key.len() + group_bytes + KEY_BYTES);
        keys.sum::<usize>() + self.sent.as_ref().map_or(0, Sent::held_bytes)
    }
}

impl fmt::Debug for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking")
            .field("keys", &self.keys.len())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// A reply that is written after its handler has returned.
pub trait LateReply: Sink + Send {
    /// Sends it.
    fn finish(self: Box<Self>);

    /// Closes the connection once it is sent.
    fn close(&mut self);

    /// Closes the connection without it.
    fn discard(self: Box<Self>);

    /// Whether the client has ended its side of the connection. For Redis it has left then.
    fn is_abandoned(&self) -> bool;
}

impl LateReply for DeferredReply {
    fn finish(self: Box<Self>) {
        (*self).finish();
    }

    fn close(&mut self) {
        Self::close(self);
    }

    fn discard(mut self: Box<Self>) {
        Self::close(&mut self);
        (*self).finish();
    }

    fn is_abandoned(&self) -> bool {
        self.has_peer_ended()
    }
}
