//! A persistent sequence: the structure behind lists, hashes, sets and sorted sets.
//!
//! It is a B+ tree whose branches count the items below each child, so items can be addressed by
//! index. Branches also hold the last key of each child. If the owner keeps the sequence sorted,
//! items can be addressed by key too:
//!
//! ```text
//!                      branch  [ 3 items, last key f | 4 items, last key p ]
//!                             /                        \
//!              leaf  [ b d f ]                          leaf  [ g k n p ]
//! ```
//!
//! Clones share nodes. A clone costs one reference count. A writer copies the nodes on its path
//! that a clone still holds, and changes all others in place. A node less than a quarter full is
//! merged only if a neighbour has room, which bounds the depth by the largest size reached.

use std::borrow::Borrow;
use std::ops::Range;
use std::slice;
use std::sync::Arc;

/// Most items of a leaf. Small in unit tests, so that a few items already make deep trees.
const LEAF_ITEMS_MAX: usize = if cfg!(test) { 4 } else { 64 };
/// Most children of a branch.
const BRANCH_CHILDREN_MAX: usize = if cfg!(test) { 4 } else { 32 };

/// An item of a [`Tree`].
pub(crate) trait Item: Clone {
    /// The sort key of the items; `()` if items are addressed by index only.
    type Key: Clone;

    /// The item's key, which must not change while the item is in a tree.
    fn key(&self) -> &Self::Key;
}

/// A persistent sequence with access by index and, if it is sorted, by key.
#[derive(Clone)]
pub(crate) struct Tree<T: Item> {
    root: Arc<Node<T>>,
    len: usize,
}

#[derive(Clone)]
enum Node<T: Item> {
    Leaf(Vec<T>),
    Branch(Vec<Child<T>>),
}

#[derive(Clone)]
struct Child<T: Item> {
    node: Arc<Node<T>>,
    len: usize,
    last: T::Key,
}

impl<T: Item> Default for Tree<T> {
    fn default() -> Self {
        Self {
            root: Arc::new(Node::Leaf(Vec::new())),
            len: 0,
        }
    }
}

