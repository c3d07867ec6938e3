//! Runs commands in tests without sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use psp_protocols::Sink;
use psp_protocols::resp::{CommandId, Version};
use psp_server::{Body, Peer, PushBatch, PushError, RequestType};
use psp_store::Keyspace;

use crate::blocking::LateReply;
use crate::client::Client;
use crate::config::Config;
use crate::dispatch::{Outcome, dispatch};
use crate::pause::Paused;
use crate::pubsub::Outlet;
use crate::settings::Settings;
use crate::state::ServerState;
use crate::stats::WorkerStats;

/// The program's allocator, whose figures `maxmemory` reads.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Longest wait for another thread.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server with one client.
pub(crate) struct Session {
    pub(crate) server: Arc<ServerState>,
    pub(crate) client: Client,
    stats: Arc<WorkerStats>,
    pub(crate) closed: bool,
    /// The reply to the last command that waited.
    late: Arc<Mutex<Late>>,
}

/// What a reply that comes late has got so far.
#[derive(Default)]
struct Late {
    bytes: Vec<u8>,
    is_complete: bool,
    is_abandoned: bool,
}

/// A late reply, of which the session has a share.
struct LateSession(Arc<Mutex<Late>>);

impl Sink for LateSession {
    fn put(&mut self, bytes: &[u8]) {
        self.0.lock().bytes.extend_from_slice(bytes);
    }
}

impl LateReply for LateSession {
    fn finish(self: Box<Self>) {
        self.0.lock().is_complete = true;
    }

    fn close(&mut self) {}

    fn discard(self: Box<Self>) {}

    fn is_abandoned(&self) -> bool {
        self.0.lock().is_abandoned
    }
}

/// What was pushed to a client.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<(Vec<Bytes>, bool)>>);

impl Heard {
    /// Where the messages come from.
    pub(crate) fn outlet(&self) -> Box<dyn Outlet> {
        Box::new(self.clone())
    }

    pub(crate) fn messages(&self) -> Vec<String> {
        let messages = &self.0.lock().0;
        let texts = messages.iter().map(|it| String::from_utf8_lossy(it).into_owned());
        texts.collect()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.lock().1
    }
}

impl Outlet for Heard {
    fn send(&self, _: &mut PushBatch, message: Bytes) -> Result<(), PushError> {
        self.0.lock().0.push(message);
        Ok(())
    }

    fn queued_bytes(&self) -> usize {
        self.0.lock().0.iter().map(Bytes::len).sum()
    }

    fn close(&self) {
        self.0.lock().1 = true;
    }
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
        Self { server, client, stats, closed: false, late: Arc::default() }
    }

    /// The complete reply to the last command that waited, with a space for `\r\n`; `None` while it waits.
    pub(crate) fn late(&self) -> Option<String> {
        let late = self.late.lock();
        let text = String::from_utf8_lossy(&late.bytes).replace("\r\n", " ");
        late.is_complete.then(|| text.trim_end().to_owned())
    }

    /// Like [`late`](Self::late), of a reply that another thread writes.
    pub(crate) fn late_soon(&self) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(late) = self.late() {
                return late;
            }
            assert!(Instant::now() < deadline, "the client waits for ever");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets the client be gone, as far as the reply to its last command that waited can tell.
    pub(crate) fn leave(&self) {
        self.late.lock().is_abandoned = true;
    }

    pub(crate) fn store(&self) -> &Keyspace {
        self.server.databases.get(self.client.database())
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
        let command = args.first().map_or(CommandId::UNKNOWN, |name| CommandId::of(name));
        let outcome = dispatch(
            &self.server,
            &self.client,
            &self.stats,
            (command, RequestType::UNKNOWN, Body::default()),
            args,
            &mut reply,
        );
        match outcome {
            Outcome::Keep => {}
            Outcome::Close => self.closed = true,
            Outcome::Pause => {
                self.late = Arc::default();
                self.server.paused.add(Paused {
                    client: Arc::clone(self.client.info()),
                    command: (command, RequestType::UNKNOWN),
                    args: args.iter().map(|arg| Box::from(*arg)).collect(),
                    reply: Box::new(LateSession(Arc::clone(&self.late))),
                });
            }
            Outcome::Wait(command) => {
                assert!(reply.is_empty(), "a command that waits has no reply yet");
                self.late = Arc::default();
                let late = Box::new(LateSession(Arc::clone(&self.late)));
                let blocked = &self.server.clients.blocked;
                blocked.wait(&self.server, &self.stats, self.client.info(), *command, late);
            }
        }
        if self.server.fence(&self.client).is_some_and(|fence| psp_server::wait(fence).is_err()) {
            self.closed = true;
            reply.clear();
        }
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
