#![no_main]
//! Payloads of psp-redis's RESTORE and FUNCTION RESTORE: they are read or refused. What was read fits what the size of
//! the request promised, and is the same when it is written and read again.

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
#[allow(dead_code, reason = "the server uses the rest")]
#[path = "../../../examples/redis/src/rdb/mod.rs"]
mod rdb;
#[path = "../structure/values.rs"]
mod values;

use values::{VALUE_LEN_MAX, check, read};

fuzz_target!(|parts: &[u8]| {
    let _as_it_is = rdb::open(parts, &|| {}).map(|mut reader| {
        let _value = rdb::read_value(&mut reader, VALUE_LEN_MAX);
    });
    let payload = rdb::seal(parts.to_vec(), &|| {});
    let mut functions = rdb::open(&payload, &|| {}).expect("a right checksum");
    while !functions.is_empty() && functions.byte().is_ok() {
        match functions.string(VALUE_LEN_MAX) {
            Ok(text) => assert!(text.len() <= VALUE_LEN_MAX),
            Err(rdb::Malformed) => break,
        }
    }
    if let Some(value) = read(parts) {
        check(&payload, &value);
    }
});
