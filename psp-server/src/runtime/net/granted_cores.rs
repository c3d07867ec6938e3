//! Asks an arbiter for cores, on the net thread.
//!
//! ```text
//!   estimator ── needed ──► Grants ── wanted, offers ──► arbiter
//!   scheduler ◄─ present ──┘  ▲ ◄──── granted, taken ──────┘
//!                             └ page: how many to release
//! ```
//!
//! [`Grants`] decides; this is its link to the arbiter, its clock and its counters.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::Path;
use std::sync::Arc;

use mio::unix::SourceFd;
use mio::{Interest, Registry};
use psp_arbiter::client::{Arbiter, ArbiterEvent};
use psp_arbiter::limits::NAME_BYTES_MAX;
use psp_arbiter::{Priority, Registration, ThreadId};

use super::grants::{Grants, Settled};
use super::tokens::ARBITER;
use crate::shared::Shared;

/// Intervals without a request after which a server gives its cores back: as many as it takes until a worker goes.
const RESTING: u64 = 5;

/// See the [module](self).
pub(super) struct GrantedCores {
    arbiter: Arbiter,
    grants: Grants,
    /// The threads of [`Grants`], by their numbers there.
    threads: Vec<ThreadId>,
    /// The arbiter has told something.
    is_readable: bool,
    /// Something has changed since the last [`turn`](Self::turn) settled.
    has_changed: bool,
    /// Workers that are present.
    present: usize,
    /// Threads to be offered.
    offers: Vec<usize>,
    /// When there were requests last.
    worked_ns: u64,
    rest_ns: u64,
    /// The log has an arbiter's refusal.
    is_refused: bool,
    shared: Arc<Shared>,
}

impl GrantedCores {
    /// Asks the arbiter at `path` from now on, for `workers`, the threads of all workers, and for the `net_thread`, if
    /// that is no worker.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub(super) fn new(
        path: &Path,
        net_thread: Option<ThreadId>,
        workers: &[ThreadId],
        shared: Arc<Shared>,
        registry: &Registry,
    ) -> io::Result<Self> {
        let inline = net_thread.is_none();
        let threads: Vec<ThreadId> = net_thread.into_iter().chain(workers.iter().copied()).collect();
        let config = &shared.config;
        let registration = Registration {
            name: program_name(),
            priority: Priority::new(config.arbiter_priority).unwrap_or(Priority::LOWEST),
            cores_min: 0,
            cores_max: threads.len(),
        };
        let mut arbiter = Arbiter::connect_later(path, registration).map_err(io::Error::other)?;
        // The last one is granted a core first.
        { threads.iter().rev() }.for_each(|&thread| arbiter.offer(thread));
        let descriptor = arbiter.as_fd().as_raw_fd();
        registry.register(&mut SourceFd(&descriptor), ARBITER, Interest::READABLE)?;
        let mut cores = Self {
            grants: Grants::new(shared.workers_min, shared.workers, inline),
            arbiter,
            offers: Vec::with_capacity(threads.len()),
            threads,
            is_readable: true,
            has_changed: true,
            present: shared.workers_min,
            worked_ns: 0,
            rest_ns: config.elastic_interval_ms.saturating_mul(RESTING * 1_000_000),
            is_refused: false,
            shared,
        };
        cores.listen();
        if !cores.arbiter.is_connected() {
            let path = path.display();
            tracing::warn!("no arbiter listens at {path}: until one does, workers share cores");
        }
        Ok(cores)
    }

    /// The arbiter has told something.
    pub(super) fn on_event(&mut self) {
        self.is_readable = true;
    }

    /// A request runs.
    #[inline]
    pub(super) fn work(&mut self, now_ns: u64) {
        self.worked_ns = now_ns;
        if self.grants.rests() {
            self.grants.work();
            self.has_changed = true;
        }
    }

    /// Does what the load and the arbiter ask for. `needed` is the number of workers that the load needs, where that is
    /// new; `is_busy` says whether a worker holds requests that it can run. Returns how many workers are present, if
    /// that has changed.
    pub(super) fn turn(
        &mut self,
        now_ns: u64,
        needed: Option<usize>,
        is_busy: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        if std::mem::take(&mut self.is_readable) {
            self.listen();
        }
        if let Some(needed) = needed {
            self.grants.need(needed);
            self.has_changed = true;
        }
        if !self.grants.rests() && now_ns >= self.worked_ns.saturating_add(self.rest_ns) {
            self.grants.rest();
            self.has_changed = true;
        }
        if !std::mem::take(&mut self.has_changed) && !self.grants.is_leaving() {
            return None;
        }
        let release = self.arbiter.must_release();
        let settled = self.grants.settle(release, is_busy, &mut self.offers);
        self.ask(settled);
        let before = std::mem::replace(&mut self.present, settled.present);
        (before != settled.present).then_some(settled.present)
    }

    /// When [`turn`](Self::turn) has to be called at the latest.
    pub(super) fn deadline_ns(&self) -> Option<u64> {
        let deadline_ns = self.worked_ns.saturating_add(self.rest_ns);
        (!self.grants.rests()).then_some(deadline_ns)
    }

    fn listen(&mut self) {
        let thread_of = |threads: &[ThreadId], thread| threads.iter().position(|&t| t == thread);
        while let Some(event) = self.arbiter.poll() {
            self.has_changed = true;
            let counters = &self.shared.telemetry.arbiter;
            match event {
                ArbiterEvent::Registered { cores } => {
                    self.grants.registered();
                    self.is_refused = false;
                    counters.registered.set(1);
                    tracing::info!(cores, "an arbiter moves this server's cores");
                }
                ArbiterEvent::Granted { thread, .. } => {
                    counters.grants.add(1);
                    if let Some(thread) = thread_of(&self.threads, thread) {
                        self.grants.granted(thread);
                    }
                }
                ArbiterEvent::Recalled { .. } => counters.recalls.add(1),
                ArbiterEvent::Taken { thread, .. } => {
                    counters.takings.add(1);
                    if let Some(thread) = thread_of(&self.threads, thread) {
                        self.grants.taken(thread);
                    }
                }
                ArbiterEvent::Lost => {
                    self.grants.lost();
                    counters.registered.set(0);
                    tracing::warn!("the arbiter has gone: this server goes on with what it has");
                }
                ArbiterEvent::Refused(refusal) => {
                    if !std::mem::replace(&mut self.is_refused, true) {
                        tracing::warn!("the arbiter refuses this server: {refusal}");
                    }
                }
            }
        }
    }

    fn ask(&mut self, settled: Settled) {
        let Settled { held, wanted, .. } = settled;
        if !self.offers.is_empty() {
            // No thread is granted a core before all are offered, or one in the middle could be.
            self.arbiter.set_wanted(held.min(wanted));
            for thread in self.offers.drain(..) {
                self.arbiter.offer(self.threads[thread]);
            }
        }
        self.arbiter.set_wanted(wanted);
        let counters = &self.shared.telemetry.arbiter;
        counters.cores.set(held as u64);
        counters.wanted.set(wanted as u64);
    }
}

/// What the arbiter's status calls this server.
fn program_name() -> String {
    let program = std::env::current_exe().ok();
    let name = program.as_deref().and_then(Path::file_name);
    let name = name.map_or("psp-server".into(), |name| name.to_string_lossy());
    let mut short = String::new();
    for letter in name.chars() {
        if short.len() + letter.len_utf8() > NAME_BYTES_MAX {
            break;
        }
        short.push(letter);
    }
    short
}
