//! The arbiter: one thread that reads messages, asks the [arbitration](crate::arbitration), and does what it says.
//!
//! ```text
//!   socket ─► Connection ─► message ─► Arbitration ─► actions ─► Mechanism, page, answer
//!                │ limits                                          │
//!                └─ closed, process ended ─► gone                  └─ failed ─► grant_failed
//! ```
//!
//! A client can neither stall nor crash it: it never waits for a client, every packet is checked, and a client that
//! sends too much or reads too little is disconnected. Then its cores are free.

mod connection;
mod listener;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

pub use listener::{ListenError, Listener};

use crate::arbitration::{Action, Arbitration, Server, ServerId, Settings};
use crate::cores::{CoreId, CoreSet};
use crate::limits::{CONNECTIONS_MAX, CONNECTIONS_PER_USER_MAX, MESSAGES_PER_TURN_MAX, REGISTER_WITHIN};
use crate::mechanism::{Mechanism, Started};
use crate::packet;
use crate::protocol::{Refusal, ToArbiter, ToServer};
use crate::registration::Registration;
use crate::status::{GrantedCore, ServerStatus, Status};
use crate::thread::ThreadId;
use crate::topology::Topology;
use connection::Connection;

/// How many events are read at once.
const EVENTS: usize = 64;

/// How many connections are accepted in a row.
const ACCEPTS_PER_TURN_MAX: usize = 16;

/// What an event is about. A connection's number is its key in the event queue, doubled; its process has the odd
/// number behind it.
const LISTENER: u64 = 0;
const STOP: u64 = 1;

/// The arbiter.
pub struct Daemon {
    events: OwnedFd,
    listener: Listener,
    mechanism: Box<dyn Mechanism>,
    arbitration: Arbitration,
    connections: BTreeMap<u64, Connection>,
    connections_so_far: u64,
    /// The connection of each server.
    of_server: BTreeMap<ServerId, u64>,
    unmanaged: CoreSet,
    started: Instant,
}

impl std::fmt::Debug for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Daemon");
        shown.field("arbitration", &self.arbitration).finish_non_exhaustive()
    }
}

impl Daemon {
    /// An arbiter that listens at `listener`.
    ///
    /// # Errors
    /// The event queue cannot be made, or the mechanism refuses.
    pub fn new(listener: Listener, settings: Settings, started: Started) -> io::Result<Self> {
        let Started { mut mechanism, orphans } = started;
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let readable = epoll::EventFlags::IN;
        epoll::add(&events, &listener, epoll::EventData::new_u64(LISTENER), readable)?;
        let cores = mechanism.cores();
        let topology = Topology::discover(&cores);
        let arbitration = Arbitration::new(0, settings, cores, topology, orphans);
        let unmanaged = arbitration.unmanaged();
        mechanism.set_unmanaged(unmanaged)?;
        Ok(Self {
            events,
            listener,
            mechanism,
            arbitration,
            connections: BTreeMap::new(),
            connections_so_far: 0,
            of_server: BTreeMap::new(),
            unmanaged,
            started: Instant::now(),
        })
    }

    /// Serves until `stop` is readable. Then puts everything back.
    ///
    /// # Errors
    /// The event queue fails, or not everything can be put back.
    pub fn run(mut self, stop: impl AsFd) -> io::Result<()> {
        let readable = epoll::EventFlags::IN;
        epoll::add(&self.events, &stop, epoll::EventData::new_u64(STOP), readable)?;
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            let timeout = self.timeout().and_then(|left| Timespec::try_from(left).ok());
            events.clear();
            match epoll::wait(&self.events, spare_capacity(&mut events), timeout.as_ref()) {
                Err(Errno::INTR) => {}
                waited => drop(waited?),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    STOP => {
                        self.connections.clear();
                        return self.mechanism.stop();
                    }
                    key if key % 2 == 0 => self.read(key / 2),
                    key => self.close(key / 2, None),
                }
            }
            self.refuse_late();
            let now_ns = self.now_ns();
            if self.arbitration.next_deadline_ns().is_some_and(|at| at <= now_ns) {
                self.arbitration.tick(now_ns);
                self.act();
            }
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// How long nothing has to be done by itself.
    fn timeout(&self) -> Option<Duration> {
        let deadline = self.arbitration.next_deadline_ns();
        let deadline = deadline.map(|at| Duration::from_nanos(at.saturating_sub(self.now_ns())));
        let unregistered = self.connections.values().filter(|connection| connection.server.is_none());
        let late = unregistered.map(|connection| REGISTER_WITHIN.saturating_sub(connection.since.elapsed()));
        deadline.into_iter().chain(late).min()
    }

