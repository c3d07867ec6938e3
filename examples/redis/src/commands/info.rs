//! The INFO command.

use std::cell::OnceCell;
use std::fmt::{self, Write as _};
use std::ops::Deref;
use std::time::Duration;

use psp_program::CpuTime;
use psp_server::ServerHandle;
use psp_server::telemetry::Snapshot;

use crate::client::ClientKind;
use crate::command::{CommandTable, Context, Entry, ReplyEncoder, Row};
use crate::memory::system_bytes;
use crate::parse::{self, Result};
use crate::pubsub::TopicKind;
use crate::redis_version::REDIS_VERSION;
use crate::state::ServerState;
use crate::stats::{CommandStats, Counted};

use super::memory::Overview;

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[Row::new("info", info)];

/// One section: its heading, whether a plain INFO includes it, and the function that writes it.
struct Section {
    name: &'static str,
    by_default: bool,
    write: fn(&Figures<'_>, &mut String) -> fmt::Result,
}

/// What several sections show of the server, read once for all of them.
struct Figures<'a> {
    server: &'a ServerState,
    counters: OnceCell<Option<Snapshot>>,
}

impl Figures<'_> {
    /// The scheduler's counters, once the server runs.
    fn counters(&self) -> Option<&Snapshot> {
        let read = || self.server.runtime.get().map(ServerHandle::counters);
        self.counters.get_or_init(read).as_ref()
    }
}

impl Deref for Figures<'_> {
    type Target = ServerState;

    fn deref(&self) -> &ServerState {
        self.server
    }
}

const SECTIONS: &[Section] = &[
    Section { name: "Server", by_default: true, write: server },
    Section { name: "Clients", by_default: true, write: clients },
    Section { name: "Memory", by_default: true, write: memory },
    Section { name: "Persistence", by_default: true, write: persistence },
    Section { name: "Stats", by_default: true, write: stats },
    Section { name: "Replication", by_default: true, write: replication },
    Section { name: "CPU", by_default: true, write: cpu },
    Section { name: "Modules", by_default: true, write: |_, _| Ok(()) },
    Section { name: "Commandstats", by_default: false, write: commandstats },
    Section { name: "Errorstats", by_default: true, write: errorstats },
    Section { name: "Latencystats", by_default: false, write: latencystats },
    Section { name: "Cluster", by_default: true, write: cluster },
    Section { name: "Keyspace", by_default: true, write: keyspace },
    Section { name: "Psp", by_default: true, write: psp },
];

/// What a plain INFO takes, and some more.
const TEXT_BYTES: usize = 8 * 1024;

fn info(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let names = &args[1..];
    let is_wanted = |section: &&Section| {
        (names.is_empty() && section.by_default)
            || names.iter().any(|name| {
                parse::is(name, section.name)
                    || (parse::is(name, "default") && section.by_default)
                    || parse::is(name, "all")
                    || parse::is(name, "everything")
            })
    };
    let figures = Figures { server: context.server, counters: OnceCell::new() };
    let mut text = String::with_capacity(TEXT_BYTES);
    for section in SECTIONS.iter().filter(is_wanted) {
        let separator = if text.is_empty() { "" } else { "\r\n" };
        let heading = write!(text, "{separator}# {}\r\n", section.name);
        heading
            .and_then(|()| (section.write)(&figures, &mut text))
            .expect("writing to a String does not fail");
    }
    out.verbatim("txt", text.as_bytes());
    Ok(())
}

/// Writes `name:value` lines.
macro_rules! lines {
    ($text:expr, $($name:literal: $value:expr),* $(,)?) => {{
        $(write!($text, concat!($name, ":{}\r\n"), $value)?;)*
        Ok(())
    }};
}

