#![no_main]
//! Files that psp-redis loads: they are read or refused, wherever the reads of the file end. Who does not check the
//! checksum reads at least as much as who does.

use libfuzzer_sys::fuzz_target;

// The server's own files, which need nothing else of the server.
#[allow(dead_code, reason = "the server uses the rest")]
#[path = "../../../examples/redis/src/error.rs"]
mod error;
#[allow(dead_code, reason = "the server uses the rest")]
#[path = "../../../examples/redis/src/number_text.rs"]
mod number_text;
#[allow(dead_code, reason = "the server uses the rest")]
#[path = "../../../examples/redis/src/parse.rs"]
mod parse;
#[allow(dead_code, unused_imports, reason = "the server uses the rest")]
#[path = "../../../examples/redis/src/rdb/mod.rs"]
mod rdb;

#[path = "../../../examples/redis/src/persistence"]
mod persistence {
    use std::io::Read;

    #[allow(dead_code, reason = "the server uses the rest")]
    mod file_reader;
    #[allow(dead_code, reason = "the server uses the rest")]
    mod format;

    use file_reader::{FileReader, Item};

    /// Keys of a file, and how it ended.
    pub(crate) fn read(file: impl Read, checks: bool) -> (u64, Result<(), String>) {
        let mut keys = 0;
        let ended = FileReader::new(file, checks).and_then(|mut reader| {
            loop {
                match reader.next(&|| {})? {
                    Item::Entry(_) => keys += 1,
                    Item::End => return Ok(()),
                    Item::Aux { .. } | Item::Library(_) | Item::Database(_) => {}
                }
            }
        });
        (keys, ended.map_err(|error| error.to_string()))
    }
}

/// A file that gives one byte at a time.
struct Trickle<'f>(&'f [u8]);

impl std::io::Read for Trickle<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let most = bytes.len().min(1);
        std::io::Read::read(&mut self.0, &mut bytes[..most])
    }
}

fuzz_target!(|content: &[u8]| {
    let file = [b"REDIS0012", content].concat();
    let (keys, ended) = persistence::read(&*file, false);
    assert_eq!(persistence::read(Trickle(&file), false), (keys, ended.clone()));
    let (checked_keys, checked) = persistence::read(&*file, true);
    assert_eq!(checked_keys, keys);
    assert!(checked.is_err() || ended.is_ok());
});