    fn refuse_late(&mut self) {
        let late =
            |connection: &Connection| connection.server.is_none() && connection.since.elapsed() >= REGISTER_WITHIN;
        let mut connections = self.connections.iter();
        let late = connections.find(|(_, connection)| late(connection)).map(|(&key, _)| key);
        if let Some(key) = late {
            self.close(key, Some(Refusal::Late));
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS_PER_TURN_MAX {
            let connection = match self.listener.accept() {
                Ok(Some(socket)) => Connection::new(socket),
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    return;
                }
            };
            let connection = match connection {
                Ok(connection) => connection,
                Err(error) => {
                    tracing::debug!(%error, "a connection ended at once");
                    continue;
                }
            };
            let of_user = self.connections.values().filter(|other| other.user == connection.user);
            let refusal = if self.connections.len() >= CONNECTIONS_MAX {
                Some(Refusal::Connections)
            } else if connection.user != 0 && of_user.count() >= CONNECTIONS_PER_USER_MAX {
                Some(Refusal::ConnectionsOfUser)
            } else {
                None
            };
            if let Some(refusal) = refusal {
                let _ = connection.send(ToServer::Refused(refusal), None);
                continue;
            }
            self.connections_so_far += 1;
            let key = self.connections_so_far;
            if let Err(error) = connection.watch(&self.events, key) {
                tracing::warn!(%error, "cannot watch a connection");
                continue;
            }
            self.connections.insert(key, connection);
        }
    }

    fn read(&mut self, key: u64) {
        for _ in 0..MESSAGES_PER_TURN_MAX {
            let Some(connection) = self.connections.get_mut(&key) else {
                return;
            };
            let received = match packet::receive(&connection.socket) {
                Err(Errno::AGAIN) => return,
                Err(_) | Ok(None) => return self.close(key, None),
                Ok(Some(received)) => received,
            };
            let message = match connection.may_send() {
                true => ToArbiter::decode(received.bytes()),
                false => Err(Refusal::Rate),
            };
            if let Err(refusal) = message.and_then(|message| self.take(key, message)) {
                return self.close(key, Some(refusal));
            }
            self.act();
        }
    }

    /// Does what a message asks for.
    fn take(&mut self, key: u64, message: ToArbiter) -> Result<(), Refusal> {
        let now_ns = self.now_ns();
        let Some(connection) = self.connections.get(&key) else {
            return Ok(());
        };
        let process = connection.process;
        let server = connection.server.ok_or(Refusal::NotRegistered);
        let own = |thread: ThreadId| match thread.is_of(process) {
            true => Ok(thread),
            false => Err(Refusal::Thread),
        };
        match message {
            ToArbiter::Register(_) if server.is_ok() => Err(Refusal::Registered),
            ToArbiter::Register(registration) => self.register(key, registration),
            ToArbiter::Want(cores) => {
                self.arbitration.want(now_ns, server?, cores);
                Ok(())
            }
            ToArbiter::Offer(thread) => self.arbitration.offer(now_ns, server?, own(thread)?),
            ToArbiter::Hold(thread, core) => self.arbitration.hold(now_ns, server?, own(thread)?, core),
            // The thread may have ended already.
            ToArbiter::Withdraw(thread) => self.arbitration.withdraw(now_ns, server?, thread),
            ToArbiter::Status => {
                self.tell_status(key);
                Ok(())
            }
        }
    }

    fn register(&mut self, key: u64, registration: Registration) -> Result<(), Refusal> {
        let Some(connection) = self.connections.get_mut(&key) else {
            return Ok(());
        };
        let (name, priority) = (registration.name.clone(), registration.priority.level());
        let server = self.arbitration.register(registration, connection.user)?;
        connection.server = Some(server);
        self.of_server.insert(server, key);
        if let Err(error) = self.mechanism.admit(connection.process) {
            tracing::warn!(connection.process, %error, "cannot take a server's process in");
        }
        let cores = self.arbitration.grantable();
        let welcomed = connection.welcome(cores);
        let process = connection.process;
        match welcomed {
            Ok(()) => tracing::info!(name, process, priority, "a server has registered"),
            Err(error) => {
                tracing::warn!(name, process, %error, "cannot welcome a server");
                self.close(key, None);
            }
        }
        Ok(())
    }

    /// Ends a connection. Its server's cores are free.
    fn close(&mut self, key: u64, refusal: Option<Refusal>) {
        self.end(key, refusal);
        self.act();
    }

    fn end(&mut self, key: u64, refusal: Option<Refusal>) {
        let Some(connection) = self.connections.remove(&key) else {
            return;
        };
        let process = connection.process;
        if let Some(refusal) = refusal {
            tracing::warn!(process, connection.user, %refusal, "refused a client");
            let _ = connection.send(ToServer::Refused(refusal), None);
        }
        let Some(server) = connection.server else {
            return;
        };
        tracing::info!(process, "a server has gone");
        self.of_server.remove(&server);
        self.arbitration.gone(self.now_ns(), server);
        let mut others = self.connections.values();
        if !others.any(|other| other.server.is_some() && other.process == process) {
            self.mechanism.forget(process);
        }
    }

