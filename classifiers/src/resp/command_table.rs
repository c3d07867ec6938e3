//! Finds the type and the rules of a command.

use hashbrown::HashMap;
use psp_protocols::resp::{CommandId, RespHead};
use psp_server::RequestType;

use super::rule::Rule;

/// Longest name of a command in bytes. With a subcommand, the space between the two counts.
pub const NAME_LEN_MAX: usize = 48;

/// The type and the rules of one command.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Type of a request that satisfies no rule.
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

/// Entries by command.
///
/// A command whose name the protocol resolves is an index into an array. Other names, and commands with
/// their subcommand, are looked up here, in lower case.
#[derive(Debug, Clone)]
pub(super) struct CommandTable {
    entries: Vec<Entry>,
    /// Index of the entry, by [`CommandId`].
    by_id: Box<[Option<u16>; CommandId::COUNT]>,
    by_name: HashMap<Box<[u8]>, u16>,
}

impl Default for CommandTable {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            by_id: Box::new([None; CommandId::COUNT]),
            by_name: HashMap::new(),
        }
    }
}

impl CommandTable {
    /// The entry of `name`: a command, or a command and its subcommand. Creates the entry if there is
    /// none.
    pub(super) fn entry(&mut self, name: &str) -> &mut Entry {
        assert!(name.len() <= NAME_LEN_MAX, "command name longer than {NAME_LEN_MAX} bytes: {name}");
        let name = name.to_ascii_lowercase();
        if let Some((command, _)) = name.split_once(' ') {
            self.existing_or_new(command).has_subcommands = true;
        }
        self.existing_or_new(&name)
    }

    fn existing_or_new(&mut self, name: &str) -> &mut Entry {
        let next = u16::try_from(self.entries.len()).expect("fewer than 65 536 commands");
        let index = match CommandId::of(name.as_bytes()) {
            CommandId::UNKNOWN => *self.by_name.entry(name.as_bytes().into()).or_insert(next),
            id => *self.by_id[id.index()].get_or_insert(next),
        };
        if index == next {
            self.entries.push(Entry::unknown());
        }
        &mut self.entries[usize::from(index)]
    }

    /// The entry for the request `frame`.
    #[inline]
    pub(super) fn find(&self, frame: &[u8], head: &RespHead) -> Option<&Entry> {
        let index = match head.command() {
            CommandId::UNKNOWN => self.index_of(&[head.arg(frame, 0)?])?,
            id => self.by_id[id.index()]?,
        };
        let command = &self.entries[usize::from(index)];
        if !command.has_subcommands {
            return Some(command);
        }
        let subcommand = self.find_subcommand(frame, head);
        Some(subcommand.unwrap_or(command))
    }

    fn find_subcommand(&self, frame: &[u8], head: &RespHead) -> Option<&Entry> {
        let command = match head.command().name() {
            Some(name) => name.as_bytes(),
            None => head.arg(frame, 0)?,
        };
        let index = self.index_of(&[command, b" ", head.arg(frame, 1)?])?;
        self.entries.get(usize::from(index))
    }

    /// Index of the entry of the name that `parts` make together.
    fn index_of(&self, parts: &[&[u8]]) -> Option<u16> {
        let mut key = Key::default();
        for part in parts {
            key.append(part)?;
        }
        self.by_name.get(&key.bytes[..key.len]).copied()
    }
}

/// A name in lower case, on the stack.
struct Key {
    bytes: [u8; NAME_LEN_MAX],
    len: usize,
}

impl Default for Key {
    fn default() -> Self {
        Self { bytes: [0; NAME_LEN_MAX], len: 0 }
    }
}

impl Key {
    /// Appends `part`; `None` when it does not fit.
    fn append(&mut self, part: &[u8]) -> Option<()> {
        let place = self.bytes[self.len..].get_mut(..part.len())?;
        place.copy_from_slice(part);
        place.make_ascii_lowercase();
        self.len += part.len();
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::head_of_line;

    fn find<'a>(table: &'a CommandTable, line: &str) -> Option<&'a Entry> {
        let (frame, head) = head_of_line(line);
        table.find(&frame, &head)
    }

    #[test]
    fn the_longest_name_is_found_and_longer_ones_are_not() {
        let mut table = CommandTable::default();
        let longest = "x".repeat(NAME_LEN_MAX);
        table.entry(&longest).request_type = RequestType::new(3);
        let found = find(&table, &longest).expect("the longest name");
        assert_eq!(found.request_type, RequestType::new(3));
        assert!(find(&table, &"x".repeat(NAME_LEN_MAX + 1)).is_none());
    }

    #[test]
    fn a_subcommand_that_is_too_long_is_ignored() {
        let mut table = CommandTable::default();
        table.entry("CONFIG GET").request_type = RequestType::new(1);
        table.entry("CONFIG").request_type = RequestType::new(0);
        let line = format!("config {}", "x".repeat(NAME_LEN_MAX));
        let found = find(&table, &line).expect("the command");
        assert_eq!(found.request_type, RequestType::new(0));
        let found = find(&table, "config get").expect("the subcommand");
        assert_eq!(found.request_type, RequestType::new(1));
    }

    #[test]
    fn commands_that_the_protocol_does_not_know_have_subcommands_too() {
        let mut table = CommandTable::default();
        table.entry("MODULE.X").request_type = RequestType::new(0);
        table.entry("Module.x Slow").request_type = RequestType::new(1);
        for (line, index) in [
            ("module.X", 0),
            ("module.X fast", 0),
            ("mOdule.X sLow", 1),
            ("\"\\x4dodule.x\" slow", 7),
            ("config slow", 7),
        ] {
            let found = find(&table, line).map(|entry| entry.request_type);
            let expected = Some(RequestType::new(index)).filter(|_| index != 7);
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    #[should_panic(expected = "longer than")]
    fn names_that_cannot_be_found_cannot_be_registered() {
        CommandTable::default().entry(&"x".repeat(NAME_LEN_MAX + 1));
    }
}
