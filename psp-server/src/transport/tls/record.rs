//! Whether bytes have a whole record (RFC 8446 section 5.1, RFC 5246 section 6.2).
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

/// Whether `bytes` begin with a whole record, or cannot begin with any.
pub(super) fn is_whole(bytes: &[u8]) -> bool {
    let is_no_record = |content_type| !CONTENT_TYPES.contains(content_type);
    if bytes.first().is_some_and(is_no_record) {
        return true;
    }
    let Some(&[_, _, _, high, low]) = bytes.first_chunk::<HEADER_LEN>() else {
        return false;
    };
    let fragment_len = usize::from(u16::from_be_bytes([high, low]));
    fragment_len > FRAGMENT_LEN_MAX || bytes.len() >= HEADER_LEN + fragment_len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_whole_with_its_last_byte() {
        let record = [22, 3, 1, 0, 3, 1, 2, 3];
        for len in 0..record.len() {
            assert!(!is_whole(&record[..len]), "{len} bytes");
        }
        assert!(is_whole(&record));
        assert!(is_whole(&[&record[..], &[22, 3]].concat()));
        assert!(is_whole(&[23, 3, 3, 0, 0]));
    }

    #[test]
    fn what_is_no_record_needs_no_more_bytes() {
        for bytes in [
            &b"P"[..],
            b"*1\r\n$4\r\nPING\r\n",
            b"GET / HTTP/1.1\r\n",
            b"\0",
            b"\xff",
        ] {
            assert!(is_whole(bytes), "{bytes:?}");
        }
        let longest = [22, 3, 1, 0x48, 0];
        let too_long = [22, 3, 1, 0x48, 1];
        assert_eq!((is_whole(&longest), is_whole(&too_long)), (false, true));
    }
}
