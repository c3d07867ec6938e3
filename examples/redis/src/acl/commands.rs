//! The commands that rules name: those of the command table, and those that Redis 7.0 has and psp-redis has not. So
//! rules that were written for Redis are understood, and are still what they were when they go back there.

use std::ops::Range;
use std::sync::LazyLock;

use hashbrown::HashMap;
use psp_protocols::resp::{Facts, KeySpec};

use super::categories::Categories;
use crate::command::{CommandTable, Flag};

/// A command or a subcommand.
#[derive(Debug)]
pub(super) struct Row {
    /// `get`, or `client|list`.
    pub(super) name: &'static str,
    pub(super) facts: &'static Facts,
    pub(super) categories: Categories,
    /// It works before authentication, and for every user.
    pub(super) is_for_all: bool,
    pub(super) has_keys: bool,
    pub(super) channels: Option<Channels>,
    pub(super) is_subcommand: bool,
    pub(super) subcommands: Vec<usize>,
}

/// The arguments of a command that are channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Channels {
    pub(super) places: Range<usize>,
    /// They are patterns of channels.
    pub(super) are_patterns: bool,
}

impl Channels {
    /// Those that the command publishes or subscribes to. Everybody may unsubscribe.
    fn of(name: &str) -> Option<Self> {
        const REST: Range<usize> = 1..usize::MAX;
        let (places, are_patterns) = match name {
            "publish" | "spublish" => (1..2, false),
            "subscribe" | "ssubscribe" => (REST, false),
            "psubscribe" => (REST, true),
            _ => return None,
        };
        Some(Self { places, are_patterns })
    }
}

impl Row {
    fn of(facts: &'static Facts) -> Self {
        let name = facts.name;
        Self {
            name,
            facts,
            categories: Categories::named(&facts.categories),
            is_for_all: facts.flags.contains(Flag::NoAuth),
            has_keys: facts.key_specs.iter().any(KeySpec::has_keys),
            channels: Channels::of(name),
            is_subcommand: name.contains('|'),
            subcommands: Vec::new(),
        }
    }
}

/// All rows.
#[derive(Debug)]
pub(super) struct Commands {
    /// The entries of the command table come first, in its order.
    rows: Vec<Row>,
    by_name: HashMap<&'static str, usize>,
    /// The commands without the subcommands, by their names.
    in_order: Vec<usize>,
}

impl Commands {
    pub(super) fn get() -> &'static Self {
        static COMMANDS: LazyLock<Commands> = LazyLock::new(|| {
            let table = CommandTable::get().entries().iter();
            let mut facts: Vec<_> = table.map(|entry| entry.facts).collect();
            let others: Vec<_> = Facts::all().iter().filter(|it| !facts.contains(it)).collect();
            facts.extend(others);
            let by_name: HashMap<_, _> = facts.iter().map(|it| it.name).zip(0..).collect();
            let mut rows: Vec<_> = facts.iter().map(|it| Row::of(it)).collect();
            for (index, facts) in facts.iter().enumerate() {
                let command = facts.name.split_once('|').and_then(|(it, _)| by_name.get(it));
                if let Some(&command) = command {
                    rows[command].subcommands.push(index);
                }
            }
            let mut in_order: Vec<_> = (0..rows.len()).collect();
            in_order.retain(|index| !rows[*index].is_subcommand);
            in_order.sort_unstable_by_key(|index| rows[*index].name);
            Commands { rows, by_name, in_order }
        });
        &COMMANDS
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The row of an entry of the command table, or of a number from [`named`](Self::named).
    pub(super) fn row(&self, index: usize) -> &Row {
        &self.rows[index]
    }

    /// The number of the row of this name, in upper or lower case.
    pub(super) fn named(&self, name: &[u8]) -> Option<usize> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        self.by_name.get(&*name).copied()
    }

    /// The numbers of all commands, in the order of their names, each followed by its subcommands.
    pub(super) fn in_order(&self) -> impl Iterator<Item = usize> {
        let commands = self.in_order.iter();
        commands.flat_map(|&command| std::iter::once(command).chain(self.rows[command].subcommands.iter().copied()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_the_command_table_have_their_own_numbers() {
        let commands = Commands::get();
        for (index, entry) in CommandTable::get().entries().iter().enumerate() {
            assert_eq!(commands.row(index).name, entry.name());
            assert_eq!(commands.named(entry.name().as_bytes()), Some(index));
        }
        assert_eq!(commands.in_order().count(), commands.len());
    }

    #[test]
    fn commands_of_redis_are_known() {
        let commands = Commands::get();
        let known = |name: &str| commands.named(name.as_bytes());
        let memory = commands.row(known("MEMORY").expect("a command"));
        let doctor = known("memory|DOCTOR").expect("a subcommand");
        assert!(memory.subcommands.contains(&doctor));
        assert!(commands.row(doctor).is_subcommand);
        assert!(known("migrate").is_some_and(|it| commands.row(it).has_keys));
        assert!(known("get").is_some_and(|it| commands.row(it).has_keys));
        assert!(known("auth").is_some_and(|it| commands.row(it).is_for_all));
        assert_eq!(known("nosuch"), None);
        assert_eq!(known("get|x"), None);
    }
}
