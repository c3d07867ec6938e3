//! Entries in replies.

use std::ops::RangeInclusive;

use psp_protocols::Sink;
use psp_protocols::resp::{Encoder, Version};
use psp_store::{Entries, StreamEntry, StreamId, Text};

use super::super::pace::Pace;
use super::super::walk;
use super::ids;
use crate::command::ReplyEncoder;

/// An entry: its ID, and its fields' names and values.
pub(super) fn entry<S: Sink + ?Sized>(out: &mut Encoder<'_, S>, entry: &StreamEntry<'_>) {
    out.array(2);
    ids::write(out, entry.id);
    out.array(2 * entry.len());
    for text in entry.texts() {
        match text {
            Text::Short(bytes) => out.bulk(bytes),
            Text::Long(element) => walk::element(out, element),
        }
    }
}

/// An array of the first `count` entries with IDs in `range`, or of the last ones from the end if `is_reverse`.
pub(super) fn range(
    out: &mut ReplyEncoder<'_>,
    entries: &Entries,
    range: &RangeInclusive<StreamId>,
    count: usize,
    is_reverse: bool,
) {
    let pace = Pace::new();
    let found = entries.count(range, count, &|| pace.step());
    out.array(found);
    walk::batched(out, |out| {
        if is_reverse {
            let entries = entries.range_back(range.clone()).take(found);
            entries.for_each(|found| entry(out, &found));
        } else {
            let entries = entries.range(range.clone()).take(found);
            entries.for_each(|found| entry(out, &found));
        }
    });
}

/// An array of the entries with these IDs. An entry that is gone has no fields.
pub(super) fn listed(out: &mut ReplyEncoder<'_>, entries: &Entries, listed: &[StreamId]) {
    out.array(listed.len());
    walk::batched(out, |out| {
        for id in listed {
            match entries.get(*id) {
                Some(found) => entry(out, &found),
                None => {
                    out.array(2);
                    ids::write(out, *id);
                    out.null_array();
                }
            }
        }
    });
}

/// An array of IDs.
pub(super) fn ids(out: &mut ReplyEncoder<'_>, listed: &[StreamId]) {
    out.array(listed.len());
    walk::batched(out, |out| listed.iter().for_each(|id| ids::write(out, *id)));
}

/// What one stream has for a reader.
pub(super) struct Found {
    /// The stream's entries when they were found.
    pub(super) entries: Entries,
    pub(super) which: Which,
}

/// Which entries a reader gets.
pub(super) enum Which {
    /// So many from the start of this range.
    Range(RangeInclusive<StreamId>, usize),
    /// These, some of which may be gone.
    Listed(Vec<StreamId>),
}

/// The reply of XREAD and XREADGROUP: what each stream has.
pub(super) fn streams<'k>(out: &mut ReplyEncoder<'_>, found: impl ExactSizeIterator<Item = (&'k [u8], &'k Found)>) {
    let is_map = out.version() == Version::Resp3;
    if is_map {
        out.map(found.len());
    } else {
        out.array(found.len());
    }
    for (key, Found { entries, which }) in found {
        if !is_map {
            out.array(2);
        }
        out.bulk(key);
        match which {
            Which::Range(ids, count) => range(out, entries, ids, *count, false),
            Which::Listed(ids) => listed(out, entries, ids),
        }
    }
}
