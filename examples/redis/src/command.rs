//! Commands: the function of a command, its row in the table, and the context that it runs in.

use std::ops::Range;
use std::sync::LazyLock;

use psp_protocols::Sink;
use psp_protocols::resp::{CommandId, Encoder, Facts, Flags, KeySpec};
pub use psp_protocols::resp::{Flag, KeyPositions};
use psp_server::Body;
use psp_store::{Databases, Element, Keyspace, Now};

use crate::blocking::Blocking;
use crate::client::ClientInfo;
use crate::commands;
use crate::commands::subcommand::{self, Subcommand};
use crate::error::CommandError;
use crate::keyspace_events::{Class, Effect, Read, Rule};
use crate::parse;
use crate::pubsub::{Outbox, TopicKind};
use crate::state::ServerState;
use crate::stats::WorkerStats;

/// The buffer to which commands write their reply.
pub type ReplyEncoder<'a> = Encoder<'a, dyn Sink + 'a>;

/// Runs one command. `args` starts with the command's name; the dispatcher has checked its length
/// against the arity.
///
/// On success the command has written exactly one reply. On error it has written nothing, and the
/// dispatcher writes the error.
pub type CommandFn = fn(&mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<(), CommandError>;

/// The context of a command.
#[derive(Debug)]
pub struct Context<'a> {
    /// The keys of the selected database.
    pub store: &'a Keyspace,
    /// All databases: those of the server, or the fork of a transaction or a script.
    pub databases: &'a Databases,
    /// The number of the selected database.
    pub database: usize,
    /// The instant from which the command counts time; within a transaction or a script, the one of all its commands.
    pub now: Now,
    /// The state that all connections share.
    pub server: &'a ServerState,
    /// The connection that sent the command.
    pub client: &'a ClientInfo,
    /// The counters of the worker that runs it.
    pub stats: &'a WorkerStats,
    /// Set by a command to close the connection after its reply.
    pub close: bool,
    /// Whether the command may wait for a key.
    pub may_block: bool,
    /// Whether a script calls it.
    pub in_script: bool,
    /// Set by a command that has written nothing and waits.
    pub blocking: Option<Box<Blocking>>,
    /// The command's request, whose parts may be kept without a copy.
    pub body: Body<'a>,
    /// Where messages wait in transactions and scripts; `None` elsewhere.
    pub outbox: Option<&'a Outbox>,
}

impl<'a> Context<'a> {
    /// The context of a command that a client sent.
    #[inline]
    #[must_use]
    pub fn new(server: &'a ServerState, client: &'a ClientInfo, stats: &'a WorkerStats) -> Self {
        Self { may_block: true, ..Self::of_waiting(server, client, stats) }
    }

    /// The context of a command whose client has waited.
    #[inline]
    #[must_use]
    pub fn of_waiting(server: &'a ServerState, client: &'a ClientInfo, stats: &'a WorkerStats) -> Self {
        let (databases, database) = (&*server.databases, client.database());
        let store = databases.get(database);
        Self {
            store,
            databases,
            database,
            now: store.now(),
            server,
            client,
            stats,
            close: false,
            may_block: false,
            in_script: false,
            blocking: None,
            body: Body::default(),
            outbox: None,
        }
    }

    /// The context of a command within this one, which works on `databases` and has selected this one of them.
    #[must_use]
    pub fn within(&self, databases: &'a Databases, database: usize) -> Self {
        let store = databases.get(database);
        Self {
            store,
            databases,
            database,
            now: store.now(),
            close: false,
            may_block: false,
            in_script: false,
            blocking: None,
            body: Body::default(),
            ..*self
        }
    }

    /// A string of an argument of the command. A long one is not copied if it is most of its request.
    #[must_use]
    pub fn string(&self, arg: &[u8]) -> Element {
        let kept = self.body.keep(arg);
        kept.map_or_else(|| Element::from(arg), Element::from)
    }

    /// Selects the database of this number, which exists, for the commands that follow.
    pub fn select(&mut self, database: usize) {
        self.database = database;
        self.store = self.databases.get(database);
    }