fn server(server: &Figures<'_>, text: &mut String) -> fmt::Result {
    let config = &server.settings.config;
    let uptime_s = server.started_at.elapsed().as_secs();
    let executable = std::env::current_exe().unwrap_or_default();
    lines!(text,
        "redis_version": REDIS_VERSION,
        "redis_mode": "standalone",
        "server_name": "psp-redis",
        "psp_version": env!("CARGO_PKG_VERSION"),
        "redis_git_sha1": "00000000",
        "redis_git_dirty": 0,
        "redis_build_id": 0,
        "os": os(),
        "arch_bits": usize::BITS,
        "monotonic_clock": "POSIX clock_gettime",
        "multiplexing_api": "epoll",
        "atomicvar_api": "rust",
        "gcc_version": "0.0.0",
        "process_id": std::process::id(),
        "process_supervised": "no",
        "run_id": server.run_id,
        "tcp_port": config.port,
        "server_time_usec": psp_store::unix_time_us(),
        "uptime_in_seconds": uptime_s,
        "uptime_in_days": uptime_s / 86_400,
        "hz": HZ,
        "configured_hz": HZ,
        "lru_clock": (psp_store::unix_time_us() / 1_000_000) & LRU_CLOCK_MASK,
        "executable": executable.display(),
        "config_file": config.redis_conf.as_deref().unwrap_or("".as_ref()).display(),
        "io_threads_active": 0,
    )
}

/// How often keys that have expired are looked for, each second.
const HZ: u32 = 10;
/// Redis counts the seconds of a key's last use in 24 bits.
const LRU_CLOCK_MASK: u64 = (1 << 24) - 1;

/// The system, its version and the kind of processor.
fn os() -> String {
    let system = rustix::system::uname();
    let parts = [system.sysname(), system.release(), system.machine()];
    parts.map(|part| part.to_string_lossy()).join(" ")
}

fn clients(server: &Figures<'_>, text: &mut String) -> fmt::Result {
    let clients = server.clients.snapshot();
    let watched = || clients.values().map(|client| client.transaction.watching());
    lines!(text,
        "connected_clients": server.clients.len(),
        "cluster_connections": 0,
        "maxclients": server.connections_max(),
        "client_recent_max_input_buffer": 0,
        "client_recent_max_output_buffer": 0,
        "blocked_clients": server.clients.blocked.len() + server.paused.len(),
        "tracking_clients": server.clients.tracking.clients(),
        "pubsub_clients": clients.values().filter(|client| client.kind() == ClientKind::PubSub).count(),
        "watching_clients": watched().filter(|keys| *keys > 0).count(),
        "clients_in_timeout_table": server.clients.blocked.timed(),
        "total_watched_keys": watched().sum::<usize>(),
        "total_blocking_keys": server.clients.blocked.keys(),
        "total_blocking_keys_on_nokey": 0,
    )
}

