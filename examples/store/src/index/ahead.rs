//! What a look-up will touch, step by step, so that several look-ups can wait for their memory together.
//!
//! ```text
//!   step 0        1               2           3
//!   branch ─────► leaf ─────────► entry ────► bytes of a long string      one branch, in this case
//!   two lines     two or three    two         two
//! ```
//!
//! Where in a node a look-up will read follows from the position and the number of entries, but for a few lines: the
//! node itself is not in the caches yet.

use triomphe::ThinArc;

use super::leaf::{Item, guess, items, seek};
use super::{Index, LEAF_ITEMS_MAX, Node, Range, STEP_BITS, Turn};
use crate::cache_line::{LINE_BYTES, fetch};
use crate::entry::Entry;

/// How far from the guess an item of a leaf mostly is, in bytes.
const SPREAD_BYTES: usize = 24;

impl Index {
    /// Calls `fetch` with the addresses that a look-up of `position` reads in this step, and reads nothing there. It
    /// reads what the steps before this one name. There are `len` entries. Returns whether there may be a step behind
    /// it.
    #[inline]
    pub(crate) fn step_ahead(&self, position: u64, len: usize, step: u32, mut fetch: impl FnMut(*const u8)) -> bool {
        let (mut node, mut width) = (&self.root, self.width);
        for level in 0..=step {
            match node {
                Node::Empty => return false,
                Node::Branch(branch) if level == step => {
                    let child = child_guess(len >> (level * STEP_BITS), width, position);
                    let at = item_address(branch, child);
                    let lines = [node_address(branch), at, at.wrapping_add(size_of::<Node>() - 1)];
                    lines.into_iter().for_each(fetch);
                    return true;
                }
                Node::Branch(branch) => {
                    let turn = Turn::at(branch.header.header, width, position);
                    (node, width) = (&branch.slice[turn.child], turn.width);
                }
                Node::Leaf(len, leaf) => {
                    let guess = guess(*len, width, position);
                    if level == step {
                        let at = item_address(leaf, guess);
                        fetch(node_address(leaf));
                        fetch(at.wrapping_sub(SPREAD_BYTES));
                        fetch(at.wrapping_add(SPREAD_BYTES));
                        return true;
                    }
                    let Some(entry) = entry_at(items(*len, leaf), guess, position) else {
                        return false;
                    };
                    let at = match step - level {
                        1 => Some(entry.address()),
                        2 => entry.bytes_address(),
                        _ => None,
                    };
                    let lines = at.map(|at| [at, at.wrapping_add(LINE_BYTES)]);
                    lines.into_iter().flatten().for_each(fetch);
                    return step - level == 1;
                }
            }
        }
        false
    }
}

/// The first entry at the position.
fn entry_at(items: &[Item], guess: usize, position: u64) -> Option<&Entry> {
    let item = items.get(seek(items, guess, position))?;
    item.entry.as_ref().filter(|_| item.position == position)
}

/// About which child of a branch over `len` entries is on the way to the position. A leaf is split when it is full, so
/// that the children of a branch have runs of the same length, or of two.
fn child_guess(len: usize, width: u32, position: u64) -> usize {
    let step = width.min(STEP_BITS);
    let slot = (position >> (width - step)) as usize & ((1 << step) - 1);
    let leaves = (len + len / 8) / LEAF_ITEMS_MAX + 1;
    let children = leaves.next_power_of_two().min(1 << step);
    (slot * children) >> step
}

/// Where a node is in memory.
fn node_address<H, T>(node: &ThinArc<H, T>) -> *const u8 {
    node.as_ptr().cast()
}

/// Where a node has this item: behind its reference count, its head and its length.
fn item_address<H, T>(node: &ThinArc<H, T>, place: usize) -> *const u8 {
    let head_bytes = 2 * size_of::<usize>() + size_of::<H>();
    node_address(node).wrapping_add(head_bytes + place * size_of::<T>())
}

const _: () = assert!(size_of::<Item>() == 16 && size_of::<Node>() == 16);

/// Entries that a walk has fetched before it comes to them: about as many as the processor waits for at once.
const WALKED_AHEAD: usize = 8;

