//! The figures that memcached 1.6.18 has, which clients and exporters look for.

use std::collections::BTreeMap;

use crate::common::{Connection, Server, wait_until};

/// Reports, and the names of their figures after one item was stored.
const REPORTS: &[(&str, &str)] = &[
    (
        "stats",
        "pid uptime time version libevent pointer_size rusage_user rusage_system max_connections \
         curr_connections total_connections rejected_connections connection_structures response_obj_oom \
         response_obj_count response_obj_bytes read_buf_count read_buf_bytes read_buf_bytes_free read_buf_oom \
         reserved_fds cmd_get cmd_set cmd_flush cmd_touch cmd_meta get_hits get_misses get_expired \
         get_flushed delete_misses delete_hits incr_misses incr_hits decr_misses decr_hits cas_misses \
         cas_hits cas_badval touch_hits touch_misses store_too_large store_no_memory auth_cmds auth_errors \
         bytes_read bytes_written limit_maxbytes accepting_conns listen_disabled_num \
         time_in_listen_disabled_us threads conn_yields hash_power_level hash_bytes hash_is_expanding \
         slab_reassign_rescues slab_reassign_chunk_rescues slab_reassign_evictions_nomem \
         slab_reassign_inline_reclaim slab_reassign_busy_items slab_reassign_busy_deletes \
         slab_reassign_running slabs_moved lru_crawler_running lru_crawler_starts lru_maintainer_juggles \
         malloc_fails log_worker_dropped log_worker_written log_watcher_skipped log_watcher_sent log_watchers \
         unexpected_napi_ids round_robin_fallback bytes curr_items total_items slab_global_page_pool \
         expired_unfetched evicted_unfetched evicted_active evictions reclaimed crawler_reclaimed \
         crawler_items_checked lrutail_reflocked moves_to_cold moves_to_warm moves_within_lru direct_reclaims \
         lru_bumps_dropped",
    ),
    (
        "stats settings",
        "maxbytes maxconns tcpport udpport inter verbosity oldest evictions domain_socket umask \
         shutdown_command growth_factor chunk_size num_threads num_threads_per_udp stat_key_prefix \
         detail_enabled reqs_per_event cas_enabled tcp_backlog binding_protocol auth_enabled_sasl \
         auth_enabled_ascii item_size_max maxconns_fast hashpower_init slab_reassign slab_automove \
         slab_automove_ratio slab_automove_window slab_chunk_max lru_crawler lru_crawler_sleep \
         lru_crawler_tocrawl tail_repair_time flush_enabled dump_enabled hash_algorithm lru_maintainer_thread \
         lru_segmented hot_lru_pct warm_lru_pct hot_max_factor warm_max_factor temp_lru temporary_ttl \
         idle_timeout watcher_logbuf_size worker_logbuf_size read_buf_mem_limit track_sizes \
         inline_ascii_response ext_item_size ext_item_age ext_low_ttl ext_recache_rate ext_wbuf_size \
         ext_compact_under ext_drop_under ext_max_sleep ext_max_frag slab_automove_freeratio ext_drop_unread \
         ssl_enabled ssl_chain_cert ssl_key ssl_verify_mode ssl_keyformat ssl_ciphers ssl_ca_cert \
         ssl_wbuf_size ssl_session_cache ssl_kernel_tls ssl_min_version num_napi_ids memory_file",
    ),
    (
        "stats items",
        "items:1:number items:1:number_hot items:1:number_warm items:1:number_cold items:1:age_hot \
         items:1:age_warm items:1:age items:1:mem_requested items:1:evicted items:1:evicted_nonzero \
         items:1:evicted_time items:1:outofmemory items:1:tailrepairs items:1:reclaimed \
         items:1:expired_unfetched items:1:evicted_unfetched items:1:evicted_active items:1:crawler_reclaimed \
         items:1:crawler_items_checked items:1:lrutail_reflocked items:1:moves_to_cold items:1:moves_to_warm \
         items:1:moves_within_lru items:1:direct_reclaims items:1:hits_to_hot items:1:hits_to_warm \
         items:1:hits_to_cold items:1:hits_to_temp",
    ),
    (
        "stats slabs",
        "1:chunk_size 1:chunks_per_page 1:total_pages 1:total_chunks 1:used_chunks 1:free_chunks \
         1:free_chunks_end 1:get_hits 1:cmd_set 1:delete_hits 1:incr_hits 1:decr_hits 1:cas_hits 1:cas_badval \
          1:touch_hits active_slabs total_malloced",
    ),
];

