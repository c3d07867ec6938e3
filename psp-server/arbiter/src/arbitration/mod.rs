//! Who has which cores: events in, actions out, time is an argument.
//!
//! ```text
//!   register ─┐                       ┌─► Allow { server, cores }        write it to the server's page
//!   want ─────┤                       ├─► Recall { server, cores }       and wake the server
//!   offer ────┤                       ├─► Grant { server, thread, core } move the thread, tell the server
//!   hold ─────┼──►  Arbitration  ─────┼─► Take { server, thread, core }  move it away, tell the server
//!   withdraw ─┤     next_deadline     └─► Vacate { thread, core }        move it away; it sleeps
//!   gone ─────┤
//!   tick ─────┘
//! ```
//!
//! - A server wants a number of cores, and *offers* threads, which sleep. A *grant* gives a thread a core.
//! - A server is *allowed* a number of cores. When it holds more, these are *recalled*: it offers the threads again
//!   within [`Settings::release_within_ns`], or the arbitration takes cores, the last granted first.
//! - A server keeps its cores while it holds no more than it is allowed: no core is ever exchanged for another.
//! - At least [`Settings::reserve`] cores are never granted. All that is not granted is *unmanaged*.
//! - After a restart, cores with threads of an earlier arbiter's servers are *orphans*. Whoever names core and thread
//!   in time holds the core again.

mod allocation;
mod limits_of_users;

use std::collections::{BTreeMap, VecDeque};

pub use limits_of_users::{Limits, UserLimits};

use crate::cores::{CoreId, CoreSet};
use crate::limits::THREADS_PER_SERVER_MAX;
use crate::protocol::Refusal;
use crate::registration::Registration;
use crate::thread::ThreadId;
use crate::topology::Topology;
use allocation::{Demand, allocate};

/// A registered server, by a number that no other server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub u64);

/// The rules of an arbitration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Cores that are never granted; at least 1 counts.
    pub reserve: usize,
    /// How long a server has to release a core that is asked back.
    pub release_within_ns: u64,
    /// How long orphans wait for their servers after the start.
    pub adopt_within_ns: u64,
    /// What the servers of a user may have.
    pub limits: Limits,
}

impl Default for Settings {
    /// 1 core in reserve, 10 ms to release a core as in the paper, 1 s to adopt orphans, no limits.
    fn default() -> Self {
        Self {
            reserve: 1,
            release_within_ns: 10_000_000,
            adopt_within_ns: 1_000_000_000,
            limits: Limits::default(),
        }
    }
}

/// What the driver has to do, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The server may hold this many cores from now on, which are no fewer than it has.
    Allow {
        /// The server.
        server: ServerId,
        /// How many cores.
        cores: usize,
    },
    /// The server may hold this many cores from now on, and has more.
    Recall {
        /// The server.
        server: ServerId,
        /// How many cores.
        cores: usize,
    },
    /// The thread, which sleeps, has the core from now on. The driver moves it there and tells the server.
    Grant {
        /// The thread's server.
        server: ServerId,
        /// The thread.
        thread: ThreadId,
        /// The core.
        core: CoreId,
    },
    /// The thread loses the core while it runs. The driver moves it away and tells the server.
    Take {
        /// The thread's server.
        server: ServerId,
        /// The thread.
        thread: ThreadId,
        /// The core.
        core: CoreId,
    },
    /// The thread has left the core, or has ended. The driver moves away what is on the core.
    Vacate {
        /// The thread.
        thread: ThreadId,
        /// The core.
        core: CoreId,
    },
}

/// A server as the arbitration knows it.
#[derive(Debug, Clone)]
pub struct Server {
    /// What it said of itself.
    pub registration: Registration,
    /// The user that it runs as.
    pub user: u32,
    /// How many cores it wants; `None` until it has said so.
    pub wanted: Option<usize>,
    /// How many cores it may hold.
    pub allowed: usize,
    /// What it knows of that: nothing until it has said what it wants, so that a server which registers again can name
    /// all that it holds before any of it is recalled.
    told: Option<usize>,
    /// Its cores and their threads, in the order of their grants.
    pub held: Vec<(CoreId, ThreadId)>,
    /// Its threads that sleep, the last offered last.
    pub idle: Vec<ThreadId>,
    /// For each core that it holds beyond what it is allowed: until when, the earliest first.
    recalled_until_ns: VecDeque<u64>,
}

