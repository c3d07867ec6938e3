//! The commands of Redis: [`commands.txt`](self), a line each, which is read once.
//!
//! The line is what clients, parsers and classifiers know of a command.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::command_id::{COMMANDS, CommandId};

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// `get`, or `client|list`.
    pub name: &'static str,
    /// Number of arguments including the name. A negative arity is a minimum.
    pub arity: i32,
    /// The version of Redis that has the command first.
    pub since: &'static str,
    /// The group of the manual.
    pub group: &'static str,
    /// Properties of the command.
    pub flags: Flags,
    /// [Categories](CATEGORIES) of access control.
    pub categories: Vec<&'static str>,
    /// What decides how long the command takes, in the words of psp-classifiers; empty if that is unknown, or as the
    /// command says of a subcommand.
    pub cost: &'static str,
    /// For proxies and clients of clusters.
    pub tips: Vec<&'static str>,
    /// Where the command has keys.
    pub key_specs: Vec<KeySpec>,
    /// What the command does.
    pub summary: &'static str,
}

/// Categories of access control without `@`, in the order in which Redis names them.
pub const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// Declares [`Flag`], in the order in which COMMAND INFO has the flags, with their names.
macro_rules! flags {
    ($($(#[$doc:meta])* $flag:ident $name:literal,)*) => {
        /// A property of a command.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Flag {
            $($(#[$doc])* $flag,)*
        }

        impl Flag {
            const ALL: &[Self] = &[$(Self::$flag),*];

            /// The name that COMMAND INFO prints.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$flag => $name,)*
                }
            }
        }
    };
}

flags! {
    /// Subscribes or publishes.
    PubSub "pubsub",
    /// Reads keys.
    Readonly "readonly",
    /// Changes keys.
    Write "write",
    /// May make the data set larger.
    DenyOom "denyoom",
    /// Administers the server.
    Admin "admin",
    /// Works on slots that are on their way to another node.
    Asking "asking",
    /// Not allowed in scripts.
    NoScript "noscript",
    /// May wait.
    Blocking "blocking",
    /// Works while the data set is read.
    Loading "loading",
    /// Works on replicas that have lost their master.
    Stale "stale",
    /// Runs in O(1) or O(log n).
    Fast "fast",
    /// Does not work while the data set is read beside requests.
    NoAsyncLoading "no_async_loading",
    /// Allowed before authentication.
    NoAuth "no_auth",
    /// Not allowed in transactions.
    NoMulti "no_multi",
    /// Works while a script takes too long.
    AllowBusy "allow_busy",
    /// Monitors see it before it runs.
    SkipMonitor "skip_monitor",
    /// May have no keys at all.
    NoMandatoryKeys "no_mandatory_keys",
    /// The first key, the last key and the step do not tell all keys.
    MovableKeys "movablekeys",
    /// The slow log does not have it.
    SkipSlowlog "skip_slowlog",
    /// Tells others something, so that CLIENT PAUSE WRITE holds it.
    MayReplicate "may_replicate",
}

/// A set of flags: a bit for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags(u32);

impl Flags {
    /// Whether `flag` is in the set.
    #[inline]
    #[must_use]
    pub const fn contains(self, flag: Flag) -> bool {
        self.0 >> flag as u32 & 1 == 1
    }

    /// These flags and `flag`.
    #[must_use]
    pub const fn with(self, flag: Flag) -> Self {
        Self(self.0 | 1 << flag as u32)
    }

    /// The flags, in the order in which COMMAND INFO has them.
    pub fn iter(self) -> impl Iterator<Item = Flag> {
        Flag::ALL.iter().copied().filter(move |flag| self.contains(*flag))
    }

    /// `None` if a word is no flag.
    fn parse(text: &str) -> Option<Self> {
        text.split_ascii_whitespace().try_fold(Self::default(), |flags, word| {
            let flag = Flag::ALL.iter().find(|flag| flag.name() == word);
            flag.map(|flag| flags.with(*flag))
        })
    }
}

/// Where a command has keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySpec {
    /// What happens to the keys.
    pub flags: Vec<&'static str>,
    /// Where to begin to look for them.
    pub begin: Begin,
    /// Which arguments they are from there on.
    pub find: Find,
}

