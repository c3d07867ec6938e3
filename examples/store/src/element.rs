//! Byte strings in the form that collections store.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use bytes::{Bytes, BytesMut};
use triomphe::Arc;

use crate::field_time::FieldTime;
use crate::large::{LARGE_LEN_MIN, Large};

/// Longest byte string kept inside the element itself.
const INLINE_LEN_MAX: usize = 22;
/// The same of an element with a time.
const TIMED_INLINE_LEN_MAX: usize = INLINE_LEN_MAX - FieldTime::LEN;
/// Bytes of the header in front of a shared payload.
const REFERENCE_COUNT_LEN: usize = size_of::<usize>();
/// The allocator rounds small sizes up to a multiple of this.
const ALLOCATION_STEP: usize = 16;

/// What the allocator gives for so many bytes: it has four sizes between two powers of two.
pub(crate) fn allocated_bytes(bytes: usize) -> usize {
    let step = (bytes.next_power_of_two() / 8).max(ALLOCATION_STEP);
    bytes.next_multiple_of(step)
}

/// An immutable byte string of 24 bytes: short ones inline, longer ones behind a shared pointer.
///
/// A clone copies 24 bytes or increments a reference count. It never copies a long payload, so
/// copying a tree node is cheap whatever its elements hold. Elements order and hash by their
/// bytes.
#[derive(Clone)]
pub struct Element(Repr);

#[derive(Clone)]
enum Repr {
    Inline {
        len: u8,
        bytes: [u8; INLINE_LEN_MAX],
    },
    Shared(Arc<[u8]>),
    /// [`Inline`](Self::Inline), marked as raw.
    RawInline {
        len: u8,
        bytes: [u8; INLINE_LEN_MAX],
    },
    /// [`Shared`](Self::Shared), marked as raw.
    RawShared(Arc<[u8]>),
    /// A long string. Redis keeps it `raw` in any case.
    Large(Arc<Large>),
    /// The value of a hash's field that expires. The time has room beside the pointer, or takes that of a few bytes.
    TimedInline {
        len: u8,
        time: FieldTime,
        bytes: [u8; TIMED_INLINE_LEN_MAX],
    },
    TimedShared(FieldTime, Arc<[u8]>),
    TimedLarge(FieldTime, Arc<Large>),
}

/// Who reads a long string.
struct Reader(Arc<Large>);

