//! Payloads in the format of Redis's RDB files, as DUMP and RESTORE exchange them, of keys and of functions.
//!
//! ```text
//!   payload:  parts  |  version, 2 bytes  |  CRC-64, 8 bytes
//!   parts:    of a key: its type, then its value; of functions: opcode and string, opcode and string, ...
//!   string:   length, bytes  |  an integer  |  compressed and plain length, LZF
//! ```
//!
//! Integers of lengths are big-endian, those of the footer and of integer strings little-endian.

mod crc64;
mod kind;
mod listpack_writer;
mod lzf;
mod out;
mod packed;
mod reader;
mod stream_reader;
mod stream_writer;
mod value_reader;
mod value_writer;

pub(crate) use kind::elements_max;
pub(crate) use out::Out;
pub(crate) use value_reader::read_value;
pub(crate) use value_writer::put_value;

pub(crate) use reader::{Malformed, Reader};

/// What files need beside payloads. The fuzz targets include this module without them.
pub(crate) mod files {
    pub(crate) use super::crc64::add as add_to_checksum;
    pub(crate) use super::kind::Kind;
    pub(crate) use super::lzf::Compressor;
    pub(crate) use super::put_len;
    pub(crate) use super::reader::Stream;
    pub(crate) use super::value_reader::read_value_of;
    pub(crate) use super::value_writer::{kind_of, put_value_of};
}

use psp_store::Value;

use crate::error::CommandError;

/// The version of the format that Redis 7.0 writes.
const VERSION: u16 = 10;
/// The version that Redis 7.4 writes. Older ones can be read, too.
const VERSION_MAX: u16 = 12;
/// Version and checksum.
const FOOTER_LEN: usize = 10;
const CHECKSUM_LEN: usize = 8;
/// Bytes that take as long as one element.
const BYTES_PER_VISIT: usize = 1024;

/// The payload cannot be read: it is damaged, or of a later version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Damaged;

impl Damaged {
    /// What the client of RESTORE and FUNCTION RESTORE gets.
    pub(crate) const fn into_error(self) -> CommandError {
        CommandError::line("ERR DUMP payload version or checksum are wrong")
    }
}

/// Appends a string as it is.
pub(crate) fn put_string(bytes: &[u8], out: &mut impl Out) {
    put_len(bytes.len(), out);
    out.put(bytes);
}

/// Appends a length or a count.
pub(crate) fn put_len(len: usize, out: &mut impl Out) {
    match len {
        len @ ..0x40 => out.put(&[len as u8]),
        len @ ..0x4000 => out.put(&[0x40 | (len >> 8) as u8, len as u8]),
        len => match u32::try_from(len) {
            Ok(len) => {
                out.put(&[reader::LEN_OF_32_BITS]);
                out.put(&len.to_be_bytes());
            }
            Err(_longer) => {
                out.put(&[reader::LEN_OF_64_BITS]);
                out.put(&(len as u64).to_be_bytes());
            }
        },
    }
}

/// Makes a payload of `parts`. Calls `visit` for each part of the work.
pub(crate) fn seal(parts: Vec<u8>, visit: &dyn Fn()) -> Vec<u8> {
    seal_as(VERSION, parts, visit)
}

fn seal_as(version: u16, mut parts: Vec<u8>, visit: &dyn Fn()) -> Vec<u8> {
    parts.extend(version.to_le_bytes());
    let checksum = crc64::checksum(&parts, visit);
    parts.extend(checksum.to_le_bytes());
    parts
}

/// The payload of a key that holds `value`, as DUMP has it.
pub(crate) fn payload_of(value: &Value, visit: &dyn Fn()) -> Vec<u8> {
    let mut parts = Vec::new();
    put_value(value, visit, &mut parts);
    let is_later = matches!(value, Value::Hash(hash) if hash.next_due_ms().is_some());
    seal_as(if is_later { VERSION_MAX } else { VERSION }, parts, visit)
}

/// The parts of a payload. Checking and reading them calls `visit` for each part of the work.
///
/// # Errors
/// Its version or its checksum is wrong.
pub(crate) fn open<'p>(payload: &'p [u8], visit: &'p dyn Fn()) -> Result<Reader<'p>, Damaged> {
    let parts_len = payload.len().checked_sub(FOOTER_LEN).ok_or(Damaged)?;
    let (checked, checksum) = payload.split_at(payload.len() - CHECKSUM_LEN);
    let version = u16::from_le_bytes([payload[parts_len], payload[parts_len + 1]]);
    if version > VERSION_MAX || checksum != crc64::checksum(checked, visit).to_le_bytes() {
        return Err(Damaged);
    }
    Ok(Reader::new(&payload[..parts_len], visit))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn payloads_are_read_as_they_are_written() {
        for len in [0, 1, 63, 64, 0x3fff, 0x4000, 100_000] {
            let text = vec![b'x'; len];
            let mut parts = vec![245];
            put_string(&text, &mut parts);
            put_string(b"next", &mut parts);
            let payload = seal(parts, &|| {});
            let mut reader = open(&payload, &|| {}).unwrap();
            assert_eq!(reader.byte(), Ok(245));
            assert_eq!(reader.string(1 << 20).unwrap(), text);
            assert_eq!(reader.string(1 << 20).unwrap(), b"next".as_slice());
            assert!(reader.is_empty());
            assert_eq!(reader.byte(), Err(Malformed));
        }
    }

    #[test]
    fn any_changed_byte_is_found() {
        let mut parts = vec![245];
        put_string(b"#!lua name=x", &mut parts);
        let payload = seal(parts, &|| {});
        assert!(open(&payload, &|| {}).is_ok());
        for index in 0..payload.len() {
            let mut damaged = payload.clone();
            damaged[index] ^= 4;
            assert!(matches!(open(&damaged, &|| {}), Err(Damaged)), "{index}");
        }
        assert!(matches!(open(&payload[..9], &|| {}), Err(Damaged)));
    }

    proptest! {
        #[test]
        fn arbitrary_parts_are_read_or_refused(parts: Vec<u8>) {
            let payload = seal(parts, &|| {});
            let mut reader = open(&payload, &|| {}).unwrap();
            while !reader.is_empty() {
                let read = reader.byte().and_then(|_opcode| reader.string(4096));
                match read {
                    Ok(text) => prop_assert!(text.len() <= 4096),
                    Err(Malformed) => break,
                }
            }
        }
    }
}
