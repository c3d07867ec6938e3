//! Requests of the meta commands.

use crate::memcached::item::KEY_LEN_MAX;
use crate::memcached::text::{BAD_FORMAT, ERROR, RequestError, StoreMode, Words, data_of_block, parse_data_len};

use super::flags::Flags;
use super::key::Key;

/// Most words of a meta command.
const WORDS_MAX: usize = 19;

const MANY_FLAGS: RequestError = RequestError::new("CLIENT_ERROR options flags too long");
const MANY_GET_FLAGS: RequestError = RequestError::new("CLIENT_ERROR options flags are too long");
const BAD_KEY: RequestError = RequestError::new("CLIENT_ERROR error decoding key");
const BAD_FLAG: RequestError = RequestError::new("CLIENT_ERROR invalid or duplicate flag");
const BAD_SET_MODE: RequestError = RequestError::new("CLIENT_ERROR invalid mode for ms M token");
const BAD_ARITHMETIC_MODE: RequestError = RequestError::new("CLIENT_ERROR invalid mode for ma M token");

/// One meta command, borrowed from its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// `mn`: the reply is `MN`.
    Noop,
    /// `mg <key> <flags>*`
    Get(Keyed<'a>),
    /// `ms <key> <datalen> <flags>*` and its data
    Set {
        /// Key and flags.
        keyed: Keyed<'a>,
        /// The flag `M`. With a [`compare_cas`](Flags::compare_cas), the item must also have that
        /// CAS value.
        mode: StoreMode,
        /// The data, without its CRLF.
        data: &'a [u8],
    },
    /// `md <key> <flags>*`
    Delete(Keyed<'a>),
    /// `ma <key> <flags>*`
    Arithmetic {
        /// Key and flags.
        keyed: Keyed<'a>,
        /// Whether the flag `M` asks to subtract.
        decrement: bool,
    },
    /// `me <key> [b]`
    Debug(Key<'a>),
}

/// Key and flags of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keyed<'a> {
    /// The key.
    pub key: Key<'a>,
    /// The flags.
    pub flags: Flags<'a>,
}

impl<'a> Keyed<'a> {
    fn new(text: &'a [u8], flags: Words<'a>) -> Result<Self, RequestError> {
        let flags = Flags::parse(flags)?;
        let is_base64 = flags.has(b'b');
        let key = Key { text, is_base64 };
        match key.decode(&mut [0; KEY_LEN_MAX]) {
            Some(_) => Ok(Self { key, flags }),
            None => Err(BAD_KEY),
        }
    }

    /// Parses the words after the name of a command without data.
    fn parse(mut words: Words<'a>) -> Result<Self, RequestError> {
        let key = key(&mut words)?;
        Self::new(key, words)
    }

    /// Like [`parse`](Self::parse), with the errors of `md` and `ma`.
    fn parse_terse(words: Words<'a>) -> Result<Self, RequestError> {
        let mut flags = words;
        let text = key(&mut flags)?;
        Self::new(text, flags).map_err(|_| BAD_FLAG)
    }
}

/// Takes the key from the words after the name of a command. Refuses too many words.
fn key<'a>(words: &mut Words<'a>) -> Result<&'a [u8], RequestError> {
    // Plus one for the name of the command.
    let word_count = (*words).take(WORDS_MAX).count() + 1;
    let key = words.next().ok_or(ERROR)?;
    if key.len() > KEY_LEN_MAX {
        return Err(BAD_FORMAT);
    }
    if word_count > WORDS_MAX {
        return Err(MANY_FLAGS);
    }
    Ok(key)
}

/// Takes the key of `ms` and the length of its data from the words after the name.
fn key_and_len<'a>(words: &mut Words<'a>) -> Result<(&'a [u8], usize), RequestError> {
    let key = key(words)?;
    let len = words.next().and_then(parse_data_len).ok_or(BAD_FORMAT)?;
    Ok((key, len))
}

/// The key and the length of the data that `ms` announces with these words after its name.
pub(crate) fn announced(mut words: Words<'_>) -> Result<(&[u8], usize), RequestError> {
    key_and_len(&mut words)
}

