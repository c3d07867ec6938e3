//! Keyspace notifications: messages about what commands did to keys, on channels that name the key or the event.
//!
//! ```text
//!   dispatch, EXEC, scripts ─► run: what the keys were ─ command ─ what they are, the reply ─► events ─► PUBLISH
//!   store: an expired key is removed ────────────────────────────────────────────────────────► `expired`
//!   store: expired fields of a hash are removed ─────────────────────────────────────────────► `hexpired`, `del`
//!   eviction ────────────────────────────────────────────────────────────────────────────────► `evicted`
//! ```
//!
//! No command knows of them. A command's row in the command table says which events it has, judged by its reply and by
//! its keys before and after it. While they are off, a command costs one relaxed load more.
//!
//! | file | job |
//! | --- | --- |
//! | `classes.rs` | the classes of events, and how `notify-keyspace-events` spells them |
//! | `effects.rs` | what the events of a command can be, and when it has them |
//! | `observed.rs` | what a command's keys are like before and after it |

mod classes;
mod effects;
mod observed;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use psp_protocols::Sink;
use psp_protocols::resp::Encoder;
use psp_store::Expired;

use crate::command::{CommandSpec, Context, ReplyEncoder};
use crate::parse::Result;
use crate::pubsub::{PubSub, TopicKind};

pub use classes::{Class, Classes};
pub(crate) use effects::{Effect, Read, Rule};
pub(crate) use observed::Observation;

/// Publishes events of the classes that are wanted.
#[derive(Debug)]
pub struct Notifier {
    classes: AtomicU32,
    pubsub: Arc<PubSub>,
}

impl Notifier {
    /// A notifier for events of `classes`.
    #[must_use]
    pub fn new(classes: Classes, pubsub: Arc<PubSub>) -> Self {
        Self { classes: AtomicU32::new(classes.bits()), pubsub }
    }

    /// Which events are published.
    #[inline]
    #[must_use]
    pub fn classes(&self) -> Classes {
        Classes::from_bits(self.classes.load(Ordering::Relaxed))
    }

    /// Changes which events are published.
    pub fn set_classes(&self, classes: Classes) {
        self.classes.store(classes.bits(), Ordering::Relaxed);
    }

    /// A key of this database, or fields of its hash, have expired and are removed.
    pub fn expired(&self, database: usize, key: &[u8], what: Expired) {
        let key = (database, key);
        match what {
            Expired::Key => self.announce(Class::Expired, "expired", key),
            Expired::Fields => self.announce(Class::Hash, "hexpired", key),
            Expired::LastFields => {
                self.announce(Class::Hash, "hexpired", key);
                self.announce(Class::Generic, "del", key);
            }
        }
    }

    /// A key of this database was evicted.
    pub fn evicted(&self, database: usize, key: &[u8]) {
        self.announce(Class::Evicted, "evicted", (database, key));
    }

    fn announce(&self, class: Class, event: &str, key: (usize, &[u8])) {
        let publish = |channel: &[u8], text: &[u8]| {
            self.pubsub.publish(TopicKind::Channel, channel, text);
        };
        self.classes().announce(class, event, key, publish);
    }
}

/// Runs a command, and publishes its events. In transactions and scripts they wait until these are carried out.
///
/// # Errors
/// Those of the command.
#[inline]
pub fn run(spec: &CommandSpec, context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let classes = context.server.notifier.classes();
    if classes.are_off() {
        return (spec.run)(context, args, out);
    }
    observe(classes, spec, context, args, out)
}

/// Whether a command that has not failed may have changed its keys, by its reply.
pub(crate) fn may_have_changed(spec: &CommandSpec, args: &[&[u8]], head: &ReplyHead) -> bool {
    let says_something = head.says_something();
    spec.effect.is_none_or(|effect| effect.may_have_changed(args, says_something))
}

#[cold]
fn observe(
    classes: Classes,
    spec: &CommandSpec,
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    effects::announce_misses(classes, spec, context, args);
    let observation = Observation::begin(spec, context, args);
    let version = out.version();
    let mut sink = Peeked::at(out);
    let peeked: &mut dyn Sink = &mut sink;
    let result = (spec.run)(context, args, &mut Encoder::new(peeked, version));
    if let (Some(observation), Ok(())) = (observation, &result) {
        observation.end(context, &sink.head);
    }
    result
}

/// The first bytes of a reply.
#[derive(Debug, Default)]
pub(crate) struct ReplyHead {
    bytes: [u8; 8],
    len: usize,
}

impl ReplyHead {
    /// That of a reply that says something.
    pub(crate) fn of_something() -> Self {
        let mut head = Self::default();
        head.push(b"*");
        head
    }

    fn push(&mut self, bytes: &[u8]) {
        let room = &mut self.bytes[self.len..];
        let count = room.len().min(bytes.len());
        room[..count].copy_from_slice(&bytes[..count]);
        self.len += count;
    }

    /// Whether there is a reply, which is neither an error, nor nothing, nor none of something.
    fn says_something(&self) -> bool {
        const NOTHING: [&[u8]; 8] = [b"-", b":0\r", b":-", b"$-1", b"*-1", b"*0\r", b"~0\r", b"_"];
        let head = &self.bytes[..self.len];
        !head.is_empty() && !NOTHING.iter().any(|nothing| head.starts_with(nothing))
    }
}

/// A reply on its way to a client.
pub(crate) struct Peeked<'a, 'b> {
    out: &'a mut ReplyEncoder<'b>,
    pub(crate) head: ReplyHead,
}

impl<'a, 'b> Peeked<'a, 'b> {
    /// On its way to `out`.
    pub(crate) fn at(out: &'a mut ReplyEncoder<'b>) -> Self {
        let head = ReplyHead::default();
        Self { out, head }
    }
}

impl Sink for Peeked<'_, '_> {
    fn put(&mut self, bytes: &[u8]) {
        self.head.push(bytes);
        self.out.raw(bytes);
    }

    fn put_shared(&mut self, bytes: bytes::Bytes) {
        self.head.push(&bytes);
        self.out.raw_shared(bytes);
    }

    fn reserve(&mut self, bytes: usize) -> bool {
        self.out.reserve(bytes)
    }
}
