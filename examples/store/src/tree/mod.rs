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

mod leaf;

use std::borrow::Borrow;
use std::ops::Range;

use smallvec::SmallVec;
use triomphe::Arc;

pub(crate) use leaf::{Item, Leaf, insert_sparing, shall_merge};

use leaf::{LEAF_ITEMS_MAX, split_point};

/// Most children of a branch. Few in unit tests.
const BRANCH_CHILDREN_MAX: usize = if cfg!(test) { 4 } else { 32 };

/// A persistent sequence with access by index and, if it is sorted, by key.
#[derive(Clone)]
pub(crate) struct Tree<L: Leaf> {
    root: Arc<Node<L>>,
    len: usize,
}

#[derive(Clone)]
enum Node<L: Leaf> {
    Leaf(L),
    Branch(Vec<Child<L>>),
}

#[derive(Clone)]
struct Child<L: Leaf> {
    node: Arc<Node<L>>,
    len: usize,
    last: L::Key,
}

/// What a search looks for among keys: the first that does not come before it. A function of a key that says whether it
/// comes before is one.
pub(crate) trait Target<K> {
    /// Whether `key` comes before. This must hold for the first keys of the sequence, and for no others.
    fn is_behind(&self, key: &K) -> bool;

    /// About how many of `len` keys from `low` to `high` come before, if their values tell. Without `low` they are the
    /// first ones. A search in halves waits for memory several times in each leaf; one that knows where to look, once.
    #[inline]
    fn guess(&self, _low: Option<&K>, _high: &K, _len: usize) -> Option<usize> {
        None
    }
}

impl<K, F: Fn(&K) -> bool> Target<K> for F {
    #[inline]
    fn is_behind(&self, key: &K) -> bool {
        self(key)
    }
}

/// The way from the root to a place in the sequence. It leads there until the sequence changes.
pub(crate) struct Way {
    /// Which child it takes at each branch.
    turns: SmallVec<[u8; 16]>,
    /// The place in the leaf.
    place: usize,
    /// Whether the place is the end of the sequence.
    is_end: bool,
}

impl<L: Leaf> Default for Tree<L> {
    fn default() -> Self {
        Self { root: Arc::new(Node::Leaf(L::default())), len: 0 }
    }
}

