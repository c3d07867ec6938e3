//! Lists: sequences of byte strings, in chunks of up to 2 KB.
//!
//! ```text
//!                branch  [ 120 elements | 136 elements ]
//!                        /                \
//!              chunk  [ a b c .. ]          chunk  [ y z .. ]
//! ```

mod chunk;

use std::fmt;
use std::ops::Range;

use crate::packed::Content;
use crate::tree::{Leaf, Tree};
use crate::{Element, ElementRef};
use chunk::{Chunk, ChunkElement};

/// A list; a clone is O(1), access to either end or to an index O(log n).
#[derive(Clone, Default)]
pub struct List(Tree<Chunk>);

/// Chunks sampled to estimate the size of a list.
const SAMPLED_CHUNKS: usize = 4;

/// The end of a list that an operation works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListEnd {
    /// The head: index 0.
    Left,
    /// The tail.
    Right,
}

impl List {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<ElementRef<'_>> {
        self.0.get(index).map(ElementRef::from)
    }

    /// Adds `element` at `end`.
    pub fn push<'e>(&mut self, end: ListEnd, element: impl Into<ElementRef<'e>>) {
        match end {
            ListEnd::Left => self.0.insert(0, element.into()),
            ListEnd::Right => self.0.push_back(element.into()),
        }
    }

    /// Takes the element at `end`.
    pub fn pop(&mut self, end: ListEnd) -> Option<Element> {
        let index = match end {
            ListEnd::Left => 0,
            ListEnd::Right => self.len().checked_sub(1)?,
        };
        self.0.remove(index)
    }

    /// Inserts `element` before the element at `index`. `index` may equal the length.
    ///
    /// # Panics
    /// If `index` exceeds the length.
    pub fn insert<'e>(&mut self, index: usize, element: impl Into<ElementRef<'e>>) {
        self.0.insert(index, element.into());
    }

    /// Replaces the element at `index`. Returns false if there is none.
    pub fn set<'e>(&mut self, index: usize, element: impl Into<ElementRef<'e>>) -> bool {
        let element = element.into();
        if index >= self.len() {
            return false;
        }
        let (chunk, offset) = self.0.leaf_at_mut(index);
        if !chunk.set(offset, &element) {
            self.0.insert(index, element);
            self.0.remove_range(index + 1..index + 2);
        }
        true
    }

    /// Removes the elements in `range`.
    ///
    /// # Panics
    /// If `range` does not lie within the list.
    pub fn remove_range(&mut self, range: Range<usize>) {
        self.0.remove_range(range);
    }

    /// Removes the elements outside `range`.
    ///
    /// # Panics
    /// If `range` does not lie within the list.
    pub fn retain_range(&mut self, range: Range<usize>) {
        self.0.remove_range(range.end..self.len());
        self.0.remove_range(0..range.start);
    }

    /// Removes at most `limit` elements equal to `element`, counted from `end`. Returns how many. Calls `visit` for
    /// each element that it compares or removes.
    pub fn remove_equal(&mut self, element: &[u8], end: ListEnd, limit: usize, visit: &dyn Fn()) -> usize {
        let matches = self.matches(element).inspect(|_| visit()).enumerate();
        let matches = matches.filter_map(|(index, is_equal)| is_equal.then_some(index));
        let mut found: Vec<usize> = match end {
            ListEnd::Left => matches.take(limit).collect(),
            ListEnd::Right => matches.rev().take(limit).collect(),
        };
        if end == ListEnd::Left {
            found.reverse();
        }
        for index in &found {
            visit();
            self.0.remove_range(*index..index + 1);
        }
        found.len()
    }

    /// Whether each of the elements, from the head on, is `wanted`. This is faster than a walk that compares.
    pub fn matches(&self, wanted: &[u8]) -> impl DoubleEndedIterator<Item = bool> + ExactSizeIterator {
        let wanted = Content::from(wanted);
        self.0.iter().map(move |held| held.content() == wanted)
    }

    /// The elements from the head on.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = ElementRef<'_>> + ExactSizeIterator {
        self.range(0..self.len())
    }

    /// The elements in `range`.
    ///
    /// # Panics
    /// If `range` does not lie within the list.
    pub fn range(&self, range: Range<usize>) -> impl DoubleEndedIterator<Item = ElementRef<'_>> + ExactSizeIterator {
        self.0.range(range).map(ElementRef::from)
    }

    /// Approximate bytes of memory, estimated from the first chunks.
    pub(crate) fn memory_bytes(&self) -> usize {
        let (mut elements, mut bytes) = (0, 0);
        for chunk in self.0.leaves().take(SAMPLED_CHUNKS) {
            elements += chunk.len();
            bytes += chunk.memory_bytes();
        }
        bytes * self.len() / elements.max(1)
    }

    /// Whether the list is one chunk, which refers to nothing else.
    pub(crate) fn is_one_chunk(&self) -> bool {
        self.0.only_leaf().is_some_and(|chunk| !chunk.has_long_elements())
    }
}

