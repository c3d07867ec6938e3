//! The entries of a shard: a persistent trie over their positions.
//!
//! Positions are hashes, so entries spread evenly without being balanced. Each level takes the next 6 bits of the
//! position. A branch has 64 slots; a child covers a run of 1, 2, 4, .. of them, and a bit marks where each run starts.
//! A leaf that is full splits its run in two, or becomes a branch if the run is one slot:
//!
//! ```text
//!             starts  1 0 0 0 1 0 1 1 ..
//!   branch            │       │   │ │          child of slot 5: the second, as two bits are set up to there
//!                     ▼       ▼   ▼ ▼
//!   leaf  [ position, entry | position, entry | .. ]      sorted; a position tells how far into the leaf its entry is
//! ```
//!
//! A look-up touches two cache lines of a branch and one or two of a leaf. A node is one allocation. Clones share
//! nodes: a clone costs one reference count, and a writer copies the nodes on its path that a clone still holds.

mod ahead;
mod leaf;

use std::{fmt, iter, mem, slice};

use smallvec::SmallVec;
use triomphe::{Arc, ThinArc};

use self::leaf::{Item, Leaf, find, guess, items, seek};
use crate::entry::Entry;
use crate::keyspace::Felt;

/// Bits of a position that one branch looks at.
const STEP_BITS: u32 = 6;
/// Most entries of a leaf whose positions differ. With its head, such a leaf has 512 bytes. Small in unit tests, so
/// that a few entries already make deep tries.
const LEAF_ITEMS_MAX: usize = if cfg!(test) { 4 } else { 31 };

/// Approximate bytes of an entry's share of the nodes.
pub(crate) const BYTES_PER_ENTRY: usize = 20;

/// The entries of a shard, by position.
#[derive(Clone)]
pub(crate) struct Index {
    /// Bits of a position that differ within the shard.
    width: u32,
    root: Node,
}

#[derive(Clone, Default)]
enum Node {
    #[default]
    Empty,
    /// With the number of items: a look-up need not wait for the leaf's head to know where an item is.
    Leaf(u32, Leaf),
    /// The head has a bit for each slot at which a child's run starts.
    Branch(ThinArc<u64, Node>),
}

/// Where the way to a position leads from a branch.
struct Turn {
    child: usize,
    /// The child's first slot, and how many it has.
    first: u32,
    run: u32,
    /// Bits of a position that differ within the child.
    width: u32,
}

impl Turn {
    fn at(starts: u64, width: u32, position: u64) -> Self {
        let step = width.min(STEP_BITS);
        let below = width - step;
        let slot = (position >> below) as u32 & ((1 << step) - 1);
        let up_to_slot = starts & (u64::MAX >> (u64::BITS - 1 - slot));
        let first = up_to_slot.ilog2();
        let next = (starts ^ up_to_slot).trailing_zeros().min(1 << step);
        let run = next - first;
        Self {
            child: up_to_slot.count_ones() as usize - 1,
            first,
            run,
            width: below + run.ilog2(),
        }
    }
}

impl Index {
    /// An empty index of positions that differ in their lowest `width` bits.
    pub(crate) const fn new(width: u32) -> Self {
        Self { width, root: Node::Empty }
    }

    /// Leaves the index empty.
    pub(crate) fn take(&mut self) -> Self {
        mem::replace(self, Self::new(self.width))
    }

    /// Drops the index leaf by leaf, and calls `visit` for each entry.
    pub(crate) fn dismantle(self, visit: &dyn Fn()) {
        self.root.dismantle(visit);
    }

