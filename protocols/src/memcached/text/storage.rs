//! Storage commands: a line, and a data block whose length the line announces.

use crate::memcached::item::KEY_LEN_MAX;
use crate::memcached::meta;

use super::error::{BAD_DATA_CHUNK, BAD_FORMAT, ERROR, RequestError, TOO_LARGE};
use super::line::{FewWords, Words};
use super::number::parse_number;

/// The condition for storing an item, and how it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreMode {
    /// `set`: always. `cas` is this mode with a [`cas`](Store::cas) value.
    Set,
    /// `add`: if the key has no item.
    Add,
    /// `replace`: if the key has an item.
    Replace,
    /// `append`: after the data of the key's item.
    Append,
    /// `prepend`: before the data of the key's item.
    Prepend,
}

/// `<command> <key> <flags> <exptime> <bytes> [<cas unique>] [noreply]` and its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Store<'a> {
    /// The mode; [`StoreMode::Set`] for the command `cas`.
    pub mode: StoreMode,
    /// The key, 1 to 250 bytes.
    pub key: &'a [u8],
    /// Opaque to the server. `append` and `prepend` ignore them.
    pub flags: u32,
    /// Seconds from now, or Unix time if beyond 30 days; 0 for never, negative for at once. `append`
    /// and `prepend` ignore it.
    pub exptime: i64,
    /// For `cas`: the item must still have this CAS value.
    pub cas: Option<u64>,
    /// The data, without its CRLF.
    pub data: &'a [u8],
    /// Whether the client asked for no reply.
    pub noreply: bool,
}

/// A command whose line is followed by a data block.
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

/// What follows the line of a storage command. Lengths of data blocks include their CRLF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Announced {
    /// The data block of an item.
    Item { key_len: usize, block_len: usize },
    /// The line is refused. A data block follows all the same.
    Refused { block_len: usize },
    /// The line is refused. The data block is longer than any.
    Endless,
}

/// What the line `words` announces; `None` when nothing follows the line: the command has no data, or
/// the line has no length.
#[inline]
pub(super) fn announced(mut words: Words<'_>) -> Option<Announced> {
    let (lengths, len_word) = match StorageVerb::from_name(words.next()?)? {
        StorageVerb::Text { mode, with_cas } => {
            let head = Head::parse(mode, with_cas, words);
            (head.map(|head| (head.store.key, head.data_len)), 3)
        }
        StorageVerb::Meta => (meta::announced(words), 1),
    };
    match lengths {
        Ok((key, data_len)) => Some(Announced::Item { key_len: key.len(), block_len: data_len + BLOCK_END.len() }),
        Err(_) => refused(words.nth(len_word)?),
    }
}

/// What follows a refused line with this length: whatever else is wrong with the line, its client sends
/// the data.
fn refused(len_word: &[u8]) -> Option<Announced> {
    let digits = len_word.strip_prefix(b"+").unwrap_or(len_word);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(match parse_data_len(digits) {
        Some(data_len) => Announced::Refused { block_len: data_len + BLOCK_END.len() },
        None => Announced::Endless,
    })
}

const BLOCK_END: &[u8] = b"\r\n";

/// Longest data that a line can announce.
const DATA_LEN_MAX: usize = i32::MAX as usize - 2;

/// The line of a storage command.
struct Head<'a> {
    /// The command, with empty data.
    store: Store<'a>,
    data_len: usize,
}

impl<'a> Head<'a> {
    /// Parses the words after the command.
    fn parse(mode: StoreMode, with_cas: bool, words: Words<'a>) -> Result<Self, RequestError> {
        let few = FewWords::new(words);
        let (key, flags, exptime, data_len, cas, last) = match (few.as_slice(), with_cas) {
            ([key, flags, exptime, len], false) => (key, flags, exptime, len, None, len),
            ([key, flags, exptime, len, last], false) => (key, flags, exptime, len, None, last),
            ([key, flags, exptime, len, cas], true) => (key, flags, exptime, len, Some(cas), cas),
            ([key, flags, exptime, len, cas, last], true) => (key, flags, exptime, len, Some(cas), last),
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

/// Parses the announced length of a data block, which does not include the CRLF.
pub(crate) fn parse_data_len(word: &[u8]) -> Option<usize> {
    parse_number(word).filter(|len| *len <= DATA_LEN_MAX)
}

/// The data in `block`, whose line announced `data_len` bytes.
///
/// If the block is missing, it was too long for the framing.
pub(crate) fn data_of_block(block: &[u8], data_len: usize) -> Result<&[u8], RequestError> {
    match block.split_at_checked(data_len) {
        Some((data, BLOCK_END)) => Ok(data),
        Some((_, [_, _])) => Err(BAD_DATA_CHUNK),
        _ => Err(TOO_LARGE),
    }
}

impl<'a> Store<'a> {
    /// Parses the words after the command, and the data block.
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