fn memory(server: &Figures<'_>, text: &mut String) -> fmt::Result {
    let all = Overview::of(server);
    let limit = server.settings.maxmemory_bytes();
    let Overview { used, peak, resident, allocator, .. } = all;
    let scripts_bytes = all.scripts + all.functions;
    let system = system_bytes().unwrap_or(0);
    let (scripts, _) = server.scripts.library.size();
    let (libraries, functions) = server.scripts.functions.counts();
    lines!(text,
        "used_memory": used,
        "used_memory_human": human(used),
        "used_memory_rss": resident,
        "used_memory_rss_human": human(resident),
        "used_memory_peak": peak,
        "used_memory_peak_human": human(peak),
        "used_memory_peak_perc": format_args!("{:.2}%", all.peak_percent()),
        "used_memory_overhead": all.overhead(),
        "used_memory_startup": all.startup,
        "used_memory_dataset": all.dataset(),
        "used_memory_dataset_perc": format_args!("{:.2}%", all.dataset_percent()),
        "allocator_allocated": allocator.allocated,
        "allocator_active": allocator.active,
        "allocator_resident": allocator.resident,
        "allocator_muzzy": 0,
        "total_system_memory": system,
        "total_system_memory_human": human(system),
        "used_memory_lua": 0,
        "used_memory_vm_eval": 0,
        "used_memory_lua_human": human(0),
        "used_memory_scripts_eval": all.scripts,
        "used_memory_vm_functions": 0,
        "used_memory_vm_total": 0,
        "used_memory_vm_total_human": human(0),
        "used_memory_functions": all.functions,
        "used_memory_scripts": scripts_bytes,
        "used_memory_scripts_human": human(scripts_bytes),
        "maxmemory": limit,
        "maxmemory_human": human(limit),
        "maxmemory_policy": server.evictions.policy(),
    )?;
    for (ratio, bytes, excess) in [
        ("allocator_frag_ratio", "allocator_frag_bytes", all.allocator_fragmentation()),
        ("allocator_rss_ratio", "allocator_rss_bytes", all.allocator_resident()),
        ("rss_overhead_ratio", "rss_overhead_bytes", all.resident_beside_allocator()),
        ("mem_fragmentation_ratio", "mem_fragmentation_bytes", all.fragmentation()),
    ] {
        write!(text, "{ratio}:{:.2}\r\n{bytes}:{}\r\n", excess.ratio, excess.bytes)?;
    }
    lines!(text,
        "mem_not_counted_for_evict": 0,
        "mem_replication_backlog": 0,
        "mem_total_replication_buffers": 0,
        "mem_clients_slaves": 0,
        "mem_clients_normal": all.clients,
        "mem_cluster_links": 0,
        "mem_aof_buffer": all.log,
        "mem_allocator": "jemalloc",
        "mem_overhead_db_hashtable_rehashing": 0,
        "active_defrag_running": 0,
        "lazyfree_pending_objects": server.databases.pending_objects(),
        "lazyfreed_objects": server.dropped_objects(),
        "number_of_cached_scripts": scripts,
        "number_of_functions": functions,
        "number_of_libraries": libraries,
    )
}

/// A number of bytes in mebibytes.
fn human(bytes: u64) -> String {
    format!("{:.2}M", bytes as f64 / 1_048_576.0)
}

/// As in Redis, the start time stands for the last save where there was none, and -1 for a time that there is not.
fn persistence(server: &Figures<'_>, text: &mut String) -> fmt::Result {
    let figures = server.persistence.figures(server);
    let ([saved_keys, all_keys], log) = (figures.saved_keys, &figures.log);
    let seconds = |seconds: Option<u64>| seconds.map_or_else(|| "-1".to_owned(), |seconds| seconds.to_string());
    lines!(text,
        "loading": u8::from(figures.is_loading),
        "async_loading": 0,
        "current_cow_peak": 0,
        "current_cow_size": 0,
        "current_cow_size_age": 0,
        "current_fork_perc": "0.00",
        "current_save_keys_processed": saved_keys,
        "current_save_keys_total": all_keys,
        "rdb_changes_since_last_save": figures.changes,
        "rdb_bgsave_in_progress": u8::from(figures.is_saving),
        "rdb_last_save_time": figures.last_save_s,
        "rdb_last_bgsave_status": if figures.has_failed { "err" } else { "ok" },
        "rdb_last_bgsave_time_sec": seconds(figures.last_s),
        "rdb_current_bgsave_time_sec": seconds(figures.current_s),
        "rdb_saves": figures.saves,
        "rdb_last_cow_size": 0,
        "rdb_last_load_keys_expired": figures.keys_expired,
        "rdb_last_load_keys_loaded": figures.keys_loaded,
        "aof_enabled": u8::from(log.is_on),
        "aof_rewrite_in_progress": u8::from(log.is_rewriting),
        "aof_rewrite_scheduled": u8::from(log.is_rewrite_scheduled),
        "aof_last_rewrite_time_sec": seconds(log.last_rewrite_s),
        "aof_current_rewrite_time_sec": seconds(log.current_rewrite_s),
        "aof_last_bgrewrite_status": if log.last_rewrite_failed { "err" } else { "ok" },
        "aof_rewrites": log.rewrites,
        "aof_rewrites_consecutive_failures": u8::from(log.last_rewrite_failed),
        "aof_last_write_status": if log.has_failed { "err" } else { "ok" },
        "aof_last_cow_size": 0,
        "module_fork_in_progress": 0,
        "module_fork_last_cow_size": 0,
    )?;
    if log.is_on {
        lines!(text,
            "aof_current_size": log.size,
            "aof_base_size": log.base_size,
            "aof_pending_rewrite": 0,
            "aof_buffer_length": log.unwritten_bytes,
            "aof_pending_bio_fsync": 0,
            "aof_delayed_fsync": 0,
            "aof_unsynced_bytes": log.unsynced_bytes,
            "aof_fsyncs": log.syncs,
            "aof_last_fsync_usec": log.sync_us_last,
            "aof_max_fsync_usec": log.sync_us_max,
        )?;
    }
    let [loaded, all] = figures.loaded_bytes;
    if figures.is_loading {
        lines!(text,
            "loading_total_bytes": all,
            "loading_loaded_bytes": loaded,
            "loading_loaded_perc": format_args!("{:.2}", 100.0 * loaded as f64 / all.max(1) as f64),
        )?;
    }
    Ok(())
}

