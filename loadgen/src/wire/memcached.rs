//! Commands of memcached in its text and its meta protocol; see `doc/protocol.txt` of memcached.

use super::arguments::Arguments;
use super::expected::{Expected, Lookup};

/// The effect of a command, which decides its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// KEY...
    Get,
    /// SECONDS KEY...
    GetAndTouch,
    /// KEY VALUE [SECONDS]. The letter is the mode of `ms`.
    Store { mode: u8 },
    /// KEY
    Delete,
    /// KEY DELTA. The letter is the mode of `ma`.
    Count { mode: u8 },
    /// KEY SECONDS
    Touch,
}

/// A command by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verb {
    name: &'static str,
    /// The word of the text protocol.
    word: &'static [u8],
    action: Action,
    /// Fewest and most arguments.
    arguments: (usize, usize),
    /// The arguments in words, for error messages.
    pub(super) usage: &'static str,
}

const fn verb(
    name: &'static str,
    word: &'static [u8],
    action: Action,
    arguments: (usize, usize),
    usage: &'static str,
) -> Verb {
    Verb { name, word, action, arguments, usage }
}

const fn store(name: &'static str, word: &'static [u8], mode: u8, usage: &'static str) -> Verb {
    verb(name, word, Action::Store { mode }, (2, 3), usage)
}

const MANY: usize = usize::MAX;

const VERBS: &[Verb] = &[
    verb("GET", b"get", Action::Get, (1, MANY), "GET KEY..."),
    verb("MGET", b"get", Action::Get, (1, MANY), "MGET N or MGET KEY..."),
    verb("GAT", b"gat", Action::GetAndTouch, (2, MANY), "GAT SECONDS KEY..."),
    store("SET", b"set", b'S', "SET KEY VALUE [SECONDS]"),
    store("ADD", b"add", b'E', "ADD KEY VALUE [SECONDS]"),
    store("REPLACE", b"replace", b'R', "REPLACE KEY VALUE [SECONDS]"),
    store("APPEND", b"append", b'A', "APPEND KEY VALUE [SECONDS]"),
    store("PREPEND", b"prepend", b'P', "PREPEND KEY VALUE [SECONDS]"),
    verb("DELETE", b"delete", Action::Delete, (1, 1), "DELETE KEY"),
    verb("INCR", b"incr", Action::Count { mode: b'I' }, (2, 2), "INCR KEY DELTA"),
    verb("DECR", b"decr", Action::Count { mode: b'D' }, (2, 2), "DECR KEY DELTA"),
    verb("TOUCH", b"touch", Action::Touch, (2, 2), "TOUCH KEY SECONDS"),
];

impl Verb {
    /// The command called `name`, in any case.
    pub(super) fn named(name: &[u8]) -> Option<Self> {
        let mut verbs = VERBS.iter();
        let found = verbs.find(|verb| verb.name.as_bytes().eq_ignore_ascii_case(name));
        found.copied()
    }

    /// The names of all commands.
    pub(super) fn names() -> String {
        let names: Vec<_> = VERBS.iter().map(|verb| verb.name).collect();
        names.join(", ")
    }

    /// Whether the command accepts this number of arguments after its name.
    pub(super) fn takes(self, arguments: usize) -> bool {
        (self.arguments.0..=self.arguments.1).contains(&arguments)
    }

    /// Whether an argument, numbered from 0, is data. Data may hold any byte.
    pub(super) fn is_data(self, argument: usize) -> bool {
        matches!(self.action, Action::Store { .. }) && argument == 1
    }

    /// Writes the command in the text protocol. `arguments` begin with its name.
    pub(super) fn write_text(self, arguments: &Arguments, out: &mut Vec<u8>) -> Expected {
        let mut operands = arguments.iter().skip(1);
        out.extend_from_slice(self.word);
        let lookup = match self.action {
            Action::Store { .. } => {
                let key = operands.next().unwrap_or_default();
                let value = operands.next().unwrap_or_default();
                let seconds = operands.next().unwrap_or(b"0");
                push(out, &[b" ", key, b" 0 ", seconds, b" "]);
                push_data(out, value, &[]);
                return Expected::one(Lookup::None);
            }
            Action::Get => Lookup::keys(operands.len()),
            Action::GetAndTouch => Lookup::keys(operands.len().saturating_sub(1)),
            Action::Delete | Action::Count { .. } | Action::Touch => Lookup::keys(1),
        };
        for operand in operands {
            push(out, &[b" ", operand]);
        }
        push(out, &[b"\r\n"]);
        Expected::one(lookup)
    }

