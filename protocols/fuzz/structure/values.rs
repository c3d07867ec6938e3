//! What is true of every payload of a value, for the targets that make payloads.

use psp_store::Value;

use crate::rdb;

/// Longest string of a value, in bytes.
pub const VALUE_LEN_MAX: usize = 1 << 20;

/// The value of these parts, if they have one.
pub fn read(parts: &[u8]) -> Option<Value> {
    let payload = rdb::seal(parts.to_vec(), &|| {});
    let mut reader = rdb::open(&payload, &|| {}).expect("a right checksum");
    rdb::read_value(&mut reader, VALUE_LEN_MAX).ok()
}

fn written(value: &Value) -> Vec<u8> {
    let mut parts = Vec::new();
    rdb::put_value(value, &|| {}, &mut parts);
    parts
}

/// Checks the value that was read of these parts: it fits what the size of the request promised, and is the same when
/// it is written and read again.
pub fn check(parts: &[u8], value: &Value) {
    let (elements_max, _) = rdb::elements_max(parts);
    assert!(value.cardinality() as u64 <= elements_max);
    let parts = written(value);
    let again = read(&parts).expect("what was written is read");
    assert_eq!(again.type_name(), value.type_name());
    assert_eq!(again.cardinality(), value.cardinality());
    assert_eq!(written(&again), parts);
}
