//! Flags and options of memcached that have no effect here. A command line for memcached may have them.

/// Options of `-o` with no effect, by name.
const OPTIONS: &[&str] = &[
    "cookie_id",
    "drop_privileges",
    "hash_algorithm",
    "hashpower",
    "hot_lru_pct",
    "hot_max_factor",
    "inline_ascii_resp",
    "lru_crawler",
    "lru_crawler_sleep",
    "lru_crawler_tocrawl",
    "lru_maintainer",
    "maxconns_fast",
    "modern",
    "no_chunked_items",
    "no_drop_privileges",
    "no_hashexpand",
    "no_inline_ascii_resp",
    "no_lru_crawler",
    "no_lru_maintainer",
    "no_maxconns_fast",
    "no_modern",
    "no_slab_automove",
    "no_slab_reassign",
    "read_buf_mem_limit",
    "relaxed_privileges",
    "resp_obj_mem_limit",
    "slab_automove",
    "slab_automove_freeratio",
    "slab_automove_ratio",
    "slab_automove_window",
    "slab_chunk_max",
    "slab_reassign",
    "slab_sizes",
    "tail_repair_time",
    "temporary_ttl",
    "track_sizes",
    "warm_lru_pct",
    "warm_max_factor",
    "watcher_logbuf_size",
    "worker_logbuf_size",
];

/// Whether memcached has this option of `-o`, which has no effect here.
pub(crate) fn is_option(name: &str) -> bool {
    OPTIONS.contains(&name)
}

/// Flags of memcached that have no effect.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Flags of memcached without effect, which the log names")]
pub struct UnsupportedFlags {
    /// Connections that wait to be accepted.
    #[arg(long, short = 'b', value_name = "N")]
    listen_backlog: Option<u32>,
    /// Protocol of the TCP port.
    #[arg(long, short = 'B', value_name = "NAME", value_parser = ["auto", "ascii", "binary"])]
    protocol: Option<String>,
    /// Items without CAS values.
    #[arg(long, short = 'C')]
    disable_cas: bool,
    /// File that keeps items over a restart.
    #[arg(long, short = 'e', value_name = "FILE")]
    memory_file: Option<String>,
    /// Ratio of the sizes of slab classes.
    #[arg(long, short = 'f', value_name = "FACTOR")]
    slab_growth_factor: Option<f64>,
    /// Lock all memory.
    #[arg(long, short = 'k')]
    lock_memory: bool,
    /// Large pages.
    #[arg(long, short = 'L')]
    enable_largepages: bool,
    /// Least memory of an item.
    #[arg(long, short = 'n', value_name = "BYTES")]
    slab_min_size: Option<u32>,
    /// Queues of network devices.
    #[arg(long, short = 'N', value_name = "N")]
    napi_ids: Option<u32>,
    /// Dumps of the core.
    #[arg(long, short = 'r')]
    enable_coredumps: bool,
    /// Requests of a connection before another has its turn.
    #[arg(long, short = 'R', value_name = "N")]
    max_reqs_per_event: Option<u32>,
    /// User to become when root starts the server.
    #[arg(long, short = 'u', value_name = "NAME")]
    user: Option<String>,
}

impl UnsupportedFlags {
    /// The flags that were given, as memcached writes them.
    pub(crate) fn given(&self) -> impl Iterator<Item = String> {
        let protocol = self.protocol.as_deref().filter(|name| *name != "auto");
        [
            ("-b", self.listen_backlog.is_some()),
            ("-B", protocol.is_some()),
            ("-C", self.disable_cas),
            ("-e", self.memory_file.is_some()),
            ("-f", self.slab_growth_factor.is_some()),
            ("-k", self.lock_memory),
            ("-L", self.enable_largepages),
            ("-n", self.slab_min_size.is_some()),
            ("-N", self.napi_ids.is_some()),
            ("-r", self.enable_coredumps),
            ("-R", self.max_reqs_per_event.is_some()),
            ("-u", self.user.is_some()),
        ]
        .into_iter()
        .filter(|(_, is_given)| *is_given)
        .map(|(flag, _)| flag.to_owned())
    }
}
