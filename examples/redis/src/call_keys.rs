//! The keys of a call, by the key specifications of its command: COMMAND GETKEYS.

use crate::command_facts::{Begin, Facts, Find, KeySpec};
use crate::parse;

/// A key of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallKey<'a> {
    pub(crate) name: &'a [u8],
    /// What the call does with it, in the words of key specifications.
    pub(crate) flags: &'a [&'static str],
}

const READ: &[&str] = &["RO", "access"];
const OVERWRITTEN: &[&str] = &["OW", "update"];
const READ_AND_CHANGED: &[&str] = &["RW", "access", "update"];

/// The keys of the call `args`, whose command is `name`. `None` if the arguments do not say which these are.
pub(crate) fn keys_of<'a>(
    name: &str,
    facts: &'a Facts,
    args: &'a [&'a [u8]],
) -> Option<Vec<CallKey<'a>>> {
    let has_word = |words: &[&str]| {
        let mut rest = args.iter().skip(2);
        rest.any(|arg| words.iter().any(|word| parse::is(arg, word)))
    };
    let first = |flags| {
        Some(vec![CallKey {
            name: args.get(1)?,
            flags,
        }])
    };
    match name {
        "sort" | "sort_ro" => sorted(args),
        "set" => first(if has_word(&["GET"]) {
            READ_AND_CHANGED
        } else {
            OVERWRITTEN
        }),
        "bitfield" => first(if has_word(&["SET", "INCRBY"]) {
            READ_AND_CHANGED
        } else {
            READ
        }),
        _ => {
            let specs = facts.key_specs.iter();
            let specs = specs.filter(|spec| !spec.flags.contains(&"not_key"));
            let mut keys = Vec::new();
            for spec in specs {
                add(spec, args, &mut keys)?;
            }
            Some(keys)
        }
    }
}

/// What is sorted, and the key behind the last STORE.
fn sorted<'a>(args: &'a [&'a [u8]]) -> Option<Vec<CallKey<'a>>> {
    let mut keys = vec![CallKey {
        name: args.get(1)?,
        flags: READ,
    }];
    let pairs = args.get(2..).unwrap_or_default().windows(2);
    let mut stores = pairs.filter(|pair| parse::is(pair[0], "STORE"));
    keys.extend(stores.next_back().map(|pair| CallKey {
        name: pair[1],
        flags: OVERWRITTEN,
    }));
    Some(keys)
}

/// Adds the keys that `spec` finds.
fn add<'a>(spec: &'a KeySpec, args: &'a [&'a [u8]], keys: &mut Vec<CallKey<'a>>) -> Option<()> {
    let count = i64::try_from(args.len()).ok()?;
    let at = |index: i64| args.get(usize::try_from(index).ok()?).copied();
    let begin = match spec.begin {
        Begin::Index(index) => index,
        Begin::Keyword(word, from) => {
            let is_word = |index: &i64| at(*index).is_some_and(|arg| parse::is(arg, word));
            let found = if from > 0 {
                (from..count).find(is_word)
            } else {
                (1..=count + from).rev().find(is_word)
            };
            match found {
                Some(index) => index + 1,
                None => return Some(()),
            }
        }
        Begin::Unknown => return None,
    };
    let (first, last, step) = match spec.find {
        Find::Range { last, step, .. } if last >= 0 => (begin, begin + last, step),
        Find::Range { last, step, limit } if limit <= 1 => (begin, count + last, step),
        Find::Range { last, step, limit } => (begin, begin + (count - begin) / limit + last, step),
        Find::Keynum { index, first, step } => {
            let keys = parse::integer(at(begin + index)?).ok()?;
            // More keys than there are arguments are no keys at all.
            let keys = (0..=count).contains(&keys).then_some(keys)?;
            (begin + first, begin + first + (keys - 1) * step, step)
        }
        Find::Unknown => return None,
    };
    let mut index = first;
    while index <= last {
        keys.push(CallKey {
            name: at(index)?,
            flags: &spec.flags,
        });
        index += step.max(1);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(line: &str) -> Option<String> {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut name = args[0].to_ascii_lowercase();
        if ["memory", "object", "xgroup"]
            .iter()
            .any(|it| parse::is(args[0], it))
        {
            name.extend([b"|", args[1]].concat());
        }
        let name = String::from_utf8(name).expect("text");
        let keys = keys_of(&name, Facts::of(&name), &args)?;
        let texts = keys.iter().map(|key| {
            let name = String::from_utf8_lossy(key.name);
            format!("{name}:{}", key.flags.join(","))
        });
        Some(texts.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn keys_are_found_as_redis_finds_them() {
        for (line, expected) in [
            ("get k", "k:RO,access"),
            ("set k v", "k:OW,update"),
            ("set k v GET", "k:RW,access,update"),
            ("mset a 1 b 2", "a:OW,update b:OW,update"),
            ("lmove a b left right", "a:RW,access,delete b:RW,insert"),
            ("sort a BY x store b", "a:RO,access b:OW,update"),
            (
                "georadius a 1 2 3 m STORE b STOREDIST c",
                "a:RO,access b:OW,update c:OW,update",
            ),
            ("memory usage k", "k:RO"),
            ("xgroup create k g $", "k:RW,insert"),
            ("eval s 1 k x", "k:RW,access,update"),
            ("eval s 0 x", ""),
            ("zunionstore d 2 a b", "d:OW,update a:RO,access b:RO,access"),
            ("xread COUNT 2 STREAMS a b 0 0", "a:RO,access b:RO,access"),
            ("xread COUNT 2", ""),
            ("blpop a b 0", "a:RW,access,delete b:RW,access,delete"),
            ("lcs a b", "a:RO,access b:RO,access"),
            ("bitfield k GET u8 0", "k:RO,access"),
            ("bitfield k SET u8 0 1", "k:RW,access,update"),
        ] {
            assert_eq!(keys(line).as_deref(), Some(expected), "{line}");
        }
        for line in [
            "eval s 2 a",
            "eval s x a",
            "eval s -1 a",
            "zunionstore d 9999999999 a",
        ] {
            assert_eq!(keys(line), None, "{line}");
        }
    }
}
