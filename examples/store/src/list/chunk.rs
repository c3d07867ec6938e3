//! A chunk of a list: neighbouring elements in one buffer.
//!
//! ```text
//!   bytes of element 0 │ of 1 │ of 2 │ ..     room     .. │ head of 2 │ of 1 │ of 0
//!
//!   head:  length, below 240     text
//!          240                   a long element, which is outside the buffer
//!          240 + n               a number, which is text in decimal digits: n bytes, the lowest first, signed
//! ```
//!
//! An element takes one byte more than its text, or fewer if it is a number. The heads lie side by side, so the place
//! of an element is a sum over a few hundred bytes, which takes nanoseconds, and a walk goes in either direction. An
//! element at the end moves no other.
//!
//! A chunk has up to 2 KB. That bounds what a change moves, and what it copies if a snapshot has the chunk, too. Long
//! elements are shared by reference count.

use std::ops::Range;

use crate::element::allocated_bytes;
use crate::form::integer;
use crate::narrow::Narrow;
use crate::packed::Content;
use crate::tree::{Leaf, Tree, insert_sparing, shall_merge};
use crate::{Element, ElementRef};

/// Most bytes of a chunk, with those of references to long elements. Few in unit tests, so that they have many chunks.
const BYTES_MAX: usize = if cfg!(test) { 128 } else { 2048 };
/// Most elements of a chunk.
const ELEMENTS_MAX: usize = if cfg!(test) { 12 } else { 512 };
/// Longest text in the buffer. At least four of them fit into a chunk.
const TEXT_LEN_MAX: usize = if cfg!(test) { 24 } else { 239 };
/// Buffers of fewer bytes grow by an eighth, others by a quarter.
const SMALL_BYTES: usize = if cfg!(test) { 64 } else { 256 };
/// The head of a long element.
const LONG: u8 = 240;

/// Elements in their order.
#[derive(Clone, Default)]
pub(super) struct Chunk {
    buffer: Box<[u8]>,
    /// Bytes of the elements, without their heads.
    bytes_len: u16,
    len: u16,
    /// In the order in which their heads follow.
    long: Vec<Element>,
}

