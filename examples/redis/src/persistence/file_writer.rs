//! Writes the file, in bounded pieces, from a snapshot.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;

use psp_store::{Entry, Keyspace, Snapshot, unix_time_ms};

use super::format::{VERSION, opcode};
use crate::rdb::files::{Compressor, add_to_checksum, kind_of, put_len, put_value_of};
use crate::rdb::{Out, put_string};
use crate::redis_version::REDIS_VERSION;
use crate::scripts::functions::FunctionLibrary;

/// Bytes that are written at a time.
const BUFFER_BYTES: usize = 128 * 1024;
/// Bytes after which the disk is waited for, so that the system never has much to write.
const SYNC_BYTES: usize = 16 << 20;
/// Shorter strings are not compressed, as in Redis, and neither are longer ones: that would take as much memory.
const COMPRESSED_LEN_MIN: usize = 21;
const COMPRESSED_LEN_MAX: usize = 64 << 20;
/// What the compressor keeps of the memory for a long string.
const COMPRESSED_LEN_KEPT: usize = 1 << 20;
/// What stands before a compressed string.
const COMPRESSED: u8 = 0xc3;

/// What is known of when keys were used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Uses {
    Nothing,
    /// Seconds without a use.
    IdleTime,
    Frequency,
}

/// What is saved.
pub(super) struct Image {
    pub(super) snapshot: Snapshot,
    pub(super) libraries: Vec<Arc<FunctionLibrary>>,
    pub(super) uses: Uses,
    pub(super) used_bytes: u64,
    /// It begins a log.
    pub(super) is_base: bool,
}

/// How it is saved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) compresses: bool,
    pub(super) has_checksum: bool,
}

/// A file that is being written. After an error it takes no more.
pub(super) struct FileWriter {
    file: File,
    buffer: Vec<u8>,
    has_checksum: bool,
    checksum: u64,
    compressor: Option<Compressor>,
    unsynced: usize,
    error: Option<io::Error>,
}

impl FileWriter {
    pub(super) fn new(file: File, form: Form) -> Self {
        Self {
            file,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            has_checksum: form.has_checksum,
            checksum: 0,
            compressor: form.compresses.then(Compressor::new),
            unsynced: 0,
            error: None,
        }
    }

    /// Writes the image. Calls `goes_on` with each key, which ends the work if it says no: the file is of no use then.
    ///
    /// # Errors
    /// The first of the file.
    pub(super) fn write(mut self, image: Image, store: &Keyspace, goes_on: &dyn Fn() -> bool) -> io::Result<File> {
        self.put(VERSION);
        let Image { snapshot, libraries, uses, used_bytes, is_base } = image;
        for (name, value) in [
            ("redis-ver", REDIS_VERSION.to_owned()),
            ("redis-bits", usize::BITS.to_string()),
            ("ctime", (unix_time_ms() / 1000).to_string()),
            ("used-mem", used_bytes.to_string()),
            ("aof-base", u8::from(is_base).to_string()),
        ] {
            self.put(&[opcode::AUX]);
            put_string(name.as_bytes(), &mut self);
            put_string(value.as_bytes(), &mut self);
        }
        for library in libraries {
            self.put(&[opcode::FUNCTION]);
            self.put_text(&library.code, &|| {});
        }
        for database in snapshot.into_databases().filter(|database| !database.is_empty()) {
            self.put(&[opcode::DATABASE]);
            put_len(database.number(), &mut self);
            self.put(&[opcode::SIZES]);
            put_len(database.len(), &mut self);
            put_len(database.volatile_len(), &mut self);
            for shard in database.into_shards() {
                for entry in shard.entries() {
                    if self.error.is_some() || !goes_on() {
                        return self.end();
                    }
                    self.put_entry(entry, uses, store);
                }
            }
        }
        self.put(&[opcode::END]);
        self.flush();
        let checksum = if self.has_checksum { self.checksum } else { 0 };
        self.put(&checksum.to_le_bytes());
        self.end()
    }

    fn put_entry(&mut self, entry: &Entry, uses: Uses, store: &Keyspace) {
        if let Some(at_ms) = entry.expire_at_ms() {
            self.put(&[opcode::EXPIRES_AT_MS]);
            self.put(&at_ms.to_le_bytes());
        }
        match uses {
            Uses::Nothing => {}
            Uses::IdleTime => {
                self.put(&[opcode::IDLE]);
                put_len(store.idle_s(entry) as usize, self);
            }
            Uses::Frequency => self.put(&[opcode::FREQUENCY, store.frequency(entry)]),
        }
        self.put(&[kind_of(entry.value()).byte()]);
        self.put_text(entry.key(), &|| {});
        put_value_of(entry.value(), &|| {}, self);
    }

    fn end(mut self) -> io::Result<File> {
        self.flush();
        self.error.map_or(Ok(self.file), Err)
    }

    fn flush(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        self.write_through(&buffer);
        self.buffer = buffer;
        self.buffer.clear();
    }

    fn write_through(&mut self, bytes: &[u8]) {
        if self.error.is_some() {
            return;
        }
        if self.has_checksum {
            self.checksum = add_to_checksum(self.checksum, bytes);
        }
        self.unsynced += bytes.len();
        let mut written = self.file.write_all(bytes);
        if self.unsynced >= SYNC_BYTES {
            self.unsynced = 0;
            written = written.and_then(|()| self.file.sync_data());
        }
        self.error = written.err();
    }

    /// Writes the string compressed, if that is shorter.
    fn put_compressed(&mut self, bytes: &[u8]) -> bool {
        if !(COMPRESSED_LEN_MIN..=COMPRESSED_LEN_MAX).contains(&bytes.len()) {
            return false;
        }
        let Some(mut compressor) = self.compressor.take() else {
            return false;
        };
        let compressed = compressor.compress(bytes);
        let is_shorter = compressed.is_some();
        if let Some(compressed) = compressed {
            self.put(&[COMPRESSED]);
            put_len(compressed.len(), self);
            put_len(bytes.len(), self);
            self.put(compressed);
        }
        compressor.shrink_to(COMPRESSED_LEN_KEPT);
        self.compressor = Some(compressor);
        is_shorter
    }
}

impl Out for FileWriter {
    fn put(&mut self, bytes: &[u8]) {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush();
        }
        match bytes.len() {
            ..=BUFFER_BYTES => self.buffer.extend_from_slice(bytes),
            _ => bytes.chunks(BUFFER_BYTES).for_each(|chunk| self.write_through(chunk)),
        }
    }

    fn put_text(&mut self, bytes: &[u8], _visit: &dyn Fn()) {
        if !self.put_compressed(bytes) {
            put_string(bytes, self);
        }
    }
}