/// The lines of the reply to `stats`, or another report.
fn figures(client: &mut Connection, report: &str) -> Vec<(String, String)> {
    let lines = client.list(report);
    let words = lines.iter().map(|line| {
        let mut words = line.splitn(3, ' ').skip(1).map(str::to_owned);
        (words.next().expect("a name"), words.next().expect("a value"))
    });
    words.collect()
}

#[test]
fn reports_have_the_figures_of_memcached() {
    let server = Server::start();
    let mut client = server.connect();
    client.expect("set a 0 0 1|x|get a", "STORED|VALUE a 0 1|x|END");
    for (report, names) in REPORTS {
        let figures = figures(&mut client, report);
        for name in names.split_whitespace() {
            assert!(figures.iter().any(|(figure, _)| figure == name), "{report} has no {name}");
        }
        for (index, (name, _)) in figures.iter().enumerate() {
            let is_twice = figures[..index].iter().any(|(other, _)| other == name);
            assert!(!is_twice, "{report} has {name} twice");
        }
    }
}

#[test]
fn figures_of_the_lists_are_counted() {
    let server = Server::start_with(&["-m", "8"]);
    let mut client = server.connect();
    let value = "v".repeat(100_000);
    client.expect("set hot 0 0 1|x|get hot", "STORED|VALUE hot 0 1|x|END");
    assert_eq!(client.stat("stats items", "items:1:hits_to_hot"), 1);
    for key in 0..200 {
        client.expect(&format!("set key{key} 0 0 100000|{value}"), "STORED");
        client.expect("get hot", "VALUE hot 0 1|x|END");
    }
    let moved = ["moves_to_cold", "moves_to_warm", "evictions"].map(|name| {
        let count = client.stat("stats", name);
        (name, count)
    });
    assert!(!Server::is_psp() || moved.iter().all(|(_, count)| *count > 0), "{moved:?}");
    assert!(client.stat("stats", "evictions") > 100);
}

#[test]
fn expired_and_flushed_items_are_reclaimed() {
    let server = Server::start();
    let mut client = server.connect();
    client.expect("set a 0 0 1|x|flush_all|set a 0 0 1|x", "STORED|OK|STORED");
    if Server::is_psp() {
        assert_eq!(client.stat("stats", "reclaimed"), 1);
    }
    client.expect("set a 0 1 1|x", "STORED");
    wait_until("the item is reclaimed", || client.stat("stats", "reclaimed") == 2 || !Server::is_psp());
}

/// What `stats conns` says of each socket.
fn sockets(client: &mut Connection) -> Vec<BTreeMap<String, String>> {
    let mut sockets: BTreeMap<u64, BTreeMap<String, String>> = BTreeMap::new();
    for (name, value) in figures(client, "stats conns") {
        let (number, name) = name.split_once(':').expect("a number");
        let socket = sockets.entry(number.parse().unwrap()).or_default();
        socket.insert(name.to_owned(), value);
    }
    sockets.into_values().collect()
}

/// Figures of one socket, in order of their names, as `name value name value`.
fn of_socket(sockets: &[BTreeMap<String, String>], addr: &str, names: &[&str]) -> Option<String> {
    let has_names = |socket: &&BTreeMap<String, String>| {
        socket["addr"] == addr && socket.keys().all(|name| names.contains(&name.as_str()))
    };
    let socket = sockets.iter().find(has_names)?;
    let figures = socket.iter().filter(|(name, _)| *name != "addr" && *name != "secs_since_last_cmd");
    Some(figures.map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(" "))
}