impl AsRef<[u8]> for Reader {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

const EMPTY: Repr = Repr::Inline { len: 0, bytes: [0; INLINE_LEN_MAX] };

impl Element {
    /// The element's bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } | Repr::RawInline { len, bytes } => &bytes[..usize::from(*len)],
            Repr::Shared(bytes) | Repr::RawShared(bytes) | Repr::TimedShared(_, bytes) => bytes,
            Repr::Large(large) | Repr::TimedLarge(_, large) => (**large).as_ref(),
            Repr::TimedInline { len, bytes, .. } => &bytes[..usize::from(*len)],
        }
    }

    /// The element's bytes, to be changed in place; `None` if others share them.
    pub fn get_mut(&mut self) -> Option<&mut [u8]> {
        match &mut self.0 {
            Repr::Inline { len, bytes } | Repr::RawInline { len, bytes } => Some(&mut bytes[..usize::from(*len)]),
            Repr::Shared(bytes) | Repr::RawShared(bytes) | Repr::TimedShared(_, bytes) => Arc::get_mut(bytes),
            Repr::Large(large) | Repr::TimedLarge(_, large) => Some(Arc::get_mut(large)?.get_mut()?),
            Repr::TimedInline { len, bytes, .. } => Some(&mut bytes[..usize::from(*len)]),
        }
    }

    /// As [`get_mut`](Self::get_mut), of an element that is first made at least `len` bytes long, with zeros. `None` as
    /// well if it has no room for them.
    pub fn get_mut_to(&mut self, len: usize) -> Option<&mut [u8]> {
        if len <= self.len() {
            return self.get_mut();
        }
        let Repr::Large(large) = &mut self.0 else {
            return None;
        };
        let own = Arc::get_mut(large)?.get_mut()?;
        if len > own.capacity() {
            return None;
        }
        own.resize(len, 0);
        Some(own)
    }

    /// Whether [`get_mut_to`](Self::get_mut_to) would change the bytes in place at this moment.
    #[must_use]
    pub fn has_room(&self, len: usize) -> bool {
        let capacity = match &self.0 {
            Repr::Large(large) => large.capacity(),
            _ => self.len(),
        };
        len <= capacity && !self.is_shared()
    }

    /// Marks the string as one that was changed in part. Redis keeps such a string `raw`, whatever its bytes are.
    pub fn make_raw(&mut self) {
        self.0 = match std::mem::replace(&mut self.0, EMPTY) {
            Repr::Inline { len, bytes } => Repr::RawInline { len, bytes },
            Repr::Shared(bytes) => Repr::RawShared(bytes),
            raw => raw,
        };
    }

    /// Whether the string is [marked](Self::make_raw) as raw.
    #[must_use]
    pub fn is_raw(&self) -> bool {
        matches!(self.0, Repr::RawInline { .. } | Repr::RawShared(_) | Repr::Large(_))
    }

    /// Whether others share the bytes at this moment.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        match &self.0 {
            Repr::Inline { .. } | Repr::RawInline { .. } | Repr::TimedInline { .. } => false,
            Repr::Shared(bytes) | Repr::RawShared(bytes) | Repr::TimedShared(_, bytes) => Arc::strong_count(bytes) > 1,
            Repr::Large(large) | Repr::TimedLarge(_, large) => Arc::strong_count(large) > 1 || large.is_shared(),
        }
    }

    /// Bytes of memory that the element holds outside itself.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Repr::Inline { .. } | Repr::RawInline { .. } | Repr::TimedInline { .. } => 0,
            Repr::Shared(bytes) | Repr::RawShared(bytes) | Repr::TimedShared(_, bytes) => {
                allocated_bytes(REFERENCE_COUNT_LEN + bytes.len())
            }
            Repr::Large(large) | Repr::TimedLarge(_, large) => allocated_bytes(large.capacity()),
        }
    }

    /// The bytes as a [`Bytes`]. A long element shares its payload; a short one is copied.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        match &self.0 {
            Repr::Inline { .. } | Repr::RawInline { .. } | Repr::TimedInline { .. } => {
                Bytes::copy_from_slice(self.as_slice())
            }
            Repr::Shared(bytes) | Repr::RawShared(bytes) | Repr::TimedShared(_, bytes) => {
                Bytes::from_owner(Arc::clone(bytes))
            }
            Repr::Large(large) | Repr::TimedLarge(_, large) => Bytes::from_owner(Reader(Arc::clone(large))),
        }
    }

    /// The time that is kept with the element.
    pub(crate) fn time(&self) -> Option<FieldTime> {
        match self.0 {
            Repr::TimedInline { time, .. } | Repr::TimedShared(time, _) | Repr::TimedLarge(time, _) => Some(time),
            _ => None,
        }
    }

    /// The same bytes with this time instead of any other. The mark of a raw string goes.
    pub(crate) fn with_time(self, time: Option<FieldTime>) -> Self {
        match (self.0, time) {
            (Repr::Shared(bytes) | Repr::RawShared(bytes) | Repr::TimedShared(_, bytes), Some(time)) => {
                Self(Repr::TimedShared(time, bytes))
            }
            (Repr::Large(large) | Repr::TimedLarge(_, large), Some(time)) => Self(Repr::TimedLarge(time, large)),
            (Repr::TimedShared(_, bytes), None) if bytes.len() > INLINE_LEN_MAX => Self(Repr::Shared(bytes)),
            (Repr::TimedLarge(_, large), None) => Self(Repr::Large(large)),
            (short, Some(time)) => Self::timed(Self(short).as_slice(), time),
            (timed @ (Repr::TimedInline { .. } | Repr::TimedShared(..)), None) => Self::from(Self(timed).as_slice()),
            (untimed, None) => Self(untimed),
        }
    }

    fn timed(source: &[u8], time: FieldTime) -> Self {
        let mut bytes = [0; TIMED_INLINE_LEN_MAX];
        let Some(room) = bytes.get_mut(..source.len()) else {
            return Self(Repr::TimedShared(time, Arc::from(source)));
        };
        room.copy_from_slice(source);
        Self(Repr::TimedInline { len: source.len() as u8, time, bytes })
    }
}