/// Where to begin to look for keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// At this argument.
    Index(i64),
    /// Behind this word, from an argument on.
    Keyword(&'static str, i64),
    /// The arguments decide in their own way.
    Unknown,
}

/// Which arguments are keys from there on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Find {
    /// Up to `last` arguments behind the beginning, or to so many from the end. `limit` divides what is left.
    Range {
        /// The last key.
        last: i64,
        /// From one key to the next.
        step: i64,
        /// Divides what is left, if it is more than 1.
        limit: i64,
    },
    /// As many as an argument says.
    Keynum {
        /// Where this argument is.
        index: i64,
        /// Where the first key is.
        first: i64,
        /// From one key to the next.
        step: i64,
    },
    /// The arguments decide in their own way.
    Unknown,
}

/// Positions of keys among the arguments. All are zero if there are no keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyPositions {
    /// Index of the first key.
    pub first: i64,
    /// Index of the last key. A negative index counts from the end.
    pub last: i64,
    /// Distance from one key to the next.
    pub step: i64,
}

static TABLE: LazyLock<Vec<Facts>> = LazyLock::new(|| {
    let lines = COMMANDS.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| Facts::parse(line).unwrap_or_else(|| panic!("a line of commands.txt is wrong: {line}")))
        .collect()
});

impl Facts {
    /// All commands, in the order of their names, each followed by its subcommands.
    #[must_use]
    pub fn all() -> &'static [Self] {
        &TABLE
    }

    /// The facts about the command of this name in lower case, such as `get` or `client|list`.
    #[must_use]
    pub fn of(name: &str) -> Option<&'static Self> {
        static BY_NAME: LazyLock<HashMap<&str, &Facts>> =
            LazyLock::new(|| TABLE.iter().map(|facts| (facts.name, facts)).collect());
        BY_NAME.get(name).copied()
    }

    /// The id of the command; that of a subcommand is unknown.
    #[must_use]
    pub const fn id(&self) -> CommandId {
        CommandId::of(self.name.as_bytes())
    }

    /// The facts of a line; `None` if it has another form.
    fn parse(line: &'static str) -> Option<Self> {
        let cells: Vec<&'static str> = line.splitn(10, " | ").map(str::trim).collect();
        let [name, arity, since, group, flags, categories, cost, tips, key_specs, summary] = cells[..] else {
            return None;
        };
        let flags = Flags::parse(flags)?;
        let key_specs = key_specs.split(';').map(str::trim).filter(|spec| !spec.is_empty());
        Some(Self {
            name,
            arity: arity.parse().ok()?,
            since,
            group,
            flags,
            categories: categories_of(group, flags, categories),
            cost,
            tips: tips.split_ascii_whitespace().collect(),
            key_specs: key_specs.map(KeySpec::parse).collect::<Option<_>>()?,
            summary,
        })
    }

    /// First key, last key and step of the key specifications that count, as COMMAND INFO has shown them before there
    /// were such.
    #[must_use]
    pub fn positions(&self, counts: impl Fn(&KeySpec) -> bool) -> KeyPositions {
        let mut found: Option<KeyPositions> = None;
        for spec in self.key_specs.iter().filter(|spec| counts(spec)) {
            let (Begin::Index(first), Find::Range { last, step, .. }) = (spec.begin, spec.find) else {
                continue;
            };
            let last = if last >= 0 { first + last } else { last };
            match &mut found {
                None => found = Some(KeyPositions { first, last, step }),
                // Another range right behind the first one belongs to it.
                Some(keys) if keys.step == 1 && step == 1 && keys.last == first - 1 => keys.last = last,
                Some(_) => {}
            }
        }
        found.unwrap_or_default()
    }
}

