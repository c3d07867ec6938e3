//! Lists: sequences of byte strings.

use std::fmt;
use std::ops::Range;

use crate::Element;
use crate::tree::{Item, Tree};

/// A list; a clone is O(1), access to either end or to an index O(log n).
#[derive(Clone, Default)]
pub struct List(Tree<Element>);

impl Item for Element {
    type Key = ();

    fn key(&self) -> &() {
        &()
    }
}

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
    pub fn get(&self, index: usize) -> Option<&Element> {
        self.0.get(index)
    }

    /// Adds `element` at `end`.
    pub fn push(&mut self, end: ListEnd, element: Element) {
        match end {
            ListEnd::Left => self.0.insert(0, element),
            ListEnd::Right => self.0.push_back(element),
        }
    }

    /// Takes the element at `end`.
    pub fn pop(&mut self, end: ListEnd) -> Option<Element> {
        match end {
            ListEnd::Left => self.0.remove(0),
            ListEnd::Right => self.0.remove(self.len().checked_sub(1)?),
        }
    }

    /// Inserts `element` before the element at `index`. `index` may equal the length.
    ///
    /// # Panics
    /// If `index` exceeds the length.
    pub fn insert(&mut self, index: usize, element: Element) {
        self.0.insert(index, element);
    }

    /// Replaces the element at `index`. Returns false if there is none.
    pub fn set(&mut self, index: usize, element: Element) -> bool {
        self.0.get_mut(index).map(|slot| *slot = element).is_some()
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

    /// Removes at most `limit` elements equal to `element`, counted from `end`. Returns how many.
    pub fn remove_equal(&mut self, element: &[u8], end: ListEnd, limit: usize) -> usize {
        let matches =
            |(index, candidate): (usize, &Element)| (**candidate == *element).then_some(index);
        let indexed = self.iter().enumerate();
        let mut found: Vec<usize> = match end {
            ListEnd::Left => indexed.filter_map(matches).take(limit).collect(),
            ListEnd::Right => indexed.rev().filter_map(matches).take(limit).collect(),
        };
        if end == ListEnd::Left {
            found.reverse();
        }
        for index in &found {
            self.0.remove_range(*index..index + 1);
        }
        found.len()
    }

    /// The elements from the head on.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Element> + ExactSizeIterator {
        self.0.iter()
    }

    /// The elements in `range`.
    ///
    /// # Panics
    /// If `range` does not lie within the list.
    pub fn range(
        &self,
        range: Range<usize>,
    ) -> impl DoubleEndedIterator<Item = &Element> + ExactSizeIterator {
        self.0.range(range)
    }
}

impl FromIterator<Element> for List {
    fn from_iter<I: IntoIterator<Item = Element>>(elements: I) -> Self {
        Self(elements.into_iter().collect())
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
        Push(bool, u8),
        Pop(bool),
        Insert(usize, u8),
        Set(usize, u8),
        Retain(usize, usize),
        RemoveEqual(u8, bool, usize),
    }

    fn operations() -> impl Strategy<Value = Vec<Operation>> {
        let element = 0_u8..8;
        let operation = prop_oneof![
            8 => (any::<bool>(), element.clone()).prop_map(|(left, e)| Operation::Push(left, e)),
            2 => any::<bool>().prop_map(Operation::Pop),
            2 => (any::<usize>(), element.clone()).prop_map(|(at, e)| Operation::Insert(at, e)),
            2 => (any::<usize>(), element.clone()).prop_map(|(at, e)| Operation::Set(at, e)),
            1 => (0..4_usize, any::<usize>()).prop_map(|(from, to)| Operation::Retain(from, to)),
            1 => (element, any::<bool>(), 0..4_usize)
                .prop_map(|(e, left, limit)| Operation::RemoveEqual(e, left, limit)),
        ];
        proptest::collection::vec(operation, 0..200)
    }

    fn end(left: bool) -> ListEnd {
        if left { ListEnd::Left } else { ListEnd::Right }
    }

    fn element(byte: u8) -> Element {
        Element::from(&[byte])
    }

    proptest! {
        #[test]
        fn behaves_as_a_deque(operations in operations()) {
            let mut list = List::new();
            let mut model: VecDeque<Element> = VecDeque::new();
            for operation in operations {
                match operation {
                    Operation::Push(left, byte) => {
                        list.push(end(left), element(byte));
                        if left { model.push_front(element(byte)) } else { model.push_back(element(byte)) }
                    }
                    Operation::Pop(left) => {
                        let expected = if left { model.pop_front() } else { model.pop_back() };
                        prop_assert_eq!(list.pop(end(left)), expected);
                    }
                    Operation::Insert(at, byte) => {
                        let at = at % (model.len() + 1);
                        list.insert(at, element(byte));
                        model.insert(at, element(byte));
                    }
                    Operation::Set(at, byte) => {
                        let at = at % (model.len() + 1);
                        prop_assert_eq!(list.set(at, element(byte)), at < model.len());
                        if let Some(slot) = model.get_mut(at) { *slot = element(byte) }
                    }
                    Operation::Retain(from, to) => {
                        let from = from.min(model.len());
                        let to = from + to % (model.len() - from + 1);
                        list.retain_range(from..to);
                        model.truncate(to);
                        model.drain(..from);
                    }
                    Operation::RemoveEqual(byte, left, limit) => {
                        let mut removed = 0;
                        while removed < limit {
                            let mut places = model.iter();
                            let wanted = |candidate: &Element| *candidate == element(byte);
                            let at = if left { places.position(wanted) } else { places.rposition(wanted) };
                            let Some(at) = at else { break };
                            model.remove(at);
                            removed += 1;
                        }
                        prop_assert_eq!(list.remove_equal(&[byte], end(left), limit), removed);
                    }
                }
                prop_assert!(list.iter().eq(model.iter()));
            }
        }
    }

    #[test]
    fn a_clone_keeps_its_elements_while_other_threads_write() {
        let original: List = (0..=255).map(element).collect();
        std::thread::scope(|scope| {
            for left in [true, false] {
                let mut copy = original.clone();
                scope.spawn(move || {
                    for byte in 0..=255 {
                        copy.push(end(left), element(byte));
                        copy.set(usize::from(byte), element(0));
                        copy.pop(end(!left));
                    }
                    assert_eq!(copy.len(), 256);
                });
            }
            for _ in 0..50 {
                assert!(
                    original
                        .clone()
                        .iter()
                        .map(|element| element[0])
                        .eq(0..=255)
                );
            }
        });
    }
}