fn stats(server: &Figures<'_>, text: &mut String) -> fmt::Result {
    let errors: u64 = server.errors().values().sum();
    let store = server.databases.stats();
    let net = server.counters().map(|counters| &counters.net);
    let [received, sent] = net.map_or([0; 2], |net| [net.bytes_received, net.bytes_sent]);
    let rates = server.rates.read(Counted { calls: server.calls(), received, sent });
    let unread = net.map_or(0, |net| net.connections_over_output_limit);
    let (pubsub, tracking) = (&server.clients.pubsub, &server.clients.tracking);
    lines!(text,
        "total_connections_received": server.clients.accepted(),
        "total_commands_processed": server.calls(),
        "instantaneous_ops_per_sec": format_args!("{:.0}", rates.calls),
        "total_net_input_bytes": received,
        "total_net_output_bytes": sent,
        "total_net_repl_input_bytes": 0,
        "total_net_repl_output_bytes": 0,
        "instantaneous_input_kbps": format_args!("{:.2}", rates.received / 1024.0),
        "instantaneous_output_kbps": format_args!("{:.2}", rates.sent / 1024.0),
        "instantaneous_input_repl_kbps": "0.00",
        "instantaneous_output_repl_kbps": "0.00",
        "rejected_connections": net.map_or(0, |net| net.connections_refused),
        "sync_full": 0,
        "sync_partial_ok": 0,
        "sync_partial_err": 0,
        "expired_subkeys": store.expired_fields,
        "expired_keys": store.expired_keys,
        "expired_stale_perc": "0.00",
        "expired_time_cap_reached_count": 0,
        "expire_cycle_cpu_milliseconds": 0,
        "evicted_keys": server.evictions.evicted_keys(),
        "evicted_clients": 0,
        "evicted_scripts": 0,
        "total_eviction_exceeded_time": 0,
        "current_eviction_exceeded_time": 0,
        "keyspace_hits": store.hits,
        "keyspace_misses": store.misses,
        "pubsub_channels": pubsub.len(TopicKind::Channel),
        "pubsub_patterns": pubsub.len(TopicKind::Pattern),
        "pubsubshard_channels": pubsub.len(TopicKind::Shard),
        "latest_fork_usec": 0,
        "total_forks": 0,
        "migrate_cached_sockets": 0,
        "slave_expires_tracked_keys": 0,
        "active_defrag_hits": 0,
        "active_defrag_misses": 0,
        "active_defrag_key_hits": 0,
        "active_defrag_key_misses": 0,
        "total_active_defrag_time": 0,
        "current_active_defrag_time": 0,
        "tracking_total_keys": tracking.keys(),
        "tracking_total_items": tracking.items(),
        "tracking_total_prefixes": tracking.prefixes(),
        "unexpected_error_replies": 0,
        "total_error_replies": errors,
        "dump_payload_sanitizations": 0,
        "total_reads_processed": 0,
        "total_writes_processed": 0,
        "io_threaded_reads_processed": 0,
        "io_threaded_writes_processed": 0,
        "client_query_buffer_limit_disconnections": 0,
        "client_output_buffer_limit_disconnections": pubsub.closed() + unread,
        "reply_buffer_shrinks": 0,
        "reply_buffer_expands": 0,
        "psp_contended_updates": store.contended_updates,
    )
}