/// A walk knows where it goes, so it need not wait at each entry.
impl Range<'_> {
    /// Fetches the entry that comes a while after the current one in the same leaf.
    #[inline]
    pub(super) fn fetch_entry_ahead(&self) {
        if let Some(item) = self.items.as_slice().get(WALKED_AHEAD - 1) {
            fetch_entry(item);
        }
    }

    /// Fetches the first entries of a leaf.
    pub(super) fn fetch_first_entries(&self) {
        let items = self.items.as_slice();
        items.iter().take(WALKED_AHEAD).for_each(fetch_entry);
    }

    /// Fetches the leaf after the current one.
    pub(super) fn fetch_next_leaf(&self) {
        let next = self.nodes.last().and_then(|nodes| nodes.as_slice().first());
        if let Some(Node::Leaf(len, leaf)) = next {
            let len_bytes = *len as usize * size_of::<Item>();
            let start = node_address(leaf);
            (0..=len_bytes / LINE_BYTES).for_each(|line| fetch(start.wrapping_add(line * LINE_BYTES)));
        }
    }
}

fn fetch_entry(item: &Item) {
    if let Some(entry) = &item.entry {
        fetch(entry.address());
        fetch(entry.address().wrapping_add(LINE_BYTES));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    fn index(width: u32, positions: impl Iterator<Item = u64>) -> Index {
        let mut index = Index::new(width);
        for position in positions {
            let value = Value::string(&[b'v'; 100]);
            index.insert(position, Entry::new(&position.to_le_bytes(), value));
        }
        index
    }

    /// The addresses of each step.
    fn steps(index: &Index, position: u64, len: usize) -> Vec<Vec<usize>> {
        let mut steps = Vec::new();
        loop {
            let (mut addresses, step) = (Vec::new(), steps.len() as u32);
            let fetch = |address: *const u8| addresses.push(address.addr());
            let has_next = index.step_ahead(position, len, step, fetch);
            steps.push(addresses);
            if !has_next {
                return steps;
            }
        }
    }

    /// Whether the lines that were asked for have the byte at `address`.
    fn covers(asked: &[usize], address: *const u8) -> bool {
        let line = |address: usize| address / LINE_BYTES;
        asked.iter().any(|&asked| line(asked) == line(address.addr()))
    }

    #[test]
    fn steps_name_the_nodes_the_entry_and_its_bytes() {
        const KEYS: u64 = 2000;
        let position = |key: u64| key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 21;
        let index = index(43, (0..KEYS).map(position));
        let mut guessed = 0;
        for key in 0..KEYS {
            let position = position(key);
            let steps = steps(&index, position, KEYS as usize);
            let (mut node, mut width, mut path) = (&index.root, index.width, steps.iter());
            let entry = loop {
                let asked = path.next().expect("a step for each node");
                match node {
                    Node::Empty => panic!("the key is there"),
                    Node::Branch(branch) => {
                        let turn = Turn::at(branch.header.header, width, position);
                        let child = &raw const branch.slice[turn.child];
                        assert!(covers(asked, node_address(branch)));
                        assert_eq!(item_address(branch, turn.child), child.cast());
                        (node, width) = (&branch.slice[turn.child], turn.width);
                    }
                    Node::Leaf(len, leaf) => {
                        let guess = guess(*len, width, position);
                        let place = seek(items(*len, leaf), guess, position);
                        let item = &raw const leaf.slice[place];
                        assert!(covers(asked, node_address(leaf)));
                        assert_eq!(item_address(leaf, place), item.cast());
                        guessed += usize::from(covers(asked, item.cast()));
                        break leaf.slice[place].entry.as_ref().expect("an entry");
                    }
                }
            };
            let [at_entry, at_bytes] = [(); 2].map(|()| path.next().expect("a step"));
            assert!(covers(at_entry, entry.key().as_ptr()));
            let Value::String(text) = entry.value() else {
                panic!("not a string");
            };
            assert!(covers(at_bytes, text.as_slice().as_ptr()));
            assert!(path.next().is_none());
        }
        assert!(guessed > KEYS as usize * 9 / 10, "{guessed} of {KEYS}");
    }

    #[test]
    fn what_is_not_there_ends_the_steps() {
        assert_eq!(steps(&Index::new(10), 5, 0), [Vec::<usize>::new()]);
        let index = index(10, (0..100).map(|at| at * 2));
        let absent = steps(&index, 51, 100);
        assert!(absent.len() > 1);
        assert_eq!(absent.last(), Some(&Vec::new()), "no entry");
    }

    #[test]
    fn a_branch_has_as_many_children_as_its_entries_need() {
        let last = |len| child_guess(len, 43, u64::MAX >> 21);
        for children in [1, 4, 16, 64] {
            let len = LEAF_ITEMS_MAX * children * 3 / 4;
            assert_eq!(last(len), children - 1, "{len} entries");
        }
        assert_eq!(last(LEAF_ITEMS_MAX * 1000), 63);
        assert_eq!([3, 0].map(|width| child_guess(1 << 20, width, 5)), [5, 0]);
    }
}
