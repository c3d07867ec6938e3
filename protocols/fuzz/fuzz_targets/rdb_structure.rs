#![no_main]
//! Payloads of psp-redis's RESTORE, built by the structure of their type: with right fields they are read, and with
//! wrong ones they are read or refused. What is true of read values is as in `rdb`.

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
#[path = "../structure/payload.rs"]
mod payload;
#[allow(dead_code, reason = "the server uses the rest")]
#[path = "../../../examples/redis/src/rdb/mod.rs"]
mod rdb;
#[path = "../structure/values.rs"]
mod values;

fuzz_target!(|choices: &[u8]| {
    let mut builder = payload::Builder::new(choices);
    let parts = builder.value();
    match values::read(&parts) {
        Some(value) => values::check(&parts, &value),
        None => assert!(!builder.is_right, "a right payload is refused"),
    }
});
