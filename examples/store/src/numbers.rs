//! Small sets of integers: sorted numbers of one width.
//!
//! ```text
//!   1 + width │ number │ number │ ..        each the lowest byte first, signed
//! ```

use std::cmp::Ordering;
use std::slice::ChunksExact;

use smallvec::SmallVec;

use crate::narrow::Narrow;

/// Bytes in which numbers are put together.
pub(crate) type NumberBytes = SmallVec<[u8; 512]>;

/// Numbers in ascending order.
#[derive(Clone, Copy)]
pub(crate) struct Numbers<'n> {
    width: usize,
    bytes: &'n [u8],
}

impl<'n> Numbers<'n> {
    /// The first bytes: one more than the widths, so that they are none of 0 and 1.
    const HEAD_MIN: u8 = 2;
    const HEAD_MAX: u8 = 9;

    /// No numbers.
    pub(crate) const NONE: Self = Self { width: 1, bytes: &[] };

    /// The numbers in these bytes; `None` if they are something else.
    pub(crate) fn in_bytes(bytes: &'n [u8]) -> Option<Self> {
        match bytes {
            [head @ Self::HEAD_MIN..=Self::HEAD_MAX, bytes @ ..] => Some(Self { width: usize::from(head - 1), bytes }),
            _ => None,
        }
    }

    /// The bytes of numbers in ascending order.
    pub(crate) fn bytes_of(sorted: &[i64]) -> NumberBytes {
        let ends = [sorted.first(), sorted.last()].into_iter().flatten();
        let widths = ends.map(|end| Narrow::from(*end).as_slice().len());
        let mut bytes = Self::begin(widths.max().unwrap_or(1));
        for number in sorted {
            put(&mut bytes, *number);
        }
        bytes
    }

    fn begin(width: usize) -> NumberBytes {
        NumberBytes::from_slice(&[width as u8 + 1])
    }

    pub(crate) fn len(self) -> usize {
        self.bytes.len() / self.width
    }

    pub(crate) fn get(self, index: usize) -> Option<i64> {
        self.iter().nth(index)
    }

    /// The bytes of each number, for [`Narrow::widen`].
    pub(crate) fn chunks(self) -> ChunksExact<'n, u8> {
        self.bytes.chunks_exact(self.width)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = i64> {
        self.chunks().map(Narrow::widen)
    }

    /// The index of a number; as an error, where it would be inserted.
    pub(crate) fn place_of(self, number: i64) -> Result<usize, usize> {
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let middle = usize::midpoint(from, to);
            let found = &self.bytes[middle * self.width..][..self.width];
            match Narrow::widen(found).cmp(&number) {
                Ordering::Less => from = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => to = middle,
            }
        }
        Err(from)
    }

    /// The bytes with one more number in its place.
    pub(crate) fn with(self, place: usize, number: i64) -> NumberBytes {
        let width = Narrow::from(number).as_slice().len();
        if width > self.width {
            let mut bytes = Self::begin(width);
            let mut wider = self.iter();
            wider.by_ref().take(place).for_each(|number| put(&mut bytes, number));
            put(&mut bytes, number);
            wider.for_each(|number| put(&mut bytes, number));
            return bytes;
        }
        let (before, behind) = self.bytes.split_at(place * self.width);
        let mut bytes = Self::begin(self.width);
        bytes.extend_from_slice(before);
        put(&mut bytes, number);
        bytes.extend_from_slice(behind);
        bytes
    }

    /// The bytes without the number at `index`.
    pub(crate) fn without(self, index: usize) -> NumberBytes {
        let mut bytes = Self::begin(self.width);
        bytes.extend_from_slice(&self.bytes[..index * self.width]);
        bytes.extend_from_slice(&self.bytes[(index + 1) * self.width..]);
        bytes
    }
}

/// Appends a number in the width with which the bytes begin.
fn put(bytes: &mut NumberBytes, number: i64) {
    let width = usize::from(bytes[0] - 1);
    bytes.extend_from_slice(&number.to_le_bytes()[..width]);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behave_as_a_sorted_set(changes in proptest::collection::vec((any::<i64>(), 0..64_u32, any::<bool>()), 0..60)) {
            let mut bytes = Numbers::bytes_of(&[]);
            let mut model = BTreeSet::new();
            for (number, shift, is_added) in changes {
                let number = number >> shift;
                let numbers = Numbers::in_bytes(&bytes).unwrap();
                let place = numbers.place_of(number);
                prop_assert_eq!(place.is_ok(), model.contains(&number));
                let gone = (!is_added).then(|| model.pop_first()).flatten();
                bytes = match (gone, place) {
                    (Some(_), _) => numbers.without(0),
                    (None, Ok(index)) => {
                        model.remove(&number);
                        numbers.without(index)
                    }
                    (None, Err(place)) => {
                        model.insert(number);
                        numbers.with(place, number)
                    }
                };
                let numbers = Numbers::in_bytes(&bytes).unwrap();
                prop_assert_eq!(numbers.len(), model.len());
                let sorted: Vec<i64> = model.iter().copied().collect();
                prop_assert!(numbers.iter().eq(sorted.iter().copied()));
                prop_assert_eq!(numbers.get(sorted.len() / 2), sorted.get(sorted.len() / 2).copied());
                let again = Numbers::bytes_of(&sorted);
                prop_assert!(Numbers::in_bytes(&again).unwrap().iter().eq(sorted));
            }
        }
    }
}
