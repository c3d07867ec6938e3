//! What the net worker of one worker needs of the other workers.

use std::sync::Arc;

use psp_policy::{RequestId, WorkerId};

use super::moving::Moving;
use super::offers::Offers;
use super::prompter::Prompter;
use super::roster::Roster;
use super::succession::{Joined, Succession};
use super::supervisor::Rules;
use super::turn_bell::TurnBell;
use super::worker_group::WorkerGroup;
use crate::runtime::dispatch::places::Places;
use crate::runtime::request_threads::RequestThreadNumber;

/// See the [module](self). `T` is what the workers run.
pub(crate) struct Peers<T> {
    me: WorkerId,
    roster: Arc<Roster>,
    succession: Arc<Succession>,
    /// Number of the policy under which the worker is.
    epoch: u64,
    /// `None` while nothing passes between workers.
    group: Option<Arc<WorkerGroup>>,
    /// The threads of requests, where preempted ones move.
    moving: Option<Arc<Moving>>,
    /// Tasks that wait at any worker.
    offers: Arc<Offers<T>>,
    /// Rings when a request of this worker goes on.
    bell: Arc<TurnBell>,
    /// There may be tasks on offer that this worker runs.
    has_offers: bool,
    /// The worker has said that it has no connections left.
    has_left: bool,
}

impl<T> Peers<T> {
    /// The worker comes to the first policy.
    pub(crate) fn new(me: WorkerId, rules: &Rules, offers: Arc<Offers<T>>, bell: Arc<TurnBell>) -> (Self, Joined) {
        let mut peers = Self {
            me,
            roster: rules.roster.clone(),
            succession: rules.succession.clone(),
            epoch: 0,
            group: None,
            moving: rules.moving.clone(),
            offers,
            bell,
            has_offers: false,
            has_left: false,
        };
        let joined = peers.join();
        peers.has_offers = peers.group.is_some();
        (peers, joined)
    }

    /// Whether another policy is in force than that under which the worker is.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        self.succession.epoch() != self.epoch
    }

    /// The worker comes to the policy that is in force.
    pub(crate) fn join(&mut self) -> Joined {
        let (epoch, joined) = self.succession.join(self.me);
        self.epoch = epoch;
        self.group = joined.member.as_ref().map(|(group, _)| group.clone());
        self.bell.join(self.group.clone());
        self.has_offers = true;
        joined
    }

    /// Whether workers run each other's requests.
    #[inline]
    pub(crate) fn has_group(&self) -> bool {
        self.group.is_some()
    }

    /// The places for requests that this worker receives and others may run.
    pub(crate) fn places(&self) -> &Arc<Places> {
        self.offers.places(self.me)
    }

    /// Puts a task of the type at `slot`, which this worker received, where others find it.
    #[inline]
    pub(crate) fn offer(&self, slot: usize, request: RequestId, task: T) {
        self.offers.put(self.me, slot, request, task);
    }

    /// Takes the task of a request, whoever received it. `None` if it has begun: another turn of it follows; or if it
    /// was never on offer. A worker that had no place left for the type is woken: more may wait for one there.
    #[inline]
    pub(crate) fn take(&self, request: RequestId) -> Option<T> {
        if !self.has_offers {
            return None;
        }
        let (task, full) = self.offers.take(request)?;
        if let Some(receiver) = full.filter(|&receiver| receiver != self.me) {
            self.roster.wake(|worker| worker == receiver);
        }
        Some(task)
    }

    /// The worker sleeps unless it finds something now.
    pub(crate) fn announce_sleep(&self) {
        if self.has_group() {
            self.roster.announce_sleep(self.me);
        }
    }

    /// The worker is awake again.
    pub(crate) fn awake(&self) {
        self.roster.awake(self.me);
    }

    /// Whether requests wait in the worker's queue.
    pub(crate) fn has_queue(&self) -> bool {
        let group = self.group.as_ref();
        group.is_some_and(|group| !group.line(self.me).waiting().is_empty())
    }

    /// Whether the worker's turn has a quantum, so that what comes before it must be done by now.
    #[inline]
    pub(crate) fn may_yield(&self) -> bool {
        self.quantum_end_ns().is_some()
    }

    /// The number of the thread that is to run the worker's turn, if that is none of the worker's own.
    #[inline]
    pub(crate) fn request_thread(&self, request: RequestId, has_begun: bool) -> Option<RequestThreadNumber> {
        let moving = self.moving.as_ref()?;
        // What has neither begun nor a quantum has none.
        (has_begun || self.may_yield()).then(|| moving.thread_of(request)).flatten()
    }

    /// A request has ended that a thread of its own ran. A worker group sees to that itself.
    pub(crate) fn release(&self, request: RequestId) {
        if let Some(moving) = self.moving.as_ref().filter(|_| !self.has_group()) {
            moving.release(request);
        }
    }

    fn quantum_end_ns(&self) -> Option<u64> {
        let line = self.group.as_ref()?.line(self.me);
        Some(line.since_ns().saturating_add(line.quantum()?.ns))
    }

    fn prompter(&self) -> Option<&Prompter> {
        self.group.as_ref()?.prompter()
    }

    /// The worker is about to run a turn that may yield. `unserved` says that connections of it have something that
    /// it has not looked at. The worker looks for what other threads did after this call.
    pub(crate) fn begins(&self, unserved: bool) {
        if let Some(prompter) = self.prompter() {
            prompter.begins(self.me, unserved);
            self.bell.listen();
        }
    }

    /// The worker runs that turn now. `is_called` says that a request of it was woken or its port has mail, and a timer
    /// of one is due at `due_ns`.
    pub(crate) fn runs(&self, now_ns: u64, is_called: bool, due_ns: Option<u64>) {
        if let Some(end_ns) = self.quantum_end_ns()
            && let Some(prompter) = self.prompter()
        {
            if is_called {
                prompter.note_call(self.me);
            }
            if let Some(due_ns) = due_ns {
                prompter.expect(self.me, due_ns);
            }
            prompter.set_end(now_ns, end_ns);
        }
    }

    /// That turn is over.
    pub(crate) fn ran(&self) {
        self.bell.stop_listening();
    }

    /// The worker drains and has no connections left. Returns whether it may end: no worker has any, or none hands
    /// anything over. Until then this one runs what others hand over.
    pub(crate) fn may_leave(&mut self) -> bool {
        if !std::mem::replace(&mut self.has_left, true) {
            self.roster.leave();
        }
        !self.has_group() || self.roster.is_empty()
    }
}
