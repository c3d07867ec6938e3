//! `stats items`, `stats slabs` and `stats sizes`: the use of memory. There are no slabs: all items
//! are in one class.

use std::collections::BTreeMap;

use super::{Put, put_all, put_none};
use crate::cache::{Cache, Segment};
use crate::counters::Counter;
use crate::dump::CLASS;
use crate::state::ServerState;

/// Bytes per step of the size histogram.
const SIZE_STEP: usize = 32;

/// Figures of memcached's classes that have no meaning here.
const NONE: &[(&str, &str)] = &[
    ("tailrepairs", "0"),
    ("lrutail_reflocked", "0"),
    ("direct_reclaims", "0"),
    ("hits_to_temp", "0"),
];

/// Figures of memcached's slabs that have no meaning here.
const NONE_OF_SLABS: &[(&str, &str)] = &[
    ("chunk_size", "0"),
    ("chunks_per_page", "0"),
    ("total_pages", "0"),
    ("free_chunks", "0"),
    ("free_chunks_end", "0"),
];

/// What `stats slabs` counts of a class. There is one for all items.
const COUNTED: [Counter; 8] = [
    Counter::GetHits,
    Counter::CmdSet,
    Counter::DeleteHits,
    Counter::IncrHits,
    Counter::DecrHits,
    Counter::CasHits,
    Counter::CasBadval,
    Counter::TouchHits,
];

pub(super) fn write(server: &ServerState, put: &mut Put<'_>) {
    let stats = server.cache.stats();
    if stats.items == 0 {
        return;
    }
    let items_of = |segment: Segment| stats.items_of_segment[segment as usize];
    let now_s = server.cache.now_s();
    let age_s = |segment: Segment| match stats.oldest_used_s[segment as usize] {
        0 => 0,
        used_s => now_s.saturating_sub(used_s),
    };
    let hits_to = |segment: Segment| stats.hits_of_segment[segment as usize];
    let counters = server.counters.read();
    let refused = counters.iter().find(|(counter, _)| *counter == Counter::StoreNoMemory);
    let prefix = format!("items:{CLASS}:");
    put_all(
        put,
        &prefix,
        &[
            ("number", &stats.items),
            ("number_hot", &items_of(Segment::Hot)),
            ("number_warm", &items_of(Segment::Warm)),
            ("number_cold", &items_of(Segment::Cold)),
            ("age_hot", &age_s(Segment::Hot)),
            ("age_warm", &age_s(Segment::Warm)),
            ("age", &age_s(Segment::Cold)),
            ("mem_requested", &server.cache.memory_bytes()),
            ("evicted", &stats.evictions),
            ("evicted_nonzero", &stats.evicted_expiring),
            ("evicted_time", &stats.last_evicted_s.1),
            ("outofmemory", &refused.map_or(0, |(_, count)| *count)),
            ("reclaimed", &stats.reclaimed),
            ("expired_unfetched", &stats.expired_unfetched),
            ("evicted_unfetched", &stats.evicted_unfetched),
            ("evicted_active", &stats.evicted_active),
            ("crawler_reclaimed", &stats.reaped),
            ("crawler_items_checked", &stats.inspected),
            ("moves_to_cold", &stats.moves.to_cold),
            ("moves_to_warm", &stats.moves.to_warm),
            ("moves_within_lru", &stats.moves.within_warm),
            ("hits_to_hot", &hits_to(Segment::Hot)),
            ("hits_to_warm", &hits_to(Segment::Warm)),
            ("hits_to_cold", &hits_to(Segment::Cold)),
        ],
    );
    put_none(put, &prefix, NONE);
}

pub(super) fn write_memory(server: &ServerState, put: &mut Put<'_>) {
    let cache = &server.cache;
    let items = cache.len();
    if items > 0 {
        let prefix = format!("{CLASS}:");
        put_all(
            put,
            &prefix,
            &[
                ("total_chunks", &items),
                ("used_chunks", &items),
                ("mem_requested", &cache.memory_bytes()),
            ],
        );
        put_none(put, &prefix, NONE_OF_SLABS);
        for (counter, count) in server.counters.read() {
            if COUNTED.contains(&counter) {
                put(&format!("{prefix}{}", counter.name()), &count.to_string());
            }
        }
    }
    put_all(
        put,
        "",
        &[("active_slabs", &u8::from(items > 0)), ("total_malloced", &cache.memory_bytes())],
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
