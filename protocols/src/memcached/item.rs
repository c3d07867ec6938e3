//! Limits of items.

/// Longest key in bytes.
pub const KEY_LEN_MAX: usize = 250;

/// Bytes that memcached adds to an item: the header, the CAS value, and the key's terminating zero.
const OVERHEAD_LEN: usize = 57;

/// The longest data block, including its CRLF, of an item whose total length in memcached is at most
/// `item_len_max`.
pub(super) fn block_len_max(item_len_max: usize, key_len: usize) -> usize {
    item_len_max.saturating_sub(OVERHEAD_LEN + key_len)
}

/// The longest data, in bytes, of an item with a key of `key_len` bytes whose total length in
/// memcached, including what memcached adds, is at most `item_len_max` bytes.
#[must_use]
pub fn data_len_max(item_len_max: usize, key_len: usize) -> usize {
    block_len_max(item_len_max, key_len).saturating_sub(b"\r\n".len())
}
