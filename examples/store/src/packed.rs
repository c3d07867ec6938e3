//! Small collections: all strings in one allocation.
//!
//! ```text
//!   references │ length │ number of cells │ cell │ cell │ ..
//!
//!   cell:  length, below 240 │ bytes                                   text
//!          240 + n           │ n bytes, the lowest first, signed       a number, which is text in decimal digits
//!          255               │ 6 bytes │ another cell                  a cell with a time
//! ```
//!
//! The number of cells has its highest byte first. So that byte is 0 or 1, and tells cells from the
//! [numbers](crate::numbers) that a set of integers has in their place.
//!
//! Elements are found by walking alone, and a change copies the bytes, unless it replaces cells by cells of the
//! same lengths. So the owner unpacks a collection before it has more than 2 KB or 256 cells: up to there, this is
//! about as fast as a tree. A clone shares the bytes.

use std::ops::Range;

use smallvec::SmallVec;
use triomphe::{Arc, ThinArc};

use crate::element_ref::{Digits, ElementRef};
use crate::field_time::FieldTime;
use crate::form::integer;
use crate::narrow::Narrow;
use crate::numbers::{NumberBytes, Numbers};

/// Most bytes of a packed collection. Few in unit tests, so that they have unpacked ones, too.
const BYTES_MAX: usize = if cfg!(test) { 150 } else { 2048 };
/// Longest text in a cell.
const TEXT_LEN_MAX: usize = if cfg!(test) { 20 } else { 128 };
/// The head of a cell with a number of 0 bytes.
const NUMBER: u8 = 240;
/// The head of a cell with a time.
const TIMED: u8 = u8::MAX;
/// Bytes of the number of cells.
const COUNT_LEN: usize = size_of::<u16>();

/// Strings in an order that their owner gives them.
#[derive(Clone, Default)]
pub(crate) struct Packed(Option<ThinArc<(), u8>>);

/// The bytes of a cell.
pub(crate) type Cell = SmallVec<[u8; 32]>;

/// A cell of these bytes; `None` if they are too long for one.
pub(crate) fn cell(text: &[u8]) -> Option<Cell> {
    if let Some(number) = integer(text) {
        return Some(number_cell(number));
    }
    let mut cell = Cell::new();
    if text.len() > TEXT_LEN_MAX {
        return None;
    }
    cell.push(text.len() as u8);
    cell.extend_from_slice(text);
    Some(cell)
}

/// A cell of these bytes and this time.
pub(crate) fn timed_cell(text: &[u8], time: Option<FieldTime>) -> Option<Cell> {
    let mut cell = cell(text)?;
    if let Some(time) = time {
        cell.insert_from_slice(0, &time.bytes());
        cell.insert(0, TIMED);
    }
    Some(cell)
}

/// A cell of a number.
pub(crate) fn number_cell(number: i64) -> Cell {
    let narrow = Narrow::from(number);
    let bytes = narrow.as_slice();
    let mut cell = Cell::from_slice(&[NUMBER + bytes.len() as u8]);
    cell.extend_from_slice(bytes);
    cell
}

/// What a cell holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Content<'p> {
    Text(&'p [u8]),
    Number(i64),
}

impl<'p> From<&'p [u8]> for Content<'p> {
    fn from(text: &'p [u8]) -> Self {
        integer(text).map_or(Self::Text(text), Self::Number)
    }
}

impl<'p> From<Content<'p>> for ElementRef<'p> {
    #[inline]
    fn from(content: Content<'p>) -> Self {
        match content {
            Content::Text(text) => Self::Packed(text),
            Content::Number(number) => Self::Number(Digits::from(number)),
        }
    }
}

/// A cell in its place.
#[derive(Clone, Copy)]
pub(crate) struct Placed<'p> {
    /// Where its bytes are.
    pub(crate) start: usize,
    /// All its bytes.
    pub(crate) bytes: &'p [u8],
}

impl<'p> Placed<'p> {
    pub(crate) fn end(&self) -> usize {
        self.start + self.bytes.len()
    }

    /// The time of the cell, and the cell without it.
    fn parts(&self) -> (Option<FieldTime>, &'p [u8]) {
        if let [TIMED, rest @ ..] = self.bytes
            && let Some((time, cell)) = rest.split_first_chunk()
        {
            return (Some(FieldTime::of(*time)), cell);
        }
        (None, self.bytes)
    }