    /// Does what the arbitration says. Threads that sleep are moved away from their cores last: no server waits for
    /// that.
    fn act(&mut self) {
        let mut vacated = Vec::new();
        while let Some(action) = self.arbitration.next_action() {
            match action {
                Action::Allow { server, cores } => self.allow(server, cores),
                Action::Recall { server, cores } => {
                    self.allow(server, cores);
                    self.send(server, ToServer::Recalled(cores));
                }
                Action::Grant { server, thread, core } => self.grant(server, thread, core),
                Action::Take { server, thread, core } => {
                    let left = self.arbitration.core_of(thread).is_none().then_some(thread);
                    self.vacate(core, left);
                    self.send(server, ToServer::Taken(thread, core));
                }
                Action::Vacate { thread, core } => vacated.push((thread, core)),
            }
        }
        for (thread, core) in vacated {
            let left = self.arbitration.core_of(thread).is_none().then_some(thread);
            self.vacate(core, left);
        }
        let unmanaged = self.arbitration.unmanaged();
        if unmanaged != self.unmanaged {
            match self.mechanism.set_unmanaged(unmanaged) {
                Ok(()) => self.unmanaged = unmanaged,
                Err(error) => tracing::warn!(%unmanaged, %error, "cannot set the unmanaged cores"),
            }
        }
    }

    fn grant(&mut self, server: ServerId, thread: ThreadId, core: CoreId) {
        let process = self.of_server.get(&server).and_then(|key| self.connections.get(key));
        let process = process.map(|connection| connection.process);
        let moved = self.mechanism.grant(core, thread);
        // Between the check and the move, the thread may have ended, and its number may be another process' now.
        let is_its_own = process.is_some_and(|process| thread.is_of(process));
        match moved {
            Ok(()) if is_its_own => return self.send(server, ToServer::Granted(thread, core)),
            Ok(()) => self.vacate(core, Some(thread)),
            Err(error) if is_its_own => {
                tracing::warn!(%thread, %core, %error, "cannot grant a core");
            }
            Err(_) => {}
        }
        self.send(server, ToServer::Taken(thread, core));
        self.arbitration.grant_failed(self.now_ns(), server, thread);
    }

    fn vacate(&mut self, core: CoreId, left: Option<ThreadId>) {
        let stays = self.arbitration.holder(core);
        if let Err(error) = self.mechanism.vacate(core, left, stays) {
            tracing::warn!(%core, %error, "cannot move threads away from a core");
        }
    }

    fn allow(&self, server: ServerId, cores: usize) {
        let connection = self.of_server.get(&server).and_then(|key| self.connections.get(key));
        if let Some(page) = connection.and_then(|connection| connection.page.as_ref()) {
            page.allow(cores);
        }
    }

    /// A server that does not read what it is told goes.
    fn send(&mut self, server: ServerId, message: ToServer) {
        let Some(&key) = self.of_server.get(&server) else {
            return;
        };
        let Some(connection) = self.connections.get(&key) else {
            return;
        };
        if let Err(error) = connection.send(message, None) {
            if error == Errno::AGAIN {
                tracing::warn!(connection.process, "a server does not read its messages");
            }
            // The caller is doing what the arbitration says, and goes on with what it says about this.
            self.end(key, None);
        }
    }

    fn tell_status(&mut self, key: u64) {
        let Some(connection) = self.connections.get(&key) else {
            return;
        };
        let told = status_file(&self.status()).and_then(|(file, bytes)| {
            let file = Some(file.as_fd());
            Ok(connection.send(ToServer::Status { bytes }, file)?)
        });
        if let Err(error) = told {
            tracing::debug!(%error, "cannot tell the status");
        }
    }

    /// Who has what.
    #[must_use]
    pub fn status(&self) -> Status {
        let servers = self.arbitration.servers().iter();
        let process = |id| Some(self.connections.get(self.of_server.get(id)?)?.process);
        let servers = servers.map(|(id, server)| server_status(server, process(id).unwrap_or(0)));
        Status {
            mechanism: self.mechanism.kind(),
            cores: self.arbitration.cores(),
            unmanaged: self.arbitration.unmanaged(),
            grantable: self.arbitration.grantable(),
            servers: servers.collect(),
        }
    }
}

fn server_status(server: &Server, process: i32) -> ServerStatus {
    let held = server.held.iter().map(|&(core, thread)| GrantedCore { core, thread: thread.number() });
    ServerStatus {
        name: server.registration.name.clone(),
        process,
        user: server.user,
        priority: server.registration.priority,
        wanted: server.wanted.unwrap_or(0),
        allowed: server.allowed,
        held: held.collect(),
        idle_threads: server.idle.len(),
    }
}

/// A file in memory, from whose beginning the status is to be read.
fn status_file(status: &Status) -> io::Result<(File, usize)> {
    let text = serde_json::to_vec(status)?;
    let mut file = File::from(memfd_create("psp-arbiter-status", MemfdFlags::CLOEXEC)?);
    file.write_all(&text)?;
    io::Seek::rewind(&mut file)?;
    Ok((file, text.len()))
}