/// The categories that follow from the group and the flags, with those of `others`, and without those that have a minus
/// there.
fn categories_of(group: &str, flags: Flags, others: &str) -> Vec<&'static str> {
    let of_group = match group {
        "generic" => "keyspace",
        "sorted-set" => "sortedset",
        "transactions" => "transaction",
        group => group,
    };
    let others: Vec<&str> = others.split_ascii_whitespace().collect();
    let is_one = |category: &str| {
        let follows = match category {
            "read" => flags.contains(Flag::Readonly) && group != "scripting",
            "write" => flags.contains(Flag::Write),
            "admin" | "dangerous" => flags.contains(Flag::Admin),
            "pubsub" => flags.contains(Flag::PubSub),
            "blocking" => flags.contains(Flag::Blocking),
            "fast" => flags.contains(Flag::Fast),
            "slow" => !flags.contains(Flag::Fast),
            _ => false,
        };
        let is_taken = others.iter().any(|other| other.strip_prefix('-') == Some(category));
        others.contains(&category) || ((follows || category == of_group) && !is_taken)
    };
    CATEGORIES.into_iter().filter(|category| is_one(category)).collect()
}

impl KeySpec {
    /// Whether it finds keys, and not only what decides the node of a cluster.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        !self.flags.contains(&"not_key")
    }

    fn parse(text: &'static str) -> Option<Self> {
        let mut parts = text.split(',').map(str::trim);
        let flags = parts.next()?.split(' ').collect();
        let begin: Vec<_> = parts.next()?.split(' ').collect();
        let find: Vec<_> = parts.next()?.split(' ').collect();
        let number = |text: &str| text.parse().ok();
        Some(Self {
            flags,
            begin: match begin[..] {
                ["index", index] => Begin::Index(number(index)?),
                ["keyword", word, from] => Begin::Keyword(word, number(from)?),
                ["unknown"] => Begin::Unknown,
                _ => return None,
            },
            find: match find[..] {
                ["range", last, step, limit] => Find::Range {
                    last: number(last)?,
                    step: number(step)?,
                    limit: number(limit)?,
                },
                ["keynum", index, first, step] => Find::Keynum {
                    index: number(index)?,
                    first: number(first)?,
                    step: number(step)?,
                },
                ["unknown"] => Find::Unknown,
                _ => return None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read() {
        let lines = COMMANDS.lines().filter(|line| !line.starts_with('#'));
        for (line, facts) in lines.clone().zip(Facts::all()) {
            assert_eq!(line.split(' ').next(), Some(facts.name), "{line}");
            assert_eq!(Facts::of(facts.name), Some(facts), "{line}");
            let mut categories = line.split(" | ").nth(5).expect(line).split_ascii_whitespace();
            assert!(categories.all(|word| CATEGORIES.contains(&word.trim_start_matches('-'))), "{line}");
        }
        let place = |facts: &Facts| facts.name.split_once('|').unwrap_or((facts.name, ""));
        assert!(Facts::all().is_sorted_by_key(place), "the lines are in the order of their names");
        assert_eq!(lines.count(), Facts::all().len());
        assert_eq!(Facts::of("nosuch"), None);
    }

    #[test]
    fn positions_of_keys_follow_from_their_specifications() {
        for (name, [first, last, step]) in [
            ("get", [1, 1, 1]),
            ("mset", [1, -1, 2]),
            ("rename", [1, 2, 1]),
            ("blpop", [1, -2, 1]),
            ("xread", [0, 0, 0]),
            ("sort", [1, 1, 1]),
            ("eval", [0, 0, 0]),
            ("ping", [0, 0, 0]),
        ] {
            let positions = Facts::of(name).expect(name).positions(|_| true);
            assert_eq!(positions, KeyPositions { first, last, step }, "{name}");
        }
    }

    #[test]
    fn categories_follow_from_the_group_and_the_flags() {
        for (name, expected) in [
            ("get", "read string fast"),
            ("mset", "write string slow"),
            ("sort", "write set sortedset list slow dangerous"),
            ("client|list", "admin slow dangerous connection"),
            ("eval_ro", "slow scripting"),
            ("object", "slow"),
        ] {
            assert_eq!(Facts::of(name).expect(name).categories.join(" "), expected, "{name}");
        }
    }
}