impl ChunkElement<'_> {
    fn content(&self) -> Content<'_> {
        match self {
            Self::Short(content) => *content,
            Self::Long(element) => Content::Text(element),
        }
    }
}

impl<'c> From<ChunkElement<'c>> for ElementRef<'c> {
    #[inline]
    fn from(element: ChunkElement<'c>) -> Self {
        match element {
            ChunkElement::Short(content) => content.into(),
            ChunkElement::Long(element) => element.into(),
        }
    }
}

impl FromIterator<Element> for List {
    fn from_iter<I: IntoIterator<Item = Element>>(elements: I) -> Self {
        let mut list = Self::new();
        for element in elements {
            list.push(ListEnd::Right, &element);
        }
        list
    }
}

impl fmt::Debug for List {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Operation {
        Push(bool, Element),
        Pop(bool),
        Insert(usize, Element),
        Set(usize, Element),
        Remove(usize, usize),
        Retain(usize, usize),
        RemoveEqual(Element, bool, usize),
        Collect,
        Snapshot,
    }

    /// Elements of all forms. The longest numbers, and texts around the limit of a chunk's buffer, are among them.
    fn elements() -> impl Strategy<Value = Element> {
        let number = |number: i64| Element::from(number.to_string().as_bytes());
        prop_oneof![
            4 => (0..8_i64).prop_map(number),
            2 => any::<i64>().prop_map(number),
            4 => proptest::collection::vec(any::<u8>(), 0..8).prop_map(|text| Element::from(&*text)),
            4 => (0..30_usize).prop_map(|len| Element::from(&*vec![b'x'; len])),
            1 => (100..3000_usize).prop_map(|len| Element::from(&*vec![b'y'; len])),
        ]
    }

    fn operations() -> impl Strategy<Value = Vec<Operation>> {
        let operation = prop_oneof![
            8 => (any::<bool>(), elements()).prop_map(|(left, e)| Operation::Push(left, e)),
            2 => any::<bool>().prop_map(Operation::Pop),
            4 => (any::<usize>(), elements()).prop_map(|(at, e)| Operation::Insert(at, e)),
            4 => (any::<usize>(), elements()).prop_map(|(at, e)| Operation::Set(at, e)),
            1 => (any::<usize>(), 0..40_usize).prop_map(|(at, len)| Operation::Remove(at, len)),
            1 => (0..4_usize, any::<usize>()).prop_map(|(from, to)| Operation::Retain(from, to)),
            1 => (elements(), any::<bool>(), 0..4_usize)
                .prop_map(|(e, left, limit)| Operation::RemoveEqual(e, left, limit)),
            1 => Just(Operation::Collect),
            1 => Just(Operation::Snapshot),
        ];
        proptest::collection::vec(operation, 0..200)
    }

    fn end(left: bool) -> ListEnd {
        if left { ListEnd::Left } else { ListEnd::Right }
    }

    fn element(byte: u8) -> Element {
        Element::from(&[byte])
    }

    fn check(list: &List, model: &VecDeque<Element>) {
        assert_eq!(list.len(), model.len());
        assert!(list.iter().map(|held| held.to_element()).eq(model.iter().cloned()));
        for (index, element) in model.iter().enumerate() {
            assert_eq!(list.get(index).as_deref(), Some(&**element), "at {index}");
        }
        assert_eq!(list.get(model.len()), None);
        list.0.leaves().for_each(Chunk::check);
    }

