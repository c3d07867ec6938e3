//! Who has what, as the arbiter tells anyone who asks.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::client::{ConnectError, open};
use crate::cores::{CoreId, CoreSet};
use crate::mechanism::Kind;
use crate::packet;
use crate::protocol::{Refusal, ToArbiter, ToServer};
use crate::registration::Priority;

/// How long to wait for the answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Who has what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// How threads get cores.
    pub mechanism: Kind,
    /// All cores that the arbiter manages.
    pub cores: CoreSet,
    /// Cores of everything that has no granted core.
    pub unmanaged: CoreSet,
    /// How many cores servers can have together.
    pub grantable: usize,
    /// The registered servers, in the order of their registrations.
    pub servers: Vec<ServerStatus>,
}

/// What a server has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Its name.
    pub name: String,
    /// Its process.
    pub process: i32,
    /// The user that it runs as.
    pub user: u32,
    /// Its priority.
    pub priority: Priority,
    /// How many cores it wants.
    pub wanted: usize,
    /// How many cores it may hold.
    pub allowed: usize,
    /// Its cores, and the threads on them.
    pub held: Vec<GrantedCore>,
    /// How many of its threads sleep.
    pub idle_threads: usize,
}

/// A granted core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantedCore {
    /// The core.
    pub core: CoreId,
    /// The thread that has it.
    pub thread: i32,
}

/// Why there is no status.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// There is no arbiter.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The arbiter refuses to tell.
    #[error("the arbiter refuses: {0}")]
    Refused(Refusal),
    /// What came is no status.
    #[error("the arbiter's answer cannot be understood: {0}")]
    Answer(String),
}

/// Asks the arbiter at `socket`.
///
/// # Errors
/// There is no arbiter, or it does not answer within seconds.
pub fn ask(socket: &Path) -> Result<Status, StatusError> {
    let answer = |text: &str| StatusError::Answer(text.to_owned());
    let connection = open(socket)?;
    packet::send(&connection, &ToArbiter::Status.encode(), None)
        .map_err(|errno| StatusError::Answer(errno.to_string()))?;
    let give_up = Instant::now() + ANSWER_WITHIN;
    let received = loop {
        match packet::receive(&connection) {
            Err(Errno::AGAIN) => {}
            Err(errno) => return Err(StatusError::Answer(errno.to_string())),
            Ok(None) => return Err(answer("it closed the connection")),
            Ok(Some(received)) => break received,
        }
        let left = give_up.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(answer("there is none in time"));
        }
        let timeout = Timespec::try_from(left).ok();
        let mut readable = [PollFd::from_borrowed_fd(connection.as_fd(), PollFlags::IN)];
        let _ = poll(&mut readable, timeout.as_ref());
    };
    match ToServer::decode(received.bytes()) {
        Some(ToServer::Refused(refusal)) => return Err(StatusError::Refused(refusal)),
        Some(ToServer::Status { .. }) => {}
        _ => return Err(answer("it is another message")),
    }
    let file = received.descriptor.ok_or_else(|| answer("no file came with it"))?;
    let mut text = String::new();
    let read = File::from(file).read_to_string(&mut text);
    read.map_err(|error| StatusError::Answer(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| StatusError::Answer(error.to_string()))
}

impl std::fmt::Display for Status {
    /// As a table, a server a line.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { mechanism, cores, unmanaged, grantable, servers } = self;
        writeln!(f, "mechanism {mechanism}; cores {cores}, of which {grantable} can be granted")?;
        writeln!(
            f,
            "{:<32} {:>8} {:>8} {:>8} {:>6} {:>7} {:>7}  cores",
            "server", "process", "user", "priority", "wanted", "allowed", "asleep"
        )?;
        for server in servers {
            let held: CoreSet = server.held.iter().map(|held| held.core).collect();
            writeln!(
                f,
                "{:<32} {:>8} {:>8} {:>8} {:>6} {:>7} {:>7}  {held}",
                server.name,
                server.process,
                server.user,
                server.priority.level(),
                server.wanted,
                server.allowed,
                server.idle_threads,
            )?;
        }
        writeln!(f, "{:<82}  {unmanaged}", "unmanaged")
    }
}
