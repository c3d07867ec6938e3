//! Storage commands: a line, and a data block whose length the line announces.

use crate::memcached::item::KEY_LEN_MAX;
use crate::memcached::meta;

use super::error::{BAD_DATA_CHUNK, BAD_FORMAT, ERROR, RequestError, TOO_LARGE};
use super::line::{FewWords, Words};
use super::number::parse_number;

/// On what condition an item is stored, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreMode {
    /// `set`: in any case. `cas` is this with a [`cas`](Store::cas) value.
    Set,
    /// `add`: when there is none.
    Add,
    /// `replace`: when there is one.
    Replace,
    /// `append`: after the data that is there.
    Append,
    /// `prepend`: before the data that is there.
    Prepend,
}

/// `<command> <key> <flags> <exptime> <bytes> [<cas unique>] [noreply]` and its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Store<'a> {
    /// What to do; `set` of memcached's `cas` command.
    pub mode: StoreMode,
    /// The key, 1 to 250 bytes.
    pub key: &'a [u8],
    /// Opaque to the server. To be ignored with `append` and `prepend`.
    pub flags: u32,
    /// Seconds from now, or the time in Unix seconds if it is beyond 30 days; 0 is never, below it
    /// is at once. To be ignored with `append` and `prepend`.
    pub exptime: i32,
    /// Of `cas`: the item must still have this CAS value.
    pub cas: Option<u64>,
    /// The data, without its CRLF.
    pub data: &'a [u8],
    /// Not to be answered.
    pub noreply: bool,
}

/// The command of a line that a data block follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StorageVerb {
    Text { mode: StoreMode, with_cas: bool },
    Meta,
}

impl StorageVerb {
    #[inline]
    pub(super) fn from_name(name: &[u8]) -> Option<Self> {
        let (mode, with_cas) = match name {
            b"set" => (StoreMode::Set, false),
            b"add" => (StoreMode::Add, false),
            b"replace" => (StoreMode::Replace, false),
            b"append" => (StoreMode::Append, false),
            b"prepend" => (StoreMode::Prepend, false),
            b"cas" => (StoreMode::Set, true),
            b"ms" => return Some(Self::Meta),
            _ => return None,
        };
        Some(Self::Text { mode, with_cas })
    }
}

/// Lengths that a valid line of a storage command announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Announced {
    pub(super) key_len: usize,
    /// Bytes of the data block, its CRLF included.
    pub(super) block_len: usize,
}

/// What the line `words` announces; `None` when it is not one that a data block follows, because
/// its command has none or because memcached would answer it with an error and read no data.
#[inline]
pub(super) fn announced(mut words: Words<'_>) -> Option<Announced> {
    let (key, data_len) = match StorageVerb::from_name(words.next()?)? {
        StorageVerb::Text { mode, with_cas } => {
            let head = Head::parse(mode, with_cas, words).ok()?;
            (head.store.key, head.data_len)
        }
        StorageVerb::Meta => meta::announced(words).ok()?,
    };
    Some(Announced {
        key_len: key.len(),
        block_len: data_len + BLOCK_END.len(),
    })
}

const BLOCK_END: &[u8] = b"\r\n";

/// Bytes that a line can announce.
const DATA_LEN_MAX: usize = i32::MAX as usize - 2;

/// The line of a storage command.
struct Head<'a> {
    /// Its data is empty.
    store: Store<'a>,
    data_len: usize,
}

impl<'a> Head<'a> {
    /// Parses what follows the command.
    fn parse(mode: StoreMode, with_cas: bool, words: Words<'a>) -> Result<Self, RequestError> {
        let few = FewWords::new(words);
        let (key, flags, exptime, data_len, cas, last) = match (few.as_slice(), with_cas) {
            ([key, flags, exptime, len], false) => (key, flags, exptime, len, None, len),
            ([key, flags, exptime, len, last], false) => (key, flags, exptime, len, None, last),
            ([key, flags, exptime, len, cas], true) => (key, flags, exptime, len, Some(cas), cas),
            ([key, flags, exptime, len, cas, last], true) => {
                (key, flags, exptime, len, Some(cas), last)
            }
            _ => return Err(ERROR),
        };
        let noreply = *last == b"noreply";
        let head = || {
            Some(Self {
                store: Store {
                    mode,
                    key: Some(*key).filter(|key| key.len() <= KEY_LEN_MAX)?,
                    flags: parse_number(flags)?,
                    exptime: parse_number(exptime)?,
                    cas: match cas {
                        Some(cas) => Some(parse_number(cas)?),
                        None => None,
                    },
                    data: &[],
                    noreply,
                },
                data_len: parse_data_len(data_len)?,
            })
        };
        head().ok_or(BAD_FORMAT.unless(noreply))
    }
}

/// Parses the announced length of a data block, without its CRLF.
pub(crate) fn parse_data_len(word: &[u8]) -> Option<usize> {
    parse_number(word).filter(|len| *len <= DATA_LEN_MAX)
}

/// The data in `block`, which a line that announced `data_len` bytes is followed by.
///
/// A block that is not there was too long for the framing.
pub(crate) fn data_of_block(block: &[u8], data_len: usize) -> Result<&[u8], RequestError> {
    match block.split_at_checked(data_len) {
        Some((data, BLOCK_END)) => Ok(data),
        Some((_, [_, _])) => Err(BAD_DATA_CHUNK),
        _ => Err(TOO_LARGE),
    }
}

impl<'a> Store<'a> {
    /// Parses what follows the command, and the data block.
    pub(super) fn parse(
        mode: StoreMode,
        with_cas: bool,
        words: Words<'a>,
        block: &'a [u8],
    ) -> Result<Self, RequestError> {
        let Head { store, data_len } = Head::parse(mode, with_cas, words)?;
        match data_of_block(block, data_len) {
            Ok(data) => Ok(Self { data, ..store }),
            Err(error) => Err(error.unless(store.noreply)),
        }
    }
}
