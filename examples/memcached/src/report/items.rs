//! `stats items`, `stats slabs` and `stats sizes`: the use of memory. There are no slabs: all items
//! are in one class.

use std::collections::BTreeMap;

use super::{Put, put_all};
use crate::cache::{Cache, Segment};
use crate::dump::CLASS;
use crate::state::ServerState;

/// Bytes per step of the size histogram.
const SIZE_STEP: usize = 32;

pub(super) fn write(server: &ServerState, put: &mut Put<'_>) {
    let stats = server.cache.stats();
    if stats.items == 0 {
        return;
    }
    let items_of = |segment: Segment| stats.items_of_segment[segment as usize];
    let age_s = server.cache.now_s().saturating_sub(stats.oldest_used_s);
    put_all(
        put,
        &format!("items:{CLASS}:"),
        &[
            ("number", &stats.items),
            ("number_hot", &items_of(Segment::Hot)),
            ("number_warm", &items_of(Segment::Warm)),
            ("number_cold", &items_of(Segment::Cold)),
            ("age", &age_s),
            ("mem_requested", &server.cache.memory_bytes()),
            ("evicted", &stats.evictions),
            ("evicted_nonzero", &stats.evicted_expiring),
            ("reclaimed", &stats.reclaimed),
            ("expired_unfetched", &stats.expired_unfetched),
            ("evicted_unfetched", &stats.evicted_unfetched),
            ("crawler_reclaimed", &stats.reaped),
            ("crawler_items_checked", &stats.inspected),
        ],
    );
}

pub(super) fn write_memory(server: &ServerState, put: &mut Put<'_>) {
    let cache = &server.cache;
    let items = cache.len();
    if items > 0 {
        put_all(
            put,
            &format!("{CLASS}:"),
            &[
                ("used_chunks", &items),
                ("mem_requested", &cache.memory_bytes()),
            ],
        );
    }
    put_all(
        put,
        "",
        &[
            ("active_slabs", &u8::from(items > 0)),
            ("total_malloced", &cache.memory_bytes()),
        ],
    );
}

/// Walks over all items. The result is not a snapshot.
pub(super) fn write_sizes(cache: &Cache, put: &mut Put<'_>) {
    let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
    cache.for_each(|item| {
        let size = item.memory_bytes().next_multiple_of(SIZE_STEP);
        *counts.entry(size).or_default() += 1;
    });
    for (size, count) in counts {
        put(&size.to_string(), &count.to_string());
    }
}
