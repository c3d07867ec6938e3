//! A persistent map sorted by a 53-bit hash of the name, then by name.
//!
//! An entry's position depends on its name alone, never on the other entries of the map. SCAN's
//! guarantee rests on this: a cursor is the first hash position that has not been returned yet, so
//! a scan returns an entry that is present from the first call to the last exactly once, whatever
//! is added or removed meanwhile. Every map of a process uses the same hash, so maps merge in one
//! pass over each.
//!
//! Cursors publish positions, and clients choose names. The hash is therefore SipHash-1-3 with a random key from the
//! system, a pseudorandom function: who sees the positions of any names cannot compute a name of a chosen position.
//! Names that collide by chance cost one comparison each. Of n names, n²/2^54 pairs collide: one pair among a hundred
//! million names. 53 bits keep cursors exact in clients that store numbers as doubles.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::sync::LazyLock;

use crate::Element;
use crate::tree::{Item, Iter, Target, Tree, Way};

/// The key of the hash, from the system. The standard library's hasher is SipHash-1-3.
static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A name and its hash position, in the order of the map.
#[derive(Clone, Debug)]
pub(crate) struct Hashed {
    /// The position, and in the bits below it a mark of the map's owner, which is no part of the order.
    position_and_mark: u64,
    pub(crate) name: Element,
}

impl Hashed {
    fn new(position: u64, mark: u16, name: Element) -> Self {
        let position_and_mark = position << MARK_BITS;
        let mut key = Self { position_and_mark, name };
        key.set_mark(mark);
        key
    }

    fn set_mark(&mut self, mark: u16) {
        let mark = u64::from(mark.min(MARK_MAX));
        self.position_and_mark = self.position() << MARK_BITS | mark;
    }

    fn position(&self) -> u64 {
        self.position_and_mark >> MARK_BITS
    }

    pub(crate) fn mark(&self) -> u16 {
        (self.position_and_mark & u64::from(MARK_MAX)) as u16
    }

    fn place(&self) -> (u64, &Element) {
        (self.position(), &self.name)
    }
}

/// A name that is looked for, with its position.
struct Wanted<'n> {
    position: u64,
    name: &'n [u8],
}

impl Target<Hashed> for Wanted<'_> {
    #[inline]
    fn is_behind(&self, key: &Hashed) -> bool {
        let position = key.position();
        position < self.position || (position == self.position && *key.name < *self.name)
    }

    /// Positions are hashes, which spread evenly.
    #[inline]
    fn guess(&self, low: Option<&Hashed>, high: &Hashed, len: usize) -> Option<usize> {
        let low = low.map_or(0, Hashed::position);
        let (offset, width) = (self.position.saturating_sub(low), high.position().saturating_sub(low));
        let before = (offset * len as u64).checked_div(width)?;
        Some(before as usize)
    }
}

impl PartialEq for Hashed {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl Eq for Hashed {}

impl PartialOrd for Hashed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Hashed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().cmp(&other.place())
    }
}

/// Bits of a position.
pub(crate) const POSITION_BITS: u32 = 53;
const MARK_BITS: u32 = u64::BITS - POSITION_BITS;
/// The highest mark.
pub(crate) const MARK_MAX: u16 = (1 << MARK_BITS) - 1;

/// The hash of `name`, the same everywhere in this process and different in the next.
#[must_use]
pub fn hash_of(name: &[u8]) -> u64 {
    let mut hasher = KEY.build_hasher();
    hasher.write(name);
    hasher.finish()
}

/// The hash position of `name`, in maps and in the keyspace.
pub(crate) fn position_of(name: &[u8]) -> u64 {
    hash_of(name) >> (u64::BITS - POSITION_BITS)
}

/// The highest bits of a position: so few others of a map share them that it is about as good as the position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Neighbourhood([u8; size_of::<u32>()]);

/// Bits of a position below those of its neighbourhood.
const NEIGHBOUR_BITS: u32 = POSITION_BITS - u32::BITS;

impl Neighbourhood {
    pub(crate) fn of(name: &[u8]) -> Self {
        Self::at(position_of(name))
    }

