//! Byte strings that a collection holds, in whichever form it holds them.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use bytes::Bytes;

use crate::Element;

/// Longest number in decimal digits.
const DIGITS_MAX: usize = "-9223372036854775808".len();

/// A byte string within a collection. A copy costs nothing.
#[derive(Clone, Copy)]
pub enum ElementRef<'c> {
    /// An element of its own.
    Element(&'c Element),
    /// A part of a packed collection, or of anything else.
    Packed(&'c [u8]),
    /// A number of a packed collection.
    Number(Digits),
}

/// A number in decimal digits.
#[derive(Clone, Copy)]
pub struct Digits {
    len: u8,
    bytes: [u8; DIGITS_MAX],
}

impl From<i64> for Digits {
    fn from(number: i64) -> Self {
        let mut buffer = itoa::Buffer::new();
        let text = buffer.format(number).as_bytes();
        let mut bytes = [0; DIGITS_MAX];
        bytes[..text.len()].copy_from_slice(text);
        Self { len: text.len() as u8, bytes }
    }
}

impl ElementRef<'_> {
    /// The bytes.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Element(element) => element,
            Self::Packed(bytes) => bytes,
            Self::Number(digits) => &digits.bytes[..usize::from(digits.len)],
        }
    }

    /// An element of its own. A long one shares its bytes.
    #[must_use]
    pub fn to_element(&self) -> Element {
        match self {
            Self::Element(element) => Element::clone(element),
            Self::Packed(_) | Self::Number(_) => Element::from(self.as_slice()),
        }
    }

    /// The bytes as a [`Bytes`]. A long element shares them; others are copied.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Self::Element(element) => element.to_bytes(),
            Self::Packed(_) | Self::Number(_) => Bytes::copy_from_slice(self.as_slice()),
        }
    }
}

impl<'c> From<&'c [u8]> for ElementRef<'c> {
    fn from(bytes: &'c [u8]) -> Self {
        Self::Packed(bytes)
    }
}

impl<'c> From<&'c Element> for ElementRef<'c> {
    fn from(element: &'c Element) -> Self {
        Self::Element(element)
    }
}

/// An element as it is in its collection, or made of its bytes.
impl<'c> From<ElementRef<'c>> for Cow<'c, Element> {
    fn from(element: ElementRef<'c>) -> Self {
        match element {
            ElementRef::Element(element) => Cow::Borrowed(element),
            other => Cow::Owned(other.to_element()),
        }
    }
}

impl Deref for ElementRef<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl AsRef<[u8]> for ElementRef<'_> {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl PartialEq for ElementRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for ElementRef<'_> {}

impl fmt::Debug for ElementRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_slice().escape_ascii())
    }
}
