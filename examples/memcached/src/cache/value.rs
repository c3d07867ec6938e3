//! Values, each with its key.
//!
//! ```text
//!   short   one allocation:        reference count | length of the key | key | value
//!   long    one for the value:     reference count | value
//!           a few bytes elsewhere: reference count | key, and where the value is
//! ```
//!
//! To join a short value to its key costs a copy of its bytes, which long ones are spared.

use std::fmt;
use std::ops::Deref;

use bytes::Bytes;
use triomphe::Arc;

use super::held::{SMALL_LEN_MAX, held_bytes};

/// Bytes of the count in front of what is shared.
const REFERENCE_COUNT_LEN: usize = size_of::<usize>();

/// What a short value is before its parts are copied into it: the longest has no pages of its own.
static BLANK: [u8; SMALL_LEN_MAX - REFERENCE_COUNT_LEN] = [0; SMALL_LEN_MAX - REFERENCE_COUNT_LEN];

/// An immutable value and its key. Clones share both.
#[derive(Clone, PartialEq, Eq)]
pub struct Value(Form);

#[derive(Clone, PartialEq, Eq)]
enum Form {
    Short(Arc<[u8]>),
    Long(Arc<Long>),
}

#[derive(PartialEq, Eq)]
struct Long {
    key: Box<[u8]>,
    value: Arc<[u8]>,
}

impl Value {
    /// The value of a key, made of its parts.
    #[must_use]
    pub fn new<const N: usize>(key: &[u8], parts: [&[u8]; N]) -> Self {
        let key_len = u8::try_from(key.len()).expect("a key that the protocols let through");
        let value_len: usize = parts.iter().map(|part| part.len()).sum();
        let Some(blank) = BLANK.get(..size_of_val(&key_len) + key.len() + value_len) else {
            return Self(Form::Long(Arc::new(Long {
                key: key.into(),
                value: match parts[..] {
                    [whole] => whole.into(),
                    _ => parts.concat().into(),
                },
            })));
        };
        let mut shared: Arc<[u8]> = blank.into();
        let mut rest = Arc::get_mut(&mut shared).expect("it is not shared yet");
        for part in [&[key_len], key].into_iter().chain(parts) {
            let (place, after) = rest.split_at_mut(part.len());
            place.copy_from_slice(part);
            rest = after;
        }
        Self(Form::Short(shared))
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
        match &self.0 {
            Form::Short(shared) => held_bytes(REFERENCE_COUNT_LEN + shared.len()),
            Form::Long(long) => {
                held_bytes(REFERENCE_COUNT_LEN + long.value.len())
                    + held_bytes(REFERENCE_COUNT_LEN + size_of::<Long>())
                    + held_bytes(long.key.len())
            }
        }
    }

    /// A copy in fresh memory. One with pages of its own stays where it is.
    pub(super) fn relocated(&self) -> Self {
        match &self.0 {
            Form::Short(shared) => Self(Form::Short(Arc::from(&**shared))),
            Form::Long(_) => self.clone(),
        }
    }

    fn split(&self) -> (&[u8], &[u8]) {
        match &self.0 {
            Form::Short(shared) => shared[1..].split_at(usize::from(shared[0])),
            Form::Long(long) => (&long.key, &long.value),
        }
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
        write!(f, "\"{}\": \"{}\"", key.escape_ascii(), value.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_and_value_come_back_at_any_length() {
        for key_len in [0, 1, 250] {
            for value_len in [0, 1, 100, 14_000, 14_327, 70_000] {
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
            assert_eq!(Value::new(&[0; 16], [&vec![0; len - 16][..]]).held_bytes(), held);
        }
    }
}