    fn at(position: u64) -> Self {
        Self(((position >> NEIGHBOUR_BITS) as u32).to_be_bytes())
    }

    fn start(self) -> u64 {
        u64::from(u32::from_be_bytes(self.0)) << NEIGHBOUR_BITS
    }
}

/// An item of the tree below a map.
#[derive(Clone)]
pub(crate) struct Entry<V> {
    pub(crate) key: Hashed,
    pub(crate) value: V,
}

impl<V: Clone> Item for Entry<V> {
    type Key = Hashed;

    fn key(&self) -> &Hashed {
        &self.key
    }
}

/// Where the map has a name, or would have it, until the map changes.
pub(crate) struct Spot {
    position: u64,
    way: Way,
}

/// One step of a scan.
pub struct Scan<I> {
    /// The cursor of the next step; 0 when the scan is complete.
    pub cursor: u64,
    /// The entries of this step.
    pub entries: I,
}

/// The map; a clone is O(1).
#[derive(Clone)]
pub(crate) struct HashedMap<V: Clone>(Tree<Vec<Entry<V>>>);

impl<V: Clone> Default for HashedMap<V> {
    fn default() -> Self {
        Self(Tree::default())
    }
}

/// All entries of a map.
pub(crate) type Entries<'m, V> = Iter<'m, Vec<Entry<V>>>;

impl<V: Clone> HashedMap<V> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&V> {
        self.find(position_of(name), name)
    }

    /// Like [`get`](Self::get), for a name that the caller has already hashed.
    pub(crate) fn get_hashed(&self, key: &Hashed) -> Option<&V> {
        self.find(key.position(), &key.name)
    }

    fn find(&self, position: u64, name: &[u8]) -> Option<&V> {
        let entry = self.0.find(Wanted { position, name })?;
        (*entry.key.name == *name).then_some(&entry.value)
    }

    /// Where `name` is or would be inserted, and its value.
    pub(crate) fn seek(&self, name: &[u8]) -> (Spot, Option<&V>) {
        let position = position_of(name);
        let (way, entry) = self.0.seek_way(Wanted { position, name });
        let entry = entry.filter(|entry| *entry.key.name == *name);
        (Spot { position, way }, entry.map(|entry| &entry.value))
    }

    /// Sets the value of a name that the map has at this place.
    pub(crate) fn set_at(&mut self, spot: &Spot, value: V) -> Option<V> {
        let entry = self.0.get_mut_at(&spot.way)?;
        Some(std::mem::replace(&mut entry.value, value))
    }

    /// Inserts a name at its place, which the map does not have, with this mark.
    pub(crate) fn insert_at(&mut self, spot: &Spot, name: Element, value: V, mark: u16) {
        let key = Hashed::new(spot.position, mark, name);
        self.0.insert_at(&spot.way, Entry { key, value });
    }

    /// Sets the value of `name` and returns the one it replaces.
    pub(crate) fn insert(&mut self, name: &[u8], value: V) -> Option<V> {
        self.insert_marked(name, value, 0)
    }

    /// [`insert`](Self::insert), which gives a new name this mark.
    pub(crate) fn insert_marked(&mut self, name: &[u8], value: V, mark: u16) -> Option<V> {
        let (spot, old) = self.seek(name);
        if old.is_some() {
            return self.set_at(&spot, value);
        }
        self.insert_at(&spot, Element::from(name), value, mark);
        None
    }

    /// Gives the entry of the given rank this mark.
    pub(crate) fn set_mark(&mut self, rank: usize, mark: u16) {
        if let Some(Entry { key, .. }) = self.0.get_mut(rank) {
            key.set_mark(mark);
        }
    }

    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<V> {
        let (spot, old) = self.seek(name);
        let is_present = old.is_some();
        is_present.then(|| self.0.remove_at(&spot.way).value)
    }

    /// The entry of the given rank in hash order.
    pub(crate) fn at(&self, rank: usize) -> Option<&Entry<V>> {
        self.0.get(rank)
    }

    pub(crate) fn remove_at(&mut self, rank: usize) -> Option<Entry<V>> {
        self.0.remove(rank)
    }

    pub(crate) fn iter(&self) -> Entries<'_, V> {
        self.0.iter()
    }

    /// The entries of a neighbourhood.
    pub(crate) fn near(&self, near: Neighbourhood) -> impl Iterator<Item = &Entry<V>> {
        let start = self.0.seek(|key: &Hashed| key.position() < near.start()).0;
        let behind = self.0.range(start..self.len());
        behind.take_while(move |entry| Neighbourhood::at(entry.key.position()) == near)
    }

    /// The entries from position `cursor` on: at least `count` of them if the map has as many, and
    /// every entry that shares the last one's position.
    pub(crate) fn scan(&self, cursor: u64, count: usize) -> Scan<Entries<'_, V>> {
        let Range { start, mut end } = self.0.seek(|key: &Hashed| key.position() < cursor).0..self.len();
        let mut next = 0;
        if let Some(last) = self.at(start.saturating_add(count.saturating_sub(1))) {
            let position = last.key.position();
            end = self.0.seek(|key: &Hashed| key.position() <= position).0;
            next = if end < self.len() { position + 1 } else { 0 };
        }
        Scan { cursor: next, entries: self.0.range(start..end) }
    }
}

