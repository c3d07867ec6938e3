//! What commands do to keys, and the events that tell. The rows of the command table name them.

use psp_protocols::resp::parse_integer;
use psp_store::{Hash, SortedSet, Stream};
use smallvec::{SmallVec, smallvec};

use super::observed::{Key, Outcome, State};
use super::{Class, Classes};
use crate::command::{CommandSpec, Context, Flag, KeyPositions};
use crate::pubsub::TopicKind;
use crate::typed::Typed;

type Keys<'a> = SmallVec<[&'a [u8]; 2]>;

/// What a command does to its keys, and the events that tell.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effect {
    class: Class,
    /// Empty where the rule alone says which events there are.
    event: &'static str,
    rule: Rule,
}

/// When a command has its event, and for which keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The key in argument 1, unless the command fails.
    Always,
    /// The same, if the key exists before.
    Existing,
    /// The same, if the reply says something.
    Replied,
    /// The same, if one of its arguments is one of these words.
    Words(&'static [&'static str]),
    /// The same, if the value in this argument is not empty.
    NonEmpty(usize),
    /// The key in argument 1, whose scores have changed, or the reply says something.
    Scores,
    /// Each key from argument 1 on, with so many arguments for each, if the reply says something.
    Each(usize),
    /// Each key that is gone.
    Gone,
    /// SET and its relatives: `set`, and `expire` if the key expires then.
    Set,
    /// GETEX.
    Lifetime,
    /// EXPIRE and its relatives.
    Expire,
    /// Commands that set, clear or read times of fields: `hexpire`, `hpersist`, or `hdel` by what became of the fields
    /// among the arguments; first its own event, if the reply says something.
    Fields,
    /// RENAME and RENAMENX.
    Rename,
    /// The key in this argument, which is made anew, if the reply says something.
    Made(usize),
    /// The same of COPY, whose target may be in another database.
    Copied,
    /// MOVE.
    Moved,
    /// SMOVE.
    MoveMember,
    /// The destination in this argument: the event, or `del`.
    Stored(usize),
    /// The destination behind one of these words.
    StoredBehind(&'static [&'static str]),
    /// A list's end to another one; the ends are in arguments 3 and 4, if there are so many.
    MoveElement,
    /// XADD: the event, and `xtrim` if older entries went.
    AddEntry,
    /// XGROUP: the event is named after its subcommand.
    Group,
    /// A consumer of a stream's group, named behind it, who may be new.
    Consumer,
    /// No event: what waits for acknowledgement is no change of the key.
    Never,
    /// The first of all keys but the last argument.
    FirstOf,
    /// The first of the keys that this argument counts. The event ends with the word behind them.
    CountedFirst(usize),
}

/// Where the keys are that a command reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// None: the command looks at a key without missing it.
    Nothing,
    /// From this argument on to that one; a negative one counts from the end.
    Between(i64, i64),
    /// As many as this argument says, behind it.
    Counted(usize),
}

