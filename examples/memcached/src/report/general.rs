//! `stats`: the figures that clients and monitors read.

use psp_server::ServerHandle;
use psp_store::unix_time_ms;
use rustix::time::{ClockId, clock_gettime};

use super::{MEMCACHED_VERSION, Put, put_all};
use crate::state::ServerState;

pub(super) fn write(server: &ServerState, runtime: Option<&ServerHandle>, put: &mut Put<'_>) {
    let cache = &server.cache;
    let items = cache.stats();
    let snapshot = runtime.map(ServerHandle::snapshot);
    let net = snapshot.as_ref().map(|snapshot| &snapshot.net);
    let of_net = |figure: fn(&psp_server::telemetry::NetSnapshot) -> u64| net.map_or(0, figure);
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
            (
                "max_connections",
                &runtime.map_or(0, ServerHandle::connections_max),
            ),
            ("curr_connections", &of_net(|net| net.connections_open)),
            ("total_connections", &of_net(|net| net.connections_accepted)),
            (
                "rejected_connections",
                &of_net(|net| net.connections_refused),
            ),
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
            ("evictions", &items.evictions),
            ("reclaimed", &items.reclaimed),
            ("crawler_reclaimed", &items.reaped),
            ("crawler_items_checked", &items.inspected),
        ],
    );
}

/// CPU time of all threads of the process.
fn cpu_seconds() -> String {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    format!("{}.{:06}", time.tv_sec, time.tv_nsec / 1000)
}