impl<T: Item> Tree<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        (index < self.len).then(|| {
            let (items, offset) = self.leaf_at(index);
            &items[offset]
        })
    }

    /// The item at `index`, to be changed without changing its key.
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        if index >= self.len {
            return None;
        }
        let mut node = Arc::make_mut(&mut self.root);
        let mut offset = index;
        loop {
            match node {
                Node::Leaf(items) => return items.get_mut(offset),
                Node::Branch(children) => {
                    let (position, rest) = locate(children, offset);
                    offset = rest;
                    node = Arc::make_mut(&mut children[position].node);
                }
            }
        }
    }

    /// For items sorted by key: how many keys satisfy `below`, and the first item that does not.
    ///
    /// `below` must hold for a prefix of the sequence.
    pub(crate) fn seek(&self, below: impl Fn(&T::Key) -> bool) -> (usize, Option<&T>) {
        let mut node = &*self.root;
        let mut rank = 0;
        loop {
            match node {
                Node::Leaf(items) => {
                    let position = items.partition_point(|item| below(item.key()));
                    return (rank + position, items.get(position));
                }
                Node::Branch(children) => {
                    let position = children.partition_point(|child| below(&child.last));
                    rank += children[..position]
                        .iter()
                        .map(|child| child.len)
                        .sum::<usize>();
                    match children.get(position) {
                        Some(child) => node = &child.node,
                        None => return (rank, None),
                    }
                }
            }
        }
    }

    /// [`seek`](Self::seek) without the count.
    pub(crate) fn find(&self, below: impl Fn(&T::Key) -> bool) -> Option<&T> {
        let mut node = &*self.root;
        loop {
            match node {
                Node::Leaf(items) => {
                    return items.get(items.partition_point(|item| below(item.key())));
                }
                Node::Branch(children) => {
                    let position = children.partition_point(|child| below(&child.last));
                    node = &children.get(position)?.node;
                }
            }
        }
    }

    /// For items sorted by key: the index of the item with this key; as an error, where it would be inserted.
    pub(crate) fn place_of<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        T::Key: Borrow<Q>,
    {
        let (place, item) = self.seek(|other| other.borrow() < key);
        match item {
            Some(item) if item.key().borrow() == key => Ok(place),
            _ => Err(place),
        }
    }

    /// Inserts `item` before the item at `index`, or at the end if `index` is the length.
    pub(crate) fn insert(&mut self, index: usize, item: T) {
        assert!(
            index <= self.len,
            "insertion at {index} of {} items",
            self.len
        );
        if let Some(right) = Arc::make_mut(&mut self.root).insert(index, item) {
            let left = std::mem::replace(&mut self.root, Arc::new(Node::Leaf(Vec::new())));
            let children = vec![Child::new(left), Child::new(right)];
            self.root = Arc::new(Node::Branch(children));
        }
        self.len += 1;
    }

    pub(crate) fn push_back(&mut self, item: T) {
        self.insert(self.len, item);
    }

    /// Removes and returns the item at `index`.
    pub(crate) fn remove(&mut self, index: usize) -> Option<T> {
        let item = self.get(index)?.clone();
        self.remove_range(index..index + 1);
        Some(item)
    }

    /// Removes the items in `range`, which must lie within the sequence.
    pub(crate) fn remove_range(&mut self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.len);
        if range.is_empty() {
            return;
        }
        if range.len() == self.len {
            *self = Self::default();
            return;
        }
        self.len -= range.len();
        Arc::make_mut(&mut self.root).remove_range(range);
        while let Node::Branch(children) = &*self.root
            && children.len() == 1
        {
            self.root = Arc::clone(&children[0].node);
        }
    }

    pub(crate) fn iter(&self) -> Iter<'_, T> {
        self.range(0..self.len)
    }

    /// The items in `range`, which must lie within the sequence, from either end.
    pub(crate) fn range(&self, range: Range<usize>) -> Iter<'_, T> {
        assert!(range.start <= range.end && range.end <= self.len);
        Iter {
            tree: self,
            front: [].iter(),
            between: range,
            back: [].iter(),
        }
    }

    /// The leaf that holds the item at `index`, and the item's offset in the leaf.
    fn leaf_at(&self, index: usize) -> (&[T], usize) {
        let mut node = &*self.root;
        let mut offset = index;
        loop {
            match node {
                Node::Leaf(items) => return (items, offset),
                Node::Branch(children) => {
                    let (position, rest) = locate(children, offset);
                    offset = rest;
                    node = &children[position].node;
                }
            }
        }
    }
}

/// Builds full nodes bottom-up, in the order of the source.
impl<T: Item> FromIterator<T> for Tree<T> {
    fn from_iter<I: IntoIterator<Item = T>>(source: I) -> Self {
        let mut source = source.into_iter();
        let leaves = std::iter::from_fn(|| {
            let items: Vec<T> = source.by_ref().take(LEAF_ITEMS_MAX).collect();
            (!items.is_empty()).then(|| Child::new(Arc::new(Node::Leaf(items))))
        });
        let mut level: Vec<Child<T>> = leaves.collect();
        while level.len() > 1 {
            let mut nodes = level.into_iter();
            let branches = std::iter::from_fn(|| {
                let children: Vec<_> = nodes.by_ref().take(BRANCH_CHILDREN_MAX).collect();
                (!children.is_empty()).then(|| Child::new(Arc::new(Node::Branch(children))))
            });
            level = branches.collect();
        }
        level.pop().map_or_else(Self::default, |root| Self {
            root: root.node,
            len: root.len,
        })
    }
}