impl<L: Leaf> Tree<L> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, index: usize) -> Option<L::Ref<'_>> {
        if index >= self.len {
            return None;
        }
        let (leaf, offset) = self.leaf_at(index);
        leaf.range(offset..offset + 1).next()
    }

    /// The leaf that holds the item at `index`, and the item's offset in the leaf.
    pub(crate) fn leaf_at(&self, index: usize) -> (&L, usize) {
        let (mut node, mut len) = (&*self.root, self.len);
        let mut offset = index;
        loop {
            match node {
                Node::Leaf(leaf) => return (leaf, offset),
                Node::Branch(children) => {
                    let (position, rest) = locate(children, len, offset);
                    offset = rest;
                    (node, len) = (&children[position].node, children[position].len);
                }
            }
        }
    }

    /// [`leaf_at`](Self::leaf_at), to change the item without changing its key or the number of items.
    pub(crate) fn leaf_at_mut(&mut self, index: usize) -> (&mut L, usize) {
        let way = self.way_to(index);
        (self.leaf_of_mut(&way), way.place)
    }

    /// The leaf at the end of `way`, to be changed as in [`leaf_at_mut`](Self::leaf_at_mut).
    fn leaf_of_mut(&mut self, way: &Way) -> &mut L {
        let mut node = Arc::make_mut(&mut self.root);
        let mut turns = &*way.turns;
        loop {
            match node {
                Node::Leaf(leaf) => return leaf,
                Node::Branch(children) => {
                    let (turn, behind) = next_turn(turns);
                    turns = behind;
                    node = Arc::make_mut(&mut children[turn].node);
                }
            }
        }
    }

    /// The only leaf; `None` if there are several.
    pub(crate) fn only_leaf(&self) -> Option<&L> {
        match &*self.root {
            Node::Leaf(leaf) => Some(leaf),
            Node::Branch(_) => None,
        }
    }

    /// The leaves in their order.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = &L> {
        let mut next = 0;
        std::iter::from_fn(move || {
            let leaf = (next < self.len).then(|| self.leaf_at(next).0)?;
            next += leaf.len();
            Some(leaf)
        })
    }

    /// Bytes of memory that a leaf takes in the tree, beside what it has outside itself.
    pub(crate) const LEAF_BYTES: usize = size_of::<usize>() + size_of::<Node<L>>() + size_of::<Child<L>>();

    /// The way to the item at `index`, or to the end if `index` is the length.
    pub(crate) fn way_to(&self, index: usize) -> Way {
        assert!(index <= self.len, "place {index} of {} items", self.len);
        let is_end = index == self.len;
        let mut way = Way {
            turns: SmallVec::new(),
            place: if is_end { index.saturating_sub(1) } else { index },
            is_end,
        };
        let (mut node, mut len) = (&*self.root, self.len);
        while let Node::Branch(children) = node {
            let (turn, rest) = locate(children, len, way.place);
            way.turns.push(turn as u8);
            way.place = rest;
            (node, len) = (&children[turn].node, children[turn].len);
        }
        way.place += usize::from(is_end && self.len > 0);
        way
    }

    /// Inserts `item` before the item at `index`, or at the end if `index` is the length.
    pub(crate) fn insert(&mut self, index: usize, item: L::New<'_>) {
        self.insert_at(&self.way_to(index), item);
    }

    /// Inserts `item` before the item at the end of `way`.
    pub(crate) fn insert_at(&mut self, way: &Way, item: L::New<'_>) {
        if let Some(right) = Arc::make_mut(&mut self.root).insert(&way.turns, way, item) {
            let left = std::mem::replace(&mut self.root, Arc::new(Node::Leaf(L::default())));
            let children = vec![Child::new(left), Child::new(right)];
            self.root = Arc::new(Node::Branch(children));
        }
        self.len += 1;
    }

    pub(crate) fn push_back(&mut self, item: L::New<'_>) {
        self.insert(self.len, item);
    }

    /// Removes and returns the item at `index`.
    pub(crate) fn remove(&mut self, index: usize) -> Option<L::Taken> {
        (index < self.len).then(|| self.remove_at(&self.way_to(index)))
    }

    /// Removes and returns the item at the end of `way`, where there is one.
    pub(crate) fn remove_at(&mut self, way: &Way) -> L::Taken {
        let (taken, _) = Arc::make_mut(&mut self.root).remove(&way.turns, way);
        self.len -= 1;
        if self.len == 0 {
            *self = Self::default();
        }
        self.lower();
        taken
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
        self.lower();
    }

    /// A root has no only child.
    fn lower(&mut self) {
        while let Node::Branch(children) = &*self.root
            && children.len() == 1
        {
            self.root = Arc::clone(&children[0].node);
        }
    }

    pub(crate) fn iter(&self) -> Iter<'_, L> {
        self.range(0..self.len)
    }

    /// The items in `range`, which must lie within the sequence, from either end.
    pub(crate) fn range(&self, range: Range<usize>) -> Iter<'_, L> {
        assert!(range.start <= range.end && range.end <= self.len);
        Iter {
            tree: self,
            front: L::Walk::default(),
            between: range,
            back: L::Walk::default(),
        }
    }
}