fn replication(server: &Figures<'_>, text: &mut String) -> fmt::Result {
    lines!(text,
        "role": "master",
        "connected_slaves": 0,
        "master_failover_state": "no-failover",
        "master_replid": server.run_id,
        "master_replid2": format_args!("{:040}", 0),
        "master_repl_offset": 0,
        "second_repl_offset": -1,
        "repl_backlog_active": 0,
        "repl_backlog_size": 1_048_576,
        "repl_backlog_first_byte_offset": 0,
        "repl_backlog_histlen": 0,
    )
}

/// Processor time of the process and of the thread that started it, in seconds.
fn cpu(_: &Figures<'_>, text: &mut String) -> fmt::Result {
    let process = CpuTime::read("/proc/self/stat").unwrap_or_default();
    let main = format!("/proc/self/task/{}/stat", std::process::id());
    let main = CpuTime::read(&main).unwrap_or_default();
    for (name, seconds) in [
        ("used_cpu_sys", process.system_s),
        ("used_cpu_user", process.user_s),
        ("used_cpu_sys_children", process.children_system_s),
        ("used_cpu_user_children", process.children_user_s),
        ("used_cpu_sys_main_thread", main.system_s),
        ("used_cpu_user_main_thread", main.user_s),
    ] {
        write!(text, "{name}:{seconds:.6}\r\n")?;
    }
    Ok(())
}

/// The commands and subcommands that `is_shown`, with what was counted.
fn called(
    commands: &[CommandStats],
    is_shown: fn(&CommandStats) -> bool,
) -> impl Iterator<Item = (&'static Entry, &CommandStats)> {
    let entries = CommandTable::get().entries().iter().zip(commands);
    entries.filter(move |(_, stats)| is_shown(stats))
}

fn commandstats(server: &Figures<'_>, text: &mut String) -> fmt::Result {
    let commands = server.totals().commands;
    for (entry, stats) in called(&commands, |stats| stats.calls + stats.rejected > 0) {
        let busy_us = stats.busy_ns as f64 / 1000.0;
        write!(
            text,
            "cmdstat_{}:calls={},usec={busy_us:.0},usec_per_call={:.2},rejected_calls={},\
             failed_calls={}\r\n",
            entry.name(),
            stats.calls,
            busy_us / stats.calls.max(1) as f64,
            stats.rejected,
            stats.failed,
        )?;
    }
    Ok(())
}

fn errorstats(server: &Figures<'_>, text: &mut String) -> fmt::Result {
    for (code, count) in server.errors() {
        write!(text, "errorstat_{code}:count={count}\r\n")?;
    }
    Ok(())
}

fn latencystats(server: &Figures<'_>, text: &mut String) -> fmt::Result {
    let percentiles = server.records.percentiles();
    if percentiles.is_empty() || !server.records.keeps_histograms() {
        return Ok(());
    }
    let commands = server.totals().commands;
    for (entry, stats) in called(&commands, |stats| !stats.times.is_empty()) {
        let of = |percent: &f64| {
            let busy_us = us(stats.times.percentile_ns(*percent));
            format!("p{percent}={busy_us:.3}")
        };
        let listed: Vec<_> = percentiles.iter().map(of).collect();
        let (name, listed) = (entry.name(), listed.join(","));
        write!(text, "latency_percentiles_usec_{name}:{listed}\r\n")?;
    }
    Ok(())
}

fn cluster(_: &Figures<'_>, text: &mut String) -> fmt::Result {
    lines!(text, "cluster_enabled": 0)
}