impl<'a> Request<'a> {
    /// Parses the command `name` with the words after it and the data block after its line.
    pub(crate) fn parse(name: &[u8], mut words: Words<'a>, block: &'a [u8]) -> Result<Self, RequestError> {
        match name {
            b"mn" => Ok(Self::Noop),
            b"mg" => match Keyed::parse(words) {
                Err(MANY_FLAGS) => Err(MANY_GET_FLAGS),
                keyed => keyed.map(Self::Get),
            },
            b"ms" => {
                let (key, data_len) = key_and_len(&mut words)?;
                let keyed = Keyed::new(key, words)?;
                let mode = match keyed.flags.mode {
                    None | Some(b'S') => StoreMode::Set,
                    Some(b'E') => StoreMode::Add,
                    Some(b'A') => StoreMode::Append,
                    Some(b'P') => StoreMode::Prepend,
                    Some(b'R') => StoreMode::Replace,
                    Some(_) => return Err(BAD_SET_MODE),
                };
                let data = data_of_block(block, data_len)?;
                Ok(Self::Set { keyed, mode, data })
            }
            b"md" => Keyed::parse_terse(words).map(Self::Delete),
            b"ma" => {
                let keyed = Keyed::parse_terse(words)?;
                let decrement = match keyed.flags.mode {
                    None | Some(b'I' | b'+') => false,
                    Some(b'D' | b'-') => true,
                    Some(_) => return Err(BAD_ARITHMETIC_MODE),
                };
                Ok(Self::Arithmetic { keyed, decrement })
            }
            b"me" => debug(words).map(Self::Debug),
            _ => Err(ERROR),
        }
    }
}