    proptest! {
        #[test]
        fn behaves_as_a_deque_and_keeps_snapshots(operations in operations()) {
            let mut list = List::new();
            let mut model: VecDeque<Element> = VecDeque::new();
            let mut snapshots = Vec::new();
            for operation in operations {
                match operation {
                    Operation::Push(left, element) => {
                        list.push(end(left), &element);
                        if left { model.push_front(element) } else { model.push_back(element) }
                    }
                    Operation::Pop(left) => {
                        let expected = if left { model.pop_front() } else { model.pop_back() };
                        prop_assert_eq!(list.pop(end(left)), expected);
                    }
                    Operation::Insert(at, element) => {
                        let at = at % (model.len() + 1);
                        list.insert(at, &element);
                        model.insert(at, element);
                    }
                    Operation::Set(at, element) => {
                        let at = at % (model.len() + 1);
                        prop_assert_eq!(list.set(at, &element), at < model.len());
                        if let Some(slot) = model.get_mut(at) { *slot = element }
                    }
                    Operation::Remove(at, len) => {
                        let at = at % (model.len() + 1);
                        let range = at..(at + len).min(model.len());
                        list.remove_range(range.clone());
                        model.drain(range);
                    }
                    Operation::Retain(from, to) => {
                        let from = from.min(model.len());
                        let to = from + to % (model.len() - from + 1);
                        list.retain_range(from..to);
                        model.truncate(to);
                        model.drain(..from);
                    }
                    Operation::RemoveEqual(element, left, limit) => {
                        let mut removed = 0;
                        while removed < limit {
                            let mut places = model.iter();
                            let wanted = |candidate: &Element| *candidate == element;
                            let at = if left { places.position(wanted) } else { places.rposition(wanted) };
                            let Some(at) = at else { break };
                            model.remove(at);
                            removed += 1;
                        }
                        prop_assert_eq!(list.remove_equal(&element, end(left), limit, &|| ()), removed);
                    }
                    Operation::Collect => list = model.iter().cloned().collect(),
                    Operation::Snapshot => snapshots.push((list.clone(), model.clone())),
                }
                check(&list, &model);
            }
            for (list, model) in &snapshots {
                check(list, model);
            }
        }

        #[test]
        fn ranges_walk_from_both_ends(
            all in proptest::collection::vec(elements(), 0..100),
            a: usize,
            b: usize,
            turns: Vec<bool>,
        ) {
            let list: List = all.iter().cloned().collect();
            let (a, b) = (a % (all.len() + 1), b % (all.len() + 1));
            let range = a.min(b)..a.max(b);
            let mut expected = all[range.clone()].iter();
            let mut found = list.range(range.clone());
            for front in turns {
                prop_assert_eq!(found.len(), expected.len());
                let (found, expected) = if front {
                    (found.next(), expected.next())
                } else {
                    (found.next_back(), expected.next_back())
                };
                prop_assert_eq!(found.as_deref(), expected.map(|element| &**element));
            }
            let mut left = Vec::new();
            found.for_each(|element| left.push(element.to_element()));
            prop_assert_eq!(left, expected.cloned().collect::<Vec<_>>());
            for wanted in all.iter().take(3) {
                let expected = all.iter().map(|element| element == wanted);
                prop_assert!(list.matches(wanted).eq(expected.clone()));
                prop_assert!(list.matches(wanted).rev().eq(expected.rev()));
            }
        }
    }

    #[test]
    fn pushes_at_either_end_fill_their_chunks() {
        for left in [true, false] {
            let mut list = List::new();
            for number in 0..1000 {
                list.push(end(left), format!("element{number:07}").as_bytes());
            }
            let full = list.0.leaves().filter(|chunk| chunk.len() == 8).count();
            assert_eq!((full, list.0.leaves().count()), (125, 125));
        }
    }

    #[test]
    fn removals_merge_chunks_that_are_small() {
        let mut list: List = (0..1000).map(|_| Element::from(b"element")).collect();
        let before = list.memory_bytes();
        let mut index = 0;
        while index < list.len() {
            list.remove_range(index..(index + 15).min(list.len()));
            index += 1;
        }
        assert_eq!(list.len(), 62);
        let chunks = list.0.leaves().count();
        assert!(chunks <= 62 / 3 + 1, "{chunks} chunks");
        assert!(list.memory_bytes() < before / 8);
    }

    #[test]
    fn a_long_element_is_shared_with_snapshots_and_readers() {
        let long = Element::from([7; 5000].as_slice());
        let mut list: List = (0..20).map(element).collect();
        list.insert(10, &long);
        let snapshot = list.clone();
        list.set(0, &element(1));
        list.set(9, &element(1));
        for list in [&list, &snapshot] {
            assert_eq!(list.get(10).map(|held| held.as_ptr()), Some(long.as_ptr()));
        }
        assert!(list.memory_bytes() > 5000);
        let few: List = (0..3).map(element).collect();
        let one_long: List = [long].into_iter().collect();
        assert_eq!([few, list, one_long].map(|list| list.is_one_chunk()), [true, false, false]);
    }

    #[test]
    fn a_clone_keeps_its_elements_while_other_threads_write() {
        let original: List = (0..=255).map(element).collect();
        std::thread::scope(|scope| {
            for left in [true, false] {
                let mut copy = original.clone();
                scope.spawn(move || {
                    for byte in 0..=255 {
                        copy.push(end(left), &element(byte));
                        copy.set(usize::from(byte), &element(0));
                        copy.pop(end(!left));
                    }
                    assert_eq!(copy.len(), 256);
                });
            }
            for _ in 0..50 {
                assert!(original.clone().iter().map(|element| element[0]).eq(0..=255));
            }
        });
    }
}
