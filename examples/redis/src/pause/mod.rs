//! CLIENT PAUSE: commands wait, and hold neither a worker nor a stack meanwhile.
//!
//! ```text
//!   SET ─► dispatch: paused ─► handler: the reply is deferred ─► PausedCommands ── CLIENT UNPAUSE, or the time is over
//!                                                                      │
//!                                            psp-paused: dispatch ◄────┘ in the order in which they came
//! ```

mod thread;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use psp_protocols::Sink;
use psp_protocols::resp::{CommandId, Encoder};
use psp_server::RequestType;
use psp_store::Databases;

use crate::blocking::LateReply;
use crate::client::ClientInfo;
use crate::command::{CommandSpec, Flag};
use crate::scripts::digest::Digest;
use crate::scripts::shebang::{self, Flags};
use crate::state::ServerState;

pub use thread::PauseThread;

/// Memory that all paused commands may hold, in bytes.
const HELD_BYTES_MAX: usize = 128 << 20;
/// How often the thread looks whether the server still runs, while commands wait.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// How often the thread looks for clients that have left.
const LEAVERS_INTERVAL: Duration = Duration::from_secs(1);

/// What CLIENT PAUSE never holds: what operators need, and what a connection begins and ends with.
const NEVER_HELD: &[&str] = &[
    "auth",
    "client",
    "command",
    "hello",
    "info",
    "latency",
    "punsubscribe",
    "quit",
    "reset",
    "slowlog",
    "sunsubscribe",
    "unsubscribe",
];

/// Which commands are paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum PauseMode {
    /// None.
    Nothing,
    /// Those that may write, or tell others something.
    Writes,
    /// All but those of administration.
    All,
}

/// A command that waits.
pub struct Paused {
    /// Who sent it.
    pub client: Arc<ClientInfo>,
    /// The command, and the type that the classifier found.
    pub command: (CommandId, RequestType),
    /// All arguments, the name first.
    pub args: Vec<Box<[u8]>>,
    /// Its reply.
    pub reply: Box<dyn LateReply>,
}

impl Paused {
    fn bytes(&self) -> usize {
        let args = self.args.iter();
        size_of::<Self>() + args.map(|arg| arg.len() + size_of::<Box<[u8]>>()).sum::<usize>()
    }
}

/// The commands that wait.
#[derive(Default)]
pub struct PausedCommands {
    /// A [`PauseMode`]. Changed under the lock alone.
    mode: AtomicU8,
    waiting: AtomicUsize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    until: Option<Instant>,
    commands: VecDeque<Paused>,
    bytes: usize,
    is_over: bool,
}

impl std::fmt::Debug for PausedCommands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PausedCommands")
            .field("mode", &self.mode())
            .field("waiting", &self.len())
            .finish_non_exhaustive()
    }
}

impl PausedCommands {
    /// Which commands are paused now.
    #[inline]
    #[must_use]
    pub fn mode(&self) -> PauseMode {
        match self.mode.load(Ordering::Relaxed) {
            0 => PauseMode::Nothing,
            1 => PauseMode::Writes,
            _ => PauseMode::All,
        }
    }

    /// Number of commands that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether no command waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// CLIENT PAUSE.
    pub fn pause(&self, databases: &Databases, mode: PauseMode, duration: Duration) {
        psp_server::no_preempt(|| {
            let mut state = self.state.lock();
            state.until = Instant::now().checked_add(duration);
            self.set_mode(databases, mode);
            self.changed.notify_one();
        });
    }

    /// CLIENT UNPAUSE.
    pub fn unpause(&self, databases: &Databases) {
        psp_server::no_preempt(|| {
            let _state = self.state.lock();
            self.set_mode(databases, PauseMode::Nothing);
            self.changed.notify_one();
        });
    }

    /// No key is removed during a pause because it has expired.
    fn set_mode(&self, databases: &Databases, mode: PauseMode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
        databases.keep_expired(mode != PauseMode::Nothing);
    }

    /// Lets a command wait. If the pause has ended meanwhile, it does not wait for long.
    pub fn add(&self, paused: Paused) {
        psp_server::no_preempt(|| {
            let mut state = self.state.lock();
            if state.bytes + paused.bytes() > HELD_BYTES_MAX {
                drop(state);
                return refuse(paused);
            }
            state.bytes += paused.bytes();
            paused.client.set_blocked(true);
            state.commands.push_back(paused);
            self.waiting.store(state.commands.len(), Ordering::Relaxed);
            self.changed.notify_one();
        });
    }