    /// Publishes a message, or has it published when the transaction or the script is carried out. Returns how many
    /// subscribers there are now.
    ///
    /// # Errors
    /// The transaction or the script has published too much.
    pub fn publish(&self, kind: TopicKind, channel: &[u8], text: &[u8]) -> Result<usize, CommandError> {
        let pubsub = &self.server.clients.pubsub;
        match self.outbox {
            None => Ok(pubsub.publish(kind, channel, text)),
            Some(outbox) => {
                outbox.add(kind, channel, text)?;
                Ok(pubsub.receivers(kind, channel))
            }
        }
    }
}

/// A row of the command table: what this server does when a command is called. All else that there is to know of the
/// command stands in its line of the [table of all commands](Facts).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    name: &'static str,
    run: CommandFn,
    subcommands: Subcommands,
    flags: &'static [Flag],
    effect: Option<Effect>,
    reads: Option<Read>,
}

/// The names of subcommands in lower case, and their functions.
pub(crate) type Subcommands = &'static [(&'static str, CommandFn)];

impl Row {
    /// A command of which no keyspace event tells. Without a line of the table of all commands it does not compile.
    pub(crate) const fn new(name: &'static str, run: CommandFn) -> Self {
        assert!(CommandId::of(name.as_bytes()).index() != 0, "commands.txt has no line for this command");
        Self {
            name,
            run,
            subcommands: &[],
            flags: &[],
            effect: None,
            reads: None,
        }
    }

    /// A command that does nothing but run its subcommands.
    pub(crate) const fn container(name: &'static str, subcommands: Subcommands) -> Self {
        Self::new(name, subcommand::run).subcommands(subcommands)
    }

    /// Adds subcommands.
    pub(crate) const fn subcommands(mut self, subcommands: Subcommands) -> Self {
        self.subcommands = subcommands;
        self
    }

    /// Adds flags that COMMAND INFO does not show: a command may affect replicas, or this server judges the calls of
    /// all subcommands alike.
    pub(crate) const fn flags(mut self, flags: &'static [Flag]) -> Self {
        self.flags = flags;
        self
    }

    /// Adds the keyspace event of the command, and when it has that.
    pub(crate) const fn event(mut self, class: Class, event: &'static str, rule: Rule) -> Self {
        self.effect = Some(Effect::new(class, event, rule));
        self
    }

    /// Adds the rule that names the keyspace events of the command.
    pub(crate) const fn effect(self, class: Class, rule: Rule) -> Self {
        self.event(class, "", rule)
    }

    /// Adds the keys that the command misses if they do not exist, where these are not those of a command that only
    /// reads.
    pub(crate) const fn reads(mut self, reads: Read) -> Self {
        self.reads = Some(reads);
        self
    }
}

/// A command: its row, and its line of the table of all commands.
#[derive(Debug)]
pub struct CommandSpec {
    /// Name in lower case.
    pub name: &'static str,
    /// Number of arguments including the name. A negative arity is a minimum.
    pub arity: i32,
    /// Properties of the command.
    pub flags: Flags,
    /// Positions of the keys among the arguments.
    pub keys: KeyPositions,
    /// The subcommands; empty if there are none.
    pub subcommands: Vec<Subcommand>,
    /// The function that runs the command.
    pub run: CommandFn,
    /// What the command does to its keys; `None` if it changes no keys one by one.
    pub(crate) effect: Option<Effect>,
    /// See [`Row::reads`].
    pub(crate) reads: Option<Read>,
    facts: &'static Facts,
}

impl CommandSpec {
    fn of(row: &Row) -> Self {
        let facts = Facts::of(row.name).unwrap_or_else(|| panic!("{} has no line", row.name));
        let subcommands = row.subcommands.iter().map(|(name, run)| {
            let full = format!("{}|{name}", row.name);
            let facts = Facts::of(&full).unwrap_or_else(|| panic!("{full} has no line"));
            Subcommand::new(name, facts.arity, *run)
        });
        Self {
            name: facts.name,
            arity: facts.arity,
            flags: row.flags.iter().fold(facts.flags, |flags, flag| flags.with(*flag)),
            keys: facts.positions(KeySpec::has_keys),
            subcommands: subcommands.collect(),
            run: row.run,
            effect: row.effect,
            reads: row.reads,
            facts,
        }
    }