impl<T: Item> Node<T> {
    /// Inserts below this node. A full node splits and returns its right half.
    fn insert(&mut self, index: usize, item: T) -> Option<Arc<Self>> {
        match self {
            Self::Leaf(items) => {
                if items.len() < LEAF_ITEMS_MAX {
                    insert_sparing(items, index, item);
                    return None;
                }
                let mut right = items.split_off(split_point(items.len(), index));
                items.shrink_to_fit();
                if index > items.len() || right.is_empty() {
                    insert_sparing(&mut right, index - items.len(), item);
                } else {
                    insert_sparing(items, index, item);
                }
                Some(Arc::new(Self::Leaf(right)))
            }
            Self::Branch(children) => {
                // The end of one child is the start of the next. Prefer the first child.
                let (position, offset) = match index.checked_sub(1) {
                    Some(before) => {
                        let (position, offset) = locate(children, before);
                        (position, offset + 1)
                    }
                    None => (0, 0),
                };
                let child = &mut children[position];
                let split = Arc::make_mut(&mut child.node).insert(offset, item);
                child.refresh();
                let right = Child::new(split?);
                if children.len() < BRANCH_CHILDREN_MAX {
                    children.insert(position + 1, right);
                    return None;
                }
                let mut upper = children.split_off(split_point(children.len(), position + 1));
                if position + 1 > children.len() || upper.is_empty() {
                    upper.insert(position + 1 - children.len(), right);
                } else {
                    children.insert(position + 1, right);
                }
                Some(Arc::new(Self::Branch(upper)))
            }
        }
    }

    /// Removes a range that leaves at least one item.
    fn remove_range(&mut self, range: Range<usize>) {
        match self {
            Self::Leaf(items) => drop(items.drain(range)),
            Self::Branch(children) => {
                let (mut position, mut offset) = locate(children, range.start);
                let seam = position;
                let mut left = range.len();
                while left > 0 {
                    let child = &mut children[position];
                    let taken = left.min(child.len - offset);
                    if taken == child.len {
                        children.remove(position);
                    } else {
                        Arc::make_mut(&mut child.node).remove_range(offset..offset + taken);
                        child.refresh();
                        position += 1;
                    }
                    left -= taken;
                    offset = 0;
                }
                for position in [seam + 1, seam, seam.wrapping_sub(1)] {
                    merge_if_small(children, position);
                }
            }
        }
    }

    /// Number of items of a leaf or children of a branch, and its maximum.
    fn width(&self) -> (usize, usize) {
        match self {
            Self::Leaf(items) => (items.len(), LEAF_ITEMS_MAX),
            Self::Branch(children) => (children.len(), BRANCH_CHILDREN_MAX),
        }
    }

    fn absorb(&mut self, right: Self) {
        match (self, right) {
            (Self::Leaf(items), Self::Leaf(more)) => items.extend(more),
            (Self::Branch(children), Self::Branch(more)) => children.extend(more),
            _ => unreachable!("siblings are of equal height"),
        }
    }
}

impl<T: Item> Child<T> {
    fn new(node: Arc<Node<T>>) -> Self {
        let (len, last) = Self::summary(&node);
        let last = last.clone();
        Self { node, len, last }
    }

    /// Updates the summary from the node.
    fn refresh(&mut self) {
        let (len, last) = Self::summary(&self.node);
        self.len = len;
        self.last.clone_from(last);
    }

    fn summary(node: &Node<T>) -> (usize, &T::Key) {
        const OCCUPIED: &str = "a node below the root is never empty";
        match node {
            Node::Leaf(items) => (items.len(), items.last().expect(OCCUPIED).key()),
            Node::Branch(children) => (
                children.iter().map(|child| child.len).sum(),
                &children.last().expect(OCCUPIED).last,
            ),
        }
    }
}

/// The child that holds the item at `index`, and the item's index within that child.
fn locate<T: Item>(children: &[Child<T>], index: usize) -> (usize, usize) {
    let mut offset = index;
    for (position, child) in children.iter().enumerate() {
        if offset < child.len {
            return (position, offset);
        }
        offset -= child.len;
    }
    unreachable!("index {index} is beyond the children")
}

/// Inserts an item into a leaf. A vector without room would double it, and most leaves would keep half of that for ever.
fn insert_sparing<T>(items: &mut Vec<T>, index: usize, item: T) {
    if items.len() == items.capacity() {
        items.reserve_exact((items.len() / 4).max(1));
    }
    items.insert(index, item);
}

/// Where to split a full node for an insertion. An insertion at either end leaves a full node.
fn split_point(len: usize, insertion: usize) -> usize {
    match insertion {
        0 => 0,
        at_end if at_end == len => len,
        _ => len / 2,
    }
}