    /// The time that is kept with the cell.
    pub(crate) fn time(&self) -> Option<FieldTime> {
        self.parts().0
    }

    pub(crate) fn content(&self) -> Content<'p> {
        match self.parts().1 {
            [NUMBER..=u8::MAX, digits @ ..] => Content::Number(Narrow::widen(digits)),
            bytes => Content::Text(&bytes[1..]),
        }
    }

    pub(crate) fn element(&self) -> ElementRef<'p> {
        self.content().into()
    }
}

impl Packed {
    /// Most cells. Few in unit tests, so that their bytes do not end before.
    pub(crate) const CELLS_MAX: usize = if cfg!(test) { 100 } else { 256 };

    fn bytes(&self) -> &[u8] {
        self.0.as_ref().map_or(&[0; COUNT_LEN], |all| &all.slice)
    }

    /// Number of cells.
    pub(crate) fn len(&self) -> usize {
        let count = self.bytes().first_chunk();
        count.map_or(0, |count| usize::from(u16::from_be_bytes(*count)))
    }

    /// Where a cell that is added at the end begins.
    pub(crate) fn end(&self) -> usize {
        self.bytes().len()
    }

    /// Bytes of memory outside this value.
    pub(crate) fn heap_bytes(&self) -> usize {
        let bytes = |all: &ThinArc<(), u8>| 2 * size_of::<usize>() + all.slice.len();
        self.0.as_ref().map_or(0, bytes)
    }

    /// These cells; `None` if they are too many.
    pub(crate) fn of(cells: &[Cell]) -> Option<Self> {
        let mut packed = Self::default();
        let all: SmallVec<[&Cell; 16]> = cells.iter().collect();
        packed.has_room_for(&all).then(|| {
            packed.push(&all);
            packed
        })
    }

    /// The numbers that are there instead of cells.
    pub(crate) fn numbers(&self) -> Option<Numbers<'_>> {
        match &self.0 {
            None => Some(Numbers::NONE),
            Some(all) => Numbers::in_bytes(&all.slice),
        }
    }

    /// The [bytes of numbers](Numbers::bytes_of); `None` if they are too many.
    pub(crate) fn of_numbers(bytes: &NumberBytes) -> Option<Self> {
        let len = Numbers::in_bytes(bytes)?.len();
        let fits = bytes.len() <= BYTES_MAX && len <= Self::CELLS_MAX;
        let all = (len > 0).then(|| ThinArc::from_header_and_slice((), bytes));
        fits.then_some(Self(all))
    }

    /// Whether there is room for more cells.
    pub(crate) fn has_room_for(&self, new: &[&Cell]) -> bool {
        let added: usize = new.iter().map(|cell| cell.len()).sum();
        self.end() + added <= BYTES_MAX && self.len() + new.len() <= Self::CELLS_MAX
    }

    /// The cells in their order.
    pub(crate) fn cells(&self) -> Cells<'_> {
        Cells { bytes: self.bytes(), at: COUNT_LEN, left: self.len() }
    }

    /// Puts `new` in the place of `removed` cells, which these bytes hold.
    pub(crate) fn replace(&mut self, place: Range<usize>, removed: usize, new: &[&Cell]) {
        let added = new.iter().map(|cell| cell.len()).sum();
        if place.len() == added
            && removed == new.len()
            && let Some(all) = &mut self.0
            && all.with_arc_mut(|all| {
                let Some(all) = Arc::get_mut(all) else {
                    return false;
                };
                let mut rest = &mut all.slice_mut()[place.clone()];
                for cell in new {
                    let (own, after) = rest.split_at_mut(cell.len());
                    own.copy_from_slice(cell);
                    rest = after;
                }
                true
            })
        {
            return;
        }
        let count = self.len() - removed + new.len();
        if count == 0 {
            self.0 = None;
            return;
        }
        let old = self.bytes();
        let mut bytes = SmallVec::<[u8; 512]>::with_capacity(old.len() - place.len() + added);
        bytes.extend_from_slice(&(count as u16).to_be_bytes());
        bytes.extend_from_slice(&old[COUNT_LEN..place.start]);
        new.iter().for_each(|cell| bytes.extend_from_slice(cell));
        bytes.extend_from_slice(&old[place.end..]);
        self.0 = Some(ThinArc::from_header_and_slice((), &bytes));
    }

    /// Adds cells at the end.
    pub(crate) fn push(&mut self, new: &[&Cell]) {
        self.replace(self.end()..self.end(), 0, new);
    }

    /// Removes cells from their places.
    pub(crate) fn remove(&mut self, place: Range<usize>, removed: usize) {
        self.replace(place, removed, &[]);
    }
}

