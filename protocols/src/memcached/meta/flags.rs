//! Flags of meta commands.

use crate::memcached::text::{BAD_FORMAT, RequestError, Words, parse_number};

/// Longest opaque in bytes, including its flag.
const OPAQUE_LEN_MAX: usize = 32;

const DUPLICATE: RequestError = RequestError::new("CLIENT_ERROR duplicate flag");
const INVALID: RequestError = RequestError::new("CLIENT_ERROR invalid flag");
const BAD_TOKEN: RequestError = RequestError::new("CLIENT_ERROR bad token in command line format");
const BAD_MODE_LEN: RequestError = RequestError::new("CLIENT_ERROR incorrect length for M token");
const BAD_INITIAL: RequestError = RequestError::new("CLIENT_ERROR invalid numeric initial value");
const BAD_DELTA: RequestError = RequestError::new("CLIENT_ERROR invalid numeric delta value");
const LONG_OPAQUE: RequestError = RequestError::new("CLIENT_ERROR opaque token too long");

/// The flags of one command, each at most once. As in memcached, a command may have the flags of any
/// command, and its handler ignores flags that do not apply.
///
/// The reply repeats the flags that ask for something (`c f h k l O s t`, and `b` with `k`) in the
/// order of [`in_order`](Self::in_order).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags<'a> {
    words: Words<'a>,
    /// A bit for each flag, by its ASCII code.
    seen: u128,
    /// `N`: on a miss, create an item with this expiration time.
    pub vivify: Option<i64>,
    /// `T`: the new expiration time.
    pub ttl: Option<i64>,
    /// `R`: the client may win the right to recache when the item expires in less than this.
    pub recache: Option<i64>,
    /// `F`: client flags.
    pub client_flags: Option<u32>,
    /// `C`: the CAS value that the item must have.
    pub compare_cas: Option<u64>,
    /// `E`: the CAS value that the item gets.
    pub new_cas: Option<u64>,
    /// `J`: the initial value of a number that is created on a miss.
    pub initial: Option<u64>,
    /// `D`: the number to add or subtract, 1 by default.
    pub delta: Option<u64>,
    /// `M`
    pub(super) mode: Option<u8>,
}

/// One flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag<'a> {
    /// Its letter.
    pub code: u8,
    /// The text after the letter, e.g. the opaque of `O`.
    pub token: &'a [u8],
}

impl<'a> Flags<'a> {
    /// Parses the words after the key and the length.
    pub(super) fn parse(words: Words<'a>) -> Result<Self, RequestError> {
        let mut flags = Self { words, ..Self::default() };
        for Flag { code, token } in flags.in_order() {
            if !code.is_ascii() || flags.has(code) {
                return Err(DUPLICATE);
            }
            flags.seen |= 1 << code;
            match code {
                b'N' => flags.vivify = Some(parse_number(token).ok_or(BAD_TOKEN)?),
                b'T' => flags.ttl = Some(parse_number(token).ok_or(BAD_TOKEN)?),
                b'R' => flags.recache = Some(parse_number(token).ok_or(BAD_TOKEN)?),
                b'F' => flags.client_flags = Some(parse_number(token).ok_or(BAD_FORMAT)?),
                b'C' => flags.compare_cas = Some(parse_number(token).ok_or(BAD_TOKEN)?),
                b'E' => flags.new_cas = Some(parse_number(token).ok_or(BAD_TOKEN)?),
                b'J' => flags.initial = Some(parse_number(token).ok_or(BAD_INITIAL)?),
                b'D' => flags.delta = Some(parse_number(token).ok_or(BAD_DELTA)?),
                b'M' => match token {
                    [mode] => flags.mode = Some(*mode),
                    _ => return Err(BAD_MODE_LEN),
                },
                b'O' if token.len() >= OPAQUE_LEN_MAX => return Err(LONG_OPAQUE),
                b'b' | b'c' | b'f' | b'h' | b'k' | b'l' | b'q' | b's' | b't' | b'u' | b'v' | b'x' | b'I' | b'L'
                | b'O' | b'P' => {}
                _ => return Err(INVALID),
            }
        }
        Ok(flags)
    }

    /// Whether the command has the flag with this letter: `flags.has(b'v')`.
    #[must_use]
    pub fn has(&self, code: u8) -> bool {
        code.is_ascii() && self.seen & (1 << code) != 0
    }

    /// `q`: the server omits the usual reply (`HD` of `ms`, `md` and `ma`; `EN` of `mg`).
    #[must_use]
    pub fn quiet(&self) -> bool {
        self.has(b'q')
    }

    /// The flags in the order of the request.
    pub fn in_order(&self) -> impl Iterator<Item = Flag<'a>> + use<'a> {
        self.words.map(|word| Flag { code: word[0], token: &word[1..] })
    }
}