/// An element in its chunk.
#[derive(Clone, Copy)]
pub(super) enum ChunkElement<'c> {
    Short(Content<'c>),
    Long(&'c Element),
}

/// What a chunk stores of an element.
enum Cell<'e> {
    Text(&'e [u8]),
    Number(Narrow),
    Long(Element),
}

impl<'e> Cell<'e> {
    fn new(element: &'e ElementRef<'e>) -> Self {
        let text = element.as_slice();
        match integer(text) {
            Some(number) => Self::Number(number.into()),
            None if text.len() <= TEXT_LEN_MAX => Self::Text(text),
            None => Self::Long(element.to_element()),
        }
    }

    fn head(&self) -> u8 {
        match self {
            Self::Text(text) => text.len() as u8,
            Self::Number(number) => LONG + number.as_slice().len() as u8,
            Self::Long(_) => LONG,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number.as_slice(),
            Self::Long(_) => &[],
        }
    }

    /// What a chunk needs for it.
    fn weight(&self) -> usize {
        weight(self.head())
    }
}

/// Bytes that an element with this head has in the buffer, beside its head.
fn bytes_of(head: u8) -> usize {
    usize::from(if head < LONG { head } else { head - LONG })
}

/// Bytes that an element with this head takes of its chunk.
fn weight(head: u8) -> usize {
    let outside = if head == LONG { size_of::<Element>() } else { 0 };
    1 + bytes_of(head) + outside
}

/// Bytes that elements with these heads have in the buffer. They are fewer than 2^16.
fn sum(heads: &[u8]) -> usize {
    let sum = heads.iter().fold(0_u16, |sum, head| {
        let above = if *head < LONG { 0 } else { LONG };
        sum.wrapping_add(u16::from(head - above))
    });
    usize::from(sum)
}

impl Chunk {
    /// A chunk of what `source` has, and with room for `more` bytes.
    fn of(source: &View<'_>, more: usize) -> Self {
        let mut chunk = Self {
            buffer: vec![0; room_for(source.buffered() + more)].into_boxed_slice(),
            bytes_len: source.bytes.len() as u16,
            len: source.heads.len() as u16,
            long: source.long.to_vec(),
        };
        chunk.buffer[..source.bytes.len()].copy_from_slice(source.bytes);
        let heads = chunk.buffer.len() - source.heads.len();
        chunk.buffer[heads..].copy_from_slice(source.heads);
        chunk
    }

    /// All elements.
    fn view(&self) -> View<'_> {
        let heads = self.buffer.len() - usize::from(self.len);
        View {
            heads: &self.buffer[heads..],
            bytes: &self.buffer[..usize::from(self.bytes_len)],
            long: &self.long,
        }
    }

    /// Whether some elements are outside the buffer.
    pub(super) fn has_long_elements(&self) -> bool {
        !self.long.is_empty()
    }

    /// Bytes of memory with its share of a tree.
    pub(super) fn memory_bytes(&self) -> usize {
        let long = self.long.iter().map(Element::heap_bytes).sum::<usize>();
        let references = self.long.capacity() * size_of::<Element>();
        Tree::<Self>::LEAF_BYTES + allocated_bytes(self.buffer.len()) + references + long
    }

    /// Replaces the element at `index`. Returns false if there is no room for the new one.
    pub(super) fn set(&mut self, index: usize, element: &ElementRef<'_>) -> bool {
        let cell = Cell::new(element);
        let (place, old) = (self.view().place(index), self.view().head(index));
        if self.view().weight() - weight(old) + cell.weight() > BYTES_MAX {
            return false;
        }
        let (bytes, old_len) = (cell.bytes().len(), bytes_of(old));
        self.reserve(bytes.saturating_sub(old_len));
        self.replace(place.byte..place.byte + old_len, cell.bytes());
        let head = self.buffer.len() - 1 - index;
        self.buffer[head] = cell.head();
        if old == LONG {
            self.long.remove(place.long);
        }
        if let Cell::Long(long) = cell {
            insert_sparing(&mut self.long, place.long, long, ELEMENTS_MAX);
        }
        self.shrink();
        true
    }

    /// Makes room for `more` bytes in the buffer.
    fn reserve(&mut self, more: usize) {
        if self.buffer.len() < self.view().buffered() + more {
            let long = std::mem::take(&mut self.long);
            *self = Self { long, ..Self::of(&self.view(), more) };
        }
    }

    /// Puts `new` in the place of some bytes, for which the buffer has room.
    fn replace(&mut self, old: Range<usize>, new: &[u8]) {
        let end = usize::from(self.bytes_len);
        let behind = old.start + new.len();
        if behind != old.end {
            self.buffer.copy_within(old.end..end, behind);
            self.bytes_len = (end - old.len() + new.len()) as u16;
        }
        self.buffer[old.start..behind].copy_from_slice(new);
    }

    /// Inserts an element for which the chunk has room.
    fn put(&mut self, index: usize, cell: Cell<'_>) {
        self.reserve(1 + cell.bytes().len());
        let place = self.view().place(index);
        self.replace(place.byte..place.byte, cell.bytes());
        let heads = self.buffer.len() - usize::from(self.len);
        let head = self.buffer.len() - index;
        self.buffer.copy_within(heads..head, heads - 1);
        self.buffer[head - 1] = cell.head();
        self.len += 1;
        if let Cell::Long(long) = cell {
            insert_sparing(&mut self.long, place.long, long, ELEMENTS_MAX);
        }
    }

    /// Removes elements, and keeps the buffer as large as it is.
    fn cut(&mut self, range: Range<usize>) {
        let [from, to] = self.view().ends(&range);
        drop(self.long.drain(from.long..to.long));
        self.replace(from.byte..to.byte, &[]);
        let heads = self.buffer.len() - usize::from(self.len);
        let behind = self.buffer.len() - range.end;
        self.buffer.copy_within(heads..behind, heads + range.len());
        self.len -= range.len() as u16;
    }

    /// Gives back a buffer that is twice as large as it needs to be, or more, and room for many long elements.
    fn shrink(&mut self) {
        if self.long.capacity() > 4 * self.long.len() {
            self.long.shrink_to(2 * self.long.len());
        }
        let view = self.view();
        if self.buffer.len() >= 2 * room_for(view.buffered()) {
            *self = Self::of(&view, 0);
        }
    }

    /// Removes the elements from `index` on into a chunk of their own.
    fn split_off(&mut self, index: usize) -> Self {
        let right = Self::of(&self.view().part(index..self.len()), 0);
        self.cut(index..self.len());
        self.shrink();
        right
    }

    /// Where about half of the weight is on either side, with some elements on each.
    fn middle(&self) -> usize {
        let view = self.view();
        let half = view.weight() / 2;
        let mut before = 0;
        let heads = view.heads.iter().rev();
        let middle = heads.take_while(|head| {
            before += weight(**head);
            before <= half
        });
        middle.count().clamp(1, self.len() - 1)
    }
}