fn keyspace(server: &Figures<'_>, text: &mut String) -> fmt::Result {
    for store in server.databases.used() {
        let (number, keys) = (store.number(), store.len());
        if keys > 0 {
            let (expires, timed) = (store.volatile_len(), store.timed_len());
            write!(text, "db{number}:keys={keys},expires={expires},avg_ttl=0,subexpiry={timed}\r\n")?;
        }
    }
    Ok(())
}

/// The scheduler's figures. Empty until the server runs.
fn psp(server: &Figures<'_>, text: &mut String) -> fmt::Result {
    let Some((runtime, snapshot)) = server.runtime.get().zip(server.counters()) else {
        return Ok(());
    };
    write_runtime(runtime, snapshot, text)?;
    write_types(snapshot, text)?;
    write_workers(snapshot, text)
}

/// The policy, how many workers there are, and the cores that an arbiter grants.
fn write_runtime(runtime: &ServerHandle, snapshot: &Snapshot, text: &mut String) -> fmt::Result {
    let (elastic, arbiter) = (&snapshot.elastic, &snapshot.arbiter);
    lines!(text,
        "psp_policy": runtime.policy(),
        "psp_topology": runtime.topology(),
        "psp_workers": runtime.workers(),
        "psp_workers_min": runtime.workers_min(),
        "psp_workers_present": elastic.present,
        "psp_workers_came": elastic.came,
        "psp_workers_went": elastic.went,
        "psp_arbiter_registered": arbiter.registered,
        "psp_arbiter_cores": arbiter.cores,
        "psp_arbiter_cores_wanted": arbiter.wanted,
        "psp_arbiter_grants": arbiter.grants,
        "psp_arbiter_recalls": arbiter.recalls,
        "psp_arbiter_takings": arbiter.takings,
        "psp_reservation_updates": snapshot.reservation_updates,
        "psp_buffered_bytes": snapshot.net.buffered_bytes,
        "psp_malformed_requests": snapshot.net.malformed,
        "psp_timed_out_connections": snapshot.net.connections_timed_out,
    )
}

fn write_types(snapshot: &Snapshot, text: &mut String) -> fmt::Result {
    for ty in &snapshot.types {
        write!(
            text,
            "psp_type_{}:arrivals={},completions={},held={},rejections={},abandoned={},expired={},queued={},\
             service_us_mean={:.3},\
             service_us_max={:.3},service_us_profiled={:.3},workers_reserved={},worker_first={},\
             steals={},turns={},preemptions_asked={},preemptions_honoured={},preemptions_late={},\
             blocked={},waits={},wait_us_mean={:.3}\r\n",
            ty.name,
            ty.arrivals,
            ty.completions,
            ty.held,
            ty.rejections,
            ty.abandoned,
            ty.expired,
            ty.queued,
            us(ty.service_ns_total / ty.completions.max(1)),
            us(ty.service_ns_max),
            us(ty.service_ns_profiled),
            ty.workers_reserved,
            ty.worker_first.map_or_else(|| "none".to_owned(), |worker| worker.to_string()),
            ty.steals,
            ty.turns.turns,
            ty.turns.preemptions_asked,
            ty.turns.preemptions_honoured,
            ty.turns.preemptions_late,
            ty.waits.blocked,
            ty.waits.waits,
            us(ty.waits.wait_ns_total / ty.waits.ended().max(1)),
        )?;
    }
    Ok(())
}

fn write_workers(snapshot: &Snapshot, text: &mut String) -> fmt::Result {
    for (index, worker) in snapshot.workers.iter().enumerate() {
        write!(
            text,
            "psp_worker_{index}:completions={},busy_us={:.0},panics={},bytes_sent={},turns={},\
             preemptions_asked={},preemptions_honoured={},preemptions_late={}\r\n",
            worker.completions,
            us(worker.service_ns_total),
            worker.panics,
            worker.bytes_sent,
            worker.turns.turns,
            worker.turns.preemptions_asked,
            worker.turns.preemptions_honoured,
            worker.turns.preemptions_late,
        )?;
    }
    Ok(())
}

