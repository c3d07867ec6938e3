//! What a command's keys are like before and after it.

use psp_protocols::resp::parse_integer;
use psp_store::Value;
use smallvec::SmallVec;

use super::effects::Effect;
use super::{Class, Classes, ReplyHead};
use crate::command::{CommandSpec, Context};
use crate::pubsub::TopicKind;

/// What matters of a key.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    pub(super) exists: bool,
    pub(super) cardinality: usize,
    pub(super) expire_at_ms: Option<u64>,
    /// A snapshot, for commands whose replies do not say what they changed.
    pub(super) value: Option<Value>,
}

impl State {
    fn of(context: &Context<'_>, key: &[u8], with_value: bool) -> Self {
        context.store.peek(key, |entry| {
            entry.map_or_else(Self::default, |entry| Self {
                exists: true,
                cardinality: entry.value().cardinality(),
                expire_at_ms: entry.expire_at_ms(),
                value: with_value.then(|| entry.value().clone()),
            })
        })
    }
}

/// A command that may have events, from before it runs.
pub(crate) struct Observation<'a> {
    effect: Effect,
    args: &'a [&'a [u8]],
    keys: SmallVec<[(&'a [u8], State); 2]>,
}

impl<'a> Observation<'a> {
    /// `None` for a command that changes no keys.
    pub(crate) fn begin(spec: &CommandSpec, context: &Context<'_>, args: &'a [&'a [u8]]) -> Option<Self> {
        let effect = spec.effect?;
        let keys = effect.keys(args);
        let state = |key| (key, State::of(context, key, effect.needs_values()));
        Some(Self { effect, args, keys: keys.into_iter().map(state).collect() })
    }

    /// Publishes the events of the command, which has replied so.
    pub(crate) fn end(&self, context: &Context<'_>, head: &ReplyHead) {
        let classes = context.server.notifier.classes();
        let keys = self.keys.iter().map(|(key, before)| Key {
            name: key,
            before,
            after: State::of(context, key, self.effect.needs_values()),
        });
        let outcome = Outcome {
            context,
            classes,
            args: self.args,
            keys: keys.collect(),
            says_something: head.says_something(),
            is_empty: head.len == 0,
        };
        if !outcome.is_empty {
            self.effect.announce(&outcome);
        }
    }
}

/// A key before and after a command.
pub(super) struct Key<'o> {
    pub(super) name: &'o [u8],
    pub(super) before: &'o State,
    pub(super) after: State,
}

impl Key<'_> {
    pub(super) fn is_gone(&self) -> bool {
        self.before.exists && !self.after.exists
    }

    fn is_new(&self) -> bool {
        !self.before.exists && self.after.exists
    }
}

/// What a command did.
pub(super) struct Outcome<'o> {
    context: &'o Context<'o>,
    classes: Classes,
    pub(super) args: &'o [&'o [u8]],
    pub(super) keys: SmallVec<[Key<'o>; 2]>,
    /// The reply is no error, and not nothing.
    pub(super) says_something: bool,
    is_empty: bool,
}

impl Outcome<'_> {
    pub(super) fn emit(&self, class: Class, event: &str, key: &[u8]) {
        self.emit_in(self.context.database, class, event, key);
    }

    /// An event in this database.
    pub(super) fn emit_in(&self, database: usize, class: Class, event: &str, key: &[u8]) {
        let key = (database, key);
        self.classes.announce(class, event, key, |channel, text| {
            // A transaction with too many messages loses the last ones.
            let _ = self.context.publish(TopicKind::Channel, channel, text);
        });
    }

    /// The key is gone, if it is.
    pub(super) fn emit_gone(&self, key: &Key<'_>) {
        if key.is_gone() {
            self.emit(Class::Generic, "del", key.name);
        }
    }

    /// The key is new, if it is.
    pub(super) fn emit_new(&self, key: &Key<'_>) {
        if key.is_new() {
            self.emit(Class::New, "new", key.name);
        }
    }

    /// The number of the database that follows this word; otherwise the selected one.
    pub(super) fn database_behind(&self, word: &str) -> usize {
        let is_word = |arg: &&[u8]| arg.eq_ignore_ascii_case(word.as_bytes());
        let at = self.args.iter().skip(3).position(is_word);
        let number = at.and_then(|at| parse_integer(self.args.get(at + 4)?));
        let number = number.and_then(|number| usize::try_from(number).ok());
        number.unwrap_or(self.context.database)
    }

    /// Whether the word is among the arguments.
    pub(super) fn has_word(&self, word: &str) -> bool {
        self.args.iter().any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    }
}
