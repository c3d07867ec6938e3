//! Changes whose work depends on their arguments. A small change runs under the key's lock. A larger
//! one runs on a snapshot outside the lock, where it can yield. What the old version does not share with the new one,
//! the change drops itself, or leaves to the reaper if it may be much.

use psp_store::{Keyspace, Slot, Writer};

use super::pace::{self, Pace};
use crate::parse::Result;
use crate::typed::{Typed, expect_mut, expect_or_default};

/// Most elements that a change may touch under its key's lock, and most keys that a change may lock.
pub(super) const LOCKED_ELEMENTS_MAX: usize = 64;

/// Most elements whose change drops the old version itself. Each may have copied a leaf of 64 elements.
const DROPPED_ELEMENTS_MAX: usize = 1024;

/// Bytes that take as long to copy as one element takes to insert.
const BYTES_PER_ELEMENT: usize = 512;

/// Number of elements that take as long to insert as `arguments`.
pub(super) fn work(arguments: &[&[u8]]) -> usize {
    let bytes: usize = arguments.iter().map(|argument| argument.len()).sum();
    arguments.len() + bytes / BYTES_PER_ELEMENT
}

/// Changes `key`, touching about `elements` elements. `change` steps the pace for each element.
pub(super) fn update<'s, R>(
    store: impl Into<Writer<'s>>,
    key: &[u8],
    elements: usize,
    mut change: impl FnMut(&mut Slot<'_>, &Pace) -> R,
) -> R {
    let change = |slot: &mut Slot<'_>| {
        let pace = Pace::of(slot);
        change(slot, &pace)
    };
    let store = store.into();
    if elements <= LOCKED_ELEMENTS_MAX {
        store.update(key, change)
    } else if elements <= DROPPED_ELEMENTS_MAX {
        store.update_part(key, change)
    } else {
        pace::begins(elements);
        store.update_large(key, change)
    }
}

/// [`typed::change`](crate::typed::change) for a change that touches about `elements` elements.
pub(super) fn change<'s, T: Typed, R>(
    store: impl Into<Writer<'s>>,
    key: &[u8],
    elements: usize,
    mut change: impl FnMut(&mut T, &Pace) -> R,
) -> Result<Option<R>> {
    update(store, key, elements, |slot, pace| Ok(expect_mut(slot)?.map(|value| change(value, pace))))
}

/// [`typed::change_or_create`](crate::typed::change_or_create) for a change that touches about
/// `elements` elements.
pub(super) fn change_or_create<'s, T: Typed + Default, R>(
    store: impl Into<Writer<'s>>,
    key: &[u8],
    elements: usize,
    mut change: impl FnMut(&mut T, &Pace) -> R,
) -> Result<R> {
    update(store, key, elements, |slot, pace| Ok(change(expect_or_default(slot)?, pace)))
}

/// Number of elements that a change of up to `count` elements of `key` touches, or more if they are few anyhow.
pub(super) fn touched(store: &Keyspace, key: &[u8], count: usize) -> usize {
    match count {
        0..=LOCKED_ELEMENTS_MAX => count,
        _ => count.min(cardinality(store, key)),
    }
}

/// Number of elements that a change of the whole value of `key` touches.
pub(super) fn cardinality(store: &Keyspace, key: &[u8]) -> usize {
    store.peek(key, |entry| entry.map_or(0, |entry| entry.value().cardinality()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_short_arguments_are_inserted_under_the_lock_and_long_ones_outside() {
        let short = b"short".as_slice();
        assert!(work(&[short; 20]) <= LOCKED_ELEMENTS_MAX);
        assert!(work(&[short; 100]) > LOCKED_ELEMENTS_MAX);
        assert!(work(&[[0; 100_000].as_slice()]) > LOCKED_ELEMENTS_MAX);
    }
}