    /// Writes the command in the meta protocol, once for each key. `arguments` begin with its name.
    pub(super) fn write_meta(self, arguments: &Arguments, out: &mut Vec<u8>) -> Expected {
        let mut operands = arguments.iter().skip(1);
        let mut operand = || operands.next().unwrap_or_default();
        match self.action {
            Action::Get => return get_each(operands, &[b" v"], out),
            Action::GetAndTouch => {
                let seconds = operand();
                return get_each(operands, &[b" T", seconds, b" v"], out);
            }
            Action::Store { mode } => {
                let (key, value) = (operand(), operand());
                push(out, &[b"ms ", key, b" "]);
                match operands.next() {
                    Some(seconds) => push_data(out, value, &[b" M", &[mode], b" T", seconds]),
                    None => push_data(out, value, &[b" M", &[mode]]),
                }
                return Expected::one(Lookup::None);
            }
            Action::Delete => push(out, &[b"md ", operand(), b"\r\n"]),
            Action::Count { mode } => {
                let (key, delta) = (operand(), operand());
                push(out, &[b"ma ", key, b" D", delta, b" M", &[mode], b"\r\n"]);
            }
            Action::Touch => push(out, &[b"mg ", operand(), b" T", operand(), b"\r\n"]),
        }
        Expected::one(Lookup::keys(1))
    }
}

fn push(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// Ends the line with the length of `value` and `flags`, and appends the value.
fn push_data(out: &mut Vec<u8>, value: &[u8], flags: &[&[u8]]) {
    let mut digits = itoa::Buffer::new();
    push(out, &[digits.format(value.len()).as_bytes()]);
    push(out, flags);
    push(out, &[b"\r\n", value, b"\r\n"]);
}

/// An `mg` for each of `keys`. Each has a reply.
fn get_each<'a>(keys: impl ExactSizeIterator<Item = &'a [u8]>, flags: &[&[u8]], out: &mut Vec<u8>) -> Expected {
    let replies = keys.len();
    for key in keys {
        push(out, &[b"mg ", key]);
        push(out, flags);
        push(out, &[b"\r\n"]);
    }
    Expected {
        replies: u32::try_from(replies).unwrap_or(u32::MAX),
        lookup: Lookup::keys(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command in both protocols, and its expected replies.
    fn written(words: &[&str]) -> [(String, Expected); 2] {
        let mut arguments = Arguments::default();
        words.iter().for_each(|word| arguments.push(word.as_bytes()));
        let verb = Verb::named(words[0].as_bytes()).unwrap();
        assert!(verb.takes(words.len() - 1), "{words:?}");
        let write = |write: fn(Verb, &Arguments, &mut Vec<u8>) -> Expected| {
            let mut out = Vec::new();
            let expected = write(verb, &arguments, &mut out);
            (String::from_utf8(out).unwrap(), expected)
        };
        [write(Verb::write_text), write(Verb::write_meta)]
    }

    #[test]
    fn every_command_in_both_protocols() {
        let one_key = Expected::one(Lookup::keys(1));
        let nothing = Expected::one(Lookup::None);
        for (words, text, meta, expected) in [
            (&["get", "k"][..], "get k\r\n", "mg k v\r\n", one_key),
            (&["GAT", "9", "k"], "gat 9 k\r\n", "mg k T9 v\r\n", one_key),
            (&["SET", "k", "abc"], "set k 0 0 3\r\nabc\r\n", "ms k 3 MS\r\nabc\r\n", nothing),
            (&["ADD", "k", "", "60"], "add k 0 60 0\r\n\r\n", "ms k 0 ME T60\r\n\r\n", nothing),
            (&["DELETE", "k"], "delete k\r\n", "md k\r\n", one_key),
            (&["DECR", "k", "2"], "decr k 2\r\n", "ma k D2 MD\r\n", one_key),
            (&["TOUCH", "k", "5"], "touch k 5\r\n", "mg k T5\r\n", one_key),
        ] {
            let expected = [(text.to_owned(), expected), (meta.to_owned(), expected)];
            assert_eq!(written(words), expected);
        }
    }

    #[test]
    fn many_keys_have_one_reply_in_text_and_one_each_in_meta() {
        let [text, meta] = written(&["MGET", "a", "b"]);
        assert_eq!(text, ("get a b\r\n".to_owned(), Expected::one(Lookup::keys(2))));
        let expected = Expected { replies: 2, lookup: Lookup::keys(1) };
        assert_eq!(meta, ("mg a v\r\nmg b v\r\n".to_owned(), expected));
    }
}