/// The keys that a command reads.
fn read_keys<'a>(spec: &CommandSpec, args: &'a [&'a [u8]]) -> Keys<'a> {
    let KeyPositions { first, last, step } = spec.keys;
    let (first, last, step) = match spec.reads {
        Some(Read::Counted(at)) => return counted(args, at).0.iter().copied().collect(),
        Some(Read::Between(first, last)) => (first, last, 1),
        None if spec.flags.contains(Flag::Readonly) => (first, last, step),
        Some(Read::Nothing) | None => return Keys::new(),
    };
    if first <= 0 {
        return Keys::new();
    }
    let position = |position: i64| match usize::try_from(position) {
        Ok(position) => position,
        Err(_) => args.len().saturating_sub(position.unsigned_abs() as usize),
    };
    let step = usize::try_from(step).unwrap_or(1).max(1);
    let positions = (position(first)..=position(last)).step_by(step);
    positions.filter_map(|at| args.get(at).copied()).collect()
}

/// Publishes `keymiss` for the keys that a command is about to read and that do not exist.
pub(super) fn announce_misses(classes: Classes, spec: &CommandSpec, context: &Context<'_>, args: &[&[u8]]) {
    if !classes.has(Class::Miss) {
        return;
    }
    for key in read_keys(spec, args) {
        if !context.store.peek(key, |entry| entry.is_some()) {
            let key = (context.database, key);
            classes.announce(Class::Miss, "keymiss", key, |channel, text| {
                let _ = context.publish(TopicKind::Channel, channel, text);
            });
        }
    }
}

fn word_of<'a>(arg: &'a [u8], words: &[&'static str]) -> Option<&'a [u8]> {
    let is_one = words.iter().any(|word| arg.eq_ignore_ascii_case(word.as_bytes()));
    is_one.then_some(arg)
}

impl Effect {
    pub(crate) const fn new(class: Class, event: &'static str, rule: Rule) -> Self {
        Self { class, event, rule }
    }

    /// Whether values before and after the command have to be compared.
    pub(super) fn needs_values(&self) -> bool {
        matches!(self.rule, Rule::Scores | Rule::Group | Rule::Consumer | Rule::Fields)
    }

    /// Whether the call `args` may have changed a key, if its reply says something or not.
    pub(super) fn may_have_changed(&self, args: &[&[u8]], says_something: bool) -> bool {
        let has = |word: &str| {
            let mut options = args.iter().skip(3);
            options.any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
        };
        match self.rule {
            Rule::NonEmpty(at) => args.get(at).is_some_and(|value| !value.is_empty()),
            Rule::Lifetime => says_something && args.len() > 2,
            // With GET the reply is what was there before.
            Rule::Set => says_something || has("get"),
            Rule::Replied
            | Rule::Each(_)
            | Rule::Gone
            | Rule::Expire
            | Rule::Fields
            | Rule::Rename
            | Rule::Made(_)
            | Rule::Copied
            | Rule::Moved
            | Rule::MoveMember
            | Rule::MoveElement
            | Rule::AddEntry
            | Rule::FirstOf
            | Rule::CountedFirst(_) => says_something,
            Rule::Always
            | Rule::Existing
            | Rule::Words(_)
            | Rule::Scores
            | Rule::Stored(_)
            | Rule::StoredBehind(_)
            | Rule::Group
            | Rule::Consumer
            | Rule::Never => true,
        }
    }

    /// The keys that may change, in the order in which the rule needs them.
    pub(super) fn keys<'a>(&self, args: &'a [&'a [u8]]) -> Keys<'a> {
        let arg = |at: usize| args.get(at).copied().into_iter();
        match self.rule {
            Rule::Gone => args.iter().skip(1).copied().collect(),
            Rule::Each(step) => args.iter().skip(1).step_by(step).copied().collect(),
            Rule::Rename | Rule::MoveMember | Rule::MoveElement => arg(1).chain(arg(2)).collect(),

            Rule::Made(at) | Rule::Stored(at) => arg(at).collect(),
            Rule::Copied => arg(2).collect(),
            Rule::StoredBehind(words) => {
                let at = args.iter().rposition(|arg| word_of(arg, words).is_some());
                at.map_or_else(|| smallvec![], |at| arg(at + 1).collect())
            }
            Rule::FirstOf => match args {
                [_, keys @ .., _] => keys.iter().copied().collect(),
                _ => smallvec![],
            },
            Rule::CountedFirst(count_at) => counted(args, count_at).0.iter().copied().collect(),
            Rule::Group => arg(2).collect(),
            Rule::Consumer => streams_of(args).iter().copied().collect(),
            Rule::Never => smallvec![],
            Rule::Always
            | Rule::Existing
            | Rule::Replied
            | Rule::Words(_)
            | Rule::NonEmpty(_)
            | Rule::Scores
            | Rule::Set
            | Rule::Lifetime
            | Rule::AddEntry
            | Rule::Moved
            | Rule::Fields
            | Rule::Expire => arg(1).collect(),
        }
    }

    /// Publishes the events of a command that has not failed.
    pub(super) fn announce(&self, outcome: &Outcome<'_>) {
        let args = outcome.args;
        let Some(first) = outcome.keys.first() else {
            return;
        };
        if !matches!(self.rule, Rule::Each(_) | Rule::MoveMember | Rule::Made(_) | Rule::Copied) {
            outcome.keys.iter().for_each(|key| outcome.emit_new(key));
        }
        let had_effect = match self.rule {
            Rule::Always => true,
            Rule::Existing => first.before.exists,
            Rule::Replied => outcome.says_something,
            Rule::Words(words) => args.iter().skip(2).any(|arg| word_of(arg, words).is_some()),
            Rule::NonEmpty(at) => args.get(at).is_some_and(|value| !value.is_empty()),
            Rule::Scores => return self.announce_scores(outcome, first),
            Rule::Each(_) => {
                if outcome.says_something {
                    for key in &outcome.keys {
                        outcome.emit_new(key);
                        outcome.emit(self.class, self.event, key.name);
                    }
                }
                return;
            }
            Rule::Gone => return outcome.keys.iter().for_each(|key| outcome.emit_gone(key)),
            Rule::Set => return self.announce_set(outcome, first),
            Rule::Lifetime => return announce_lifetime(outcome, first),
            Rule::Expire if first.is_gone() => return outcome.emit_gone(first),
            Rule::Expire => outcome.says_something,
            Rule::Fields => return self.announce_fields(outcome, first),
            Rule::Rename => return announce_rename(outcome),
            Rule::Made(_) => {
                if outcome.says_something && first.after.exists {
                    // What was there is removed first.
                    outcome.emit(Class::New, "new", first.name);
                }
                outcome.says_something && first.after.exists
            }
            Rule::Copied => return announce_copy(outcome, self.event, first),
            Rule::Moved => return announce_move(outcome, first),
            Rule::MoveMember => return announce_moved_member(outcome),
            Rule::Stored(_) | Rule::StoredBehind(_) => first.after.exists,
            Rule::MoveElement => return announce_moved_element(outcome),
            Rule::FirstOf | Rule::CountedFirst(_) => return self.announce_popped(outcome),
            Rule::AddEntry => return announce_entry(outcome, first),
            Rule::Group => return announce_group(outcome, first),
            Rule::Consumer => return announce_consumer(outcome),
            Rule::Never => false,
        };
        if had_effect {
            outcome.emit(self.class, self.event, first.name);
        }
        outcome.emit_gone(first);
    }

    fn announce_scores(&self, outcome: &Outcome<'_>, key: &Key<'_>) {
        let increments = self.event == "zadd" && outcome.has_word("incr");
        let set = |state: &State| state.value.as_ref().and_then(SortedSet::of).cloned();
        let changed = match (set(key.before), set(&key.after)) {
            (Some(before), Some(after)) => {
                let mut members = outcome.args.iter().skip(2);
                members.any(|member| before.score(member) != after.score(member))
            }
            _ => false,
        };
        if changed || outcome.says_something {
            let event = if increments { "zincr" } else { self.event };
            outcome.emit(self.class, event, key.name);
        }
    }

    fn announce_set(&self, outcome: &Outcome<'_>, key: &Key<'_>) {
        let options = || outcome.args.iter().skip(3);
        let has = |word: &str| options().any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
        let is_plain = !outcome.args[0].eq_ignore_ascii_case(b"set");
        let is_refused =
            !is_plain && ((has("nx") && key.before.exists) || ((has("xx") || has("ifeq")) && !key.before.exists));
        if is_refused {
            return;
        }
        outcome.emit(self.class, self.event, key.name);
        if key.after.expire_at_ms.is_some() && (is_plain || !has("keepttl")) {
            outcome.emit(Class::Generic, "expire", key.name);
        }
    }

    fn announce_fields(&self, outcome: &Outcome<'_>, key: &Key<'_>) {
        if !self.event.is_empty() && outcome.says_something {
            outcome.emit(self.class, self.event, key.name);
        }
        let hash = |state: &State| state.value.as_ref().and_then(Hash::of).cloned().unwrap_or_default();
        let (before, after) = (hash(key.before), hash(&key.after));
        let time = |hash: &Hash, field: &[u8]| hash.find(field).map(|held| held.expire_at_ms);
        let times = outcome.args.iter().skip(2).map(|field| (time(&before, field), time(&after, field)));
        let (mut is_set, mut is_cleared) = (false, false);
        for (before, after) in times {
            is_set |= after.flatten().is_some() && before != after;
            is_cleared |= before.flatten().is_some() && after == Some(None);
        }
        let events = [
            (key.after.cardinality < key.before.cardinality, "hdel"),
            (is_set, "hexpire"),
            (is_cleared && self.event.is_empty(), "hpersist"),
        ];
        for (_, event) in events.into_iter().filter(|(is_told, _)| *is_told) {
            outcome.emit(self.class, event, key.name);
        }
        outcome.emit_gone(key);
    }

    /// The key that has fewer elements than before.
    fn announce_popped(&self, outcome: &Outcome<'_>) {
        let event = match self.rule {
            Rule::CountedFirst(count_at) => match counted(outcome.args, count_at).1 {
                Some(word) if word.eq_ignore_ascii_case(b"left") => "lpop",
                Some(word) if word.eq_ignore_ascii_case(b"right") => "rpop",
                Some(word) if word.eq_ignore_ascii_case(b"min") => "zpopmin",
                _ => "zpopmax",
            },
            _ => self.event,
        };
        let mut keys = outcome.keys.iter();
        let popped = keys.find(|key| key.after.cardinality < key.before.cardinality);
        if let Some(key) = popped.filter(|_| outcome.says_something) {
            outcome.emit(self.class, event, key.name);
            outcome.emit_gone(key);
        }
    }
}

/// The keys that argument `count_at` counts, and the word behind them.
fn counted<'a>(args: &'a [&'a [u8]], count_at: usize) -> (&'a [&'a [u8]], Option<&'a [u8]>) {
    let count = args.get(count_at).and_then(|count| parse_integer(count));
    let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
    let rest = args.get(count_at + 1..).unwrap_or_default();
    match rest.split_at_checked(count) {
        Some((keys, rest)) => (keys, rest.first().copied()),
        None => (&[], None),
    }
}

/// Entries that go by MAXLEN or MINID.
fn announce_entry(outcome: &Outcome<'_>, key: &Key<'_>) {
    if outcome.says_something {
        outcome.emit(Class::Stream, "xadd", key.name);
        if key.after.cardinality <= key.before.cardinality {
            outcome.emit(Class::Stream, "xtrim", key.name);
        }
    }
}

fn announce_group(outcome: &Outcome<'_>, key: &Key<'_>) {
    /// The subcommands, and their events if they reply something other than 0.
    const EVENTS: [(&str, &str); 4] = [
        ("create", "xgroup-create"),
        ("setid", "xgroup-setid"),
        ("destroy", "xgroup-destroy"),
        ("createconsumer", "xgroup-createconsumer"),
    ];
    let is_this = |name: &str| outcome.args[1].eq_ignore_ascii_case(name.as_bytes());
    // The reply is the number of its pending entries.
    if let [_, _, _, group, consumer] = outcome.args
        && is_this("delconsumer")
        && has_consumer(key.before, group, consumer)
    {
        outcome.emit(Class::Stream, "xgroup-delconsumer", key.name);
    }
    if let Some((_, event)) = EVENTS.iter().find(|(name, _)| is_this(name))
        && outcome.says_something
    {
        outcome.emit(Class::Stream, event, key.name);
    }
}

/// The streams from which a command takes entries for a consumer.
fn streams_of<'a, 'k>(args: &'a [&'k [u8]]) -> &'a [&'k [u8]] {
    match args {
        [name, key, ..] if !name.eq_ignore_ascii_case(b"xreadgroup") => std::slice::from_ref(key),
        _ => {
            let at = args.iter().position(|arg| arg.eq_ignore_ascii_case(b"streams"));
            let keys_and_ids = at.map_or(&[][..], |at| &args[at + 1..]);
            &keys_and_ids[..keys_and_ids.len() / 2]
        }
    }
}

/// The group and the consumer: behind the name of the command, and a key or the word GROUP.
fn announce_consumer(outcome: &Outcome<'_>) {
    let [_, _, group, consumer, ..] = outcome.args else {
        return;
    };
    for key in &outcome.keys {
        if !has_consumer(key.before, group, consumer) && has_consumer(&key.after, group, consumer) {
            outcome.emit(Class::Stream, "xgroup-createconsumer", key.name);
        }
    }
}

fn has_consumer(state: &State, group: &[u8], consumer: &[u8]) -> bool {
    let stream = state.value.as_ref().and_then(Stream::of);
    let group = stream.and_then(|stream| stream.group(group));
    group.is_some_and(|group| group.consumer(consumer).is_some())
}

fn announce_lifetime(outcome: &Outcome<'_>, key: &Key<'_>) {
    if key.is_gone() {
        return outcome.emit_gone(key);
    }
    let event = match (outcome.args.len(), key.after.expire_at_ms) {
        (0..=2, _) => return,
        (_, Some(_)) => "expire",
        (_, None) if key.before.expire_at_ms.is_some() => "persist",
        (_, None) => return,
    };
    outcome.emit(Class::Generic, event, key.name);
}

fn announce_rename(outcome: &Outcome<'_>) {
    if let [from, to] = &outcome.keys[..]
        && outcome.says_something
        && from.name != to.name
    {
        outcome.emit(Class::Generic, "rename_from", from.name);
        outcome.emit(Class::Generic, "rename_to", to.name);
    }
}

/// COPY, which has replied that it copied.
fn announce_copy(outcome: &Outcome<'_>, event: &str, key: &Key<'_>) {
    let database = outcome.database_behind("db");
    if outcome.says_something {
        // What was there is removed first.
        outcome.emit_in(database, Class::New, "new", key.name);
        outcome.emit_in(database, Class::Generic, event, key.name);
    }
}

fn announce_move(outcome: &Outcome<'_>, key: &Key<'_>) {
    let target = outcome.args.get(2).and_then(|number| parse_integer(number));
    if let Some(target) = target.and_then(|number| usize::try_from(number).ok())
        && outcome.says_something
    {
        outcome.emit_in(target, Class::New, "new", key.name);
        outcome.emit(Class::Generic, "move_from", key.name);
        outcome.emit_in(target, Class::Generic, "move_to", key.name);
    }
}

fn announce_moved_member(outcome: &Outcome<'_>) {
    if let [from, to] = &outcome.keys[..]
        && outcome.says_something
        && from.name != to.name
    {
        outcome.emit(Class::Set, "srem", from.name);
        outcome.emit_gone(from);
        outcome.emit_new(to);
        if to.after.cardinality > to.before.cardinality {
            outcome.emit(Class::Set, "sadd", to.name);
        }
    }
}

fn announce_moved_element(outcome: &Outcome<'_>) {
    let [from, to] = &outcome.keys[..] else {
        return;
    };
    if !outcome.says_something {
        return;
    }
    let is_left = |at: usize| outcome.args[at].eq_ignore_ascii_case(b"left");
    let has_ends = outcome.args.len() >= 5;
    let pop = if has_ends && is_left(3) { "lpop" } else { "rpop" };
    let push = if has_ends && !is_left(4) { "rpush" } else { "lpush" };
    outcome.emit(Class::List, push, to.name);
    outcome.emit(Class::List, pop, from.name);
    outcome.emit_gone(from);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::CommandTable;

    /// Commands that write, but change no key one by one, or notify no client.
    const WITHOUT: &[&str] = &["flushall", "flushdb", "swapdb"];

    #[test]
    fn each_command_that_writes_has_an_effect() {
        for spec in CommandTable::get().specs() {
            let writes = spec.flags.contains(Flag::Write) && !WITHOUT.contains(&spec.name);
            assert_eq!(writes, spec.effect.is_some(), "{}", spec.name);
        }
    }
}