/// A buffer's length for so many bytes and some more. Most lists are small and stay small.
fn room_for(bytes: usize) -> usize {
    let more = if bytes < SMALL_BYTES { 8 } else { 4 };
    allocated_bytes(bytes + bytes / more).min(BYTES_MAX).max(bytes)
}

impl Leaf for Chunk {
    type New<'n> = ElementRef<'n>;
    type Taken = Element;
    type Key = ();
    type Ref<'c> = ChunkElement<'c>;
    type Walk<'c> = View<'c>;

    fn len(&self) -> usize {
        usize::from(self.len)
    }

    fn last_key(&self) -> Option<&()> {
        (self.len > 0).then_some(&())
    }

    fn range(&self, range: Range<usize>) -> View<'_> {
        self.view().part(range)
    }

    fn insert(&mut self, index: usize, element: Self::New<'_>) -> Option<Self> {
        let cell = Cell::new(&element);
        let is_full = self.len() == ELEMENTS_MAX;
        if !is_full && self.view().weight() + cell.weight() <= BYTES_MAX {
            self.put(index, cell);
            return None;
        }
        let mut right = if index == self.len() {
            Self::default()
        } else if index == 0 {
            std::mem::take(self)
        } else {
            self.split_off(self.middle())
        };
        if index > self.len() || right.len == 0 {
            right.put(index - self.len(), cell);
        } else {
            self.put(index, cell);
        }
        Some(right)
    }

    fn remove(&mut self, index: usize) -> Element {
        let taken = self.range(index..index + 1).next().map(ElementRef::from);
        let taken = taken.expect("an element").to_element();
        self.remove_range(index..index + 1);
        taken
    }

    fn remove_range(&mut self, range: Range<usize>) {
        self.cut(range);
        self.shrink();
    }

    fn can_absorb(&self, right: &Self) -> bool {
        let [left_bytes, right_bytes] = [self, right].map(|chunk| chunk.view().weight());
        self.len() + right.len() <= ELEMENTS_MAX && shall_merge(left_bytes, right_bytes, BYTES_MAX)
    }

    fn absorb(&mut self, right: Self) {
        let more = right.view();
        self.reserve(more.buffered());
        let end = usize::from(self.bytes_len);
        self.buffer[end..end + more.bytes.len()].copy_from_slice(more.bytes);
        let heads = self.buffer.len() - usize::from(self.len);
        self.buffer[heads - more.heads.len()..heads].copy_from_slice(more.heads);
        self.bytes_len += right.bytes_len;
        self.len += right.len;
        self.long.extend(right.long);
    }
}

/// Neighbouring elements of a chunk, and a walk over them from either end.
#[derive(Clone, Default)]
pub(super) struct View<'c> {
    /// The last comes first.
    heads: &'c [u8],
    bytes: &'c [u8],
    long: &'c [Element],
}

/// Where the bytes of an element begin, or its reference.
struct Place {
    byte: usize,
    long: usize,
}

impl Place {
    /// Where the next element is.
    fn behind(&self, head: u8) -> Self {
        Self {
            byte: self.byte + bytes_of(head),
            long: self.long + usize::from(head == LONG),
        }
    }
}

impl<'c> View<'c> {
    /// The head of an element.
    fn head(&self, index: usize) -> u8 {
        self.heads[self.heads.len() - 1 - index]
    }

    /// Where the element at `index` is, or would be.
    fn place(&self, index: usize) -> Place {
        let (behind, before) = self.heads.split_at(self.heads.len() - index);
        let byte = if before.len() <= behind.len() {
            sum(before)
        } else {
            self.bytes.len() - sum(behind)
        };
        let long = match self.long {
            [] => 0,
            _ => before.iter().filter(|head| **head == LONG).count(),
        };
        Place { byte, long }
    }

    /// Where the elements in `range` begin, and where they end.
    fn ends(&self, range: &Range<usize>) -> [Place; 2] {
        let from = self.place(range.start);
        let to = match range.len() {
            1 => from.behind(self.head(range.start)),
            _ => self.place(range.end),
        };
        [from, to]
    }

    /// Some of the elements.
    fn part(&self, range: Range<usize>) -> Self {
        let [from, to] = self.ends(&range);
        let len = self.heads.len();
        Self {
            heads: &self.heads[len - range.end..len - range.start],
            bytes: &self.bytes[from.byte..to.byte],
            long: &self.long[from.long..to.long],
        }
    }

