//! Values, each in one allocation with its key.
//!
//! ```text
//!   8 bytes           1 byte
//!   reference count | length of the key | key | value
//! ```

use std::fmt;
use std::ops::Deref;

use bytes::Bytes;
use triomphe::Arc;

use super::held::{SMALL_LEN_MAX, held_bytes};

/// Bytes of the count in front of what is shared.
const REFERENCE_COUNT_LEN: usize = size_of::<usize>();

/// What a value is before its parts are copied into it. A longer one is put together elsewhere, and copied whole.
static BLANK: [u8; 64 << 10] = [0; 64 << 10];

/// An immutable value and its key. Clones share both.
#[derive(Clone, PartialEq, Eq)]
pub struct Value(Arc<[u8]>);

impl Value {
    /// The value of a key, made of its parts.
    #[must_use]
    pub fn new<const N: usize>(key: &[u8], parts: [&[u8]; N]) -> Self {
        let key_len = u8::try_from(key.len()).expect("a key that the protocols let through");
        let value_len: usize = parts.iter().map(|part| part.len()).sum();
        let len = size_of_val(&key_len) + key.len() + value_len;
        let header = [key_len];
        let parts = [&header, key].into_iter().chain(parts);
        let Some(blank) = BLANK.get(..len) else {
            let mut bytes = Vec::with_capacity(len);
            parts.for_each(|part| bytes.extend_from_slice(part));
            return Self(bytes.into());
        };
        let mut shared: Arc<[u8]> = blank.into();
        let mut rest = Arc::get_mut(&mut shared).expect("nobody shares it yet");
        for part in parts {
            let (place, after) = rest.split_at_mut(part.len());
            place.copy_from_slice(part);
            rest = after;
        }
        Self(shared)
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.split().0
    }

    /// The value. It shares its memory.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        Bytes::from_owner(self.clone())
    }

    /// Bytes that the allocator holds for it.
    pub(super) fn held_bytes(&self) -> usize {
        held_bytes(REFERENCE_COUNT_LEN + self.0.len())
    }

    /// A copy in fresh memory. One with pages of its own stays where it is.
    pub(super) fn relocated(&self) -> Self {
        match self.held_bytes() {
            ..=SMALL_LEN_MAX => Self(Arc::from(&*self.0)),
            _ => self.clone(),
        }
    }

    fn split(&self) -> (&[u8], &[u8]) {
        self.0[1..].split_at(usize::from(self.0[0]))
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.split().1
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, value) = self.split();
        write!(
            f,
            "\"{}\": \"{}\"",
            key.escape_ascii(),
            value.escape_ascii()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_and_value_come_back_at_any_length() {
        for key_len in [0, 1, 250] {
            for value_len in [0, 1, 100, 70_000] {
                let (key, value) = (vec![b'k'; key_len], vec![b'v'; value_len]);
                let made = Value::new(&key, [&value[..value_len / 3], &value[value_len / 3..]]);
                for made in [&made, &made.relocated()] {
                    assert_eq!((made.key(), &**made), (&key[..], &value[..]));
                    assert_eq!(made.to_bytes().as_ptr(), made.as_ptr());
                }
            }
        }
    }

    #[test]
    fn a_value_takes_nine_bytes_beside_its_own_and_those_of_its_key() {
        for (len, held) in [(16, 32), (23, 32), (24, 48), (119, 128), (120, 160)] {
            assert_eq!(Value::new(b"", [&vec![0; len][..]]).held_bytes(), held);
            assert_eq!(
                Value::new(&[0; 16], [&vec![0; len - 16][..]]).held_bytes(),
                held
            );
        }
    }
}
