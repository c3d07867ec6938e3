//! The timer core: a thread that has workers preempt long requests for those that wait (Synergy II-B).
//!
//! ```text
//!   worker 0   begins a long request ── set: the end of its quantum ──┐
//!   worker 1   hands a request over to worker 0 ── set: now ──────────┼──► alarm ──┐
//!                                                                                  ├──► look ── ask ──► worker 0
//!   event queue of worker 0, which it does not look at: something to read ─────────┘     ▲
//!                                                                         board: turns, quanta, queues
//! ```
//!
//! The thread sleeps on a timer of the system, and on the event queues of workers for which no request waits. So a long
//! request that runs alone wakes it once, at the end of its first quantum. A worker whose turn has no quantum does not
//! yield to what comes to the port that it has left. If no worker drives that, all others yield. It polls for the
//! end of a quantum where the server has a core to spare for that. It is not there where nothing can be preempted.
//!
//! | file | job |
//! | --- | --- |
//! | `stops.rs` | which turns to ask, and when: in any clock's time |

mod stops;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use psp_policy::WorkerId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::prompter::Prompter;
use super::worker_group::WorkerGroup;
use crate::error::RunError;
use crate::runtime::channel::preempter::Preempter;
use crate::runtime::channel::turn_start::TurnStart;
use crate::runtime::dispatch::late_turns::LateLog;
use crate::runtime::host::clock::Clock;
use crate::runtime::host::scheduling::{GivenUp, sharpen_timers, shorten_slice};
use crate::shared::Receiver;
use stops::{Stops, Turns};

const NAME: &str = "psp-timer";

/// What the timer core needs of one worker.
pub(crate) struct Watched {
    /// Its event queue.
    pub(crate) events: OwnedFd,
    /// Frames come to its port, too, of which the event queue knows nothing.
    pub(crate) is_polled: bool,
    /// Whether it has left its port, and another worker reads what comes there.
    pub(crate) is_served_elsewhere: Box<dyn Fn() -> bool + Send + Sync>,
    /// Whether it has left its port, and no worker reads what comes there.
    pub(crate) is_left: Box<dyn Fn() -> bool + Send + Sync>,
    /// How its request is asked.
    pub(crate) preempter: Box<dyn Preempter + Sync>,
    /// The standing that it gives up for long requests, if it does.
    pub(crate) given_up: Option<GivenUp>,
    /// When its turn began.
    pub(crate) start: Arc<TurnStart>,
    pub(crate) receiver: Receiver,
}

impl Watched {
    /// Whether there is something to read in its port.
    fn has_events(&self) -> bool {
        let mut events = [PollFd::new(&self.events, PollFlags::IN)];
        // Only the worker that drives a port knows of its frames.
        self.is_polled || poll(&mut events, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}

/// All workers.
struct Workers<'a> {
    workers: &'a [Watched],
    prompter: &'a Prompter,
    log: LateLog,
}

impl Turns for Workers<'_> {
    fn has_unread(&self, worker: WorkerId) -> bool {
        if self.prompter.is_called(worker) {
            return true;
        }
        let watched = &self.workers[worker.index()];
        if (watched.is_served_elsewhere)() {
            return false;
        }
        self.prompter.is_unserved(worker) || watched.has_events()
    }

    fn due_ns(&self, worker: WorkerId) -> Option<u64> {
        self.prompter.due_ns(worker)
    }

    fn has_left_unread(&self, worker: WorkerId) -> bool {
        let watched = &self.workers[worker.index()];
        (watched.is_left)() && watched.has_events()
    }

    fn start(&self, worker: WorkerId) -> &TurnStart {
        &self.workers[worker.index()].start
    }

    /// The worker has its own standing again from here on. Otherwise those who wait for it would wait for all other
    /// threads of the machine, before its request gets to where it yields.
    fn ask(&self, worker: WorkerId, turn: u64) {
        let watched = &self.workers[worker.index()];
        watched.preempter.preempt(turn);
        watched.receiver.trace.asked_by_timer(worker);
        if let Some(Err(error)) = watched.given_up.as_ref().map(GivenUp::give_back) {
            tracing::debug!(%error, "a worker that is to yield cannot be raised");
        }
    }