impl<T: Item> Tree<Vec<T>> {
    /// The item at `index`, to be changed without changing its key.
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        (index < self.len).then(|| self.get_mut_at(&self.way_to(index)))?
    }

    /// The item at the end of `way`, to be changed without changing its key.
    pub(crate) fn get_mut_at(&mut self, way: &Way) -> Option<&mut T> {
        self.leaf_of_mut(way).get_mut(way.place)
    }

    /// For items sorted by key: how many keys come before the target, and the first item that does not.
    pub(crate) fn seek(&self, target: impl Target<T::Key>) -> (usize, Option<&T>) {
        let mut before = 0;
        let (place, item) = self.search(target, |children, turn| {
            before += total(&children[..turn]);
        });
        (before + place, item)
    }

    /// [`seek`](Self::seek) without the count.
    pub(crate) fn find(&self, target: impl Target<T::Key>) -> Option<&T> {
        self.search(target, |_, _| ()).1
    }

    /// [`seek`](Self::seek), with the way to the item or to the end instead of the count.
    pub(crate) fn seek_way(&self, target: impl Target<T::Key>) -> (Way, Option<&T>) {
        let mut turns = SmallVec::new();
        let (place, item) = self.search(target, |_, turn| turns.push(turn as u8));
        let is_end = item.is_none();
        (Way { turns, place, is_end }, item)
    }

    /// The place of the first item in its leaf that does not come before the target, and the item. Calls `visit` at each
    /// branch with the child that it turns to.
    #[inline]
    fn search<'t>(
        &'t self,
        target: impl Target<T::Key>,
        mut visit: impl FnMut(&'t [Child<Vec<T>>], usize),
    ) -> (usize, Option<&'t T>) {
        let mut node = &*self.root;
        // The keys around those of the node.
        let (mut low, mut high) = (None, None);
        loop {
            let guess = |last, len| target.guess(low, high.or(last)?, len);
            match node {
                Node::Leaf(items) => {
                    let guess = guess(items.last().map(Item::key), items.len());
                    let place = partition_near(items, guess, |item| target.is_behind(item.key()));
                    return (place, items.get(place));
                }
                Node::Branch(children) => {
                    let guess = guess(children.last().map(|child| &child.last), children.len());
                    let turn = partition_near(children, guess, |child| target.is_behind(&child.last));
                    let turn = turn.min(children.len() - 1);
                    visit(children, turn);
                    low = turn.checked_sub(1).map(|before| &children[before].last).or(low);
                    high = Some(&children[turn].last);
                    node = &children[turn].node;
                }
            }
        }
    }

    /// For items sorted by key: the item with this key.
    pub(crate) fn found<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&T>
    where
        T::Key: Borrow<Q>,
    {
        let item = self.find(|other: &T::Key| other.borrow() < key)?;
        (item.key().borrow() == key).then_some(item)
    }

    /// For items sorted by key: the way to the item with this key; as an error, where it would be inserted.
    pub(crate) fn place_of<Q: Ord + ?Sized>(&self, key: &Q) -> Result<Way, Way>
    where
        T::Key: Borrow<Q>,
    {
        let (way, item) = self.seek_way(|other: &T::Key| other.borrow() < key);
        match item {
            Some(item) if item.key().borrow() == key => Ok(way),
            _ => Err(way),
        }
    }
}

/// Builds full nodes bottom-up, in the order of the source.
impl<T: Item> FromIterator<T> for Tree<Vec<T>> {
    fn from_iter<I: IntoIterator<Item = T>>(source: I) -> Self {
        let mut source = source.into_iter();
        let leaves = std::iter::from_fn(|| {
            let items: Vec<T> = source.by_ref().take(LEAF_ITEMS_MAX).collect();
            (!items.is_empty()).then(|| Child::new(Arc::new(Node::Leaf(items))))
        });
        let mut level: Vec<Child<_>> = leaves.collect();
        while level.len() > 1 {
            let mut nodes = level.into_iter();
            let branches = std::iter::from_fn(|| {
                let children: Vec<_> = nodes.by_ref().take(BRANCH_CHILDREN_MAX).collect();
                (!children.is_empty()).then(|| Child::new(Arc::new(Node::Branch(children))))
            });
            level = branches.collect();
        }
        level.pop().map_or_else(Self::default, |root| Self { root: root.node, len: root.len })
    }
}

