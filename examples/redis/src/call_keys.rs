//! The keys of a call, by the key specifications of its command: for COMMAND GETKEYS, and for users that may not touch
//! all keys.

use psp_protocols::resp::{Begin, Facts, Find, KeySpec};
use smallvec::SmallVec;

use crate::parse;

/// A key of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallKey<'a> {
    pub(crate) name: &'a [u8],
    /// Its place among the arguments.
    pub(crate) index: usize,
    /// What the call does with it, in the words of key specifications.
    pub(crate) flags: &'a [&'static str],
}

/// The keys of a call.
pub(crate) type Keys<'a> = SmallVec<[CallKey<'a>; 4]>;

const READ: &[&str] = &["RO", "access"];
const OVERWRITTEN: &[&str] = &["OW", "update"];
const READ_AND_CHANGED: &[&str] = &["RW", "access", "update"];

/// The keys of the call `args`, whose command has these facts. `None` if the arguments do not say which these are.
pub(crate) fn keys_of<'a>(facts: &'a Facts, args: &'a [&'a [u8]]) -> Option<Keys<'a>> {
    let has_word = |from: usize, words: &[&str]| {
        let mut rest = args.iter().skip(from);
        rest.any(|arg| words.iter().any(|word| parse::is(arg, word)))
    };
    let first = |flags| Some(Keys::from_iter([key_at(args, 1, flags)?]));
    match facts.name {
        "sort" | "sort_ro" => sorted(args),
        "xread" | "xreadgroup" => streams(facts, args),
        "set" => first(if has_word(3, &["GET"]) {
            READ_AND_CHANGED
        } else {
            OVERWRITTEN
        }),
        "bitfield" => first(if has_word(2, &["SET", "INCRBY"]) {
            READ_AND_CHANGED
        } else {
            READ
        }),
        _ => {
            let mut keys = Keys::new();
            for spec in facts.key_specs.iter().filter(|spec| spec.has_keys()) {
                add(spec, args, &mut keys)?;
            }
            Some(keys)
        }
    }
}

fn key_at<'a>(args: &'a [&'a [u8]], index: usize, flags: &'a [&'static str]) -> Option<CallKey<'a>> {
    let name = args.get(index)?;
    Some(CallKey { name, index, flags })
}

/// What is sorted, and the key behind the last option STORE.
fn sorted<'a>(args: &'a [&'a [u8]]) -> Option<Keys<'a>> {
    let mut keys = Keys::from_iter([key_at(args, 1, READ)?]);
    let (mut index, mut destination) = (2, None);
    while let Some(option) = args.get(index) {
        let is = |word| parse::is(option, word);
        if is("STORE") {
            destination = key_at(args, index + 1, OVERWRITTEN).or(destination);
        }
        index += match () {
            () if is("LIMIT") => 3,
            () if is("STORE") || is("BY") || is("GET") => 2,
            () => 1,
        };
    }
    keys.extend(destination);
    Some(keys)
}

/// The first half of what follows the option STREAMS. A group may have that name, too.
fn streams<'a>(facts: &'a Facts, args: &'a [&'a [u8]]) -> Option<Keys<'a>> {
    let mut index = 1;
    while let Some(option) = args.get(index) {
        let is = |word| parse::is(option, word);
        index += match () {
            () if is("STREAMS") => break,
            () if is("GROUP") => 3,
            () if is("COUNT") || is("BLOCK") => 2,
            () => 1,
        };
    }
    let first = index + 1;
    let count = args.len().saturating_sub(first) / 2;
    let flags = &facts.key_specs.first()?.flags;
    let keys = first..first + count;
    keys.map(|index| key_at(args, index, flags)).collect()
}

/// Adds the keys that `spec` finds.
fn add<'a>(spec: &'a KeySpec, args: &'a [&'a [u8]], keys: &mut Keys<'a>) -> Option<()> {
    let count = i64::try_from(args.len()).ok()?;
    let at = |index: i64| args.get(usize::try_from(index).ok()?).copied();
    if let (Begin::Keyword(word, from @ 1..), Find::Range { last: 0, .. }) = (spec.begin, spec.find) {
        // The last one counts for the command, and who may not touch an earlier one has no reason to name it.
        let from = usize::try_from(from).ok()?;
        let found = (from..args.len()).filter(|index| parse::is(args[*index], word));
        keys.extend(found.filter_map(|index| key_at(args, index + 1, &spec.flags)));
        return Some(());
    }
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
        keys.push(key_at(args, usize::try_from(index).ok()?, &spec.flags)?);
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
        if ["memory", "object", "xgroup"].iter().any(|it| parse::is(args[0], it)) {
            name.extend([b"|", args[1]].concat());
        }
        let name = String::from_utf8(name).expect("text");
        let keys = keys_of(Facts::of(&name).expect(line), &args)?;
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
            ("set k get", "k:OW,update"),
            ("mset a 1 b 2", "a:OW,update b:OW,update"),
            ("lmove a b left right", "a:RW,access,delete b:RW,insert"),
            ("sort a BY x store b", "a:RO,access b:OW,update"),
            ("sort a STORE STORE GET x", "a:RO,access STORE:OW,update"),
            ("sort a GET STORE BY store", "a:RO,access"),
            ("sort a STORE b LIMIT 0 1 STORE c", "a:RO,access c:OW,update"),
            ("georadius a 1 2 3 m STORE b STORE c", "a:RO,access b:OW,update c:OW,update"),
            ("georadius a 1 2 3 m STORE b STOREDIST c", "a:RO,access b:OW,update c:OW,update"),
            ("memory usage k", "k:RO"),
            ("xgroup create k g $", "k:RW,insert"),
            ("eval s 1 k x", "k:RW,access,update"),
            ("eval s 0 x", ""),
            ("zunionstore d 2 a b", "d:OW,update a:RO,access b:RO,access"),
            ("xread COUNT 2 STREAMS a b 0 0", "a:RO,access b:RO,access"),
            ("xread COUNT 2", ""),
            ("xreadgroup COUNT 1 GROUP STREAMS c STREAMS k >", "k:RO,access"),
            ("blpop a b 0", "a:RW,access,delete b:RW,access,delete"),
            ("lcs a b", "a:RO,access b:RO,access"),
            ("bitfield k GET u8 0", "k:RO,access"),
            ("bitfield k SET u8 0 1", "k:RW,access,update"),
        ] {
            assert_eq!(keys(line).as_deref(), Some(expected), "{line}");
        }
        for line in ["eval s 2 a", "eval s x a", "eval s -1 a", "zunionstore d 9999999999 a"] {
            assert_eq!(keys(line), None, "{line}");
        }
    }
}