impl Server {
    fn threads(&self) -> usize {
        self.held.len() + self.idle.len()
    }

    fn knows(&self, thread: ThreadId) -> bool {
        self.idle.contains(&thread) || self.core_of(thread).is_some()
    }

    fn core_of(&self, thread: ThreadId) -> Option<CoreId> {
        let held = self.held.iter().find(|&&(_, holder)| holder == thread);
        held.map(|&(core, _)| core)
    }

    fn demand(&self) -> Demand {
        let registration = &self.registration;
        let held = self.held.len();
        // A core that no thread could use would be lost to all.
        let usable = self.threads().min(registration.cores_max);
        let wanted = |wanted: usize| wanted.max(registration.cores_min).min(usable);
        Demand {
            user: self.user,
            priority: registration.priority,
            least: registration.cores_min,
            wanted: self.wanted.map_or(held, wanted),
            held,
        }
    }
}

/// Decides who has which cores. Pure: no clock, no system call.
#[derive(Debug)]
pub struct Arbitration {
    settings: Settings,
    topology: Topology,
    cores: CoreSet,
    servers: BTreeMap<ServerId, Server>,
    servers_so_far: u64,
    /// Threads on cores of servers that have not registered since the start.
    orphans: BTreeMap<CoreId, Vec<ThreadId>>,
    orphans_until_ns: u64,
    /// Who had a core last.
    last_holder: BTreeMap<CoreId, ServerId>,
    actions: VecDeque<Action>,
}

impl Arbitration {
    /// An arbitration over `cores`. `orphans` are threads that an earlier arbiter's mechanism has on cores.
    #[must_use]
    pub fn new(
        now_ns: u64,
        settings: Settings,
        cores: CoreSet,
        topology: Topology,
        orphans: impl IntoIterator<Item = (CoreId, ThreadId)>,
    ) -> Self {
        let mut by_core: BTreeMap<CoreId, Vec<ThreadId>> = BTreeMap::new();
        for (core, thread) in orphans {
            if cores.contains(core) {
                by_core.entry(core).or_default().push(thread);
            }
        }
        Self {
            orphans_until_ns: now_ns.saturating_add(settings.adopt_within_ns),
            settings,
            topology,
            cores,
            servers: BTreeMap::new(),
            servers_so_far: 0,
            orphans: by_core,
            last_holder: BTreeMap::new(),
            actions: VecDeque::new(),
        }
    }

    /// A server registers. It has no threads yet, and gets cores once it says how many it wants.
    ///
    /// # Errors
    /// The user may not use the priority, or the registration is not valid.
    pub fn register(&mut self, registration: Registration, user: u32) -> Result<ServerId, Refusal> {
        registration.validate()?;
        if !self.settings.limits.allow(user, registration.priority) {
            return Err(Refusal::PriorityOfUser);
        }
        self.servers_so_far += 1;
        let id = ServerId(self.servers_so_far);
        let server = Server {
            registration,
            user,
            wanted: None,
            allowed: 0,
            told: None,
            held: Vec::new(),
            idle: Vec::new(),
            recalled_until_ns: VecDeque::new(),
        };
        self.servers.insert(id, server);
        Ok(id)
    }

    /// The server wants this many cores from now on.
    pub fn want(&mut self, now_ns: u64, id: ServerId, cores: usize) {
        if let Some(server) = self.servers.get_mut(&id) {
            server.wanted = Some(cores);
            self.settle(now_ns);
        }
    }

    /// The thread sleeps, and its core is free.
    ///
    /// # Errors
    /// The server has too many threads, or the thread is another server's.
    pub fn offer(&mut self, now_ns: u64, id: ServerId, thread: ThreadId) -> Result<(), Refusal> {
        self.leave(id, thread)?;
        if let Some(server) = self.servers.get_mut(&id) {
            server.idle.push(thread);
            self.settle(now_ns);
        }
        Ok(())
    }