/// Merges a child with its right neighbour if one of them is under a quarter full and both fit
/// into one node.
fn merge_if_small<T: Item>(children: &mut Vec<Child<T>>, position: usize) {
    let [left, right] = match children.get(position..position.saturating_add(2)) {
        Some([left, right]) => [left.node.width(), right.node.width()],
        _ => return,
    };
    let (max, smaller) = (left.1, left.0.min(right.0));
    if left.0 + right.0 <= max && smaller <= max / 4 {
        let right = children.remove(position + 1).node;
        let right = Arc::try_unwrap(right).unwrap_or_else(|shared| (*shared).clone());
        Arc::make_mut(&mut children[position].node).absorb(right);
        children[position].refresh();
    }
}

/// Walks a range of a [`Tree`] leaf by leaf from either end.
pub(crate) struct Iter<'a, T: Item> {
    tree: &'a Tree<T>,
    front: slice::Iter<'a, T>,
    /// Indices that neither `front` nor `back` covers yet.
    between: Range<usize>,
    back: slice::Iter<'a, T>,
}

impl<'a, T: Item> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        loop {
            if let Some(item) = self.front.next() {
                return Some(item);
            }
            if self.between.is_empty() {
                return self.back.next();
            }
            let (items, offset) = self.tree.leaf_at(self.between.start);
            let end = items.len().min(offset + self.between.len());
            self.between.start += end - offset;
            self.front = items[offset..end].iter();
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.front.len() + self.between.len() + self.back.len();
        (left, Some(left))
    }

    fn fold<B, F: FnMut(B, &'a T) -> B>(self, init: B, mut visit: F) -> B {
        let mut folded = self.front.fold(init, &mut visit);
        let mut between = self.between;
        while !between.is_empty() {
            let (items, offset) = self.tree.leaf_at(between.start);
            let end = items.len().min(offset + between.len());
            between.start += end - offset;
            folded = items[offset..end].iter().fold(folded, &mut visit);
        }
        self.back.fold(folded, visit)
    }
}

impl<T: Item> DoubleEndedIterator for Iter<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.back.next_back() {
                return Some(item);
            }
            if self.between.is_empty() {
                return self.front.next_back();
            }
            let (items, offset) = self.tree.leaf_at(self.between.end - 1);
            let start = (offset + 1).saturating_sub(self.between.len());
            self.between.end -= offset + 1 - start;
            self.back = items[start..=offset].iter();
        }
    }
}