    /// The facts about the call `args`: those of its subcommand, if it has one.
    #[must_use]
    pub fn facts_of(&self, args: &[&[u8]]) -> &'static Facts {
        let of_subcommand = || Facts::of(&self.full_name(args));
        (!self.subcommands.is_empty()).then(of_subcommand).flatten().unwrap_or(self.facts)
    }

    /// Checks the number of arguments and the name of the subcommand.
    ///
    /// # Errors
    /// The error for the client.
    pub fn check(&self, args: &[&[u8]]) -> Result<(), CommandError> {
        if !self.accepts(args.len()) {
            return Err(self.arity_error());
        }
        if !self.subcommands.is_empty() && args.len() > 1 {
            subcommand::find(self.name, &self.subcommands, args)?;
        }
        Ok(())
    }

    /// The name, with that of the subcommand.
    #[must_use]
    pub fn full_name(&self, args: &[&[u8]]) -> String {
        let subcommand = args.get(1).filter(|_| !self.subcommands.is_empty());
        match subcommand {
            Some(name) => {
                let name = String::from_utf8_lossy(name).to_lowercase();
                format!("{}|{name}", self.name)
            }
            None => self.name.to_owned(),
        }
    }

    /// Whether the arity allows `count` arguments, including the name.
    #[must_use]
    pub fn accepts(&self, count: usize) -> bool {
        parse::arity_accepts(self.arity, count)
    }

    /// The error for a wrong number of arguments.
    #[must_use]
    pub fn arity_error(&self) -> CommandError {
        CommandError::Arity(self.name.into())
    }
}

/// A command, or a subcommand with its command: what is counted by itself.
#[derive(Debug)]
pub struct Entry {
    /// What the table of all commands says of it.
    pub facts: &'static Facts,
    /// The command.
    pub spec: &'static CommandSpec,
    /// The subcommand; `None` for the command itself.
    pub subcommand: Option<&'static Subcommand>,
}

impl Entry {
    /// `get`, or `client|list`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.facts.name
    }

    /// The number of arguments, as [`CommandSpec::arity`].
    #[must_use]
    pub const fn arity(&self) -> i32 {
        self.facts.arity
    }

    fn of(spec: &'static CommandSpec, subcommand: Option<&'static Subcommand>) -> Self {
        let facts = subcommand.map_or(spec.facts, |subcommand| spec.facts_of(&[b"", subcommand.name().as_bytes()]));
        Self { facts, spec, subcommand }
    }
}

/// All commands, with a lookup by id.
#[derive(Debug)]
pub struct CommandTable {
    specs: &'static [CommandSpec],
    /// The commands in the order of `specs`, and then the subcommands of each in turn.
    entries: Vec<Entry>,
    /// Index of the first subcommand of each command in `entries`.
    first_subcommands: Vec<usize>,
    /// Number in `specs`, by [`CommandId`].
    by_id: [Option<u16>; CommandId::COUNT],
}

