//! `stats`: the figures that clients and monitors read.

use psp_program::CpuTime;
use psp_server::ServerHandle;
use psp_store::unix_time_ms;
use rustix::time::{ClockId, clock_gettime};

use super::{MEMCACHED_VERSION, Put, put_all, put_none};
use crate::state::ServerState;

/// Figures of memcached that have no meaning here.
const NONE: &[(&str, &str)] = &[
    ("libevent", "none"),
    ("response_obj_oom", "0"),
    ("response_obj_count", "0"),
    ("response_obj_bytes", "0"),
    ("read_buf_count", "0"),
    ("read_buf_bytes_free", "0"),
    ("read_buf_oom", "0"),
    ("reserved_fds", "0"),
    ("listen_disabled_num", "0"),
    ("time_in_listen_disabled_us", "0"),
    ("conn_yields", "0"),
    ("hash_power_level", "0"),
    ("hash_bytes", "0"),
    ("hash_is_expanding", "0"),
    ("slab_reassign_rescues", "0"),
    ("slab_reassign_chunk_rescues", "0"),
    ("slab_reassign_evictions_nomem", "0"),
    ("slab_reassign_inline_reclaim", "0"),
    ("slab_reassign_busy_items", "0"),
    ("slab_reassign_busy_deletes", "0"),
    ("slab_reassign_running", "0"),
    ("slabs_moved", "0"),
    ("slab_global_page_pool", "0"),
    ("lru_crawler_running", "0"),
    ("lru_crawler_starts", "0"),
    ("lru_maintainer_juggles", "0"),
    ("lrutail_reflocked", "0"),
    ("lru_bumps_dropped", "0"),
    ("direct_reclaims", "0"),
    ("malloc_fails", "0"),
    ("log_worker_dropped", "0"),
    ("log_worker_written", "0"),
    ("log_watcher_skipped", "0"),
    ("log_watcher_sent", "0"),
    ("log_watchers", "0"),
    ("unexpected_napi_ids", "0"),
    ("round_robin_fallback", "0"),
];

pub(super) fn write(server: &ServerState, runtime: Option<&ServerHandle>, put: &mut Put<'_>) {
    let cache = &server.cache;
    let items = cache.stats();
    let snapshot = runtime.map(ServerHandle::snapshot);
    let net = snapshot.as_ref().map(|snapshot| &snapshot.net);
    let of_net = |figure: fn(&psp_server::telemetry::NetSnapshot) -> u64| net.map_or(0, figure);
    let cpu_time = CpuTime::read("/proc/self/stat").unwrap_or_default();
    put_all(
        put,
        "",
        &[
            ("pid", &std::process::id()),
            ("uptime", &server.started_at.elapsed().as_secs()),
            ("time", &(unix_time_ms() / 1000)),
            ("version", &MEMCACHED_VERSION),
            ("psp_version", &env!("CARGO_PKG_VERSION")),
            ("pointer_size", &usize::BITS),
            ("cpu_seconds", &cpu_seconds()),
            ("rusage_user", &format_args!("{:.6}", cpu_time.user_s)),
            ("rusage_system", &format_args!("{:.6}", cpu_time.system_s)),
            ("max_connections", &runtime.map_or(0, ServerHandle::connections_max)),
            ("curr_connections", &of_net(|net| net.connections_open)),
            ("total_connections", &of_net(|net| net.connections_accepted)),
            ("rejected_connections", &of_net(|net| net.connections_refused)),
            ("connection_structures", &of_net(|net| net.connections_open)),
            ("read_buf_bytes", &of_net(|net| net.buffered_bytes)),
        ],
    );
    for (counter, count) in server.counters.read() {
        put(counter.name(), &count.to_string());
    }
    put_all(
        put,
        "",
        &[
            ("get_expired", &items.found_expired),
            ("get_flushed", &items.found_flushed),
            ("bytes_read", &of_net(|net| net.bytes_received)),
            ("bytes_written", &of_net(|net| net.bytes_sent)),
            ("limit_maxbytes", &cache.memory_bytes_max()),
            ("accepting_conns", &1),
            ("threads", &runtime.map_or(0, ServerHandle::workers)),
            ("bytes", &cache.memory_bytes()),
            ("curr_items", &items.items),
            ("total_items", &items.items_total),
            ("expired_unfetched", &items.expired_unfetched),
            ("evicted_unfetched", &items.evicted_unfetched),
            ("evicted_active", &items.evicted_active),
            ("evictions", &items.evictions),
            ("reclaimed", &items.reclaimed),
            ("crawler_reclaimed", &items.reaped),
            ("crawler_items_checked", &items.inspected),
            ("moves_to_cold", &items.moves.to_cold),
            ("moves_to_warm", &items.moves.to_warm),
            ("moves_within_lru", &items.moves.within_warm),
        ],
    );
    if server.config.server.idle_timeout_s > 0 {
        let kicks = of_net(|net| net.connections_timed_out);
        put("idle_kicks", &kicks.to_string());
    }
    put_none(put, "", NONE);
}

/// CPU time of all threads of the process.
fn cpu_seconds() -> String {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    format!("{}.{:06}", time.tv_sec, time.tv_nsec / 1000)
}