impl<L: Leaf> Node<L> {
    /// Inserts below this node, from where `turns` are left of the way. A full node splits and returns its right half.
    fn insert(&mut self, turns: &[u8], way: &Way, item: L::New<'_>) -> Option<Arc<Self>> {
        match self {
            Self::Leaf(leaf) => {
                let right = leaf.insert(way.place, item)?;
                Some(Arc::new(Self::Leaf(right)))
            }
            Self::Branch(children) => {
                let (turn, turns) = next_turn(turns);
                let child = &mut children[turn];
                let split = Arc::make_mut(&mut child.node).insert(turns, way, item);
                let Some(right) = split else {
                    child.len += 1;
                    if way.is_end {
                        child.note_last();
                    }
                    return None;
                };
                child.refresh();
                let right = Child::new(right);
                if children.len() < BRANCH_CHILDREN_MAX {
                    children.insert(turn + 1, right);
                    return None;
                }
                let mut upper = children.split_off(split_point(children.len(), turn + 1));
                if turn + 1 > children.len() || upper.is_empty() {
                    upper.insert(turn + 1 - children.len(), right);
                } else {
                    children.insert(turn + 1, right);
                }
                Some(Arc::new(Self::Branch(upper)))
            }
        }
    }

    /// Removes an item below this node, as [`insert`](Self::insert) finds its place. Returns the item, and whether it
    /// was the last one of the node.
    fn remove(&mut self, turns: &[u8], way: &Way) -> (L::Taken, bool) {
        match self {
            Self::Leaf(leaf) => {
                let taken = leaf.remove(way.place);
                (taken, way.place == leaf.len())
            }
            Self::Branch(children) => {
                let (turn, turns) = next_turn(turns);
                let is_last = turn + 1 == children.len();
                let child = &mut children[turn];
                let (taken, was_last) = Arc::make_mut(&mut child.node).remove(turns, way);
                child.len -= 1;
                if child.len == 0 {
                    children.remove(turn);
                } else if was_last {
                    child.note_last();
                }
                merge_if_small(children, turn);
                merge_if_small(children, turn.wrapping_sub(1));
                (taken, is_last && was_last)
            }
        }
    }

