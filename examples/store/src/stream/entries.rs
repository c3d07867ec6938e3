//! The entries of a stream, in the order of their IDs.

use std::ops::RangeInclusive;

use super::StreamId;
use super::block::{Block, BlockLimits, StreamEntry, Walk};
use crate::tree::{self, Tree};

/// The entries; a clone is O(1), and so are the ends. An entry is found in O(log n) steps.
#[derive(Clone, Default)]
pub struct Entries {
    blocks: Tree<Vec<Block>>,
    len: usize,
}

/// What a trimmed stream keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// So many of the latest entries.
    Len(usize),
    /// The entries from this ID on.
    From(StreamId),
}

/// How to trim a stream.
#[derive(Clone, Copy, Debug)]
pub struct Trim {
    /// What is left.
    pub kept: Kept,
    /// Whether more may be left, so that blocks are removed as wholes.
    pub is_approximate: bool,
    /// Entries to remove at most.
    pub limit: usize,
}

impl Entries {
    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of blocks.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// The first entry.
    #[must_use]
    pub fn first(&self) -> Option<StreamEntry<'_>> {
        self.blocks.get(0)?.walk().next()
    }

    /// The last entry.
    #[must_use]
    pub fn last(&self) -> Option<StreamEntry<'_>> {
        self.blocks.get(self.blocks.len().checked_sub(1)?)?.walk().last()
    }

    /// The ID of the last entry.
    #[must_use]
    pub fn last_id(&self) -> Option<StreamId> {
        let last = self.blocks.len().checked_sub(1)?;
        self.blocks.get(last).map(Block::last_id)
    }

    /// The entry with this ID.
    #[must_use]
    pub fn get(&self, id: StreamId) -> Option<StreamEntry<'_>> {
        self.blocks.get(self.block_of(id)?)?.get(id)
    }

    /// The block that has the entry with this ID, if there is one.
    fn block_of(&self, id: StreamId) -> Option<usize> {
        self.blocks.seek(|first: &StreamId| *first <= id).0.checked_sub(1)
    }

    /// Adds an entry behind all others: its field names and values take turns.
    pub(super) fn push(&mut self, id: StreamId, pairs: &[&[u8]], limits: BlockLimits) {
        let more_bytes = pairs.iter().map(|string| string.len()).sum();
        let last = self.blocks.len().checked_sub(1);
        self.len += 1;
        if let Some(block) = last.and_then(|last| self.blocks.get_mut(last)) {
            if !block.is_full(more_bytes, limits) {
                return block.push(id, pairs);
            }
            block.shrink();
        }
        self.blocks.push_back(Block::new(id, pairs));
    }

    /// Removes an entry. Returns whether there was one.
    pub(super) fn remove(&mut self, id: StreamId) -> bool {
        if self.get(id).is_none() {
            return false;
        }
        let Some(index) = self.block_of(id) else {
            return false;
        };
        let is_removed = self.blocks.get_mut(index).is_some_and(|block| block.remove(id));
        self.len -= usize::from(is_removed);
        if self.blocks.get(index).is_some_and(|block| block.len() == 0) {
            self.blocks.remove_range(index..index + 1);
        }
        is_removed
    }

    /// Removes the oldest entries. Calls `visit` for each block that it looks at. Returns how many it removed.
    pub(super) fn trim(&mut self, trim: Trim, visit: &dyn Fn()) -> usize {
        let (mut blocks, mut removed) = (0, 0);
        let mut in_part = 0;
        for block in self.blocks.iter().inspect(|_| visit()) {
            let left = self.len - removed;
            let is_enough = matches!(trim.kept, Kept::Len(len) if left <= len);
            if is_enough || removed + block.len() > trim.limit {
                break;
            }
            let goes = match trim.kept {
                Kept::Len(len) => left - block.len() >= len,
                Kept::From(id) => block.last_added() < id,
            };
            if !goes {
                if !trim.is_approximate {
                    in_part = match trim.kept {
                        Kept::Len(len) => left - len,
                        Kept::From(id) => block.walk().take_while(|entry| entry.id < id).count(),
                    };
                }
                break;
            }
            blocks += 1;
            removed += block.len();
        }
        if blocks == self.blocks.len() {
            *self = Self::default();
            return removed;
        }
        self.blocks.remove_range(0..blocks);
        if self.blocks.get(0).is_some_and(|block| block.len() == in_part) {
            self.blocks.remove_range(0..1);
        } else if in_part > 0
            && let Some(block) = self.blocks.get_mut(0)
        {
            block.remove_front(in_part);
        }
        removed += in_part;
        self.len -= removed;
        removed
    }

    /// About how many entries a trim removes, at most.
    #[must_use]
    pub fn trimmed(&self, trim: Trim) -> usize {
        let about = match trim.kept {
            Kept::Len(len) => self.len.saturating_sub(len),
            Kept::From(id) => {
                let blocks = self.blocks.seek(|first: &StreamId| *first < id).0;
                (blocks as u128 * self.len as u128).div_ceil(self.blocks.len().max(1) as u128) as usize
            }
        };
        about.min(trim.limit)
    }

    /// The entries whose IDs are in `ids`, in ascending order.
    #[must_use]
    pub fn range(&self, ids: RangeInclusive<StreamId>) -> Ascending<'_> {
        let (from, to) = self.blocks_of(&ids);
        Ascending { blocks: self.blocks.range(from..to), block: None, ids }
    }

    /// The entries whose IDs are in `ids`, in descending order.
    #[must_use]
    pub fn range_back(&self, ids: RangeInclusive<StreamId>) -> Descending<'_> {
        let (from, to) = self.blocks_of(&ids);
        Descending { blocks: self.blocks.range(from..to), block: Vec::new(), ids }
    }

    /// How many entries have IDs in `ids`; no more than `most`. Calls `visit` for each block that it looks at.
    #[must_use]
    pub fn count(&self, ids: &RangeInclusive<StreamId>, most: usize, visit: &dyn Fn()) -> usize {
        let (from, to) = self.blocks_of(ids);
        let mut count = 0;
        for (index, block) in (from..to).zip(self.blocks.range(from..to)) {
            if count >= most {
                break;
            }
            visit();
            // Only blocks at the ends can have entries outside.
            count += if index > from && index + 1 < to {
                block.len()
            } else {
                block.walk().filter(|entry| ids.contains(&entry.id)).count()
            };
        }
        count.min(most)
    }

    /// The blocks that may have entries with these IDs.
    fn blocks_of(&self, ids: &RangeInclusive<StreamId>) -> (usize, usize) {
        let to = self.block_of(*ids.end()).map_or(0, |index| index + 1);
        (self.block_of(*ids.start()).unwrap_or(0).min(to), to)
    }

    /// How many entries with IDs in `ids` there are at most, and their bytes, about. Looks at up to `blocks_max` of the
    /// blocks from the start or from the end of the range; `None` if `count` entries may be in more.
    #[must_use]
    pub fn extent(
        &self,
        ids: &RangeInclusive<StreamId>,
        count: usize,
        is_reverse: bool,
        blocks_max: usize,
    ) -> Option<(usize, usize)> {
        let (from, to) = self.blocks_of(ids);
        let is_complete = to - from <= blocks_max;
        let looked_at = if is_reverse {
            to.saturating_sub(blocks_max).max(from)..to
        } else {
            from..to.min(from.saturating_add(blocks_max))
        };
        let (mut entries, mut bytes) = (0, 0);
        let mut blocks = self.blocks.range(looked_at);
        let mut next = || {
            if is_reverse { blocks.next_back() } else { blocks.next() }
        };
        let mut is_first = true;
        while entries < count {
            let Some(block) = next() else {
                return is_complete.then_some((entries, bytes));
            };
            let found = if is_first {
                let inside = |entry: &StreamEntry<'_>| ids.contains(&entry.id);
                block.walk().filter(inside).count()
            } else {
                block.len()
            };
            is_first = false;
            let taken = found.min(count - entries);
            entries += taken;
            bytes += (block.bytes() * taken).div_ceil(block.len().max(1));
        }
        Some((entries, bytes))
    }

    /// Bytes of an entry, about: the larger mean of the first and the last block.
    #[must_use]
    pub fn entry_bytes(&self) -> usize {
        let last = self.blocks.len().saturating_sub(1);
        let blocks = [0, last].into_iter().filter_map(|place| self.blocks.get(place));
        let means = blocks.map(|block| block.bytes() / block.len().max(1));
        means.max().unwrap_or(0)
    }

    /// Approximate bytes of memory, estimated from the first `blocks_max` blocks.
    pub(super) fn memory_bytes(&self, blocks_max: usize) -> usize {
        let sizes = self.blocks.iter().take(blocks_max).map(Block::memory_bytes);
        let looked_at = self.blocks.len().min(blocks_max);
        sizes.sum::<usize>() * self.blocks.len() / looked_at.max(1)
    }
}

