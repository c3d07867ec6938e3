//! From the name of a command to what is known of it.

use hashbrown::HashMap;
use psp_protocols::resp::ArgsIter;
use psp_server::RequestType;

use super::rule::Rule;

/// Longest name of a command, in bytes; with a subcommand, the space between them counts.
pub const NAME_LEN_MAX: usize = 48;

/// What is known of one command.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Its type when no rule holds.
    pub(super) request_type: RequestType,
    pub(super) rules: Vec<(Rule, RequestType)>,
    /// Whether the table also holds this name followed by a subcommand.
    has_subcommands: bool,
}

impl Entry {
    fn unknown() -> Self {
        Self {
            request_type: RequestType::UNKNOWN,
            rules: Vec::new(),
            has_subcommands: false,
        }
    }
}

/// Entries by name in lower case.
#[derive(Debug, Clone, Default)]
pub(super) struct CommandTable {
    entries: HashMap<Box<[u8]>, Entry>,
}

impl CommandTable {
    /// The entry of `name`, which may be a command or a command and its subcommand; created when
    /// there is none.
    pub(super) fn entry(&mut self, name: &str) -> &mut Entry {
        assert!(
            name.len() <= NAME_LEN_MAX,
            "command name longer than {NAME_LEN_MAX} bytes: {name}"
        );
        let name = name.to_ascii_lowercase();
        if let Some((command, _)) = name.split_once(' ') {
            self.existing_or_new(command).has_subcommands = true;
        }
        self.existing_or_new(&name)
    }

    fn existing_or_new(&mut self, name: &str) -> &mut Entry {
        self.entries
            .entry(name.as_bytes().into())
            .or_insert_with(Entry::unknown)
    }

    /// The entry for a request: its command's `name` as the peer wrote it and the arguments after
    /// the name.
    #[inline]
    pub(super) fn find(&self, name: &[u8], mut args: ArgsIter<'_>) -> Option<&Entry> {
        let mut key = Key::default();
        let command = self.entries.get(key.append(name)?)?;
        if !command.has_subcommands {
            return Some(command);
        }
        let subcommand = args.next().and_then(|subcommand| {
            key.append(b" ")?;
            self.entries.get(key.append(subcommand)?)
        });
        Some(subcommand.unwrap_or(command))
    }
}

/// A name in lower case, on the stack.
struct Key {
    bytes: [u8; NAME_LEN_MAX],
    len: usize,
}

impl Default for Key {
    fn default() -> Self {
        Self {
            bytes: [0; NAME_LEN_MAX],
            len: 0,
        }
    }
}

impl Key {
    /// Appends `part` and returns the name so far; `None` when it does not fit.
    #[inline]
    fn append(&mut self, part: &[u8]) -> Option<&[u8]> {
        let place = self.bytes[self.len..].get_mut(..part.len())?;
        for (lower, byte) in place.iter_mut().zip(part) {
            *lower = byte.to_ascii_lowercase();
        }
        self.len += part.len();
        Some(&self.bytes[..self.len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find<'a>(table: &'a CommandTable, line: &[u8]) -> Option<&'a Entry> {
        let mut args = ArgsIter::new(line);
        table.find(args.next()?, args)
    }

    #[test]
    fn the_longest_name_is_found_and_longer_ones_are_not() {
        let mut table = CommandTable::default();
        let longest = "x".repeat(NAME_LEN_MAX);
        table.entry(&longest).request_type = RequestType::new(3);
        let found = find(&table, longest.as_bytes()).expect("the longest name");
        assert_eq!(found.request_type, RequestType::new(3));
        assert!(find(&table, "x".repeat(NAME_LEN_MAX + 1).as_bytes()).is_none());
    }

    #[test]
    fn a_long_subcommand_is_the_command_itself() {
        let mut table = CommandTable::default();
        table.entry("CONFIG GET").request_type = RequestType::new(1);
        table.entry("CONFIG").request_type = RequestType::new(0);
        let line = format!("config {}", "x".repeat(NAME_LEN_MAX));
        let found = find(&table, line.as_bytes()).expect("the command");
        assert_eq!(found.request_type, RequestType::new(0));
        let found = find(&table, b"config get").expect("the subcommand");
        assert_eq!(found.request_type, RequestType::new(1));
    }

    #[test]
    #[should_panic(expected = "longer than")]
    fn names_that_cannot_be_found_cannot_be_registered() {
        CommandTable::default().entry(&"x".repeat(NAME_LEN_MAX + 1));
    }
}