    /// Calls `visit` for the entries that nothing else holds, neither by themselves nor by their nodes: those that go
    /// when the index is dropped.
    pub(crate) fn visit_own(&self, visit: &mut impl FnMut(&Entry)) {
        self.root.visit_own(visit);
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self.root, Node::Empty)
    }

    /// The entry of `key`, whose position this is.
    pub(crate) fn find(&self, position: u64, key: &[u8]) -> Option<&Entry> {
        let (mut node, mut width) = (&self.root, self.width);
        loop {
            match node {
                Node::Empty => return None,
                Node::Leaf(len, leaf) => {
                    let (items, guess) = (items(*len, leaf), guess(*len, width, position));
                    let place = find(items, guess, position, |entry| entry.key() == key)?;
                    return items[place].entry.as_ref();
                }
                Node::Branch(branch) => {
                    let turn = Turn::at(branch.header.header, width, position);
                    (node, width) = (&branch.slice[turn.child], turn.width);
                }
            }
        }
    }

    /// Calls `edit` with the place of the key's entry, if there is one. If `edit` leaves `None` there, the caller
    /// [removes](Self::remove_taken) the place.
    pub(crate) fn edit<R>(
        &mut self,
        position: u64,
        key: &[u8],
        edit: impl FnOnce(Option<&mut Option<Entry>>) -> R,
    ) -> R {
        self.root.edit(self.width, position, key, edit)
    }

    /// Stores `entry` in place of the key's entry; `None` removes the key. Returns the entry that the key had, and what
    /// the change means to the rest of the shard, if anything.
    pub(crate) fn replace(&mut self, position: u64, key: &[u8], entry: Option<Entry>) -> (Option<Entry>, Option<Felt>) {
        let after = entry.as_ref().map(Entry::dues).unwrap_or_default();
        let is_present = entry.is_some();
        let (old, homeless) = self.edit(position, key, |place| match place {
            Some(place) => (mem::replace(place, entry), None),
            None => (None, entry),
        });
        let was_present = old.is_some();
        if let Some(entry) = homeless {
            self.insert(position, entry);
        } else if was_present && !is_present {
            self.remove_taken(position);
        }
        let before = old.as_ref().map(Entry::dues).unwrap_or_default();
        let felt = Felt {
            position,
            presence: [was_present, is_present],
            dues: [before, after],
        };
        (old, Some(felt).filter(|felt| !felt.is_nothing()))
    }

    /// Whether nothing has changed since one was cloned from the other.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (&self.root, &other.root) {
            (Node::Empty, Node::Empty) => true,
            (Node::Leaf(_, one), Node::Leaf(_, other)) => one.slice.as_ptr() == other.slice.as_ptr(),
            (Node::Branch(one), Node::Branch(other)) => one.slice.as_ptr() == other.slice.as_ptr(),
            _ => false,
        }
    }

    /// Adds an entry whose key has none.
    pub(crate) fn insert(&mut self, position: u64, entry: Entry) {
        let item = Item { position, entry: Some(entry) };
        self.root.insert(self.width, item);
    }

    /// Removes a place whose entry was taken.
    pub(crate) fn remove_taken(&mut self, position: u64) {
        self.root.remove(self.width, position, &|entry| entry.is_none());
    }

    /// Removes an entry at this position that `is_wanted`.
    pub(crate) fn remove(&mut self, position: u64, is_wanted: impl Fn(&Entry) -> bool) -> Option<Entry> {
        let is_wanted = |entry: &Option<Entry>| entry.as_ref().is_some_and(&is_wanted);
        self.root.remove(self.width, position, &is_wanted)
    }

    /// The entries from a position on, in the order of their positions.
    pub(crate) fn range(&self, from: u64) -> Range<'_> {
        let mut range = Range { nodes: SmallVec::new(), items: [].iter() };
        let (mut node, mut width) = (&self.root, self.width);
        loop {
            match node {
                Node::Empty => break,
                Node::Leaf(len, leaf) => {
                    let items = items(*len, leaf);
                    let start = seek(items, guess(*len, width, from), from);
                    range.items = items[start..].iter();
                    break;
                }
                Node::Branch(branch) => {
                    let turn = Turn::at(branch.header.header, width, from);
                    range.nodes.push(branch.slice[turn.child + 1..].iter());
                    (node, width) = (&branch.slice[turn.child], turn.width);
                }
            }
        }
        range
    }

    /// The entries at one position.
    pub(crate) fn at(&self, position: u64) -> impl Iterator<Item = &Entry> {
        self.range(position).take_while(move |(at, _)| *at == position).map(|(_, entry)| entry)
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").finish_non_exhaustive()
    }
}

/// Changes a node's items in place, after copying the node if others hold it.
fn make_mut<H: Copy, T: Clone, R>(node: &mut ThinArc<H, T>, change: impl FnOnce(&mut [T]) -> R) -> R {
    if ThinArc::strong_count(node) > 1 {
        *node = ThinArc::from_header_and_iter(node.header.header, node.slice.iter().cloned());
    }
    node.with_arc_mut(|node| {
        let node = Arc::get_mut(node).expect("nothing else holds the node");
        change(node.slice_mut())
    })
}

