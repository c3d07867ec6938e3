//! The link of one server, and what it knows of its threads.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::error::ConnectError;
use super::link::{Link, Read, open};
use crate::cores::CoreId;
use crate::page::Page;
use crate::protocol::{Refusal, ToArbiter, ToServer};
use crate::registration::Registration;
use crate::thread::ThreadId;

/// How long [`Arbiter::connect`] waits for the arbiter.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);

/// What the arbiter has told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArbiterEvent {
    /// The server is registered, at first or again.
    Registered {
        /// How many cores all servers together can have.
        cores: usize,
    },
    /// The thread has the core from now on. It has been moved there, and is to be woken.
    Granted {
        /// The thread, which was offered.
        thread: ThreadId,
        /// Its core.
        core: CoreId,
    },
    /// The server is to [release](Arbiter::release) this many of its threads soon. The arbiter takes cores that it
    /// still has after 10 ms.
    Recalled {
        /// How many threads.
        release: usize,
    },
    /// The thread has lost its core, and runs among everything else. The server stops it, and offers it again.
    Taken {
        /// The thread.
        thread: ThreadId,
        /// The core that it had.
        core: CoreId,
    },
    /// The arbiter has gone. Threads keep their cores, though other programs may run there, too.
    Lost,
    /// The arbiter does not go on with this server. The client tries again after a second.
    Refused(Refusal),
}

/// What a thread does, as far as the arbiter is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occupation {
    /// It sleeps, and was offered.
    Idle,
    /// It has a core.
    On(CoreId),
    /// It runs without a core of its own.
    Displaced,
}

/// A server's link to the arbiter.
#[derive(Debug)]
pub struct Arbiter {
    link: Link,
    registration: Registration,
    wanted: usize,
    /// In the order in which they were offered, or were granted cores: a new arbiter gets to know them so.
    threads: Vec<(ThreadId, Occupation)>,
    page: Option<Arc<Page>>,
    events: VecDeque<ArbiterEvent>,
    is_registered: bool,
}

impl Arbiter {
    /// Registers at the arbiter that listens at `path`, and waits for its answer.
    ///
    /// # Errors
    /// The registration is not valid, there is no arbiter, or the arbiter refuses.
    pub fn connect(path: impl AsRef<Path>, registration: Registration) -> Result<Self, ConnectError> {
        // The first attempt says why there is no arbiter.
        drop(open(path.as_ref())?);
        let mut arbiter = Self::connect_later(path, registration)?;
        let give_up = Instant::now() + CONNECT_WITHIN;
        loop {
            match arbiter.poll() {
                Some(ArbiterEvent::Registered { .. }) => return Ok(arbiter),
                Some(ArbiterEvent::Refused(refusal)) => return Err(ConnectError::Refused(refusal)),
                Some(_) => {}
                None => arbiter.wait(give_up)?,
            }
        }
    }

    /// Registers at the arbiter that listens at `path` as soon as there is one.
    ///
    /// # Errors
    /// The registration is not valid, or the system has no descriptors left.
    pub fn connect_later(path: impl AsRef<Path>, registration: Registration) -> Result<Self, ConnectError> {
        registration.validate()?;
        let path = PathBuf::from(path.as_ref());
        Ok(Self {
            link: Link::new(path)?,
            registration,
            wanted: 0,
            threads: Vec::new(),
            page: None,
            events: VecDeque::new(),
            is_registered: false,
        })
    }

