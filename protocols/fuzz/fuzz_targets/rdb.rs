#![no_main]
//! Payloads of psp-redis's RESTORE and FUNCTION RESTORE: they are read or refused. What was read fits what the size of
//! the request promised, and is the same when it is written and read again.

use libfuzzer_sys::fuzz_target;
use psp_store::Value;

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

/// Longest string of a value, in bytes.
const VALUE_LEN_MAX: usize = 1 << 16;

/// The value of these parts, if they have one.
fn read(parts: &[u8]) -> Option<Value> {
    let payload = rdb::seal(parts.to_vec(), &|| {});
    let mut reader = rdb::open(&payload, &|| {}).expect("a right checksum");
    rdb::read_value(&mut reader, VALUE_LEN_MAX).ok()
}

fn written(value: &Value) -> Vec<u8> {
    let mut parts = Vec::new();
    rdb::put_value(value, &|| {}, &mut parts);
    parts
}

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
    let (elements_max, _) = rdb::elements_max(&payload);
    if let Some(value) = read(parts) {
        assert!(value.cardinality() as u64 <= elements_max);
        let parts = written(&value);
        let again = read(&parts).expect("what was written is read");
        assert_eq!(again.type_name(), value.type_name());
        assert_eq!(again.cardinality(), value.cardinality());
        assert_eq!(written(&again), parts);
    }
});