    /// Bytes in the buffer.
    fn buffered(&self) -> usize {
        self.heads.len() + self.bytes.len()
    }

    /// What the elements take of their chunk.
    fn weight(&self) -> usize {
        self.buffered() + size_of_val(self.long)
    }
}

impl<'c> ChunkElement<'c> {
    #[inline]
    fn short(head: u8, bytes: &'c [u8]) -> Self {
        Self::Short(if head < LONG {
            Content::Text(bytes)
        } else {
            Content::Number(Narrow::widen(bytes))
        })
    }
}

impl<'c> Iterator for View<'c> {
    type Item = ChunkElement<'c>;

    #[inline]
    fn next(&mut self) -> Option<ChunkElement<'c>> {
        let (head, heads) = self.heads.split_last()?;
        self.heads = heads;
        if *head == LONG {
            let (first, long) = self.long.split_first()?;
            self.long = long;
            return Some(ChunkElement::Long(first));
        }
        let (first, bytes) = self.bytes.split_at(bytes_of(*head));
        self.bytes = bytes;
        Some(ChunkElement::short(*head, first))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.heads.len(), Some(self.heads.len()))
    }
}

impl DoubleEndedIterator for View<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let (head, heads) = self.heads.split_first()?;
        self.heads = heads;
        if *head == LONG {
            let (last, long) = self.long.split_last()?;
            self.long = long;
            return Some(ChunkElement::Long(last));
        }
        let (bytes, last) = self.bytes.split_at(self.bytes.len() - bytes_of(*head));
        self.bytes = bytes;
        Some(ChunkElement::short(*head, last))
    }
}

impl ExactSizeIterator for View<'_> {}