/// Entries in ascending order.
pub struct Ascending<'s> {
    blocks: tree::Iter<'s, Vec<Block>>,
    block: Option<Walk<'s>>,
    ids: RangeInclusive<StreamId>,
}

impl<'s> Iterator for Ascending<'s> {
    type Item = StreamEntry<'s>;

    fn next(&mut self) -> Option<StreamEntry<'s>> {
        loop {
            let Some(walk) = &mut self.block else {
                self.block = Some(self.blocks.next()?.walk());
                continue;
            };
            match walk.next() {
                None => self.block = None,
                Some(entry) if entry.id < *self.ids.start() => {}
                // The block is the last one.
                Some(entry) if entry.id > *self.ids.end() => self.block = None,
                Some(entry) => return Some(entry),
            }
        }
    }
}

/// Entries in descending order.
pub struct Descending<'s> {
    blocks: tree::Iter<'s, Vec<Block>>,
    /// What is left of a block, in ascending order.
    block: Vec<StreamEntry<'s>>,
    ids: RangeInclusive<StreamId>,
}

impl<'s> Iterator for Descending<'s> {
    type Item = StreamEntry<'s>;

    fn next(&mut self) -> Option<StreamEntry<'s>> {
        loop {
            match self.block.pop() {
                None => self.block.extend(self.blocks.next_back()?.walk()),
                Some(entry) if entry.id > *self.ids.end() => {}
                Some(entry) if entry.id < *self.ids.start() => return None,
                Some(entry) => return Some(entry),
            }
        }
    }
}
