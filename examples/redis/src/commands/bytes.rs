//! Changes of some bytes of a string.

use bytes::BytesMut;
use psp_store::{Element, Entry, Slot, Value};

use super::pace::Pace;
use super::strings::{check_len, current, replace_part};
use crate::command::Context;
use crate::parse::Result;
use crate::typed::{expect, expect_mut};

/// Most changes of bytes under the key's lock.
const LOCKED_CHANGES_MAX: usize = 64;
/// Most bytes that are put into a string under its key's lock.
const LOCKED_BYTES_MAX: usize = 1 << 20;
/// Longest string that is copied there.
const LOCKED_COPY_MAX: usize = 16 * 1024;
/// Bytes that are copied between two checkpoints.
const PIECE_BYTES: usize = 64 * 1024;
/// Strings that grow to this length or beyond get room to grow further.
const ROOMY_LEN_MIN: usize = 64 * 1024;
/// The part of its length by which such a string may grow in place.
const ROOM_DIVISOR: usize = 4;

/// Changes bytes of the string at the key of the command `args`, which first gets zeros up to `len` bytes if it is shorter. `change` makes
/// about `changes` steps of its pace, has no other effect, and may run several times.
///
/// The bytes change in place if the string is long enough and no other request reads it. Otherwise they are copied,
/// outside of the key's lock.
pub(super) fn change<R>(
    context: &Context<'_>,
    args: &[&[u8]],
    len: usize,
    changes: usize,
    mut change: impl FnMut(&mut [u8], &Pace) -> R,
) -> Result<R> {
    check_len(context, len)?;
    let (key, sent) = (args[1], context.sent(args));
    let store = context.store.telling(&sent);
    if changes <= LOCKED_CHANGES_MAX {
        let change = |slot: &mut Slot<'_>| {
            let pace = Pace::of(slot);
            in_place(slot, len, |bytes| change(bytes, &pace))
        };
        if let Some(result) = store.update(key, change)? {
            return Ok(result);
        }
    }
    make_room(context, key, |old_len| len.max(old_len));
    store.update_large(key, |slot| {
        let pace = Pace::of(slot);
        let mut bytes = copy(context, current(slot)?, len, &pace)?;
        while bytes.len() < len {
            bytes.resize(len.min(bytes.len() + PIECE_BYTES), 0);
            pace.pause();
        }
        let result = change(&mut bytes, &pace);
        replace_part(slot, bytes);
        Ok(result)
    })
}

/// How many changes it is to put `patch` into a string.
pub(super) fn changes_of(patch: &[u8]) -> usize {
    match patch.len() <= LOCKED_BYTES_MAX {
        true => 1,
        false => usize::MAX,
    }
}

/// Appends as the command `args` says, and returns the string's length. The bytes are put behind it if it has room and no other
/// request reads it.
pub(super) fn append(context: &Context<'_>, args: &[&[u8]]) -> Result<usize> {
    let (key, suffix, sent) = (args[1], args[2], context.sent(args));
    let store = context.store.telling(&sent);
    let joined_len = |old: &[u8]| {
        let len = old.len() + suffix.len();
        check_len(context, len).map(|()| len)
    };
    let join = |slot: &mut Slot<'_>| {
        let old = current(slot)?;
        let len = joined_len(old)?;
        if slot.value().is_none() {
            slot.insert(Value::String(context.string(suffix)));
            return Ok(len);
        }
        let pace = Pace::of(slot);
        let mut bytes = copy(context, old, len, &pace)?;
        put(&mut bytes, suffix, &pace);
        replace_part(slot, bytes);
        Ok(len)
    };
    if suffix.len() <= LOCKED_BYTES_MAX {
        let change = |slot: &mut Slot<'_>| {
            let old_len = current(slot)?.len();
            let len = joined_len(current(slot)?)?;
            if len <= LOCKED_COPY_MAX {
                return join(slot).map(Some);
            }
            let put = |bytes: &mut [u8]| bytes[old_len..].copy_from_slice(suffix);
            let is_put = in_place(slot, len, put)?;
            Ok(is_put.map(|()| len))
        };
        if let Some(len) = store.update(key, change)? {
            return Ok(len);
        }
    }
    make_room(context, key, |old_len| old_len + suffix.len());
    store.update_large(key, join)
}

/// Evicts keys, if any may be evicted, for a copy of the string at `key`. `len` says how long that will be.
fn make_room(context: &Context<'_>, key: &[u8], len: impl FnOnce(usize) -> usize) {
    context.server.make_room_for(|| {
        let len_of = |entry: Option<&Entry>| match entry.map(Entry::value) {
            Some(Value::String(string)) => string.len(),
            _ => 0,
        };
        capacity(0, len(context.store.peek(key, len_of)))
    });
}

/// Calls `change` with the slot's string, made at least `len` bytes long with zeros, if that can be done in place.
fn in_place<R>(slot: &mut Slot<'_>, len: usize, change: impl FnOnce(&mut [u8]) -> R) -> Result<Option<R>> {
    let has_room = |string: &Element| len.saturating_sub(string.len()) <= LOCKED_BYTES_MAX && string.has_room(len);
    if !expect::<Element>(slot.value())?.is_some_and(has_room) {
        return Ok(None);
    }
    let Some(string) = expect_mut::<Element>(slot)? else {
        return Ok(None);
    };
    let result = string.get_mut_to(len).map(change);
    if result.is_some() {
        string.make_raw();
    }
    Ok(result)
}

/// A copy of `old` that will be `len` bytes long or longer.
fn copy(context: &Context<'_>, old: &[u8], len: usize, pace: &Pace) -> Result<BytesMut> {
    let capacity = capacity(old.len(), len);
    let reserved = context.server.reserve(capacity)?;
    let mut copy = BytesMut::with_capacity(capacity);
    drop(reserved);
    put(&mut copy, old, pace);
    Ok(copy)
}

/// The capacity of a copy of a string that will be `len` bytes long or longer, and has room to grow if it grows.
fn capacity(old_len: usize, len: usize) -> usize {
    let room = match len > old_len && len >= ROOMY_LEN_MIN {
        true => len / ROOM_DIVISOR,
        false => 0,
    };
    len.max(old_len) + room
}

fn put(to: &mut BytesMut, from: &[u8], pace: &Pace) {
    for piece in from.chunks(PIECE_BYTES) {
        to.extend_from_slice(piece);
        if piece.len() == PIECE_BYTES {
            pace.pause();
        }
    }
}