    /// Removes a range that leaves at least one item.
    fn remove_range(&mut self, range: Range<usize>) {
        match self {
            Self::Leaf(leaf) => leaf.remove_range(range),
            Self::Branch(children) => {
                let (mut position, mut offset) = locate(children, total(children), range.start);
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

    /// Number of items.
    fn len(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.len(),
            Self::Branch(children) => total(children),
        }
    }

    /// The key of the last item of a node below the root, which is never empty.
    fn last_key(&self) -> &L::Key {
        let last = match self {
            Self::Leaf(leaf) => leaf.last_key(),
            Self::Branch(children) => children.last().map(|child| &child.last),
        };
        last.expect("a node below the root is never empty")
    }

    fn can_absorb(&self, right: &Self) -> bool {
        match (self, right) {
            (Self::Leaf(left), Self::Leaf(right)) => left.can_absorb(right),
            (Self::Branch(left), Self::Branch(right)) => shall_merge(left.len(), right.len(), BRANCH_CHILDREN_MAX),
            _ => unreachable!("siblings are of equal height"),
        }
    }

    fn absorb(&mut self, right: Self) {
        match (self, right) {
            (Self::Leaf(leaf), Self::Leaf(more)) => leaf.absorb(more),
            (Self::Branch(children), Self::Branch(more)) => children.extend(more),
            _ => unreachable!("siblings are of equal height"),
        }
    }
}

impl<L: Leaf> Child<L> {
    fn new(node: Arc<Node<L>>) -> Self {
        let (len, last) = (node.len(), node.last_key().clone());
        Self { node, len, last }
    }

    /// Updates all that is known of the node.
    fn refresh(&mut self) {
        self.len = self.node.len();
        self.note_last();
    }

    /// The node has another last item.
    fn note_last(&mut self) {
        self.last.clone_from(self.node.last_key());
    }
}

/// Items that are looked at one by one where the target should be.
const STEPS_MAX: usize = 8;

/// The first item that is not `below`. The search begins at `guess`.
#[inline]
fn partition_near<T>(items: &[T], guess: Option<usize>, below: impl Fn(&T) -> bool) -> usize {
    let Some(guess) = guess else {
        return items.partition_point(below);
    };
    let guess = guess.min(items.len());
    let mut place = guess;
    while place < items.len() && below(&items[place]) {
        place += 1;
        if place - guess == STEPS_MAX {
            return place + items[place..].partition_point(below);
        }
    }
    if place > guess {
        return place;
    }
    while place > 0 && !below(&items[place - 1]) {
        place -= 1;
        if guess - place == STEPS_MAX {
            return items[..place].partition_point(below);
        }
    }
    place
}

/// The next turn of a way, and those behind it.
fn next_turn(turns: &[u8]) -> (usize, &[u8]) {
    let (turn, behind) = turns.split_first().expect("a turn for each branch");
    (usize::from(*turn), behind)
}

/// Number of items below all children.
fn total<L: Leaf>(children: &[Child<L>]) -> usize {
    children.iter().map(|child| child.len).sum()
}

/// The child that holds the item at `index` of `len` items, and the item's index within that child.
fn locate<L: Leaf>(children: &[Child<L>], len: usize, index: usize) -> (usize, usize) {
    if index >= len / 2 {
        let mut start = len;
        for (position, child) in children.iter().enumerate().rev() {
            start -= child.len;
            if start <= index {
                return (position, index - start);
            }
        }
    }
    let mut offset = index;
    for (position, child) in children.iter().enumerate() {
        if offset < child.len {
            return (position, offset);
        }
        offset -= child.len;
    }
    unreachable!("index {index} is beyond the children")
}

/// Merges a child with its right neighbour if one of them is under a quarter full and both fit
/// into one node.
fn merge_if_small<L: Leaf>(children: &mut Vec<Child<L>>, position: usize) {
    match children.get(position..position.saturating_add(2)) {
        Some([left, right]) if left.node.can_absorb(&right.node) => {}
        _ => return,
    }
    let right = children.remove(position + 1).node;
    let right = Arc::unwrap_or_clone(right);
    Arc::make_mut(&mut children[position].node).absorb(right);
    children[position].refresh();
}

/// Walks a range of a [`Tree`] leaf by leaf from either end.
pub(crate) struct Iter<'a, L: Leaf> {
    tree: &'a Tree<L>,
    front: L::Walk<'a>,
    /// Indices that neither `front` nor `back` covers yet.
    between: Range<usize>,
    back: L::Walk<'a>,
}

impl<'a, L: Leaf> Iterator for Iter<'a, L> {
    type Item = L::Ref<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.front.next() {
                return Some(item);
            }
            if self.between.is_empty() {
                return self.back.next();
            }
            let (leaf, offset) = self.tree.leaf_at(self.between.start);
            let end = leaf.len().min(offset + self.between.len());
            self.between.start += end - offset;
            self.front = leaf.range(offset..end);
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.front.len() + self.between.len() + self.back.len();
        (left, Some(left))
    }

    fn fold<B, F: FnMut(B, Self::Item) -> B>(self, init: B, mut visit: F) -> B {
        let mut folded = self.front.fold(init, &mut visit);
        let mut between = self.between;
        while !between.is_empty() {
            let (leaf, offset) = self.tree.leaf_at(between.start);
            let end = leaf.len().min(offset + between.len());
            between.start += end - offset;
            folded = leaf.range(offset..end).fold(folded, &mut visit);
        }
        self.back.fold(folded, visit)
    }
}