fn debug(mut words: Words<'_>) -> Result<Key<'_>, RequestError> {
    let text = words.next().ok_or(BAD_FORMAT)?;
    let is_base64 = words.next() == Some(b"b");
    let key = Key { text, is_base64 };
    let is_valid = text.len() <= KEY_LEN_MAX && key.decode(&mut [0; KEY_LEN_MAX]).is_some();
    if is_valid { Ok(key) } else { Err(BAD_FORMAT) }
}

#[cfg(test)]
mod tests {
    use crate::memcached::meta::Flag;
    use crate::memcached::text;

    use super::*;

    fn parse(frame: &str) -> Result<Request<'_>, &'static str> {
        match text::Request::parse(frame.as_bytes()) {
            Ok(text::Request::Meta(request)) => Ok(request),
            Ok(other) => panic!("{frame:?} is {other:?}"),
            Err(error) => Err(error.text),
        }
    }

    /// The errors of memcached 1.6.18, which has no flags `E` and `x`.
    #[test]
    fn refusals_are_those_of_memcached() {
        const FORMAT: &str = "CLIENT_ERROR bad command line format";
        const TOKEN: &str = "CLIENT_ERROR bad token in command line format";
        const FLAG: &str = "CLIENT_ERROR invalid or duplicate flag";
        const KEY: &str = "CLIENT_ERROR error decoding key";
        let long = "k".repeat(KEY_LEN_MAX + 1);
        let opaque = "O".repeat(33);
        for (line, text) in [
            ("mg", "ERROR"),
            ("mg k v v", "CLIENT_ERROR duplicate flag"),
            ("mg k !", "CLIENT_ERROR invalid flag"),
            ("mg k Tabc", TOKEN),
            ("mg k b", KEY),
            ("mg !!! b", KEY),
            (&format!("mg {long}"), FORMAT),
            (&format!("mg k {opaque}"), "CLIENT_ERROR opaque token too long"),
            ("mg k b c f h k l q s t u v I P L O N1 T1 R1", "CLIENT_ERROR options flags are too long"),
            ("ms k 1 c f h k l q s t u v I P L O N1 T1 R1", "CLIENT_ERROR options flags too long"),
            ("ms", "ERROR"),
            ("ms k", FORMAT),
            ("ms k abc", FORMAT),
            ("ms k -1", FORMAT),
            ("ms k S1", FORMAT),
            ("ms k 1 !", "CLIENT_ERROR invalid flag"),
            ("ms k 1 MZ", "CLIENT_ERROR invalid mode for ms M token"),
            ("ms k 1 MSS", "CLIENT_ERROR incorrect length for M token"),
            ("ms k 1 Fabc", FORMAT),
            ("ms k 1 C-5", TOKEN),
            ("ms k 1 T", TOKEN),
            ("ms k 1 Jx", "CLIENT_ERROR invalid numeric initial value"),
            ("ms k 1 Dx", "CLIENT_ERROR invalid numeric delta value"),
            ("ms k 1 q", "SERVER_ERROR object too large for cache"),
            ("md", "ERROR"),
            ("md k v v", FLAG),
            ("md k !", FLAG),
            ("ma k Dabc", FLAG),
            ("ma k MZ", "CLIENT_ERROR invalid mode for ma M token"),
            ("me", FORMAT),
            ("me !!! b", FORMAT),
        ] {
            assert_eq!(parse(&format!("{line}\r\n")), Err(text), "{line}");
        }
        assert_eq!(parse("ms k 1 q\r\nabc"), Err("CLIENT_ERROR bad data chunk"));
    }

    fn flags(frame: &str) -> Flags<'_> {
        match parse(frame) {
            Ok(Request::Get(keyed)) => keyed.flags,
            other => panic!("{frame:?} is {other:?}"),
        }
    }

    #[test]
    fn every_flag_is_understood() {
        let all = flags("mg k c f h k l q s t u v I x P/a L/b O12\n");
        for code in b"cfhklqstuvIxPLO" {
            assert!(all.has(*code), "{}", char::from(*code));
        }
        assert!(!all.has(b'b') && !all.has(b'N') && !all.has(0xff));
        assert!(all.quiet());
        let last = all.in_order().last();
        assert_eq!(last, Some(Flag { code: b'O', token: b"12" }));
        let numbers = flags("mg k N30 T-1 R5 F4294967295 C1 E2 J3 D4\r\n");
        assert_eq!((numbers.vivify, numbers.ttl, numbers.recache), (Some(30), Some(-1), Some(5)));
        assert_eq!(numbers.client_flags, Some(u32::MAX));
        assert_eq!((numbers.compare_cas, numbers.new_cas), (Some(1), Some(2)));
        assert_eq!((numbers.initial, numbers.delta), (Some(3), Some(4)));
    }

    #[test]
    fn commands_and_modes() {
        assert_eq!(parse("mn\r\n"), Ok(Request::Noop));
        assert_eq!(parse("mn x y\r\n"), Ok(Request::Noop));
        for (letter, expected) in [
            ("", StoreMode::Set),
            ("MS", StoreMode::Set),
            ("ME", StoreMode::Add),
            ("MA", StoreMode::Append),
            ("MP", StoreMode::Prepend),
            ("MR", StoreMode::Replace),
        ] {
            let frame = format!("ms k 2 {letter}\r\nab\r\n");
            let Ok(Request::Set { keyed, mode, data }) = parse(&frame) else {
                panic!("{frame:?}");
            };
            assert_eq!((keyed.key.text, mode, data), (&b"k"[..], expected, &b"ab"[..]));
        }
        for (letter, expected) in [("", false), ("MI", false), ("M+", false), ("MD", true), ("M-", true)] {
            let frame = format!("ma k {letter}\r\n");
            let Ok(Request::Arithmetic { decrement, .. }) = parse(&frame) else {
                panic!("{frame:?}");
            };
            assert_eq!(decrement, expected);
        }
        let Ok(Request::Delete(keyed)) = parse("md Zm9v b q\r\n") else {
            panic!("md");
        };
        let mut buffer = [0; KEY_LEN_MAX];
        assert_eq!(keyed.key.decode(&mut buffer), Some(&b"foo"[..]));
        let key = Key { text: b"Zm9v", is_base64: true };
        assert_eq!(parse("me Zm9v b\r\n"), Ok(Request::Debug(key)));
    }
}
