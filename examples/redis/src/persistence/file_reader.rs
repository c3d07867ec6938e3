//! Reads the file piece by piece, and says where it is damaged.

use std::io::{self, Read};

use psp_store::Value;

use super::format::{
    CHECKSUM_SINCE, HEAD_LEN, MODULE_VALUE, OTHER_IN_VALKEY, REDIS, REDIS_VERSION_MAX, VALKEY, VALKEY_VERSION_MAX,
    module_name, name_of, opcode,
};
use crate::rdb::files::{Kind, Stream, add_to_checksum, read_value_of};
use crate::rdb::{Malformed, Reader};

/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 128 * 1024;
/// Longest string. One that claims to be longer takes no memory until it comes.
const LEN_MAX: usize = isize::MAX as usize;
/// Bytes of a key that an error shows.
const SHOWN_LEN_MAX: usize = 64;

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{what} (at byte {offset})")]
pub struct FileError {
    /// What is wrong.
    what: String,
    /// Where reading ended.
    offset: u64,
}

/// What a file has, one after the other.
pub(super) enum Item {
    /// A fact about the file.
    Aux { name: Vec<u8>, value: Vec<u8> },
    /// The text of a library of functions.
    Library(Vec<u8>),
    /// The keys that follow are in the database of this number.
    Database(u64),
    /// A key.
    Entry(Entry),
    /// The file is whole.
    End,
}

/// A key of a file.
pub(super) struct Entry {
    pub(super) key: Vec<u8>,
    pub(super) value: Value,
    pub(super) expire_at_ms: Option<u64>,
    pub(super) idle_s: Option<u32>,
    pub(super) frequency: Option<u8>,
}

/// A file, as far as it was read.
pub(super) struct FileReader<R> {
    file: R,
    buffer: Box<[u8]>,
    /// Bytes of the buffer that came, that were read, and that are in the checksum.
    filled: usize,
    at: usize,
    summed: usize,
    /// Bytes before the buffer.
    before: u64,
    checksum: u64,
    checks: bool,
    has_checksum: bool,
    /// Valkey wrote the file.
    is_valkey: bool,
    /// Commands of a log may follow.
    begins_log: bool,
    /// Why the file gave no more.
    problem: Option<String>,
}

impl<R: Read> FileReader<R> {
    /// Reads the head. `checks` the checksum at the end, if the file has one.
    ///
    /// # Errors
    /// It is no such file, or one of a later version.
    pub(super) fn new(file: R, checks: bool) -> Result<Self, FileError> {
        let mut reader = Self {
            file,
            buffer: vec![0; BUFFER_BYTES].into(),
            filled: 0,
            at: 0,
            summed: 0,
            before: 0,
            checksum: 0,
            checks,
            has_checksum: true,
            is_valkey: false,
            begins_log: false,
            problem: None,
        };
        let mut head = [0; HEAD_LEN];
        let read = reader.fill(&mut head);
        reader.known(read, "the file's head")?;
        let version = |magic: &[u8]| {
            let digits = str::from_utf8(head.strip_prefix(magic)?).ok()?;
            digits.parse::<u32>().ok()
        };
        let (version, last) = match (version(REDIS), version(VALKEY)) {
            (Some(version), _) => (version, REDIS_VERSION_MAX),
            (None, Some(version)) => (version, VALKEY_VERSION_MAX),
            (None, None) => return Err(reader.error("this is no RDB file: it does not begin with REDIS and a version")),
        };
        if version > last {
            return Err(reader.error(format!("the file has version {version}, and {last} is the last one known")));
        }
        reader.has_checksum = version >= CHECKSUM_SINCE;
        reader.is_valkey = last == VALKEY_VERSION_MAX;
        Ok(reader)
    }

    /// Lets commands of a log follow the data.
    pub(super) fn begins_log(mut self) -> Self {
        self.begins_log = true;
        self
    }

    /// Bytes that were read.
    pub(super) fn offset(&self) -> u64 {
        self.before + self.at as u64
    }

    /// What comes next. Calls `visit` for each part of the work.
    ///
    /// # Errors
    /// The file is damaged, or has something that is not known.
    pub(super) fn next(&mut self, visit: &dyn Fn()) -> Result<Item, FileError> {
        let mut head = Head::default();
        loop {
            let read = self.parts(visit).byte();
            let code = self.known(read, "the next key")?;
            let read = beside_keys(code, &mut self.parts(visit), &mut head);
            match self.known(read, "what is beside the keys")? {
                Beside::Item(item) => return Ok(item),
                Beside::Noted => {}
                Beside::Other => return self.other(code, head, visit),
            }
        }
    }

    /// The end, a key, or what cannot be read.
    fn other(&mut self, code: u8, head: Head, visit: &dyn Fn()) -> Result<Item, FileError> {
        match code {
            opcode::END => self.end().map(|()| Item::End),
            opcode::MODULE_AUX => {
                let read = self.parts(visit).plain_length();
                let module = module_name(self.known(read, "data of a module")?);
                Err(self.error(format!("the file has data of the module {module}, which is not here")))
            }
            opcode::FUNCTION_OF_PREVIEW => {
                Err(self.error("the file has a function in the form of a preview of Redis 7"))
            }
            ty => self.entry(ty, head, visit).map(Item::Entry),
        }
    }

