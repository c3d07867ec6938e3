//! Payloads of a key-value store's methods over psp's [RPC](crate::rpc).
//!
//! ```text
//!   rpc::Request { method: "GET", payload } ─► GetRequest ─► store ─► put_value ─► payload
//!                          SCAN             ─► ScanRequest         ─► put_pair ..., ScanResponse
//! ```
//!
//! `proto/psp_kv.proto` is the contract; a test compares the structs with it. To avoid allocations, a
//! server decodes with [`Message::merge`] into messages that it keeps, and writes the large parts of
//! responses with [`put_value`] and [`put_pair`].

use prost::Message;

/// Method with [`GetRequest`] and [`GetResponse`].
pub const GET: &str = "GET";
/// Method with [`ScanRequest`] and [`ScanResponse`].
pub const SCAN: &str = "SCAN";
/// Method with [`PutRequest`] and [`PutResponse`].
pub const PUT: &str = "PUT";
/// Method with [`DeleteRequest`] and [`DeleteResponse`].
pub const DELETE: &str = "DELETE";

/// `psp.kv.v1.GetRequest`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct GetRequest {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
}

/// `psp.kv.v1.GetResponse`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct GetResponse {
    /// The value of the key.
    #[prost(bytes = "vec", tag = "1")]
    pub value: Vec<u8>,
}

/// `psp.kv.v1.ScanRequest`: reads entries from a key on, in the order of keys.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ScanRequest {
    /// The key to start at; empty for the first key.
    #[prost(bytes = "vec", tag = "1")]
    pub start: Vec<u8>,
    /// Most entries; at least 1.
    #[prost(uint32, tag = "2")]
    pub count: u32,
    /// Whether to read the entries without sending them.
    #[prost(bool, tag = "3")]
    pub summary: bool,
}

/// `psp.kv.v1.ScanResponse`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ScanResponse {
    /// Number of entries read.
    #[prost(uint32, tag = "1")]
    pub count: u32,
    /// CRC-32 (IEEE 802.3) of the keys and values of the entries, one after the other.
    #[prost(fixed32, tag = "2")]
    pub checksum: u32,
    /// The entries; empty if the request asked not to send them.
    #[prost(message, repeated, tag = "3")]
    pub pairs: Vec<Pair>,
    /// Whether the response had no room for all entries that were asked for.
    #[prost(bool, tag = "4")]
    pub truncated: bool,
}

/// `psp.kv.v1.Pair`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Pair {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// Its value.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// `psp.kv.v1.PutRequest`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PutRequest {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// Its new value.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// `psp.kv.v1.PutResponse`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PutResponse {}

/// `psp.kv.v1.DeleteRequest`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DeleteRequest {
    /// The key, which need not exist.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
}

/// `psp.kv.v1.DeleteResponse`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DeleteResponse {}

/// Tag of a field with a length. The tag of a field below 16 has one byte.
const fn len_tag(field: u8) -> u8 {
    field << 3 | 2
}

/// Encoded length of a field of type `bytes`: 0 when it is empty, because it is left out.
fn field_len(bytes: &[u8]) -> usize {
    match bytes.len() {
        0 => 0,
        len => 1 + prost::length_delimiter_len(len) + len,
    }
}

fn put_len(field: u8, len: usize, out: &mut Vec<u8>) {
    out.push(len_tag(field));
    prost::encode_length_delimiter(len, out).expect("a vector has room");
}

fn put_bytes(field: u8, bytes: &[u8], out: &mut Vec<u8>) {
    if !bytes.is_empty() {
        put_len(field, bytes.len(), out);
        out.extend_from_slice(bytes);
    }
}

/// Appends a [`GetResponse`] with this value.
pub fn put_value(value: &[u8], out: &mut Vec<u8>) {
    put_bytes(1, value, out);
}

/// Appends one pair to a [`ScanResponse`].
pub fn put_pair(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    put_len(3, field_len(key) + field_len(value), out);
    put_bytes(1, key, out);
    put_bytes(2, value, out);
}

/// Number of bytes that [`put_pair`] appends.
#[must_use]
pub fn pair_len(key: &[u8], value: &[u8]) -> usize {
    let len = field_len(key) + field_len(value);
    1 + prost::length_delimiter_len(len) + len
}
