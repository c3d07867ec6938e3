//! What a command is: its function, its row in the table, and what it is given to work with.

use std::sync::LazyLock;

use hashbrown::HashMap;
use psp_protocols::Sink;
use psp_protocols::resp::Encoder;
use psp_store::Keyspace;

use crate::client::Client;
use crate::commands;
use crate::error::CommandError;
use crate::parse;
use crate::state::ServerState;

/// Where commands write their reply.
pub type ReplyEncoder<'a> = Encoder<'a, dyn Sink + 'a>;

/// Runs one command. `args` starts with its name, and their number fits the arity.
///
/// On success exactly one reply has been written, on error nothing: the dispatcher writes the
/// error.
pub type CommandFn =
    fn(&mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<(), CommandError>;

/// What a command works with.
#[derive(Debug)]
pub struct Context<'a> {
    /// All keys.
    pub store: &'a Keyspace,
    /// What all connections share besides.
    pub server: &'a ServerState,
    /// The connection that the command came in on.
    pub client: &'a Client,
    /// Set by commands after which the connection is closed.
    pub close: bool,
}

/// One row of the command table.
#[derive(Debug, Clone, Copy)]
pub struct CommandSpec {
    /// Name in lower case.
    pub name: &'static str,
    /// Number of arguments, the name included; negative for at least as many.
    pub arity: i32,
    /// Flags as `COMMAND INFO` prints them.
    pub flags: &'static [Flag],
    /// Where the keys are among the arguments.
    pub keys: KeyPositions,
    /// Runs it.
    pub run: CommandFn,
}

/// Positions of keys among the arguments: all zero when there are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPositions {
    /// Index of the first key.
    pub first: i32,
    /// Index of the last one; negative counts from the end.
    pub last: i32,
    /// Distance from one key to the next.
    pub step: i32,
}

/// Properties of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    /// Changes keys.
    Write,
    /// Reads keys.
    Readonly,
    /// Takes O(1) or O(log n).
    Fast,
    /// May make the data set larger.
    DenyOom,
    /// Administers the server.
    Admin,
    /// Allowed before authentication.
    NoAuth,
}

impl Flag {
    /// The name that `COMMAND INFO` prints.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Readonly => "readonly",
            Self::Fast => "fast",
            Self::DenyOom => "denyoom",
            Self::Admin => "admin",
            Self::NoAuth => "no_auth",
        }
    }
}

impl CommandSpec {
    /// A command without keys and flags. `arity` is as [`CommandSpec::arity`].
    #[must_use]
    pub const fn new(name: &'static str, arity: i32, run: CommandFn) -> Self {
        Self {
            name,
            arity,
            flags: &[],
            keys: KeyPositions {
                first: 0,
                last: 0,
                step: 0,
            },
            run,
        }
    }

    /// The same with flags.
    #[must_use]
    pub const fn flags(mut self, flags: &'static [Flag]) -> Self {
        self.flags = flags;
        self
    }

    /// The same with keys from index `first` to `last`, every `step`-th.
    #[must_use]
    pub const fn keys(mut self, first: i32, last: i32, step: i32) -> Self {
        self.keys = KeyPositions { first, last, step };
        self
    }

    /// The same with one key, its first argument.
    #[must_use]
    pub const fn key(self) -> Self {
        self.keys(1, 1, 1)
    }

    /// Whether `count` arguments, the name included, are right.
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

/// All commands, and the way from a name to its command.
#[derive(Debug)]
pub struct CommandTable {
    specs: Vec<&'static CommandSpec>,
    by_name: HashMap<&'static [u8], usize>,
}

/// Longest command name.
const NAME_LEN_MAX: usize = 32;

impl CommandTable {
    /// The table of this server.
    #[must_use]
    pub fn get() -> &'static Self {
        static TABLE: LazyLock<CommandTable> = LazyLock::new(|| {
            let families = commands::FAMILIES.iter();
            let specs: Vec<_> = families.flat_map(|(_, rows)| rows.iter()).collect();
            let names = specs.iter().enumerate();
            let by_name = names
                .map(|(index, spec)| (spec.name.as_bytes(), index))
                .collect();
            CommandTable { specs, by_name }
        });
        &TABLE
    }

    /// Number of `name`, written in either case, in [`specs`](Self::specs).
    #[must_use]
    pub fn index_of(&self, name: &[u8]) -> Option<usize> {
        let mut lower = [0; NAME_LEN_MAX];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        self.by_name.get(&*lower).copied()
    }

    /// The command called `name`, written in either case.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<&'static CommandSpec> {
        self.index_of(name).map(|index| self.specs[index])
    }

    /// All commands.
    #[must_use]
    pub fn specs(&self) -> &[&'static CommandSpec] {
        &self.specs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name_in_either_case() {
        let table = CommandTable::get();
        for (index, spec) in table.specs().iter().enumerate() {
            assert_eq!(
                table.index_of(spec.name.as_bytes()),
                Some(index),
                "{} twice",
                spec.name
            );
            assert_eq!(
                table.index_of(spec.name.to_uppercase().as_bytes()),
                Some(index)
            );
        }
        assert_eq!(table.index_of(&[b'x'; NAME_LEN_MAX + 1]), None);
    }

    #[test]
    fn commands_with_keys_say_whether_they_write() {
        for spec in CommandTable::get().specs() {
            let access = [Flag::Write, Flag::Readonly].map(|flag| spec.flags.contains(&flag));
            if spec.keys.first > 0 {
                assert_eq!(
                    access.iter().filter(|set| **set).count(),
                    1,
                    "{}",
                    spec.name
                );
            }
        }
    }
}
