//! Which keys commands change, for those who track them.

use indexmap::IndexSet;

use crate::call_keys::keys_of;
use crate::command::{CommandSpec, Flag};

/// Commands that change any key.
const ALL: &[&str] = &["flushall", "flushdb", "swapdb"];

/// Commands of which what they run counts, or that read no key.
const NOT_READING: &[&str] = &["eval_ro", "evalsha_ro", "fcall_ro", "watch"];

/// What the keys of one transaction may take, in bytes.
const HELD_BYTES_MAX: usize = 64 << 20;

/// The keys that a command may change.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Changed<'a> {
    /// These.
    Keys(Vec<&'a [u8]>),
    /// Any.
    All,
}

impl<'a> Changed<'a> {
    /// Those of the call `args`. `None` for a command that does not write.
    pub(super) fn of(spec: &CommandSpec, args: &'a [&'a [u8]]) -> Option<Self> {
        if !spec.flags.contains(Flag::Write) {
            return None;
        }
        if ALL.contains(&spec.name) {
            return Some(Self::All);
        }
        // Arguments that do not say which keys they name make the command fail; if not, any key counts.
        Some(named(spec, args, |flags| !flags.contains(&"RO")).map_or(Self::All, Self::Keys))
    }
}

/// The keys that the call `args` reads, for a command that only reads.
pub(super) fn read_by<'a>(spec: &CommandSpec, args: &'a [&'a [u8]]) -> Vec<&'a [u8]> {
    if !spec.flags.contains(Flag::Readonly) || NOT_READING.contains(&spec.name) {
        return Vec::new();
    }
    named(spec, args, |_| true).unwrap_or_default()
}

/// The keys of the call `args` whose flags are wanted.
pub(crate) fn named<'a>(
    spec: &CommandSpec,
    args: &'a [&'a [u8]],
    is_wanted: impl Fn(&[&str]) -> bool,
) -> Option<Vec<&'a [u8]>> {
    let keys = keys_of(spec.facts_of(args), args)?;
    let wanted = keys.into_iter().filter(|key| is_wanted(key.flags));
    Some(wanted.map(|key| key.name).collect())
}

/// The keys that the commands of a transaction or a script have changed, until it is carried out.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    keys: IndexSet<Box<[u8]>>,
    bytes: usize,
    is_all: bool,
    /// A command wrote while no client tracked, so its keys are not here.
    has_others: bool,
}

impl Gathered {
    pub(super) fn add(&mut self, changed: &Changed<'_>) {
        let Changed::Keys(keys) = changed else {
            return self.add_all();
        };
        for key in keys {
            if !self.is_all && !self.keys.contains(*key) {
                self.bytes += key.len() + size_of::<Box<[u8]>>() * 3;
                self.keys.insert(Box::from(*key));
            }
        }
        if self.bytes > HELD_BYTES_MAX {
            self.add_all();
        }
    }

    /// A command wrote while no client tracked.
    pub(super) fn note_others(&mut self) {
        self.has_others = true;
    }

    fn add_all(&mut self) {
        *self = Self { is_all: true, ..Self::default() };
    }

    /// The keys.
    pub(super) fn changed(&self) -> Changed<'_> {
        if self.is_all || self.has_others {
            Changed::All
        } else {
            Changed::Keys(self.keys.iter().map(|key| &**key).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use psp_protocols::resp::CommandId;

    use super::*;
    use crate::command::CommandTable;

    fn call(line: &str) -> (&'static CommandSpec, Vec<&[u8]>) {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let spec = CommandTable::get().find(CommandId::of(args[0]));
        (spec.expect(line), args)
    }

    fn changed_by(line: &str) -> Option<String> {
        let (spec, args) = call(line);
        Some(match Changed::of(spec, &args)? {
            Changed::All => "*".to_owned(),
            Changed::Keys(keys) => String::from_utf8(keys.join(&b' ')).unwrap(),
        })
    }

    #[test]
    fn the_keys_that_a_command_changes_are_those_that_it_does_not_only_read() {
        for (line, expected) in [
            ("set k v", "k"),
            ("mset a 1 b 2", "a b"),
            ("rename a b", "a b"),
            ("zunionstore d 2 a b", "d"),
            ("sort a by x store d", "d"),
            ("sort a", ""),
            ("blmove a b left right 0", "a b"),
            ("xgroup create s g $", "s"),
            ("georadius a 1 2 3 m store b", "b"),
            ("copy a b db 3", "b"),
            ("bitop and d a b", "d"),
            ("flushall", "*"),
            ("swapdb 0 1", "*"),
            ("zunionstore d x a", "*"),
        ] {
            assert_eq!(changed_by(line).as_deref(), Some(expected), "{line}");
        }
        for line in ["get k", "eval x 1 k", "publish a b", "exec"] {
            assert_eq!(changed_by(line), None, "{line}");
        }
    }

    #[test]
    fn every_command_that_writes_has_keys_that_it_changes() {
        for spec in CommandTable::get().specs() {
            let writes = spec.flags.contains(Flag::Write) && !ALL.contains(&spec.name);
            let mut entries = CommandTable::get().entries().iter();
            let has_keys = entries.any(|entry| {
                let specs = &entry.facts.key_specs;
                entry.spec.name == spec.name && specs.iter().any(|it| !it.flags.contains(&"RO"))
            });
            let reads_alone = ["xreadgroup", "sort"].contains(&spec.name);
            assert!(!writes || has_keys || reads_alone, "{}", spec.name);
        }
    }

    #[test]
    fn the_keys_that_are_read_are_those_of_commands_that_only_read() {
        let read_by = |line| {
            let (spec, args) = call(line);
            String::from_utf8(read_by(spec, &args).join(&b' ')).unwrap()
        };
        for (line, expected) in [
            ("get k", "k"),
            ("mget a b", "a b"),
            ("zunion 2 a b", "a b"),
            ("xread streams a b 0 0", "a b"),
            ("object encoding k", "k"),
            ("incr k", ""),
            ("getex k", ""),
            ("watch k", ""),
            ("eval_ro x 1 k", ""),
            ("keys *", ""),
        ] {
            assert_eq!(read_by(line), expected, "{line}");
        }
    }

    #[test]
    fn what_is_gathered_is_bounded() {
        let mut gathered = Gathered::default();
        let (a, b): (&[u8], &[u8]) = (b"a", b"b");
        gathered.add(&Changed::Keys(vec![b, a]));
        gathered.add(&Changed::Keys(vec![b]));
        assert_eq!(gathered.changed(), Changed::Keys(vec![b, a]));
        gathered.note_others();
        assert_eq!(gathered.changed(), Changed::All);
        let mut gathered = Gathered::default();
        let long = vec![b'x'; HELD_BYTES_MAX];
        gathered.add(&Changed::Keys(vec![&long]));
        gathered.add(&Changed::Keys(vec![a]));
        assert!(gathered.changed() == Changed::All && gathered.keys.is_empty());
    }
}