impl CommandTable {
    /// The table of this server.
    #[must_use]
    pub fn get() -> &'static Self {
        static SPECS: LazyLock<Vec<CommandSpec>> = LazyLock::new(|| {
            let families = commands::FAMILIES.iter();
            families.flat_map(|rows| rows.iter().map(CommandSpec::of)).collect()
        });
        static TABLE: LazyLock<CommandTable> = LazyLock::new(|| {
            let specs: &'static [CommandSpec] = &SPECS;
            let mut by_id = [None; CommandId::COUNT];
            for (number, spec) in (0..).zip(specs) {
                by_id[spec.facts.id().index()] = Some(number);
            }
            let mut entries: Vec<_> = specs.iter().map(|spec| Entry::of(spec, None)).collect();
            let mut first_subcommands = Vec::with_capacity(specs.len());
            for spec in specs {
                first_subcommands.push(entries.len());
                let subcommands = spec.subcommands.iter();
                entries.extend(subcommands.map(|subcommand| Entry::of(spec, Some(subcommand))));
            }
            CommandTable { specs, entries, first_subcommands, by_id }
        });
        &TABLE
    }

    /// All commands and their subcommands.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry with this index.
    #[must_use]
    pub fn entry(&self, index: usize) -> Option<&Entry> {
        self.entries.get(index)
    }

    /// Index in [`entries`](Self::entries) of what `args` calls, whose command has the index `command`.
    #[inline]
    #[must_use]
    pub fn entry_of(&self, command: usize, args: &[&[u8]]) -> usize {
        let subcommands = &self.specs[command].subcommands;
        if subcommands.is_empty() {
            return command;
        }
        let called = args.get(1).and_then(|name| {
            let mut subcommands = subcommands.iter();
            subcommands.position(|subcommand| parse::is(name, subcommand.name()))
        });
        called.map_or(command, |place| self.first_subcommands[command] + place)
    }

    /// The indices in [`entries`](Self::entries) of a command's subcommands.
    #[must_use]
    pub fn subcommands_of(&self, command: usize) -> Range<usize> {
        let first = self.first_subcommands[command];
        first..first + self.specs[command].subcommands.len()
    }

    /// The entry of this name, such as `GET` or `client|list`.
    #[must_use]
    pub fn named(&self, name: &[u8]) -> Option<usize> {
        let (command, subcommand) = match memchr::memchr(b'|', name) {
            Some(bar) => (&name[..bar], Some(&name[bar + 1..])),
            None => (name, None),
        };
        let command = self.index_of(CommandId::of(command))?;
        let Some(subcommand) = subcommand else {
            return Some(command);
        };
        let entry = self.entry_of(command, &[b"", subcommand]);
        (entry != command).then_some(entry)
    }

    /// Index of the command `id` in [`specs`](Self::specs).
    #[inline]
    #[must_use]
    pub fn index_of(&self, id: CommandId) -> Option<usize> {
        self.by_id[id.index()].map(usize::from)
    }

    /// The command `id`.
    #[must_use]
    pub fn find(&self, id: CommandId) -> Option<&'static CommandSpec> {
        self.index_of(id).map(|index| &self.specs[index])
    }

    /// All commands.
    #[must_use]
    pub fn specs(&self) -> &'static [CommandSpec] {
        self.specs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_an_id_of_its_own() {
        let table = CommandTable::get();
        for (index, spec) in table.specs().iter().enumerate() {
            let id = CommandId::of(spec.name.as_bytes());
            assert_ne!(id, CommandId::UNKNOWN, "{}", spec.name);
            assert_eq!(table.index_of(id), Some(index), "{} twice", spec.name);
        }
        assert_eq!(table.index_of(CommandId::UNKNOWN), None);
    }

    #[test]
    fn subcommands_are_found_by_their_names_and_by_calls() {
        let table = CommandTable::get();
        let name_of = |index: usize| table.entries()[index].name();
        for name in ["get", "client", "client|list", "config|set", "xgroup|create"] {
            let index = table.named(name.as_bytes()).expect(name);
            assert_eq!(name_of(index), name);
        }
        for name in ["nope", "get|list", "client|nope", "client|list|id", ""] {
            assert_eq!(table.named(name.as_bytes()), None, "{name}");
        }
        let client = table.named(b"CLIENT").expect("a command");
        assert_eq!(name_of(table.entry_of(client, &[b"x", b"LIST"])), "client|list");
        assert_eq!(table.entry_of(client, &[b"x", b"nope"]), client);
        assert_eq!(table.entry_of(client, &[b"x"]), client);
        assert!(table.subcommands_of(client).any(|index| name_of(index) == "client|id"));
    }

    #[test]
    fn commands_with_keys_say_whether_they_write() {
        for spec in CommandTable::get().specs() {
            let access = [Flag::Write, Flag::Readonly].map(|flag| spec.flags.contains(flag));
            if spec.keys.first > 0 {
                assert_eq!(access.iter().filter(|set| **set).count(), 1, "{}", spec.name);
            }
        }
    }
}
