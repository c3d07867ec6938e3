//! The state that all connections of a server share.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use psp_program::{Tls, TlsFiles};

use crate::auth::Passwords;
use crate::cache::{Cache, Limits};
use crate::config::Config;
use crate::connections::Sockets;
use crate::counters::Counters;

/// The state of a server.
#[derive(Debug)]
pub struct ServerState {
    /// All items.
    pub cache: Arc<Cache>,
    /// The passwords of clients, if they need any.
    pub passwords: Option<Mutex<Passwords>>,
    /// What the TCP port has, if it serves TLS.
    pub tls: Option<Tls>,
    /// Its files, as the last configuration names them.
    pub tls_files: Mutex<Option<TlsFiles>>,
    /// Connections, and the sockets that listen.
    pub sockets: Arc<Sockets>,
    /// The configuration at the start.
    pub config: Config,
    /// The workers' counters.
    pub counters: Counters,
    /// When the server started.
    pub started_at: Instant,
}

impl ServerState {
    /// The state of a server that starts now, without items, passwords and TLS.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let limits = Limits { memory_bytes: config.memory_bytes(), evict: config.evict };
        Self {
            cache: Arc::new(Cache::new(limits)),
            passwords: None,
            tls: None,
            tls_files: Mutex::new(config.tls.clone()),
            sockets: Arc::default(),
            config,
            counters: Counters::default(),
            started_at: Instant::now(),
        }
    }
}
