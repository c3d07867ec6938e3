//! `stats settings`: the configuration at the start.

use psp_server::ServerHandle;

use super::{Put, put_all};
use crate::state::ServerState;

pub(super) fn write(server: &ServerState, runtime: Option<&ServerHandle>, put: &mut Put<'_>) {
    let config = &server.config;
    let addresses: Vec<String> = config.listen.iter().map(ToString::to_string).collect();
    let unix = config.sockets.unix.as_ref();
    let domain_socket = unix.map_or("NULL".into(), |path| path.to_string_lossy());
    let on_or_off = |on| if on { "on" } else { "off" };
    let yes_or_no = crate::dump::yes_or_no;
    let workers = runtime.map_or(0, ServerHandle::workers);
    put_all(
        put,
        "",
        &[
            ("maxbytes", &config.memory_bytes()),
            ("maxconns", &config.server.connections_max),
            ("tcpport", &config.port),
            ("udpport", &config.udp_port),
            ("inter", &addresses.join(",")),
            ("evictions", &on_or_off(config.evict)),
            ("domain_socket", &domain_socket),
            ("umask", &config.unix_mode()),
            ("ssl_enabled", &yes_or_no(config.tls.is_some())),
            ("shutdown_command", &yes_or_no(config.enable_shutdown)),
            ("num_threads", &workers),
            ("cas_enabled", &"yes"),
            ("binding_protocol", &"auto-negotiate"),
            ("auth_enabled_sasl", &"no"),
            ("item_size_max", &config.item_len_max),
            ("flush_enabled", &"yes"),
            ("dump_enabled", &"yes"),
            ("lru_segmented", &"yes"),
            ("hot_lru_pct", &crate::cache::Segment::Hot.percent_max()),
            ("warm_lru_pct", &crate::cache::Segment::Warm.percent_max()),
            ("idle_timeout", &config.server.idle_timeout_s),
            ("psp_policy", &config.policy),
            ("psp_topology", &config.server.topology),
        ],
    );
}