    /// The thread has the core since before the arbitration began. If that cannot be, takes the core.
    ///
    /// # Errors
    /// The server has too many threads, or the thread is another server's.
    pub fn hold(&mut self, now_ns: u64, id: ServerId, thread: ThreadId, core: CoreId) -> Result<(), Refusal> {
        self.leave(id, thread)?;
        let held: usize = self.servers.values().map(|server| server.held.len()).sum();
        let has_room = held < self.grantable();
        let is_its_own = match self.orphans.get_mut(&core) {
            Some(threads) if threads.contains(&thread) => {
                // Where there is no room for it, the thread loses the core.
                threads.retain(|&orphan| has_room || orphan != thread);
                has_room
            }
            Some(_) => false,
            None => self.free().contains(core) && self.free_count() > 0,
        };
        self.orphans.retain(|_, threads| !threads.is_empty());
        let Some(server) = self.servers.get_mut(&id) else {
            return Ok(());
        };
        self.actions.push_back(match is_its_own {
            true => {
                server.held.push((core, thread));
                self.orphans.remove(&core);
                self.last_holder.insert(core, id);
                Action::Grant { server: id, thread, core }
            }
            false => Action::Take { server: id, thread, core },
        });
        self.settle(now_ns);
        Ok(())
    }

    /// The thread ends, and its core is free.
    ///
    /// # Errors
    /// The thread is another server's.
    pub fn withdraw(&mut self, now_ns: u64, id: ServerId, thread: ThreadId) -> Result<(), Refusal> {
        self.leave(id, thread)?;
        self.settle(now_ns);
        Ok(())
    }

    /// The driver could not move the thread to the core that it was granted. The thread is forgotten until the server
    /// offers it again.
    pub fn grant_failed(&mut self, now_ns: u64, id: ServerId, thread: ThreadId) {
        if self.leave(id, thread).is_ok() {
            self.settle(now_ns);
        }
    }

    /// The server has gone: its cores are free at once.
    pub fn gone(&mut self, now_ns: u64, id: ServerId) {
        if let Some(server) = self.servers.remove(&id) {
            let left = server.held.into_iter();
            let vacated = left.map(|(core, thread)| Action::Vacate { thread, core });
            self.actions.extend(vacated);
            self.settle(now_ns);
        }
    }

    /// Takes cores that were not released in time, and gives up orphans that no server has claimed.
    pub fn tick(&mut self, now_ns: u64) {
        for (&id, server) in &mut self.servers {
            let late = |until_ns: &u64| *until_ns <= now_ns;
            while server.recalled_until_ns.front().is_some_and(late) {
                server.recalled_until_ns.pop_front();
                if let Some((core, thread)) = server.held.pop() {
                    self.actions.push_back(Action::Take { server: id, thread, core });
                }
            }
        }
        if self.orphans_until_ns <= now_ns {
            for (core, threads) in std::mem::take(&mut self.orphans) {
                let left = threads.into_iter();
                let vacated = left.map(|thread| Action::Vacate { thread, core });
                self.actions.extend(vacated);
            }
        }
        self.settle(now_ns);
    }

    /// When [`tick`](Self::tick) has something to do, if nothing happens before.
    #[must_use]
    pub fn next_deadline_ns(&self) -> Option<u64> {
        let recalls = self.servers.values();
        let recalls = recalls.filter_map(|server| server.recalled_until_ns.front().copied());
        let orphans = (!self.orphans.is_empty()).then_some(self.orphans_until_ns);
        recalls.chain(orphans).min()
    }

    /// The next action.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The registered servers.
    #[must_use]
    pub fn servers(&self) -> &BTreeMap<ServerId, Server> {
        &self.servers
    }

    /// The cores that no server has been granted.
    #[must_use]
    pub fn unmanaged(&self) -> CoreSet {
        let orphans: CoreSet = self.orphans.keys().copied().collect();
        self.free().without(&orphans)
    }

    /// All cores.
    #[must_use]
    pub fn cores(&self) -> CoreSet {
        self.cores
    }

    /// How many cores all servers together can have.
    #[must_use]
    pub fn grantable(&self) -> usize {
        self.cores.len().saturating_sub(self.settings.reserve.max(1))
    }

