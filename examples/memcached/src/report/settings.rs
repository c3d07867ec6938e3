//! `stats settings`: the configuration at the start.

use std::path::PathBuf;

use psp_program::{AuthClients, LogLevel, OldestVersion};
use psp_server::ServerHandle;

use super::{Put, put_all, put_none};
use crate::state::ServerState;

/// Settings of memcached that have no meaning here.
const NONE: &[(&str, &str)] = &[
    ("oldest", "0"),
    ("growth_factor", "0.00"),
    ("chunk_size", "0"),
    ("detail_enabled", "no"),
    ("reqs_per_event", "0"),
    ("hashpower_init", "0"),
    ("slab_reassign", "no"),
    ("slab_automove", "0"),
    ("slab_automove_ratio", "0.00"),
    ("slab_automove_window", "0"),
    ("slab_automove_freeratio", "0.000"),
    ("slab_chunk_max", "0"),
    ("lru_crawler_sleep", "0"),
    ("lru_crawler_tocrawl", "0"),
    ("tail_repair_time", "0"),
    ("lru_maintainer_thread", "no"),
    ("hot_max_factor", "0.00"),
    ("warm_max_factor", "0.00"),
    ("temp_lru", "no"),
    ("temporary_ttl", "0"),
    ("watcher_logbuf_size", "0"),
    ("worker_logbuf_size", "0"),
    ("track_sizes", "no"),
    ("inline_ascii_response", "no"),
    ("ext_item_size", "0"),
    ("ext_item_age", "0"),
    ("ext_low_ttl", "0"),
    ("ext_recache_rate", "0"),
    ("ext_wbuf_size", "0"),
    ("ext_compact_under", "0"),
    ("ext_drop_under", "0"),
    ("ext_max_sleep", "0"),
    ("ext_max_frag", "0.00"),
    ("ext_drop_unread", "no"),
    ("ssl_keyformat", "1"),
    ("ssl_ciphers", "NULL"),
    ("ssl_wbuf_size", "0"),
    ("ssl_session_cache", "no"),
    ("ssl_kernel_tls", "no"),
    ("num_napi_ids", "(null)"),
    ("memory_file", "(null)"),
];

pub(super) fn write(server: &ServerState, runtime: Option<&ServerHandle>, put: &mut Put<'_>) {
    let config = &server.config;
    let addresses: Vec<String> = config.listen.iter().map(ToString::to_string).collect();
    let unix = config.sockets.unix.as_ref();
    let domain_socket = unix.map_or("NULL".into(), |path| path.to_string_lossy());
    let on_or_off = |on| if on { "on" } else { "off" };
    let yes_or_no = crate::dump::yes_or_no;
    let workers = runtime.map_or(0, ServerHandle::workers);
    let verbosity = match config.log_level {
        LogLevel::Trace => 2,
        LogLevel::Debug => 1,
        _ => 0,
    };
    let files = config.tls.clone().unwrap_or_default();
    let verify_mode = match files.auth_clients {
        None | Some(AuthClients::No) => 0,
        Some(AuthClients::Optional) => 1,
        Some(AuthClients::Yes) => 2,
    };
    let min_version = match files.oldest_version {
        None | Some(OldestVersion::Tls12) => "tlsv1.2",
        Some(OldestVersion::Tls13) => "tlsv1.3",
    };
    let file =
        |file: Option<PathBuf>, none: &str| file.map_or(none.to_owned(), |file| file.to_string_lossy().into_owned());
    put_all(
        put,
        "",
        &[
            ("maxbytes", &server.cache.memory_bytes_max()),
            ("maxconns", &config.server.connections_max),
            ("tcpport", &config.port),
            ("udpport", &config.udp_port),
            ("inter", &addresses.join(",")),
            ("verbosity", &verbosity),
            ("evictions", &on_or_off(config.evict)),
            ("domain_socket", &domain_socket),
            ("umask", &config.unix_mode()),
            ("ssl_enabled", &yes_or_no(config.tls.is_some())),
            ("shutdown_command", &yes_or_no(config.enable_shutdown)),
            ("num_threads", &workers),
            ("num_threads_per_udp", &workers),
            ("cas_enabled", &"yes"),
            ("binding_protocol", &"auto-negotiate"),
            ("auth_enabled_sasl", &yes_or_no(config.sasl)),
            ("auth_enabled_ascii", &yes_or_no(config.auth_file.is_some() && !config.sasl)),
            ("item_size_max", &config.item_len_max),
            ("flush_enabled", &yes_or_no(config.enable_flush)),
            ("dump_enabled", &yes_or_no(config.enable_dump)),
            ("lru_segmented", &"yes"),
            ("hot_lru_pct", &crate::cache::Segment::Hot.percent_max()),
            ("warm_lru_pct", &crate::cache::Segment::Warm.percent_max()),
            ("idle_timeout", &config.server.idle_timeout_s),
            ("ssl_chain_cert", &file(files.cert_file, "(null)")),
            ("ssl_key", &file(files.key_file, "(null)")),
            ("ssl_ca_cert", &file(files.ca_cert_file, "NULL")),
            ("read_buf_mem_limit", &config.server.buffered_bytes_max.unwrap_or(0)),
            ("ssl_verify_mode", &verify_mode),
            ("ssl_min_version", &min_version),
            // A connection that is one too many is refused at once.
            ("maxconns_fast", &"yes"),
            ("lru_crawler", &"yes"),
            ("hash_algorithm", &"siphash"),
            ("stat_key_prefix", &":"),
            ("tcp_backlog", &1024),
            ("client_flags_size", &size_of::<u32>()),
            ("psp_policy", &config.policy),
            ("psp_topology", &config.server.topology),
        ],
    );
    put_none(put, "", NONE);
}
