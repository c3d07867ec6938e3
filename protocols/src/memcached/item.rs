//! What is known of items before there is a store: their limits.

/// Longest key in bytes.
pub const KEY_LEN_MAX: usize = 250;

/// Bytes that memcached adds to an item: its header, CAS value, and the key's terminating zero.
const OVERHEAD_LEN: usize = 57;

/// The longest data block of an item, its CRLF included, whose total length memcached would take to
/// be at most `item_len_max`.
pub(super) fn block_len_max(item_len_max: usize, key_len: usize) -> usize {
    item_len_max.saturating_sub(OVERHEAD_LEN + key_len)
}

/// The longest data, in bytes, of an item with a key of `key_len` bytes that memcached would take to
/// be at most `item_len_max` bytes long with all that it adds.
#[must_use]
pub fn data_len_max(item_len_max: usize, key_len: usize) -> usize {
    block_len_max(item_len_max, key_len).saturating_sub(b"\r\n".len())
}