    /// The thread that has the core.
    #[must_use]
    pub fn holder(&self, core: CoreId) -> Option<ThreadId> {
        let held = self.servers.values().flat_map(|server| &server.held);
        let mut held = held.filter(|&&(held, _)| held == core);
        held.next().map(|&(_, thread)| thread)
    }

    /// The core that the thread has.
    #[must_use]
    pub fn core_of(&self, thread: ThreadId) -> Option<CoreId> {
        let mut servers = self.servers.values();
        servers.find_map(|server| server.core_of(thread))
    }

    /// Cores that no server holds, among them those of orphans.
    fn free(&self) -> CoreSet {
        let held = self.servers.values().flat_map(|server| &server.held);
        self.cores.without(&held.map(|&(core, _)| core).collect())
    }

    /// How many cores can be granted now.
    fn free_count(&self) -> usize {
        let held: usize = self.servers.values().map(|server| server.held.len()).sum();
        self.grantable().saturating_sub(held + self.orphans.len())
    }

    /// Forgets what the server's thread does, so that it can begin something else.
    fn leave(&mut self, id: ServerId, thread: ThreadId) -> Result<(), Refusal> {
        let mut others = self.servers.iter().filter(|&(&other, _)| other != id);
        if others.any(|(_, server)| server.knows(thread)) {
            return Err(Refusal::Thread);
        }
        let Some(server) = self.servers.get_mut(&id) else {
            return Err(Refusal::NotRegistered);
        };
        if !server.knows(thread) && server.threads() >= THREADS_PER_SERVER_MAX {
            return Err(Refusal::Threads);
        }
        server.idle.retain(|&idle| idle != thread);
        if let Some(core) = server.core_of(thread) {
            server.held.retain(|&(held, _)| held != core);
            server.recalled_until_ns.pop_front();
            self.actions.push_back(Action::Vacate { thread, core });
        }
        Ok(())
    }

    /// Recalls and grants cores until everyone has what the allocation says, as far as cores are free.
    fn settle(&mut self, now_ns: u64) {
        let demands: Vec<Demand> = self.servers.values().map(Server::demand).collect();
        let cores = self.grantable().saturating_sub(self.orphans.len());
        let limits = &self.settings.limits;
        let targets = allocate(&demands, cores, |user| limits.cores(user));
        for ((&id, server), &target) in self.servers.iter_mut().zip(&targets) {
            let until_ns = now_ns.saturating_add(self.settings.release_within_ns);
            let recalled = server.held.len().saturating_sub(target);
            let is_new = recalled > server.recalled_until_ns.len();
            server.recalled_until_ns.resize(recalled, until_ns);
            server.allowed = target;
            if server.wanted.is_some() && (server.told != Some(target) || is_new) {
                server.told = Some(target);
                let (server, cores) = (id, target);
                self.actions.push_back(match recalled > 0 {
                    true => Action::Recall { server, cores },
                    false => Action::Allow { server, cores },
                });
            }
        }
        let ids: Vec<ServerId> = self.servers.keys().copied().collect();
        for (id, target) in ids.into_iter().zip(targets) {
            while self.grant_one(id, target).is_some() {}
        }
    }

    /// Grants the server a core, if it has fewer than `target`, a thread sleeps and a core is free.
    fn grant_one(&mut self, id: ServerId, target: usize) -> Option<()> {
        if self.free_count() == 0 {
            return None;
        }
        let unmanaged = self.unmanaged();
        let server = self.servers.get_mut(&id)?;
        if server.held.len() >= target {
            return None;
        }
        let held = server.held.iter().map(|&(core, _)| core).collect();
        let of_others = self.cores.without(&unmanaged).without(&held);
        let last_holder = &self.last_holder;
        let was_its_own = |core| last_holder.get(&core) == Some(&id);
        let core = self.topology.best(&unmanaged, &held, &of_others, was_its_own)?;
        // The thread that ran last has the warmest caches.
        let thread = server.idle.pop()?;
        server.held.push((core, thread));
        self.last_holder.insert(core, id);
        self.actions.push_back(Action::Grant { server: id, thread, core });
        Some(())
    }
}

#[cfg(test)]
mod tests;