    fn entry(&mut self, ty: u8, head: Head, visit: &dyn Fn()) -> Result<Entry, FileError> {
        let begin = self.offset() - 1;
        let kind = Kind::of(ty).filter(|_| !self.is_valkey || !OTHER_IN_VALKEY.contains(&ty));
        if kind.is_none() && ty != MODULE_VALUE {
            return Err(self.error(format!("type {ty} is not known here: {}", name_of(ty))));
        }
        let read = text(&mut self.parts(visit));
        let key = self.known(read, "a key")?;
        let shown = String::from_utf8_lossy(&key[..key.len().min(SHOWN_LEN_MAX)]).into_owned();
        let Some(kind) = kind else {
            let read = self.parts(visit).plain_length();
            let module = module_name(self.known(read, "a value of a module")?);
            return Err(self.error(format!("the key {shown:?} is of the module {module}, which is not here")));
        };
        let read = read_value_of(kind, &mut self.parts(visit), LEN_MAX);
        let what = || format!("the key {shown:?} from byte {begin} on, of type {kind:?}");
        let value = self.known_as(read, what)?;
        let Head { expire_at_ms, idle_s, frequency } = head;
        Ok(Entry { key, value, expire_at_ms, idle_s, frequency })
    }

    /// Checks the checksum, and that nothing follows but a log.
    fn end(&mut self) -> Result<(), FileError> {
        if self.has_checksum {
            self.sum();
            let expected = self.checksum;
            let mut stored = [0; 8];
            let read = self.fill(&mut stored);
            self.known(read, "the checksum")?;
            let stored = u64::from_le_bytes(stored);
            // Who has no checksum writes 0.
            if self.checks && stored != 0 && stored != expected {
                let what =
                    format!("RDB CRC error: the checksum is {stored:016x}, and that of the content is {expected:016x}");
                return Err(self.error(what));
            }
        }
        if self.begins_log {
            return Ok(());
        }
        let mut more = [0];
        match self.fill(&mut more) {
            Ok(()) => Err(self.error("something follows the end of the data; an append-only file cannot be read")),
            Err(Malformed) => Ok(()),
        }
    }

    fn parts<'p>(&'p mut self, visit: &'p dyn Fn()) -> Reader<'p> {
        Reader::of_stream(self, visit)
    }

    fn sum(&mut self) {
        self.checksum = add_to_checksum(self.checksum, &self.buffer[self.summed..self.at]);
        self.summed = self.at;
    }

    /// What was read, or why it could not be.
    fn known<T>(&mut self, read: Result<T, Malformed>, what: &str) -> Result<T, FileError> {
        self.known_as(read, || what.to_owned())
    }

    fn known_as<T>(&mut self, read: Result<T, Malformed>, what: impl FnOnce() -> String) -> Result<T, FileError> {
        read.map_err(|Malformed| {
            let what = what();
            let problem = self.problem.take();
            self.error(
                problem.map_or_else(|| format!("{what} is damaged"), |problem| format!("{problem} within {what}")),
            )
        })
    }

    pub(super) fn error(&self, what: impl Into<String>) -> FileError {
        FileError { what: what.into(), offset: self.offset() }
    }

    /// Reads on, if the buffer is empty. Returns what is in it.
    fn available(&mut self) -> io::Result<&[u8]> {
        if self.at == self.filled {
            self.sum();
            self.before += self.at as u64;
            (self.filled, self.at, self.summed) = (0, 0, 0);
            self.filled = loop {
                match self.file.read(&mut self.buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    read => break read?,
                }
            };
        }
        Ok(&self.buffer[self.at..self.filled])
    }
}

impl<R: Read> Stream for FileReader<R> {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Malformed> {
        let mut filled = 0;
        while filled < bytes.len() {
            let count = match self.available() {
                Ok([]) => {
                    self.problem = Some("the file ends".to_owned());
                    return Err(Malformed);
                }
                Ok(available) => {
                    let count = available.len().min(bytes.len() - filled);
                    bytes[filled..filled + count].copy_from_slice(&available[..count]);
                    count
                }
                Err(error) => {
                    self.problem = Some(format!("the file cannot be read: {error}"));
                    return Err(Malformed);
                }
            };
            self.at += count;
            filled += count;
        }
        Ok(())
    }
}

/// What stands before a key.
#[derive(Default)]
struct Head {
    expire_at_ms: Option<u64>,
    idle_s: Option<u32>,
    frequency: Option<u8>,
}

/// What is beside keys.
enum Beside {
    Item(Item),
    /// It says something of the next key, or nothing that matters.
    Noted,
    /// It is not there.
    Other,
}

fn beside_keys(code: u8, parts: &mut Reader<'_>, head: &mut Head) -> Result<Beside, Malformed> {
    match code {
        opcode::AUX => return Ok(Beside::Item(Item::Aux { name: text(parts)?, value: text(parts)? })),
        opcode::FUNCTION => return Ok(Beside::Item(Item::Library(text(parts)?))),
        opcode::DATABASE => return Ok(Beside::Item(Item::Database(parts.plain_length()?))),
        opcode::SIZES => {
            parts.plain_length()?;
            parts.plain_length()?;
        }
        opcode::SLOT_INFO => {
            for _ in 0..3 {
                parts.plain_length()?;
            }
        }
        // A time before 1970 has passed, too.
        opcode::EXPIRES_AT_MS => {
            let at_ms = i64::from_le_bytes(parts.array()?);
            head.expire_at_ms = Some(u64::try_from(at_ms).unwrap_or(0));
        }
        opcode::EXPIRES_AT_S => {
            let at_s = i32::from_le_bytes(parts.array()?);
            head.expire_at_ms = Some(u64::try_from(at_s).unwrap_or(0) * 1000);
        }
        opcode::IDLE => head.idle_s = Some(u32::try_from(parts.plain_length()?).unwrap_or(u32::MAX)),
        opcode::FREQUENCY => head.frequency = Some(parts.byte()?),
        _ => return Ok(Beside::Other),
    }
    Ok(Beside::Noted)
}

fn text(parts: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    parts.string(LEN_MAX).map(Into::into)
}
