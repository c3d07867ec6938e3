//! Which bytes are whole records (RFC 8446 section 5.1, RFC 5246 section 6.2).
//!
//! ```text
//!   0      content type: 20 change_cipher_spec, 21 alert, 22 handshake, 23 application_data, 24 heartbeat
//!   1..3   version
//!   3..5   length of the fragment, at most 2^14 + 2048
//!   5..    fragment
//! ```

const HEADER_LEN: usize = 5;
const CONTENT_TYPES: std::ops::RangeInclusive<u8> = 20..=24;
/// Longest fragment of TLS 1.2, in bytes; that of TLS 1.3 is shorter.
const FRAGMENT_LEN_MAX: usize = (1 << 14) + 2048;

/// How many of `bytes`, which begin with a record, are whole records. Bytes that cannot begin a record count as
/// whole, with all that follow them: they need no more bytes to be refused.
pub(super) fn whole_len(bytes: &[u8]) -> usize {
    let mut len = 0;
    while let Some(record_len) = first_len(&bytes[len..]) {
        len += record_len;
    }
    len
}

/// Length of the first record, if it is whole and not empty.
fn first_len(bytes: &[u8]) -> Option<usize> {
    if !CONTENT_TYPES.contains(bytes.first()?) {
        return Some(bytes.len());
    }
    let &[_, _, _, high, low] = bytes.first_chunk::<HEADER_LEN>()?;
    let fragment_len = usize::from(u16::from_be_bytes([high, low]));
    if fragment_len > FRAGMENT_LEN_MAX {
        return Some(bytes.len());
    }
    let len = HEADER_LEN + fragment_len;
    (bytes.len() >= len).then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_whole_with_its_last_byte() {
        let record = [22, 3, 1, 0, 3, 1, 2, 3];
        for len in 0..record.len() {
            assert_eq!(whole_len(&record[..len]), 0, "{len} bytes");
        }
        assert_eq!(whole_len(&record), 8);
        assert_eq!(whole_len(&[&record[..], &[22, 3]].concat()), 8, "and a part");
        assert_eq!(whole_len(&[record, record].concat()), 16);
        assert_eq!(whole_len(&[23, 3, 3, 0, 0]), 5);
    }

    #[test]
    fn what_is_no_record_needs_no_more_bytes() {
        for bytes in [&b"P"[..], b"*1\r\n$4\r\nPING\r\n", b"GET / HTTP/1.1\r\n", b"\0", b"\xff"] {
            assert_eq!(whole_len(bytes), bytes.len(), "{bytes:?}");
        }
        let longest = [22, 3, 1, 0x48, 0];
        let too_long = [22, 3, 1, 0x48, 1];
        assert_eq!((whole_len(&longest), whole_len(&too_long)), (0, 5));
    }
}