    fn wait(&self, until: Instant) -> Result<(), ConnectError> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ConnectError::NoAnswer);
        }
        let timeout = Timespec::try_from(left).ok();
        let mut readable = [PollFd::from_borrowed_fd(self.as_fd(), PollFlags::IN)];
        // A signal is as good as an event.
        let _ = poll(&mut readable, timeout.as_ref());
        Ok(())
    }

    /// Wants this many cores from now on. The arbiter grants them to threads that were [offered](Self::offer).
    pub fn set_wanted(&mut self, cores: usize) {
        if self.wanted != cores {
            self.wanted = cores;
            self.send(&ToArbiter::Want(cores));
        }
    }

    /// Says that the thread sleeps, or is about to, until it is granted a core. Of several, the one that was offered
    /// last is granted a core first. A thread that may run without a core of its own, too, need not sleep.
    pub fn offer(&mut self, thread: ThreadId) {
        self.forget(thread);
        self.threads.push((thread, Occupation::Idle));
        self.send(&ToArbiter::Offer(thread));
    }

    /// Gives the thread's core back. The thread sleeps, or is about to, until it is granted a core again. A server that
    /// does so by itself [wants](Self::set_wanted) fewer cores first: otherwise the thread is granted one at once.
    pub fn release(&mut self, thread: ThreadId) {
        self.offer(thread);
    }

    /// Says that the thread ends.
    pub fn withdraw(&mut self, thread: ThreadId) {
        if self.forget(thread) {
            self.send(&ToArbiter::Withdraw(thread));
        }
    }

    /// Returns whether the thread was known.
    fn forget(&mut self, thread: ThreadId) -> bool {
        let known = self.threads.len();
        self.threads.retain(|&(other, _)| other != thread);
        self.threads.len() < known
    }

    /// The threads that have cores.
    pub fn granted(&self) -> impl Iterator<Item = (ThreadId, CoreId)> + '_ {
        let threads = self.threads.iter();
        threads.filter_map(|&(thread, occupation)| match occupation {
            Occupation::On(core) => Some((thread, core)),
            Occupation::Idle | Occupation::Displaced => None,
        })
    }

    /// How many threads the server must release now. Without an arbiter none.
    #[must_use]
    pub fn must_release(&self) -> usize {
        let page = self.page.as_ref();
        page.map_or(0, |page| page.must_release(self.granted().count()))
    }

    /// The page on which the arbiter says how many cores the server may hold, for threads that are busy for long. It is
    /// another one after each [`ArbiterEvent::Registered`].
    #[must_use]
    pub fn page(&self) -> Option<&Arc<Page>> {
        self.page.as_ref()
    }

    /// Whether somebody listens where the arbiter shall be. The first [`poll`](Self::poll) tries.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.link.is_connected()
    }

    /// Whether there is an arbiter that knows this server.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.is_registered
    }

    /// The next event, without waiting. Call it until there is none, whenever the descriptor is readable.
    pub fn poll(&mut self) -> Option<ArbiterEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            match self.link.read() {
                Read::Nothing => return None,
                Read::Connected => self.introduce(),
                Read::Lost => self.lose(),
                Read::Packet(received) => match ToServer::decode(received.bytes()) {
                    Some(message) => self.on_message(message, received.descriptor),
                    None => self.lose(),
                },
            }
        }
    }

    /// Says everything that the arbiter has to know. What is wanted comes last: from there on, it may recall cores.
    fn introduce(&mut self) {
        let mut messages = vec![ToArbiter::Register(self.registration.clone())];
        for &(thread, occupation) in &self.threads {
            match occupation {
                Occupation::Idle => messages.push(ToArbiter::Offer(thread)),
                Occupation::On(core) => messages.push(ToArbiter::Hold(thread, core)),
                Occupation::Displaced => {}
            }
        }
        messages.push(ToArbiter::Want(self.wanted));
        messages.iter().for_each(|message| self.send(message));
    }

    fn send(&mut self, message: &ToArbiter) {
        self.link.send(message.encode());
    }

    fn lose(&mut self) {
        self.link.close();
        self.page = None;
        if std::mem::take(&mut self.is_registered) {
            self.events.push_back(ArbiterEvent::Lost);
        }
    }

    fn on_message(&mut self, message: ToServer, file: Option<std::os::fd::OwnedFd>) {
        match message {
            ToServer::Welcome { cores } => match file.map(Page::map) {
                Some(Ok(page)) => {
                    self.page = Some(Arc::new(page));
                    self.is_registered = true;
                    self.link.is_good();
                    self.events.push_back(ArbiterEvent::Registered { cores });
                }
                _ => self.lose(),
            },
            ToServer::Refused(refusal) => {
                self.lose();
                self.link.pause();
                self.events.push_back(ArbiterEvent::Refused(refusal));
            }
            ToServer::Granted(thread, core) => {
                if self.change(thread, |_| true, Occupation::On(core)) {
                    self.events.push_back(ArbiterEvent::Granted { thread, core });
                }
            }
            ToServer::Recalled(_) => {
                let release = self.must_release();
                if release > 0 {
                    self.events.push_back(ArbiterEvent::Recalled { release });
                }
            }
            ToServer::Taken(thread, core) => {
                // The server may have offered the thread meanwhile.
                let has_it = |occupation| occupation == Occupation::On(core);
                if self.change(thread, has_it, Occupation::Displaced) {
                    self.events.push_back(ArbiterEvent::Taken { thread, core });
                }
            }
            ToServer::Status { .. } => {}
        }
    }

    /// Changes what a thread does, if `from` says so. Returns whether that is something else.
    fn change(&mut self, thread: ThreadId, from: impl Fn(Occupation) -> bool, to: Occupation) -> bool {
        let mut threads = self.threads.iter();
        match threads.find(|&&(other, _)| other == thread) {
            Some(&(_, occupation)) if from(occupation) && occupation != to => {
                self.forget(thread);
                self.threads.push((thread, to));
                true
            }
            _ => false,
        }
    }
}

/// A descriptor that is readable when [`Arbiter::poll`] has something to do. It stays the same when the arbiter dies.
impl AsFd for Arbiter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}
