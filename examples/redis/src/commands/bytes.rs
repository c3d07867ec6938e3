//! Changes of some bytes of a string.

use psp_store::{Element, Slot};

use super::pace::Pace;
use super::strings::{check_len, current, replace_part};
use crate::command::Context;
use crate::parse::Result;
use crate::typed::{expect, expect_mut};

/// Most changes of bytes under the key's lock.
const LOCKED_CHANGES_MAX: usize = 64;

/// Changes bytes of the string at `key`, which first gets zeros up to `len` bytes if it is shorter. `change` makes about
/// `changes` steps of its pace, has no other effect, and may run several times.
///
/// The bytes change in place if the string is long enough and nobody else reads it. Otherwise they are copied, outside
/// of the key's lock.
pub(super) fn change<R>(
    context: &Context<'_>,
    key: &[u8],
    len: usize,
    changes: usize,
    mut change: impl FnMut(&mut [u8], &Pace) -> R,
) -> Result<R> {
    check_len(context, len)?;
    if changes <= LOCKED_CHANGES_MAX {
        let in_place = |slot: &mut Slot<'_>| {
            if expect::<Element>(slot.value())?.is_none_or(|string| string.len() < len) {
                return Ok(None);
            }
            let pace = Pace::of(slot);
            let Some(string) = expect_mut::<Element>(slot)? else {
                return Ok(None);
            };
            let result = string.get_mut().map(|bytes| change(bytes, &pace));
            if result.is_some() {
                string.make_raw();
            }
            Ok(result)
        };
        if let Some(result) = context.store.update(key, in_place)? {
            return Ok(result);
        }
    }
    context.store.update_large(key, |slot| {
        let mut bytes = current(slot)?.to_vec();
        bytes.resize(bytes.len().max(len), 0);
        let result = change(&mut bytes, &Pace::of(slot));
        replace_part(slot, &bytes);
        Ok(result)
    })
}