/// Collects entries that arrive in the order of the map, without duplicates.
impl<V: Clone> FromIterator<Entry<V>> for HashedMap<V> {
    fn from_iter<I: IntoIterator<Item = Entry<V>>>(sorted: I) -> Self {
        Self(sorted.into_iter().collect())
    }
}

/// Merges sources that are in the order of the map. Each name appears once in the result.
///
/// `fold` gets the value of a name so far, the index of a source, and the value in that source. It
/// is called for the sources in the order of their indices.
pub(crate) fn merge<'a, V, I, F>(sources: Vec<I>, mut fold: F) -> impl Iterator<Item = (&'a Hashed, V)>
where
    I: Iterator<Item = (&'a Hashed, V)>,
    F: FnMut(Option<V>, usize, V) -> V,
{
    let mut sources = sources;
    let mut heads: BinaryHeap<Reverse<(&'a Hashed, usize)>> = BinaryHeap::new();
    let mut values: Vec<Option<V>> = Vec::with_capacity(sources.len());
    for (index, source) in sources.iter_mut().enumerate() {
        let head = source.next();
        values.push(head.map(|(key, value)| {
            heads.push(Reverse((key, index)));
            value
        }));
    }
    std::iter::from_fn(move || {
        let name = heads.peek()?.0.0;
        let mut folded = None;
        while let Some(mut head) = heads.peek_mut()
            && head.0.0 == name
        {
            let index = head.0.1;
            if let Some(value) = values[index].take() {
                folded = Some(fold(folded, index, value));
            }
            match sources[index].next() {
                Some((key, value)) => {
                    values[index] = Some(value);
                    head.0.0 = key;
                }
                None => drop(PeekMut::pop(head)),
            }
        }
        folded.map(|value| (name, value))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_scan_returns_a_stable_entry_exactly_once_among_changes() {
        let mut map = HashedMap::default();
        for index in 0..500 {
            map.insert(format!("stays:{index}").as_bytes(), ());
        }
        let mut seen: HashMap<Element, u32> = HashMap::new();
        let mut cursor = 0;
        for step in 0.. {
            map.insert(format!("comes:{step}").as_bytes(), ());
            map.insert(format!("goes:{step}").as_bytes(), ());
            map.remove(format!("goes:{}", step / 2).as_bytes());
            let scan = map.scan(cursor, 7);
            for entry in scan.entries {
                *seen.entry(entry.key.name.clone()).or_default() += 1;
            }
            cursor = scan.cursor;
            if cursor == 0 {
                break;
            }
        }
        for index in 0..500 {
            assert_eq!(seen.get(format!("stays:{index}").as_bytes()), Some(&1));
        }
        assert!(seen.values().all(|times| *times == 1));
    }

    /// SipHash-1-3 with an independent implementation of its rounds, from its reference (Aumasson and Bernstein, 2012).
    fn siphash_1_3(key: [u64; 2], message: &[u8]) -> u64 {
        fn round(v: &mut [u64; 4]) {
            v[0] = v[0].wrapping_add(v[1]);
            v[2] = v[2].wrapping_add(v[3]);
            v[1] = v[1].rotate_left(13) ^ v[0];
            v[3] = v[3].rotate_left(16) ^ v[2];
            v[0] = v[0].rotate_left(32);
            v[2] = v[2].wrapping_add(v[1]);
            v[0] = v[0].wrapping_add(v[3]);
            v[1] = v[1].rotate_left(17) ^ v[2];
            v[3] = v[3].rotate_left(21) ^ v[0];
            v[2] = v[2].rotate_left(32);
        }
        let mut v = [
            key[0] ^ 0x736f_6d65_7073_6575,
            key[1] ^ 0x646f_7261_6e64_6f6d,
            key[0] ^ 0x6c79_6765_6e65_7261,
            key[1] ^ 0x7465_6462_7974_6573,
        ];
        let mut padded = message.to_vec();
        padded.resize(message.len() / 8 * 8 + 7, 0);
        padded.push(message.len() as u8);
        for word in padded.as_chunks::<8>().0 {
            let word = u64::from_le_bytes(*word);
            v[3] ^= word;
            round(&mut v);
            v[0] ^= word;
        }
        v[2] ^= 0xff;
        (0..3).for_each(|_| round(&mut v));
        v[0] ^ v[1] ^ v[2] ^ v[3]
    }

    /// The standard library promises no algorithm, so this test notices another one.
    #[test]
    fn the_standard_librarys_hasher_is_keyed() {
        use std::hash::DefaultHasher;

        for len in 0..40 {
            let name: Vec<u8> = (0..len).collect();
            let mut hasher = DefaultHasher::new();
            hasher.write(&name);
            assert_eq!(hasher.finish(), siphash_1_3([0, 0], &name), "{len} bytes");
        }
        // Two keys differ, as those of two processes do.
        let hashes: std::collections::HashSet<u64> = (0..8).map(|_| RandomState::new().hash_one(b"name")).collect();
        assert_eq!(hashes.len(), 8);
    }

    #[test]
    fn entries_of_one_position_are_never_split_between_steps() {
        let entry = |position, name: &[u8]| Entry {
            key: Hashed::new(position, 0, Element::from(name)),
            value: (),
        };
        let all = [entry(3, b"a"), entry(5, b"b"), entry(5, b"c"), entry(5, b"d"), entry(9, b"e")];
        for (len, cursor, count, entries, next) in [
            (5, 0, 2, 4, 6),
            (5, 5, 3, 3, 6),
            (5, 6, 2, 1, 0),
            (5, 10, 2, 0, 0),
            (5, 0, 5, 5, 0),
            (5, 3, usize::MAX, 5, 0),
            (4, 0, 2, 4, 0),
        ] {
            let map: HashedMap<()> = all[..len].iter().cloned().collect();
            let scan = map.scan(cursor, count);
            assert_eq!((scan.entries.len(), scan.cursor), (entries, next), "{count} of {len} from {cursor}");
        }
    }

    proptest! {
        #[test]
        fn behaves_as_a_map(operations: Vec<(u8, Option<u16>)>) {
            let mut map = HashedMap::default();
            let mut model = BTreeMap::new();
            for (name, value) in operations {
                let name = vec![b'n'; usize::from(name) % 64];
                match value {
                    Some(value) => {
                        prop_assert_eq!(map.insert(&name, value), model.insert(name.clone(), value));
                    }
                    None => prop_assert_eq!(map.remove(&name), model.remove(&name)),
                }
                prop_assert_eq!(map.get(&name), model.get(&name));
                prop_assert_eq!(map.len(), model.len());
            }
            let all: BTreeMap<_, _> =
                map.iter().map(|entry| (entry.key.name.to_vec(), entry.value)).collect();
            prop_assert_eq!(all, model);
        }
    }
}