#[cfg(test)]
impl Chunk {
    /// Checks what is always so.
    pub(super) fn check(&self) {
        let view = self.view();
        let weights = view.heads.iter().map(|head| weight(*head));
        assert_eq!(view.weight(), weights.sum::<usize>());
        assert!(view.weight() <= BYTES_MAX && self.len() <= ELEMENTS_MAX && self.len > 0);
        assert!(view.buffered() <= self.buffer.len());
        assert!(self.buffer.len() < 2 * room_for(view.buffered()));
        assert!(self.long.capacity() <= 4 * self.long.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_buffer_has_room_for_an_eighth_more_and_others_for_a_quarter() {
        let rooms = [0, 8, 63, 64, 100, 120, BYTES_MAX].map(room_for);
        let allocated = [0, 9, 63 + 7, 64 + 16, 100 + 25].map(allocated_bytes);
        assert_eq!(rooms[..5], allocated);
        assert_eq!(rooms[5..], [BYTES_MAX; 2]);
    }

    /// A chunk of these elements, which fit into it.
    fn chunk(elements: &[&[u8]]) -> Chunk {
        let mut chunk = Chunk::default();
        for (index, element) in elements.iter().enumerate() {
            assert!(chunk.insert(index, (*element).into()).is_none());
        }
        chunk
    }

    #[test]
    fn a_full_chunk_takes_what_it_has_room_for() {
        let text = [b'x'; 25];
        let of = |len: usize| ElementRef::from(&text[..len]);
        // With its head, a text takes a byte more, and so does the reference to one of 25 bytes.
        let mut full = chunk(&[&text[..24]; 5]);
        assert!(full.insert(5, of(2)).is_none());
        assert_eq!([2, 3, 1, 2].map(|len| full.set(5, &of(len))), [true, false, true, true]);
        let before = full.memory_bytes();
        assert!(full.set(0, &of(25)) && full.has_long_elements());
        let outside = Element::from(of(25).as_slice()).heap_bytes();
        assert_eq!(full.memory_bytes(), before + size_of::<Element>() + outside);
        full.check();
        let right = full.insert(3, of(0)).expect("no room");
        assert_eq!((full.len(), right.len()), (2, 5), "about half of the weight");
        let mut full = chunk(&[b"".as_slice(); ELEMENTS_MAX]);
        assert_eq!(full.insert(ELEMENTS_MAX, of(0)).map(|right| right.len()), Some(1));
    }

    /// Bytes that these elements take.
    fn weight_of(elements: &[Element]) -> usize {
        let weight = |element: &Element| match integer(element) {
            Some(number) => 1 + Narrow::from(number).as_slice().len(),
            None if element.len() <= TEXT_LEN_MAX => 1 + element.len(),
            None => 1 + size_of::<Element>(),
        };
        elements.iter().map(weight).sum()
    }

    fn assert_has(chunk: &Chunk, elements: &[Element]) {
        let is = |view: View<'_>, elements: &[Element]| {
            assert_eq!(view.size_hint(), (elements.len(), Some(elements.len())));
            let held = view.clone().map(|held| ElementRef::from(held).to_element());
            assert!(held.eq(elements.iter().cloned()));
            let back = view.rev().map(|held| ElementRef::from(held).to_element());
            assert!(back.eq(elements.iter().rev().cloned()));
        };
        is(chunk.range(0..elements.len()), elements);
        for index in 0..elements.len() {
            is(chunk.range(index..index + 1), &elements[index..=index]);
            is(chunk.range(index..elements.len()), &elements[index..]);
        }
        assert_eq!((chunk.len(), chunk.view().weight()), (elements.len(), weight_of(elements)));
        let heap: usize = elements
            .iter()
            .filter(|element| element.len() > TEXT_LEN_MAX)
            .map(Element::heap_bytes)
            .sum();
        assert_eq!(chunk.has_long_elements(), heap > 0);
        let own = allocated_bytes(chunk.buffer.len()) + chunk.long.capacity() * size_of::<Element>();
        assert_eq!(chunk.memory_bytes(), Tree::<Chunk>::LEAF_BYTES + own + heap);
        chunk.check();
    }

    /// Texts, numbers and long elements of all sizes, drawn by `number`.
    fn drawn(number: u64) -> Element {
        let (kind, of) = (number % 8, number / 8);
        match kind {
            0 => Element::from(&*vec![b'y'; 25 + (of % 3) as usize]),
            1..4 => Element::from((of as i64 >> (of % 64)).to_string().as_bytes()),
            _ => Element::from(&*vec![b'x'; (of % 25) as usize]),
        }
    }

    #[test]
    fn a_chunk_is_a_vector_within_its_bounds() {
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % below as u64) as usize
        };
        let (mut chunk, mut model) = (chunk(&[b"first"]), vec![Element::from(b"first")]);
        for _ in 0..3_000 {
            let (index, new) =
                (random(model.len() + 1), drawn((random(1 << 30) as u64) << 30 | random(1 << 30) as u64));
            let more = weight_of(std::slice::from_ref(&new));
            match random(8) {
                0 if model.len() > 1 => {
                    let range = index.min(model.len() - 1)..(index + 1 + random(3)).min(model.len());
                    if range.len() < model.len() {
                        chunk.remove_range(range.clone());
                        model.drain(range);
                    }
                }
                1..4 if index < model.len() => {
                    let fits = weight_of(&model) - weight_of(&model[index..=index]) + more <= BYTES_MAX;
                    assert_eq!(chunk.set(index, &(&new).into()), fits);
                    if fits {
                        model[index] = new;
                    }
                }
                _ => {
                    let fits = model.len() < ELEMENTS_MAX && weight_of(&model) + more <= BYTES_MAX;
                    let right = chunk.insert(index, (&new).into());
                    assert_eq!(right.is_none(), fits);
                    model.insert(index, new);
                    let Some(right) = right else { continue };
                    // One at an end has a chunk of its own.
                    let is_at_end = index == 0 || index + 1 == model.len();
                    assert!(!is_at_end || chunk.len().min(right.len()) == 1);
                    let right_model = model.split_off(chunk.len());
                    assert_has(&right, &right_model);
                    let weights = [&model, &right_model].map(|elements| weight_of(elements));
                    let merge = shall_merge(weights[0], weights[1], BYTES_MAX);
                    let few = model.len() + right_model.len() <= ELEMENTS_MAX;
                    assert_eq!(chunk.can_absorb(&right), merge && few);
                    // Of two chunks one goes on, or what is left of both, in one.
                    let keeps = random(right_model.len() + 1);
                    match random(3) {
                        0 => (chunk, model) = (right, right_model),
                        1 if model.len() + keeps <= ELEMENTS_MAX => {
                            let mut right = right;
                            right.remove_range(keeps..right_model.len());
                            if keeps > 0 && chunk.can_absorb(&right) {
                                chunk.absorb(right);
                                model.extend_from_slice(&right_model[..keeps]);
                            }
                        }
                        _ => {}
                    }
                }
            }
            assert_has(&chunk, &model);
        }
    }
}
