//! Runs commands in tests without sockets.

use std::net::SocketAddr;
use std::sync::Arc;

use psp_protocols::resp::{CommandId, Version};
use psp_server::{Peer, RequestType};
use psp_store::Keyspace;

use crate::client::Client;
use crate::config::Config;
use crate::dispatch::{Outcome, dispatch};
use crate::settings::Settings;
use crate::state::ServerState;
use crate::stats::WorkerStats;

/// The program's allocator, whose figures `maxmemory` reads.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A server with one client.
pub(crate) struct Session {
    pub(crate) server: Arc<ServerState>,
    pub(crate) client: Client,
    stats: Arc<WorkerStats>,
    pub(crate) closed: bool,
}

impl Session {
    pub(crate) fn new() -> Self {
        Self::on(Arc::new(ServerState::default()))
    }

    /// A server with this configuration.
    pub(crate) fn with(config: Config) -> Self {
        Self::on(Arc::new(ServerState::new(Settings::new(config))))
    }

    pub(crate) fn on(server: Arc<ServerState>) -> Self {
        Self::from(server, SocketAddr::from(([127, 0, 0, 1], 50_000)).into())
    }

    /// A client of `server` at `peer`.
    pub(crate) fn from(server: Arc<ServerState>, peer: Peer) -> Self {
        let client = server.connect(peer);
        let stats = server.add_worker();
        Self {
            server,
            client,
            stats,
            closed: false,
        }
    }

    pub(crate) fn store(&self) -> &Keyspace {
        &self.server.store
    }

    /// Another client of the same server.
    pub(crate) fn beside(&self) -> Self {
        Self::on(Arc::clone(&self.server))
    }

    pub(crate) fn resp3(self) -> Self {
        self.client.set_version(Version::Resp3);
        self
    }

    /// Runs the words of `line` as a command and returns the reply as text.
    pub(crate) fn run(&mut self, line: &str) -> String {
        let words: Vec<&[u8]> = line.split_ascii_whitespace().map(str::as_bytes).collect();
        self.run_args(&words)
    }

    pub(crate) fn run_args(&mut self, args: &[&[u8]]) -> String {
        String::from_utf8_lossy(&self.run_raw(args)).into_owned()
    }

    pub(crate) fn run_raw(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let mut reply = Vec::new();
        let command = args
            .first()
            .map_or(CommandId::UNKNOWN, |name| CommandId::of(name));
        let outcome = dispatch(
            &self.server,
            &self.client,
            &self.stats,
            (command, RequestType::UNKNOWN),
            args,
            &mut reply,
        );
        self.closed |= outcome == Outcome::Close;
        reply
    }

    /// Runs each line and compares its reply. A space stands for `\r\n` in the expected reply.
    #[track_caller]
    pub(crate) fn expect(&mut self, lines: &[(&str, &str)]) {
        for (line, expected) in lines {
            let reply = self.run(line).replace("\r\n", " ");
            assert_eq!(reply.trim_end(), *expected, "after {line:?}");
        }
    }
}