/// A long string stays where it is.
impl From<Bytes> for Element {
    fn from(source: Bytes) -> Self {
        if source.len() < LARGE_LEN_MIN {
            return Self::from(&*source);
        }
        Self(Repr::Large(Arc::new(Large::Received(source))))
    }
}

/// A long string stays where it is, with its room to grow.
impl From<BytesMut> for Element {
    fn from(source: BytesMut) -> Self {
        if source.len() < LARGE_LEN_MIN {
            return Self::from(&*source);
        }
        Self(Repr::Large(Arc::new(Large::Own(source))))
    }
}

impl From<&[u8]> for Element {
    fn from(source: &[u8]) -> Self {
        if source.len() > INLINE_LEN_MAX {
            return Self(Repr::Shared(Arc::from(source)));
        }
        let mut bytes = [0; INLINE_LEN_MAX];
        bytes[..source.len()].copy_from_slice(source);
        Self(Repr::Inline { len: source.len() as u8, bytes })
    }
}

impl<const N: usize> From<&[u8; N]> for Element {
    fn from(source: &[u8; N]) -> Self {
        Self::from(source.as_slice())
    }
}

impl Deref for Element {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl AsRef<[u8]> for Element {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl Borrow<[u8]> for Element {
    fn borrow(&self) -> &[u8] {
        self.as_slice()
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Element {}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

impl Hash for Element {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl fmt::Debug for Element {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "\"{}\"", self.as_slice().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ElementRef;

    #[test]
    fn every_length_around_the_inline_limit_survives() {
        for len in [0, 1, INLINE_LEN_MAX - 1, INLINE_LEN_MAX, INLINE_LEN_MAX + 1, 4096] {
            let source: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let element = Element::from(source.as_slice());
            assert_eq!(element.as_slice(), source);
            assert_eq!(element.clone(), element);
            assert_eq!(element.to_bytes(), source);
            assert_eq!(AsRef::<[u8]>::as_ref(&element), source);
            for read in [ElementRef::from(&element), ElementRef::from(source.as_slice())] {
                assert_eq!(AsRef::<[u8]>::as_ref(&read), source);
                assert_eq!(read.to_bytes(), source);
                assert!(read != ElementRef::from(b"other".as_slice()));
            }
        }
    }

    #[test]
    fn memory_comes_in_steps_of_an_eighth() {
        for (bytes, allocated) in [(0, 0), (1, 16), (16, 16), (128, 128), (129, 160), (1025, 1280)] {
            assert_eq!(allocated_bytes(bytes), allocated);
        }
    }

    #[test]
    fn an_element_is_three_words() {
        assert_eq!(size_of::<Element>(), 24);
    }

    #[test]
    fn long_payloads_are_shared_by_clones() {
        let element = Element::from([7; 100].as_slice());
        assert_eq!(element.as_ptr(), element.clone().as_ptr());
        assert_eq!(element.as_ptr(), element.to_bytes().as_ptr());
    }

    #[test]
    fn bytes_change_in_place_unless_they_are_shared() {
        for len in [3, 100] {
            let mut element = Element::from(vec![7; len].as_slice());
            element.get_mut().expect("not shared")[1] = 8;
            assert_eq!(element[..3], [7, 8, 7]);
        }
        let mut long = Element::from([7; 100].as_slice());
        let reader = long.to_bytes();
        assert!(long.is_shared());
        assert_eq!(long.get_mut(), None);
        drop(reader);
        assert!(!long.is_shared());
        assert!(long.get_mut().is_some());
    }

    #[test]
    fn a_long_string_stays_where_it_is_and_grows_in_its_room() {
        const LEN: usize = LARGE_LEN_MIN;
        let shorter = Bytes::from(vec![7; LEN - 1]);
        for element in [Element::from(shorter.clone()), Element::from(BytesMut::from(&*shorter))] {
            assert!(!element.is_raw() && *element == *shorter, "it is copied");
        }
        let received = Bytes::from(vec![7; LEN + 10]).slice(10..);
        let place = received.as_ptr();
        let mut element = Element::from(received.clone());
        assert_eq!(element.as_ptr(), place);
        assert!(element.is_shared() && element.get_mut().is_none());
        drop(received);
        element.get_mut().expect("not shared")[0] = 8;
        assert!(!element.has_room(LEN + 1) && element.get_mut_to(LEN + 1).is_none());

        let mut room = BytesMut::with_capacity(2 * LEN);
        room.extend_from_slice(&element);
        let mut element = Element::from(room);
        let place = element.as_ptr();
        assert!(element.has_room(2 * LEN) && !element.has_room(3 * LEN));
        element.get_mut_to(LEN + 2).expect("it has room")[LEN] = 9;
        assert_eq!((element.as_ptr(), element.len()), (place, LEN + 2));
        assert_eq!(element[LEN - 1..], [7, 9, 0]);
        let reader = element.to_bytes();
        assert_eq!(reader.as_ptr(), place);
        assert!(!element.has_room(LEN) && element.get_mut_to(LEN + 3).is_none());
        drop(reader);
        assert!(element.get_mut_to(LEN + 3).is_some());
        assert!(element.get_mut_to(2 * LEN).is_some());
    }

    #[test]
    fn a_raw_string_has_the_same_bytes() {
        for len in [0, 3, INLINE_LEN_MAX, 100] {
            let plain = Element::from(vec![7; len].as_slice());
            let mut raw = plain.clone();
            raw.make_raw();
            raw.make_raw();
            assert!(raw.is_raw() && raw.clone().is_raw() && !plain.is_raw());
            assert_eq!(raw, plain);
            assert_eq!(raw.heap_bytes(), plain.heap_bytes());
            assert_eq!(raw.to_bytes(), plain.to_bytes());
        }
    }

    #[test]
    fn a_time_is_kept_with_any_bytes() {
        let (one, other) = (FieldTime::new(1), FieldTime::new(1 << 40));
        for len in [0, 1, TIMED_INLINE_LEN_MAX, TIMED_INLINE_LEN_MAX + 1, INLINE_LEN_MAX, 23, LARGE_LEN_MIN] {
            let plain = Element::from(Bytes::from(vec![7; len]));
            let mut timed = plain.clone().with_time(Some(one));
            assert_eq!((timed.time(), plain.time()), (Some(one), None));
            assert!(timed == plain && timed.to_bytes() == plain.to_bytes(), "{len}");
            assert_eq!(timed.is_shared(), plain.is_shared());
            assert_eq!(timed.clone().with_time(Some(other)).time(), Some(other));
            let again = timed.clone().with_time(None);
            assert_eq!((again.time(), again.heap_bytes()), (None, plain.heap_bytes()), "{len}");
            let takes_room = (TIMED_INLINE_LEN_MAX + 1..=INLINE_LEN_MAX).contains(&len);
            assert_eq!(timed.heap_bytes() > plain.heap_bytes(), takes_room, "{len}");
            assert_eq!(plain.clone().with_time(None), plain);
            drop((plain, again));
            if len == TIMED_INLINE_LEN_MAX + 1 || len == 1 {
                assert_eq!(timed.get_mut().map(|bytes| bytes.len()), Some(len));
            }
        }
    }

    #[test]
    fn order_is_by_bytes_whatever_the_representation() {
        let short = Element::from(b"b");
        let long = Element::from(b"a-name-longer-than-twenty-two-bytes");
        assert!(long < short);
    }
}