impl<L: Leaf> DoubleEndedIterator for Iter<'_, L> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.back.next_back() {
                return Some(item);
            }
            if self.between.is_empty() {
                return self.front.next_back();
            }
            let (leaf, offset) = self.tree.leaf_at(self.between.end - 1);
            let start = (offset + 1).saturating_sub(self.between.len());
            self.between.end -= offset + 1 - start;
            self.back = leaf.range(start..offset + 1);
        }
    }
}

impl<L: Leaf> ExactSizeIterator for Iter<'_, L> {}

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

    /// A key that seems to be at this place in each node.
    struct Near {
        key: u32,
        guess: Option<usize>,
    }

    impl Target<u32> for Near {
        fn is_behind(&self, key: &u32) -> bool {
            *key < self.key
        }

        fn guess(&self, _low: Option<&u32>, _high: &u32, _len: usize) -> Option<usize> {
            self.guess
        }
    }

    #[test]
    fn a_place_is_found_wherever_the_search_begins() {
        let items: Vec<u32> = (0..50).collect();
        for key in 0..=50_u32 {
            for guess in (0..=51).map(Some).chain([None]) {
                let place = partition_near(&items, guess, |item| *item < key);
                assert_eq!(place, key as usize, "from {guess:?}");
            }
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

    fn check_node(node: &Node<Vec<u32>>, root: bool) -> (usize, usize) {
        let (width, max) = match node {
            Node::Leaf(items) => (items.len(), LEAF_ITEMS_MAX),
            Node::Branch(children) => (children.len(), BRANCH_CHILDREN_MAX),
        };
        assert!(width <= max && (root || width > 0));
        match node {
            Node::Leaf(items) => (items.len(), 0),
            Node::Branch(children) => {
                let below: Vec<_> = children.iter().map(|child| check_node(&child.node, false)).collect();
                for (child, (len, height)) in children.iter().zip(&below) {
                    assert_eq!((child.len, *height), (*len, below[0].1));
                    assert_eq!(child.last, *child.node.last_key());
                }
                (below.iter().map(|(len, _)| len).sum(), below[0].1 + 1)
            }
        }
    }

    fn check(tree: &Tree<Vec<u32>>, model: &[u32]) {
        assert_eq!(check_node(&tree.root, true).0, tree.len());
        assert!(tree.iter().eq(model));
        assert!(tree.iter().rev().eq(model.iter().rev()));
    }

    proptest! {
        #[test]
        fn behaves_as_a_vector_and_keeps_snapshots(operations in operations()) {
            let mut tree = Tree::<Vec<u32>>::default();
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
            let tree: Tree<Vec<u32>> = (0..len as u32).collect();
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
        fn seek_is_a_partition_point(mut items: Vec<u32>, key: u32, guess in proptest::option::of(0..6_usize)) {
            items.sort_unstable();
            let tree: Tree<Vec<u32>> = items.iter().copied().collect();
            let expected = items.partition_point(|item| *item < key);
            let (rank, found) = tree.seek(Near { key, guess });
            prop_assert_eq!(rank, expected);
            prop_assert_eq!(found, items.get(expected));
            prop_assert_eq!(tree.find(|item: &u32| *item < key), found);
        }
    }

    #[test]
    fn growth_at_either_end_fills_its_nodes() {
        let mut tree = Tree::<Vec<u32>>::default();
        for item in 0..64 {
            tree.insert(if item % 2 == 0 { 0 } else { item as usize }, item);
        }
        let Node::Branch(children) = &*tree.root else { panic!("64 items need a branch") };
        let full = BRANCH_CHILDREN_MAX * LEAF_ITEMS_MAX;
        assert!(children.len() <= 64_usize.div_ceil(full) + 2, "{} children", children.len());
    }
}