impl<T: Item> ExactSizeIterator for Iter<'_, T> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Item for u32 {
        type Key = u32;

        fn key(&self) -> &u32 {
            self
        }
    }

    #[derive(Debug, Clone)]
    enum Operation {
        Insert(usize, u32),
        Remove(usize),
        RemoveRange(usize, usize),
        Set(usize, u32),
        Snapshot,
    }

    fn operations() -> impl Strategy<Value = Vec<Operation>> {
        let operation = prop_oneof![
            8 => (any::<usize>(), any::<u32>()).prop_map(|(at, item)| Operation::Insert(at, item)),
            2 => any::<u32>().prop_map(|item| Operation::Insert(usize::MAX, item)),
            2 => any::<u32>().prop_map(|item| Operation::Insert(0, item)),
            4 => any::<usize>().prop_map(Operation::Remove),
            1 => (any::<usize>(), any::<usize>()).prop_map(|(a, b)| Operation::RemoveRange(a, b)),
            2 => (any::<usize>(), any::<u32>()).prop_map(|(at, item)| Operation::Set(at, item)),
            1 => Just(Operation::Snapshot),
        ];
        proptest::collection::vec(operation, 0..300)
    }

    fn check_node(node: &Node<u32>, root: bool) -> (usize, usize) {
        let (width, max) = node.width();
        assert!(width <= max && (root || width > 0));
        match node {
            Node::Leaf(items) => (items.len(), 0),
            Node::Branch(children) => {
                let below: Vec<_> = children
                    .iter()
                    .map(|child| check_node(&child.node, false))
                    .collect();
                for (child, (len, height)) in children.iter().zip(&below) {
                    assert_eq!((child.len, *height), (*len, below[0].1));
                    assert_eq!(child.last, *Child::summary(&child.node).1);
                }
                (below.iter().map(|(len, _)| len).sum(), below[0].1 + 1)
            }
        }
    }

    fn check(tree: &Tree<u32>, model: &[u32]) {
        assert_eq!(check_node(&tree.root, true).0, tree.len());
        assert!(tree.iter().eq(model));
        assert!(tree.iter().rev().eq(model.iter().rev()));
    }

    proptest! {
        #[test]
        fn behaves_as_a_vector_and_keeps_snapshots(operations in operations()) {
            let mut tree = Tree::default();
            let mut model: Vec<u32> = Vec::new();
            let mut snapshots = Vec::new();
            for operation in operations {
                match operation {
                    Operation::Insert(at, item) => {
                        let at = if at == usize::MAX { model.len() } else { at % (model.len() + 1) };
                        tree.insert(at, item);
                        model.insert(at, item);
                    }
                    Operation::Remove(at) => {
                        let at = at % (model.len() + 1);
                        let expected = (at < model.len()).then(|| model.remove(at));
                        prop_assert_eq!(tree.remove(at), expected);
                    }
                    Operation::RemoveRange(a, b) => {
                        let (a, b) = (a % (model.len() + 1), b % (model.len() + 1));
                        tree.remove_range(a.min(b)..a.max(b));
                        model.drain(a.min(b)..a.max(b));
                    }
                    Operation::Set(at, item) => {
                        let at = at % (model.len() + 1);
                        // Keys must not change, so this test sets an item by removing and inserting it.
                        if tree.remove(at).is_some() {
                            tree.insert(at, item);
                            model[at] = item;
                        }
                    }
                    Operation::Snapshot => snapshots.push((tree.clone(), model.clone())),
                }
                check(&tree, &model);
            }
            for (tree, model) in &snapshots {
                check(tree, model);
            }
        }

        #[test]
        fn ranges_walk_from_both_ends(len in 0_usize..200, a: usize, b: usize, turns: Vec<bool>) {
            let tree: Tree<u32> = (0..len as u32).collect();
            check(&tree, &(0..len as u32).collect::<Vec<_>>());
            let (a, b) = (a % (len + 1), b % (len + 1));
            let range = a.min(b)..a.max(b);
            let mut items = tree.range(range.clone());
            let mut expected = range.map(|item| item as u32);
            for front in turns {
                prop_assert_eq!(items.len(), expected.len());
                if front {
                    prop_assert_eq!(items.next().copied(), expected.next());
                } else {
                    prop_assert_eq!(items.next_back().copied(), expected.next_back());
                }
            }
            let mut left = Vec::new();
            items.for_each(|item| left.push(*item));
            prop_assert_eq!(left, expected.collect::<Vec<_>>());
        }

        #[test]
        fn seek_is_a_partition_point(mut items: Vec<u32>, key: u32) {
            items.sort_unstable();
            let tree: Tree<u32> = items.iter().copied().collect();
            let expected = items.partition_point(|item| *item < key);
            let (rank, found) = tree.seek(|item| *item < key);
            prop_assert_eq!(rank, expected);
            prop_assert_eq!(found, items.get(expected));
            prop_assert_eq!(tree.find(|item| *item < key), found);
        }
    }

    #[test]
    fn a_leaf_keeps_little_room_that_it_does_not_need() {
        let mut items = Vec::new();
        for item in 0..64_u32 {
            insert_sparing(&mut items, 0, item);
            let len = items.len();
            assert!(items.capacity() <= len + len / 4 + 1, "{len}");
        }
    }

    #[test]
    fn growth_at_either_end_fills_its_nodes() {
        let mut tree = Tree::default();
        for item in 0..64 {
            tree.insert(if item % 2 == 0 { 0 } else { item as usize }, item);
        }
        let Node::Branch(children) = &*tree.root else {
            panic!("64 items need a branch")
        };
        let full = BRANCH_CHILDREN_MAX * LEAF_ITEMS_MAX;
        assert!(
            children.len() <= 64_usize.div_ceil(full) + 2,
            "{} children",
            children.len()
        );
    }
}