#[test]
fn sockets_are_shown_with_their_addresses_and_states() {
    const CONNECTION: &[&str] = &["addr", "listen_addr", "state", "secs_since_last_cmd"];
    for (server, datagrams) in Server::start_each_udp() {
        let (mut asking, mut used, unused) = (server.connect(), server.connect(), server.connect());
        used.expect("mn", "MN");
        let listening = format!("tcp:{}", server.address());
        let of_client =
            |sockets: &[_], client: &Connection| of_socket(sockets, &format!("tcp:{}", client.address()), CONNECTION);
        wait_until("all sockets are shown", || {
            let shown = sockets(&mut asking);
            let clients = [&asking, &used, &unused].map(|client| of_client(&shown, client));
            let states = ["conn_parse_cmd", "conn_read", "conn_new_cmd"];
            let expected = states.map(|state| Some(format!("listen_addr {listening} state {state}")));
            clients == expected
        });
        let shown = sockets(&mut asking);
        let names = &["UDP", "addr", "state", "secs_since_last_cmd"];
        for (addr, figures) in [
            (listening, "state conn_listening"),
            (format!("udp:{datagrams}"), "UDP UDP state conn_read"),
        ] {
            assert_eq!(of_socket(&shown, &addr, names).as_deref(), Some(figures), "{shown:?}");
        }
        let idle = format!("tcp:{}", used.address());
        wait_until("time passes", || {
            let shown = sockets(&mut asking);
            let socket = shown.iter().find(|socket| socket["addr"] == idle);
            let idle_s = &socket.expect("the connection")["secs_since_last_cmd"];
            idle_s.parse::<u64>().unwrap() >= 1
        });
        drop(used);
        wait_until("a connection that is closed is not shown", || {
            sockets(&mut asking).iter().all(|socket| socket["addr"] != idle)
        });
    }
}

#[test]
fn all_of_many_connections_are_shown() {
    let server = Server::start();
    let mut asking = server.connect();
    let open: Vec<Connection> = (0..300).map(|_| server.connect()).collect();
    wait_until("all connections are shown", || {
        let shown = sockets(&mut asking);
        let is_shown = |client: &Connection| {
            let addr = format!("tcp:{}", client.address());
            shown.iter().any(|socket| socket["addr"] == addr)
        };
        shown.len() == open.len() + 2 && open.iter().all(is_shown)
    });
}

#[test]
fn reports_of_other_servers_end_as_clients_expect() {
    let server = Server::start();
    let mut client = server.connect();
    for (request, reply) in [
        ("stats cachedump 1 0", "END"),
        ("set a 0 0 3|abc", "STORED"),
        ("stats cachedump 1 0", "ITEM a [3 b; 0 s]|END"),
        ("stats cachedump 1 10", "ITEM a [3 b; 0 s]|END"),
        ("stats cachedump 2 10", "END"),
        ("stats cachedump 64 10", "CLIENT_ERROR Illegal slab id"),
        ("stats cachedump 1", "CLIENT_ERROR bad command line"),
        ("stats cachedump x y", "CLIENT_ERROR bad command line format"),
        ("stats detail on", "OK"),
        ("stats detail off", "OK"),
        ("lru_crawler disable", "OK"),
        ("lru_crawler sleep 100", "OK"),
        ("lru_crawler bogus 1", "ERROR"),
        ("watch bogus", "ERROR"),
        ("refresh_certs", "Error TLS not enabled"),
        ("cache_memlimit", "ERROR"),
        ("cache_memlimit x", "ERROR"),
        ("cache_memlimit 1", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m"),
        ("watch fetchers", "OK"),
    ] {
        // memcached shows items once they are cold.
        if Server::is_psp() || !reply.starts_with("ITEM") {
            client.expect(request, reply);
        }
    }
}

#[test]
fn the_memory_limit_changes_at_once() {
    let server = Server::start_with(&["-m", "64"]);
    let mut client = server.connect();
    let value = "v".repeat(100_000);
    let fill = |client: &mut Connection| {
        for key in 0..300 {
            client.expect(&format!("set key{key} 0 0 100000|{value}"), "STORED");
        }
    };
    fill(&mut client);
    assert_eq!(client.stat("stats", "evictions"), 0);
    client.expect("cache_memlimit 8", "OK");
    assert_eq!(client.stat("stats", "limit_maxbytes"), 8 << 20);
    wait_until("items leave", || client.stat("stats", "bytes") <= 8 << 20 || !Server::is_psp());
    client.expect("cache_memlimit 64 noreply|mn", "MN");
    let evictions = client.stat("stats", "evictions");
    fill(&mut client);
    assert_eq!(client.stat("stats", "evictions"), evictions);
    assert_eq!(client.stat("stats settings", "maxbytes"), 64 << 20);
}