/// The items of a node that will not be used any more: moved if nothing else holds the node, and cloned otherwise.
enum Taken<'n, T> {
    Own(slice::IterMut<'n, T>),
    Shared(slice::Iter<'n, T>),
}

impl<T: Clone + Default> Taken<'_, T> {
    /// The next item, of which there is one.
    fn next_item(&mut self) -> T {
        self.next().unwrap_or_default()
    }
}

impl<T: Clone + Default> Iterator for Taken<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match self {
            Self::Own(items) => items.next().map(mem::take),
            Self::Shared(items) => items.next().cloned(),
        }
    }
}

/// Builds something of a node's items.
fn consume<H, T: Clone, R>(node: &mut ThinArc<H, T>, build: impl FnOnce(Taken<'_, T>) -> R) -> R {
    node.with_arc_mut(|node| {
        if let Some(own) = Arc::get_mut(node) {
            return build(Taken::Own(own.slice_mut().iter_mut()));
        }
        build(Taken::Shared(node.slice().iter()))
    })
}

impl Node {
    fn dismantle(self, visit: &dyn Fn()) {
        match self {
            Self::Empty => {}
            Self::Leaf(len, leaf) => {
                drop(leaf);
                (0..len).for_each(|_| visit());
            }
            Self::Branch(branch) => {
                let children = branch.slice.to_vec();
                drop(branch);
                children.into_iter().for_each(|child| child.dismantle(visit));
            }
        }
    }

    fn visit_own(&self, visit: &mut impl FnMut(&Entry)) {
        match self {
            Self::Leaf(len, leaf) if ThinArc::strong_count(leaf) == 1 => {
                let entries = items(*len, leaf).iter().filter_map(|item| item.entry.as_ref());
                entries.filter(|entry| entry.is_unshared()).for_each(visit);
            }
            Self::Branch(branch) if ThinArc::strong_count(branch) == 1 => {
                branch.slice.iter().for_each(|child| child.visit_own(visit));
            }
            Self::Empty | Self::Leaf(..) | Self::Branch(_) => {}
        }
    }

    /// A leaf of the next `len` items.
    fn leaf(len: usize, items: &mut impl Iterator<Item = Item>) -> Self {
        if len == 0 {
            return Self::Empty;
        }
        Self::Leaf(len as u32, leaf::of(len, items))
    }

    /// A leaf of the items of two neighbours, which are no branches.
    fn joined(mut left: Self, mut right: Self) -> Self {
        match (&mut left, &mut right) {
            (Self::Leaf(left_len, left), Self::Leaf(len, right)) => {
                let (left_len, len) = (*left_len as usize, *len as usize);
                consume(left, |left| {
                    let left = left.take(left_len);
                    consume(right, |right| Self::leaf(left_len + len, &mut left.chain(right)))
                })
            }
            (Self::Empty, _) => right,
            _ => left,
        }
    }

    /// Number of items; `None` for a branch.
    fn leaf_len(&self) -> Option<usize> {
        match self {
            Self::Empty => Some(0),
            Self::Leaf(len, _) => Some(*len as usize),
            Self::Branch(_) => None,
        }
    }

    fn edit<R>(
        &mut self,
        width: u32,
        position: u64,
        key: &[u8],
        edit: impl FnOnce(Option<&mut Option<Entry>>) -> R,
    ) -> R {
        match self {
            Self::Empty => edit(None),
            Self::Leaf(len, leaf) => {
                let (items, guess) = (items(*len, leaf), guess(*len, width, position));
                match find(items, guess, position, |entry| entry.key() == key) {
                    Some(place) => make_mut(leaf, |items| edit(Some(&mut items[place].entry))),
                    None => edit(None),
                }
            }
            Self::Branch(branch) => {
                let turn = Turn::at(branch.header.header, width, position);
                make_mut(branch, |children| children[turn.child].edit(turn.width, position, key, edit))
            }
        }
    }

    fn insert(&mut self, width: u32, item: Item) {
        match self {
            Self::Empty => *self = Self::leaf(1, &mut iter::once(item)),
            Self::Leaf(len, leaf) if (*len as usize) < LEAF_ITEMS_MAX || width == 0 => {
                let guess = guess(*len, width, item.position);
                let place = seek(items(*len, leaf), guess, item.position);
                leaf::insert(len, leaf, place, item);
            }
            Self::Leaf(..) => {
                let leaf = mem::take(self);
                *self = Self::Branch(ThinArc::from_header_and_iter(1, iter::once(leaf)));
                self.insert(width, item);
            }
            Self::Branch(branch) => {
                let turn = loop {
                    let turn = Turn::at(branch.header.header, width, item.position);
                    let is_full = |len| len >= LEAF_ITEMS_MAX;
                    if turn.run == 1 || !branch.slice[turn.child].leaf_len().is_some_and(is_full) {
                        break turn;
                    }
                    split(branch, &turn);
                };
                make_mut(branch, |children| {
                    children[turn.child].insert(turn.width, item);
                });
            }
        }
    }

    fn remove(&mut self, width: u32, position: u64, is_wanted: &impl Fn(&Option<Entry>) -> bool) -> Option<Entry> {
        match self {
            Self::Empty => None,
            Self::Leaf(len, leaf) => {
                let items = items(*len, leaf);
                let start = seek(items, guess(*len, width, position), position);
                let mut here = { items[start..].iter() }.take_while(|item| item.position == position);
                let place = start + here.position(|item| is_wanted(&item.entry))?;
                let removed = leaf::remove(len, leaf, place);
                if *len == 0 {
                    *self = Self::Empty;
                }
                removed
            }
            Self::Branch(branch) => {
                let turn = Turn::at(branch.header.header, width, position);
                let removed = make_mut(branch, |children| children[turn.child].remove(turn.width, position, is_wanted));
                while merge(branch, width, position) {}
                if branch.slice.len() == 1 {
                    *self = branch.slice[0].clone();
                }
                removed
            }
        }
    }
}

/// Splits the run of a leaf in two.
fn split(branch: &mut ThinArc<u64, Node>, turn: &Turn) {
    let starts = branch.header.header | 1 << (turn.first + turn.run / 2);
    let len = branch.slice.len() + 1;
    let is_lower = |item: &Item| item.position >> (turn.width - 1) & 1 == 0;
    *branch = consume(branch, |mut children| {
        let mut upper = Node::Empty;
        let children = (0..len).map(|child| {
            if child == turn.child + 1 {
                return mem::take(&mut upper);
            }
            match children.next_item() {
                Node::Leaf(len, mut leaf) if child == turn.child => {
                    let (all, lower) = (len as usize, items(len, &leaf).partition_point(is_lower));
                    consume(&mut leaf, |mut items| {
                        let left = Node::leaf(lower, &mut items);
                        upper = Node::leaf(all - lower, &mut items);
                        left
                    })
                }
                node => node,
            }
        });
        ThinArc::from_header_and_iter(starts, children)
    });
}

/// Merges the leaf on the way to `position` with the other half of the run that it was split from, if both are small.
/// Returns whether it did.
fn merge(branch: &mut ThinArc<u64, Node>, width: u32, position: u64) -> bool {
    let starts = branch.header.header;
    let one = Turn::at(starts, width, position);
    if branch.slice.len() == 1 {
        return false;
    }
    let other = Turn::at(starts, width, position ^ 1 << one.width);
    let lens = [&one, &other].map(|turn| branch.slice[turn.child].leaf_len());
    let [Some(len), Some(other_len)] = lens else {
        return false;
    };
    if other.run != one.run || len + other_len > LEAF_ITEMS_MAX / 2 {
        return false;
    }
    let (left, right) = (one.child.min(other.child), one.first.max(other.first));
    let all = branch.slice.len();
    *branch = consume(branch, |mut children| {
        let children = (0..all - 1).map(|child| match children.next_item() {
            leaf if child == left => Node::joined(leaf, children.next_item()),
            node => node,
        });
        ThinArc::from_header_and_iter(starts & !(1 << right), children)
    });
    true
}

/// Walks the entries of an [`Index`].
pub(crate) struct Range<'i> {
    nodes: SmallVec<[slice::Iter<'i, Node>; 4]>,
    items: slice::Iter<'i, Item>,
}

impl<'i> Iterator for Range<'i> {
    type Item = (u64, &'i Entry);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            while let Some(item) = self.items.next() {
                self.fetch_entry_ahead();
                if let Some(entry) = &item.entry {
                    return Some((item.position, entry));
                }
            }
            match self.nodes.last_mut()?.next() {
                None => drop(self.nodes.pop()),
                Some(Node::Empty) => {}
                Some(Node::Leaf(len, leaf)) => {
                    self.items = items(*len, leaf).iter();
                    self.fetch_first_entries();
                    self.fetch_next_leaf();
                }
                Some(Node::Branch(branch)) => self.nodes.push(branch.slice.iter()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::value::Value;

    /// Positions of few and of many bits. Keys collide at the former.
    const WIDTHS: [u32; 4] = [0, 3, 10, 43];

    type Model = BTreeMap<(u64, u8), u8>;

    #[derive(Debug, Clone)]
    enum Operation {
        Set(u64, u8, u8),
        Remove(u64, u8),
        /// Takes the entry out in an update, and then removes its place.
        Take(u64, u8),
        Snapshot,
    }

    fn operations() -> impl Strategy<Value = Vec<Operation>> {
        // Near the end, at the start and anywhere.
        let position = prop_oneof![0..20_u64, u64::MAX - 20..=u64::MAX, any::<u64>()];
        let key = 0..3_u8;
        let operation = prop_oneof![
            6 => (position.clone(), key.clone(), any::<u8>())
                .prop_map(|(position, key, value)| Operation::Set(position, key, value)),
            2 => (position.clone(), key.clone())
                .prop_map(|(position, key)| Operation::Remove(position, key)),
            2 => (position, key).prop_map(|(position, key)| Operation::Take(position, key)),
            1 => Just(Operation::Snapshot),
        ];
        proptest::collection::vec(operation, 0..200)
    }

    fn entry(key: u8, value: u8) -> Entry {
        Entry::new(&[key], Value::string(&[value]))
    }

    fn content(position: u64, entry: &Entry) -> ((u64, u8), u8) {
        let Value::String(value) = entry.value() else {
            panic!("not a string");
        };
        ((position, entry.key()[0]), value[0])
    }

    /// Whether two leaves should be one.
    fn are_few(one: &Node, other: &Node) -> bool {
        let lens = one.leaf_len().zip(other.leaf_len());
        lens.is_some_and(|(one, other)| one + other <= LEAF_ITEMS_MAX / 2)
    }

    /// Positions in order, and how many entries a node has at most, and the halves of a run at least.
    fn check_node(node: &Node, width: u32) {
        match node {
            Node::Empty => {}
            Node::Leaf(len, leaf) => {
                let (used, spare) = leaf.slice.split_at(*len as usize);
                assert!(!used.is_empty());
                assert_eq!(leaf.slice.len(), leaf::room(used.len()));
                assert!(width == 0 || used.len() <= LEAF_ITEMS_MAX);
                assert!(used.is_sorted_by_key(|item| item.position));
                assert!(used.iter().all(|item| item.entry.is_some()));
                assert!(spare.iter().all(|item| item.entry.is_none()));
            }
            Node::Branch(branch) => {
                let starts = branch.header.header;
                assert_eq!(starts.count_ones() as usize, branch.slice.len());
                let step = width.min(STEP_BITS);
                let mut slots = 0;
                let mut before: Option<(u32, &Node)> = None;
                for (index, child) in branch.slice.iter().enumerate() {
                    let turn = Turn::at(starts, width, u64::from(slots) << (width - step));
                    assert_eq!((turn.child, turn.first), (index, slots));
                    assert!(turn.run.is_power_of_two() && slots % turn.run == 0);
                    slots += turn.run;
                    check_node(child, turn.width);
                    let is_second_half = slots % (2 * turn.run) == 0;
                    let half = before.filter(|(run, _)| is_second_half && *run == turn.run);
                    assert!(half.is_none_or(|(_, half)| !are_few(half, child)));
                    before = Some((turn.run, child));
                }
                assert_eq!(slots, 1 << step);
            }
        }
    }

    fn check(index: &Index, model: &Model) {
        check_node(&index.root, index.width);
        let mut all: Vec<_> = index.range(0).map(|(at, entry)| content(at, entry)).collect();
        assert!(all.is_sorted_by_key(|((position, _), _)| *position));
        all.sort_unstable();
        let expected = model.iter().map(|(place, value)| (*place, *value));
        assert_eq!(all, expected.collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn behaves_as_a_map_and_keeps_snapshots(
            width in prop::sample::select(&WIDTHS),
            operations in operations(),
            from: u64,
        ) {
            let mask = (1 << width) - 1;
            let mut index = Index::new(width);
            let mut model = Model::new();
            let mut snapshots = Vec::new();
            for operation in operations {
                match operation {
                    Operation::Set(position, key, value) => {
                        let position = position & mask;
                        let old = model.insert((position, key), value);
                        let is_new = index.edit(position, &[key], |place| match place {
                            Some(place) => {
                                let entry = place.replace(entry(key, value)).unwrap();
                                assert_eq!(Some(content(position, &entry).1), old);
                                false
                            }
                            None => true,
                        });
                        prop_assert_eq!(is_new, old.is_none());
                        if is_new {
                            index.insert(position, entry(key, value));
                        }
                        let found = index.find(position, &[key]).unwrap();
                        prop_assert_eq!(content(position, found), ((position, key), value));
                    }
                    Operation::Remove(position, key) => {
                        let position = position & mask;
                        let removed = match key {
                            0 => index.replace(position, &[key], None).0,
                            _ => index.remove(position, |entry| entry.key() == [key]),
                        };
                        let removed = removed.map(|entry| content(position, &entry).1);
                        prop_assert_eq!(removed, model.remove(&(position, key)));
                        prop_assert!(index.find(position, &[key]).is_none());
                    }
                    Operation::Take(position, key) => {
                        let position = position & mask;
                        let taken = index.edit(position, &[key], |place| place?.take());
                        if taken.is_some() {
                            index.remove_taken(position);
                        }
                        let taken = taken.map(|entry| content(position, &entry).1);
                        prop_assert_eq!(taken, model.remove(&(position, key)));
                    }
                    Operation::Snapshot => snapshots.push((index.clone(), model.clone())),
                }
                check(&index, &model);
            }
            let from = from & mask;
            let rest = index.range(from).map(|(at, entry)| content(at, entry).0.0);
            prop_assert!(rest.eq(model.range((from, 0)..).map(|((at, _), _)| *at)));
            for (index, model) in &snapshots {
                check(index, model);
            }
            for (position, key) in model.keys() {
                index.remove(*position, |entry| entry.key() == [*key]);
                check_node(&index.root, index.width);
            }
            prop_assert_eq!(index.range(0).count(), 0);
            prop_assert!(index.is_empty() || matches!(index.root, Node::Branch(_)));
        }
    }

    #[test]
    fn removals_merge_leaves_again() {
        let mut index = Index::new(43);
        let position = |key: u64| key << 33;
        for key in 0..1000_u64 {
            index.insert(position(key), Entry::new(b"k", Value::string(b"")));
        }
        for key in 0..1000_u64 {
            assert!(index.remove(position(key), |_| true).is_some());
        }
        assert!(index.is_empty());
    }

    #[test]
    fn a_clone_keeps_its_entries_while_another_thread_writes() {
        let mut index = Index::new(8);
        for position in 0..=255 {
            index.insert(position, entry(0, 1));
        }
        let snapshot = index.clone();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for position in 0..=255 {
                    index.edit(position, &[0], |place| *place.unwrap() = Some(entry(0, 2)));
                    index.insert(position, entry(1, 2));
                }
            });
            for _ in 0..20 {
                let values = snapshot.range(0).map(|(at, entry)| content(at, entry).1);
                assert!(values.eq([1; 256]));
            }
        });
        assert_eq!(index.range(0).count(), 512);
    }

    #[test]
    fn an_index_is_another_until_one_of_them_changes() {
        for entries in [0, 1, 1_000] {
            let mut index = Index::new(10);
            (0..entries).for_each(|position| index.insert(position, entry(0, 1)));
            let copy = index.clone();
            assert!(index.is(&copy));
            index.insert(1_023, entry(0, 1));
            assert!(!index.is(&copy), "{entries}");
        }
    }
}