    fn is_late(&mut self, now_ns: u64, worker: WorkerId, slot: usize, for_ns: u64, has_begun: bool) {
        let receiver = &self.workers[worker.index()].receiver;
        // No other thread counts these.
        receiver.counters(slot).turns.preemptions_late.add(1);
        receiver.turns(WorkerId(0)).preemptions_late.add(1);
        let name = receiver.types.name_of_slot(slot);
        self.log.warn(now_ns, worker.index(), name, for_ns, has_begun);
    }
}

/// The timer core, as long as its thread runs. Dropped, it has the thread end.
pub(crate) struct TimerCore {
    group: Arc<WorkerGroup>,
}

impl TimerCore {
    /// Starts the thread for these workers, whose group has a [`Prompter`]. It polls for the end of a quantum that is
    /// as near as `spin`.
    ///
    /// # Errors
    /// When the system has no thread.
    pub(crate) fn start(
        group: Arc<WorkerGroup>,
        workers: Arc<[Watched]>,
        clock: Clock,
        spin: Duration,
    ) -> Result<(Self, JoinHandle<()>), RunError> {
        let at = group.clone();
        let thread = std::thread::Builder::new().name(NAME.to_owned());
        let thread = thread.spawn(move || serve(&at, &workers, &clock, spin));
        let thread = thread.map_err(|source| RunError::Thread { name: NAME.to_owned(), source })?;
        Ok((Self { group }, thread))
    }
}

impl Drop for TimerCore {
    fn drop(&mut self) {
        if let Some(prompter) = self.group.prompter() {
            prompter.end();
        }
    }
}

/// The life of the thread.
fn serve(group: &WorkerGroup, workers: &[Watched], clock: &Clock, spin: Duration) {
    let (Some(prompter), Some(first)) = (group.prompter(), workers.first()) else {
        return;
    };
    let config = &first.receiver.config;
    // It is late if it waits for the end of a worker's slice.
    shorten_slice(config.net_slice_us);
    sharpen_timers();
    let spin_ns = u64::try_from(spin.as_nanos()).unwrap_or(u64::MAX);
    let mut stops = Stops::new(group, config.preempt_warn_ms);
    let mut turns = Workers { workers, prompter, log: LateLog::default() };
    let alarm = &prompter.alarm;
    let mut fds = Vec::with_capacity(1 + workers.len());
    loop {
        let is_near = |at_ns: u64| at_ns.saturating_sub(clock.now_ns()) < spin_ns;
        if spin_ns > 0 && alarm.at_ns().is_some_and(is_near) {
            while alarm.at_ns().is_some_and(|at_ns| clock.now_ns() < at_ns) {
                std::hint::spin_loop();
            }
        } else {
            fds.clear();
            fds.push(PollFd::new(alarm.countdown(), PollFlags::IN));
            let any_spared = group.workers().any(|worker| stops.is_spared(worker));
            let is_left =
                |worker, watched: &Watched| any_spared && group.line(worker).quantum().is_none() && (watched.is_left)();
            let events = (0..).map(WorkerId).zip(workers);
            let events = events.filter(|&(worker, watched)| {
                // Who serves it elsewhere may take a while to read what is there, and says when it leaves it.
                let is_spared = stops.is_spared(worker) && !(watched.is_served_elsewhere)();
                is_spared || is_left(worker, watched)
            });
            fds.extend(events.map(|(_, watched)| PollFd::new(&watched.events, PollFlags::IN)));
            // An interrupted wait is as good as one that ends.
            let _ = poll(&mut fds, None);
        }
        if prompter.is_over.load(Ordering::Acquire) {
            return;
        }
        alarm.rang();
        let now_ns = clock.now_ns();
        if let Some(next_ns) = stops.look(now_ns, group, &mut turns) {
            alarm.set(now_ns, next_ns);
        }
    }
}

/// A worker's event queue, for the timer core.
///
/// # Errors
/// When the process has no descriptor left.
pub(crate) fn events_of(poll: &mio::Poll) -> io::Result<OwnedFd> {
    poll.registry().as_fd().try_clone_to_owned()
}