fn us(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    #[test]
    fn sections_are_chosen_by_name() {
        let mut session = Session::new();
        let plain = session.run("INFO");
        for part in ["# Server\r\n", "redis_version:7.4.1\r\n", "role:master\r\n", "# Keyspace\r\n"] {
            assert!(plain.contains(part), "{part} in {plain}");
        }
        assert!(!plain.contains("# Commandstats"));
        let two = session.run("INFO clients REPLICATION");
        assert_eq!(two.matches("# ").count(), 2);
        assert!(two.contains("connected_clients:1\r\n"));
        for all in ["all", "everything"] {
            let all = session.run(&format!("INFO {all}"));
            for section in ["Commandstats", "Errorstats", "Latencystats", "CPU"] {
                assert!(all.contains(&format!("# {section}\r\n")), "{section}");
            }
        }
        assert!(session.run("INFO cpu").contains("used_cpu_sys_main_thread:"));
        assert_eq!(session.run("INFO nothing"), "$0\r\n\r\n");
        assert!(session.resp3().run("INFO").starts_with('='));
    }

    /// Those that redis-server 7.4 has without replicas, logs and subscribers of events.
    const FIELDS: &str = include_str!("info_fields.txt");

    #[test]
    fn every_field_of_redis_is_there() {
        let info = Session::new().run("INFO");
        let missing: Vec<_> = FIELDS.split_whitespace().filter(|name| !info.contains(&format!("\n{name}:"))).collect();
        assert_eq!(missing, [""; 0]);
    }

    #[test]
    fn keys_hits_and_expiries_are_counted() {
        let mut session = Session::new();
        session.expect(&[("SET a 1", "+OK"), ("SET b 1 EX 100", "+OK"), ("GET a", "$1 1"), ("GET none", "$-1")]);
        let info = session.run("INFO");
        for part in ["db0:keys=2,expires=1,", "keyspace_hits:1\r\n", "keyspace_misses:1\r\n"] {
            assert!(info.contains(part), "{part} in {info}");
        }
    }

    #[test]
    fn errors_are_counted_by_their_codes_and_times_by_percentiles() {
        let mut session = Session::new();
        for line in ["SET a x", "LPUSH a b", "NOPE", "GET", "INCR a", "CLIENT ID"] {
            session.run(line);
        }
        let errors = session.run("INFO errorstats");
        assert!(errors.contains("errorstat_ERR:count=3\r\nerrorstat_WRONGTYPE:count=1\r\n"), "{errors}");
        assert!(session.run("INFO stats").contains("total_error_replies:4\r\n"));
        let times = session.run("INFO latencystats");
        assert!(times.contains("latency_percentiles_usec_client|id:p50="), "{times}");
        assert!(times.contains(",p99=") && times.contains(",p99.9="), "{times}");
        session.run_args(&[b"CONFIG", b"SET", b"latency-tracking-info-percentiles", b"0.0 100"]);
        assert!(session.run("INFO latencystats").contains("_set:p0="));
        session.run("CONFIG RESETSTAT");
        assert!(!session.run("INFO errorstats").contains("errorstat_"));
        assert!(!session.run("INFO latencystats").contains("_set:"));
    }

    #[test]
    fn calls_failures_and_refusals_are_counted_by_command() {
        let mut session = Session::new();
        for line in ["SET a x", "INCR a", "INCR a", "INCR", "GET a"] {
            session.run(line);
        }
        let info = session.run("INFO commandstats");
        let of = |name: &str| {
            let line = info.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:")));
            line.unwrap_or_default().to_owned()
        };
        assert!(of("incr").contains("calls=2,"), "{info}");
        assert!(of("incr").ends_with("rejected_calls=1,failed_calls=2"), "{info}");
        assert!(of("get").contains("calls=1,"), "{info}");
        session.run("CONFIG RESETSTAT");
        assert!(!session.run("INFO commandstats").contains("cmdstat_incr"));
    }
}
