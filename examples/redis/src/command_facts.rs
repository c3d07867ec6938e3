//! What COMMAND tells about commands beyond what dispatch needs of them: [`command_facts.txt`](self), read once.
//!
//! The facts are those of Redis 7.0 under the same names. Arity and subcommands are in the command table.

use std::sync::LazyLock;

use hashbrown::HashMap;

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The version of Redis that has the command first.
    pub(crate) since: &'static str,
    pub(crate) group: &'static str,
    pub(crate) flags: Vec<&'static str>,
    /// Categories of access control, without `@`.
    pub(crate) categories: Vec<&'static str>,
    /// For proxies and clients of clusters.
    pub(crate) tips: Vec<&'static str>,
    pub(crate) key_specs: Vec<KeySpec>,
    pub(crate) summary: &'static str,
}

/// Where a command has keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeySpec {
    /// What happens to the keys.
    pub(crate) flags: Vec<&'static str>,
    pub(crate) begin: Begin,
    pub(crate) find: Find,
}

/// Where to begin to look for keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// At this argument.
    Index(i64),
    /// Behind this word, from an argument on.
    Keyword(&'static str, i64),
    Unknown,
}

/// Which arguments are keys from there on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Find {
    /// Up to `last` arguments behind the beginning, or to so many from the end. `limit` divides what is left.
    Range {
        last: i64,
        step: i64,
        limit: i64,
    },
    /// As many as an argument says.
    Keynum {
        index: i64,
        first: i64,
        step: i64,
    },
    Unknown,
}

static TABLE: LazyLock<HashMap<&'static str, Facts>> = LazyLock::new(|| {
    let lines = include_str!("command_facts.txt").lines();
    let rows = lines.filter(|line| !line.starts_with('#'));
    rows.filter_map(Facts::parse).collect()
});

impl Facts {
    /// The names of all commands and subcommands with facts, in no order.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        TABLE.keys().copied()
    }

    /// The facts about the command of this name, such as `get` or `client|list`. None about commands that Redis has
    /// not.
    pub(crate) fn of(name: &str) -> &'static Self {
        static NONE: Facts = Facts {
            since: "",
            group: "server",
            flags: Vec::new(),
            categories: Vec::new(),
            tips: Vec::new(),
            key_specs: Vec::new(),
            summary: "",
        };
        TABLE.get(name).unwrap_or(&NONE)
    }

    /// The name and the facts of a line; `None` if it has another form.
    fn parse(line: &'static str) -> Option<(&'static str, Self)> {
        let mut cells = line.splitn(8, '|').map(str::trim);
        let mut name = cells.next()?;
        // The bar within the name of a subcommand has no spaces around it.
        let bar = line.find(" | ")?;
        if line[..bar].contains('|') {
            name = &line[..bar];
            cells = line[bar + 3..].splitn(7, '|').map(str::trim);
        }
        let mut words = || Some(cells.next()?.split_ascii_whitespace().collect::<Vec<_>>());
        let (since, group) = (words()?, words()?);
        let (flags, categories, tips) = (words()?, words()?, words()?);
        let key_specs = cells.next()?.split(';').map(str::trim);
        let key_specs = key_specs.filter(|spec| !spec.is_empty());
        let facts = Self {
            since: since.first().copied().unwrap_or_default(),
            group: group.first().copied().unwrap_or_default(),
            flags,
            categories,
            tips,
            key_specs: key_specs.map(KeySpec::parse).collect::<Option<_>>()?,
            summary: cells.next()?,
        };
        Some((name, facts))
    }

    /// First key, last key and step, as COMMAND INFO has shown them before there were key specifications.
    pub(crate) fn positions(&self) -> [i64; 3] {
        let mut found: Option<[i64; 3]> = None;
        for spec in &self.key_specs {
            let (Begin::Index(first), Find::Range { last, step, .. }) = (spec.begin, spec.find) else {
                continue;
            };
            let last = if last >= 0 { first + last } else { last };
            found = match found {
                None => Some([first, last, step]),
                // Another range right behind the first one belongs to it.
                Some([start, end, 1]) if step == 1 && end == first - 1 => Some([start, last, 1]),
                found => found,
            };
        }
        found.unwrap_or_default()
    }
}

impl KeySpec {
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
    use crate::command::CommandTable;

    #[test]
    fn every_line_is_read() {
        for line in include_str!("command_facts.txt").lines() {
            assert!(line.starts_with('#') || Facts::parse(line).is_some(), "{line}");
        }
    }

    #[test]
    fn every_command_has_facts_that_agree_with_the_command_table() {
        for entry in CommandTable::get().entries() {
            let facts = Facts::of(entry.name());
            assert!(!facts.summary.is_empty(), "{} has no line", entry.name());
            if entry.subcommand.is_some() {
                continue;
            }
            for flag in ["write", "denyoom", "pubsub", "blocking", "no_auth"] {
                let has = entry.spec.flags.iter().any(|it| it.name() == flag);
                let is_container = !entry.spec.subcommands.is_empty();
                assert!(facts.flags.contains(&flag) == has || is_container, "{} and {flag}", entry.name());
            }
        }
    }

    #[test]
    fn positions_of_keys_follow_from_their_specifications() {
        for (name, expected) in [
            ("get", [1, 1, 1]),
            ("mset", [1, -1, 2]),
            ("rename", [1, 2, 1]),
            ("blpop", [1, -2, 1]),
            ("xread", [0, 0, 0]),
            ("sort", [1, 1, 1]),
            ("eval", [0, 0, 0]),
            ("ping", [0, 0, 0]),
        ] {
            assert_eq!(Facts::of(name).positions(), expected, "{name}");
        }
    }
}
