//! Keys of meta commands, which may be binary.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::memcached::item::KEY_LEN_MAX;

/// Most bytes of a key in a reply: base64 of the longest key.
pub const SPELLED_LEN_MAX: usize = KEY_LEN_MAX.div_ceil(3) * 4;

/// The key of a meta command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key<'a> {
    /// The key as the peer wrote it, 1 to 250 bytes; in a reply, as the server spells it.
    pub text: &'a [u8],
    /// Whether `text` is base64 of the key (flag `b`).
    pub is_base64: bool,
}

impl<'a> Key<'a> {
    /// The key itself, decoded into `buffer` if it is base64.
    ///
    /// `None` when `text` is not base64 of at least one byte. Parsed requests have no such key.
    pub fn decode<'b>(&self, buffer: &'b mut [u8; KEY_LEN_MAX]) -> Option<&'b [u8]>
    where
        'a: 'b,
    {
        if !self.is_base64 {
            return Some(self.text);
        }
        // Base64 in 250 characters decodes to at most 187 bytes.
        let len = STANDARD.decode_slice(self.text, buffer).ok()?;
        Some(&buffer[..len]).filter(|key| !key.is_empty())
    }

    /// Spells `key` for a reply, in base64 or as it is. A key with white space is no word, and is in base64 in any
    /// case. Keys of more than [`KEY_LEN_MAX`] bytes are cut off.
    pub fn spell(key: &'a [u8], is_base64: bool, buffer: &'a mut [u8; SPELLED_LEN_MAX]) -> Self {
        let key = &key[..key.len().min(KEY_LEN_MAX)];
        if !is_base64 && !key.iter().any(u8::is_ascii_whitespace) {
            return Self { text: key, is_base64 };
        }
        let len = STANDARD.encode_slice(key, buffer).unwrap_or_default();
        Self { text: &buffer[..len], is_base64: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &[u8], is_base64: bool) -> Option<Vec<u8>> {
        let mut buffer = [0; KEY_LEN_MAX];
        let key = Key { text, is_base64 };
        key.decode(&mut buffer).map(<[u8]>::to_vec)
    }

    #[test]
    fn a_key_is_spelled_as_it_was_stored() {
        let spelled = |key: &[u8], is_base64| {
            let mut buffer = [0; SPELLED_LEN_MAX];
            let key = Key::spell(key, is_base64, &mut buffer);
            (key.text.to_vec(), key.is_base64)
        };
        assert_eq!(spelled(b"foo", false), (b"foo".to_vec(), false));
        assert_eq!(spelled(b"foo", true), (b"Zm9v".to_vec(), true));
        assert_eq!(spelled(&[0, 1, 2], false), (vec![0, 1, 2], false));
        assert_eq!(spelled(b"a b", false), (b"YSBi".to_vec(), true));
        assert_eq!(spelled(b"a\n", false), (b"YQo=".to_vec(), true));
        assert_eq!(spelled(&[b'x'; KEY_LEN_MAX], true).0.len(), SPELLED_LEN_MAX);
    }

    #[test]
    fn base64_is_decoded_when_the_flag_says_so() {
        assert_eq!(decoded(b"Zm9v", false), Some(b"Zm9v".to_vec()));
        assert_eq!(decoded(b"Zm9v", true), Some(b"foo".to_vec()));
        assert_eq!(decoded(b"gAA=", true), Some(vec![0x80, 0]));
        assert_eq!(decoded(&[b'A'; 248], true), Some(vec![0; 186]));
        for wrong in [&b"a"[..], b"!!!!", b"Zm9", b"", &[b'A'; 250]] {
            assert_eq!(decoded(wrong, true), None, "{}", wrong.escape_ascii());
        }
    }
}