/// Walks the cells of a [`Packed`].
#[derive(Clone)]
pub(crate) struct Cells<'p> {
    bytes: &'p [u8],
    at: usize,
    left: usize,
}

impl<'p> Iterator for Cells<'p> {
    type Item = Placed<'p>;

    fn next(&mut self) -> Option<Placed<'p>> {
        self.left = self.left.checked_sub(1)?;
        let start = self.at;
        let mut head = self.bytes[start];
        if head == TIMED {
            self.at += 1 + FieldTime::LEN;
            head = self.bytes[self.at];
        }
        self.at += 1 + usize::from(if head < NUMBER { head } else { head - NUMBER });
        Some(Placed { start, bytes: &self.bytes[start..self.at] })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Cells<'_> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..=TEXT_LEN_MAX),
            any::<i64>().prop_map(|number| number.to_string().into_bytes()),
            (-300..300_i64).prop_map(|number| number.to_string().into_bytes()),
        ]
    }

    proptest! {
        #[test]
        fn cells_come_out_as_they_went_in(changes in proptest::collection::vec((texts(), any::<usize>(), any::<bool>()), 0..40)) {
            let mut packed = Packed::default();
            let mut model: Vec<Vec<u8>> = Vec::new();
            let mut snapshots = Vec::new();
            for (text, place, replaces) in changes {
                let new = cell(&text).unwrap();
                let place = place % (model.len() + 1);
                let found = packed.cells().nth(place);
                match found.map(|cell| cell.start..cell.end()) {
                    Some(range) if replaces => {
                        packed.replace(range, 1, &[&new]);
                        model[place] = text;
                    }
                    Some(range) if text.len() % 3 == 0 => {
                        packed.remove(range, 1);
                        model.remove(place);
                    }
                    Some(range) => {
                        packed.replace(range.start..range.start, 0, &[&new]);
                        model.insert(place, text);
                    }
                    None => {
                        packed.push(&[&new]);
                        model.push(text);
                    }
                }
                snapshots.push((packed.clone(), model.clone()));
            }
            for (packed, model) in snapshots {
                prop_assert_eq!(packed.len(), model.len());
                let cells: Vec<_> = packed.cells().map(|cell| cell.element().to_vec()).collect();
                prop_assert_eq!(cells, model);
            }
        }
    }

    #[test]
    fn there_is_room_up_to_the_last_byte_and_the_last_cell() {
        for (len, most) in [(0, Packed::CELLS_MAX), (1, 74), (20, 7)] {
            let text = cell(&vec![b'x'; len]).unwrap();
            let packed = Packed::of(&vec![text.clone(); most]).expect("there is room");
            assert_eq!((packed.len(), packed.cells().len()), (most, most));
            assert_eq!(packed.heap_bytes(), 2 * size_of::<usize>() + COUNT_LEN + most * text.len());
            assert!(Packed::of(&vec![text; most + 1]).is_none());
        }
        for (number, most) in [(1, Packed::CELLS_MAX), (i64::MAX, 18)] {
            let of = |count| Packed::of_numbers(&Numbers::bytes_of(&vec![number; count]));
            assert!(of(most).is_some() && of(most + 1).is_none(), "{number}");
            assert_eq!(of(0).map(|none| none.heap_bytes()), Some(0));
        }
    }

    #[test]
    fn cells_of_the_same_length_change_in_place() {
        let mut packed = Packed::default();
        packed.push(&[&cell(b"one").unwrap(), &cell(b"two").unwrap()]);
        let address = packed.bytes().as_ptr();
        let second = packed.cells().nth(1).unwrap();
        packed.replace(second.start..second.end(), 1, &[&cell(b"six").unwrap()]);
        assert_eq!(packed.bytes().as_ptr(), address);
        let snapshot = packed.clone();
        let first = packed.cells().next().unwrap();
        packed.replace(first.start..first.end(), 1, &[&cell(b"ten").unwrap()]);
        let texts = |packed: &Packed| -> Vec<Vec<u8>> {
            let cells = packed.cells();
            cells.map(|cell| cell.element().to_vec()).collect()
        };
        assert_eq!(texts(&snapshot), [b"one", b"six"]);
        assert_eq!(texts(&packed), [b"ten", b"six"]);
    }
}
