//! The settings that `CONFIG GET` and `CONFIG SET` read and change while the server runs.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::RwLock;
use psp_store::BlockLimits;

use crate::config::{Config, LogLevel};

/// The settings of a running server.
pub struct Settings {
    /// The configuration at the start.
    pub config: Config,
    protected_mode: AtomicBool,
    maxmemory_bytes: AtomicU64,
    busy_reply_threshold_ms: AtomicU64,
    script_time_limit_ms: AtomicU64,
    list_node_size: AtomicI32,
    list_compress_depth: AtomicI32,
    stream_node_bytes_max: AtomicU64,
    stream_node_entries_max: AtomicU64,
    value_len_max: AtomicUsize,
    log_level: RwLock<LogLevel>,
    /// What has no effect, by its name.
    kept: RwLock<BTreeMap<&'static str, String>>,
    logging: OnceLock<Box<dyn Fn(LogLevel) + Send + Sync>>,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").finish_non_exhaustive()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new(Config::default())
    }
}

/// What a setting is and what sets it, for settings that are atomic.
macro_rules! atomic {
    ($($(#[$meaning:meta])* $name:ident, $set:ident: $ty:ty;)+) => {
        $(
            $(#[$meaning])*
            #[must_use]
            pub fn $name(&self) -> $ty {
                self.$name.load(Ordering::Relaxed)
            }

            #[doc = concat!("Sets [`", stringify!($name), "`](Self::", stringify!($name), ").")]
            pub fn $set(&self, value: $ty) {
                self.$name.store(value, Ordering::Relaxed);
            }
        )+
    };
}

impl Settings {
    atomic! {
        /// Whether a server without a password refuses connections from other machines.
        protected_mode, set_protected_mode: bool;
        /// Memory beyond which writes get an error; 0 for no limit.
        maxmemory_bytes, set_maxmemory_bytes: u64;
        /// Milliseconds after which SCRIPT KILL stops a script.
        busy_reply_threshold_ms, set_busy_reply_threshold_ms: u64;
        /// Milliseconds after which a script is stopped; 0 for never.
        script_time_limit_ms, set_script_time_limit_ms: u64;
        /// What one node of a list may hold in Redis; kept for those who ask.
        list_node_size, set_list_node_size: i32;
        /// Nodes at the ends of a list that Redis does not compress; kept for those who ask.
        list_compress_depth, set_list_compress_depth: i32;
        /// Bytes of one block of a stream; 0 for no limit.
        stream_node_bytes_max, set_stream_node_bytes_max: u64;
        /// Entries of one block of a stream; 0 for no limit.
        stream_node_entries_max, set_stream_node_entries_max: u64;
        /// Longest string that a key may hold, in bytes.
        value_len_max, set_value_len_max: usize;
    }

    /// The settings of a server started with `config`.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let stream_node = BlockLimits::default();
        Self {
            protected_mode: AtomicBool::new(config.protected_mode),
            maxmemory_bytes: AtomicU64::new(config.maxmemory_bytes()),
            busy_reply_threshold_ms: AtomicU64::new(config.busy_reply_threshold),
            script_time_limit_ms: AtomicU64::new(config.script_time_limit_ms),
            list_node_size: AtomicI32::new(-2),
            list_compress_depth: AtomicI32::new(0),
            stream_node_bytes_max: AtomicU64::new(stream_node.bytes as u64),
            stream_node_entries_max: AtomicU64::new(stream_node.entries as u64),
            value_len_max: AtomicUsize::new(config.limits.proto_max_bulk_len),
            log_level: RwLock::new(config.log_level),
            kept: RwLock::default(),
            logging: OnceLock::new(),
            config,
        }
    }

    /// What one block of a stream may hold. Without limits, it is bounded all the same.
    #[must_use]
    pub fn stream_block(&self) -> BlockLimits {
        /// Bytes and entries of the largest block.
        const MOST: BlockLimits = BlockLimits { bytes: 64 * 1024, entries: 4096 };
        let limit = |limit: u64, most: usize| match usize::try_from(limit) {
            Ok(0) | Err(_) => most,
            Ok(limit) => limit.min(most),
        };
        BlockLimits {
            bytes: limit(self.stream_node_bytes_max(), MOST.bytes),
            entries: limit(self.stream_node_entries_max(), MOST.entries),
        }
    }

    /// What a setting without an effect was set to.
    pub(crate) fn kept(&self, name: &str) -> Option<String> {
        self.kept.read().get(name).cloned()
    }

    /// Keeps a setting for those who ask.
    pub(crate) fn keep(&self, name: &'static str, value: String) {
        self.kept.write().insert(name, value);
    }

    /// The least severe level of log messages.
    #[must_use]
    pub fn log_level(&self) -> LogLevel {
        *self.log_level.read()
    }

    /// Changes the least severe level of log messages.
    pub fn set_log_level(&self, level: LogLevel) {
        *self.log_level.write() = level;
        if let Some(log) = self.logging.get() {
            log(level);
        }
    }

    /// Sets the function that changes the program's log level. Only the first call has an effect.
    pub fn on_log_level(&self, log: impl Fn(LogLevel) + Send + Sync + 'static) {
        let _ = self.logging.set(Box::new(log));
    }

    /// Adopts the changeable settings of a configuration that was read again. Also records those that
    /// the program does not know by itself in `started`, the configuration at the start.
    pub fn take_over(&self, started: &mut Config, config: &Config) {
        self.set_log_level(config.log_level);
        self.set_protected_mode(config.protected_mode);
        started.protected_mode = config.protected_mode;
        self.set_maxmemory_bytes(config.maxmemory_bytes());
        started.maxmemory = config.maxmemory;
        started.maxmemory_policy = config.maxmemory_policy;
        started.maxmemory_samples = config.maxmemory_samples;
        started.lfu_log_factor = config.lfu_log_factor;
        started.lfu_decay_time = config.lfu_decay_time;
        self.set_busy_reply_threshold_ms(config.busy_reply_threshold);
        started.busy_reply_threshold = config.busy_reply_threshold;
        self.set_script_time_limit_ms(config.script_time_limit_ms);
        started.script_time_limit_ms = config.script_time_limit_ms;
    }
}