    /// Waits for the end of a pause and takes the command that has waited longest. `None` once the server is gone.
    fn next(&self, server: &ServerState) -> Option<Paused> {
        let mut state = self.state.lock();
        let mut look_at = Instant::now();
        while !state.is_over {
            let now = Instant::now();
            if look_at <= now {
                look_at = now + LEAVERS_INTERVAL;
                let leavers = state.take_leavers();
                self.waiting.store(state.commands.len(), Ordering::Relaxed);
                MutexGuard::unlocked(&mut state, || {
                    leavers.into_iter().for_each(|paused| paused.reply.discard());
                });
                continue;
            }
            let is_past = state.until.is_some_and(|until| until <= now);
            if is_past || server.is_stopping() {
                self.set_mode(&server.databases, PauseMode::Nothing);
            }
            let is_paused = self.mode() != PauseMode::Nothing;
            if !is_paused && let Some(paused) = state.commands.pop_front() {
                state.bytes -= paused.bytes();
                self.waiting.store(state.commands.len(), Ordering::Relaxed);
                return Some(paused);
            }
            if is_paused {
                let check = now + STOP_CHECK_INTERVAL;
                let until = state.until.map_or(check, |until| until.min(check));
                self.changed.wait_until(&mut state, until);
            } else {
                self.changed.wait(&mut state);
            }
        }
        None
    }
}

impl State {
    /// The commands whose clients have left.
    fn take_leavers(&mut self) -> Vec<Paused> {
        let all = std::mem::take(&mut self.commands).into_iter();
        let (leavers, others): (Vec<_>, Vec<_>) = all.partition(|paused| paused.reply.is_abandoned());
        self.commands = others.into();
        self.bytes -= leavers.iter().map(Paused::bytes).sum::<usize>();
        leavers
    }
}

fn refuse(mut paused: Paused) {
    let out: &mut dyn Sink = &mut *paused.reply;
    Encoder::new(out, paused.client.version()).error("BUSY paused commands hold too much memory");
    paused.reply.finish();
}

/// Whether a pause of writes holds the command: it may write, or tell others something.
#[must_use]
pub fn may_replicate(server: &ServerState, client: &ClientInfo, spec: &CommandSpec, args: &[&[u8]]) -> bool {
    if spec.flags.contains(Flag::Write) {
        return true;
    }
    if spec.name == "exec" {
        return client.transaction.is_held_by_pause();
    }
    spec.flags.contains(Flag::MayReplicate) && !writes_nothing(server, spec, args)
}

/// Whether the command calls a script or a function that declares so.
fn writes_nothing(server: &ServerState, spec: &CommandSpec, args: &[&[u8]]) -> bool {
    let scripts = &server.scripts;
    let flags = match (spec.name, args.get(1)) {
        ("eval", Some(body)) => shebang::flags_of(body).ok().flatten(),
        ("evalsha", Some(digest)) => {
            let script = Digest::parse(digest).and_then(|digest| scripts.library.find(&digest));
            script.and_then(|script| script.flags)
        }
        ("fcall", Some(name)) => {
            let found = scripts.functions.find(name);
            found.map(|found| found.spec().flags)
        }
        _ => None,
    };
    flags.is_some_and(|flags| flags.has_any(Flags::NO_WRITES))
}

/// Whether the command has to wait now.
#[inline]
#[must_use]
pub fn holds(server: &ServerState, client: &ClientInfo, spec: &CommandSpec, args: &[&[u8]]) -> bool {
    match server.paused.mode() {
        PauseMode::Nothing => false,
        mode => is_held(mode, server, client, spec, args),
    }
}

#[cold]
fn is_held(mode: PauseMode, server: &ServerState, client: &ClientInfo, spec: &CommandSpec, args: &[&[u8]]) -> bool {
    let is_admin = spec.flags.contains(Flag::Admin) || NEVER_HELD.contains(&spec.name);
    !is_admin && (mode == PauseMode::All || may_replicate(server, client, spec, args))
}
